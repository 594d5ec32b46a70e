//! Waits by visibility: computed at the call, never where they would lose the message.

use std::time::Duration;

use frigg_worker::ports::{CallError, CallErrorKind, QueueAttributes};
use frigg_worker::testing::{Call, message};
use frigg_worker::{HandlerError, RateLimited};
use tokio::time::Instant;

use crate::support::*;

#[derive(Debug)]
struct Says(RateLimited);
impl std::fmt::Display for Says {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("provider says no")
    }
}
impl std::error::Error for Says {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn visibility_02() {
    let gone = "Message does not exist or is not available for visibility timeout change";
    for (code, text) in [
        ("ReceiptHandleIsInvalid", "the handle is not valid"),
        ("MessageNotInflight", "not in flight"),
        ("InvalidParameterValue", gone),
    ] {
        let rig = Rig::new(&[]);
        rig.sqs.calls.fail(move |call, entry| {
            let entry_of = matches!(call, Call::ChangeVisibilityBatch(..)) && entry == 0;
            entry_of.then(|| CallError::new(CallErrorKind::HandleLost, Some(code), text))
        });
        let failures = rig
            .run(vec![message("m1", "{}")], |_| {
                Err(HandlerError::from(Says(RateLimited::after(
                    start(),
                    seconds(7200),
                ))))
            })
            .await;
        assert_eq!(failures, ["m1"]);
        assert_eq!(
            rig.count(|call| matches!(call, Call::Send(..) | Call::SendBatch(..))),
            0
        );
        let line = rig.line("record_failed");
        assert_eq!(line["deferral"]["skipped"], "visibility_failed");
        assert!(
            line["deferral"]["cause"].as_str().unwrap().contains(code),
            "{line}"
        );
        assert!(
            line["error"]["message"]
                .as_str()
                .unwrap()
                .contains("provider says no"),
            "{line}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn visibility_04() {
    // The call goes out at 31 s: until then the only turn is another record's, whose call is slow.
    let rig = Rig::new(&[("FRIGG_CALLS_AT_ONCE", "1")]);
    rig.sqs.calls.take(|call| match call {
        Call::SendBatch(..) => seconds(31) - LINGER,
        _ => Duration::ZERO,
    });
    let handler = rig.slow_handler(|job| match job.delivery.message_id.as_str() {
        "m1" => (Duration::from_millis(30_200), limited(7200)),
        _ => (Duration::ZERO, limited(60)),
    });
    assert_eq!(batch(&rig.worker(handler), messages(2)).await, ["m1"]);
    assert_eq!(rig.hidden(), [("receipt-m1".to_owned(), 7169)]);
}

#[tokio::test(start_paused = true)]
async fn visibility_05() {
    let rig = Rig::new(&[("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "5")]);
    rig.sqs.set_attributes(QueueAttributes {
        retention: Some(seconds(345_600)),
        ..QueueAttributes::default()
    });
    let old = with_attribute(message("m1", "{}"), "SentTimestamp", "1790265600000");
    assert_eq!(
        rig.run(vec![old.clone()], |_| limited(6 * 3600)).await,
        <[&str; 0]>::default()
    );
    assert_eq!(rig.sent()[0].delay_seconds, 900);
    assert_eq!(rig.hidden(), []);

    let young = with_attribute(old, "SentTimestamp", "1790596800000");
    assert_eq!(
        rig.run(vec![young], |_| limited(6 * 3600)).await,
        ["m1"],
        "enough retention left"
    );
    assert_eq!(rig.hidden(), [("receipt-m1".to_owned(), 21_600)]);
}

#[tokio::test(start_paused = true)]
async fn relay_is_taken_where_the_environment_asks_for_it() {
    for (environment, sent) in [(&[][..], 0), (&[("FRIGG_RELAY", "1")][..], 1)] {
        let rig = Rig::new(environment);
        rig.run(vec![message("m1", "{}")], |_| limited(7200)).await;
        assert_eq!((rig.sent().len(), rig.hidden().len()), (sent, 1 - sent));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_is_hidden_one_by_one() {
    // What SQS finds wrong with one entry's handle, it may say of the whole call.
    for kind in [CallErrorKind::Refused, CallErrorKind::HandleLost] {
        let rig = Rig::new(&[]);
        rig.sqs.calls.fail(move |call, entry| match call {
            Call::ChangeVisibilityBatch(_, changes) => {
                let bad = changes.iter().any(|change| change.receipt_handle == "receipt-m2");
                (bad && entry == usize::MAX)
                    .then(|| CallError::new(kind, Some("InvalidParameterValue"), "no"))
            }
            _ => None,
        });
        // One whose handle is lost is somebody else's; another one hops.
        let hops = usize::from(kind == CallErrorKind::Refused);
        let failed = rig.run(messages(10), |_| limited(7200)).await;
        assert_eq!((failed.len(), rig.sent().len()), (10 - hops, hops));
        assert_eq!(failed.contains(&"m2".to_owned()), hops == 0);
        assert_eq!(hides(&rig), [&[10][..], &[1; 10]].concat());
        let extended = rig.logs.of_event("frigg.worker.record_visibility_extended");
        assert_eq!(extended.len(), 9);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_hidden_one_by_one_keeps_to_the_calls_at_once() {
    for (at_once, want) in [("1", 1), ("3", 3), ("16", 10)] {
        let rig = refusing_batches(at_once);
        rig.sqs.calls.take(|call| match call {
            Call::ChangeVisibilityBatch(_, changes) if changes.len() == 1 => seconds(1),
            _ => Duration::ZERO,
        });
        rig.run(messages(10), |_| limited(7200)).await;
        assert_eq!(rig.sqs.calls.most_at_once(), want);
        assert_eq!(
            rig.logs.of_event("frigg.worker.record_visibility_extended").len(),
            10
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_for_one_that_hangs_is_over_at_the_deadline() {
    let rig = refusing_batches("16");
    rig.sqs.calls.take(|call| match call {
        Call::ChangeVisibilityBatch(_, changes)
            if changes.len() == 1 && changes[0].receipt_handle == "receipt-m2" =>
        {
            seconds(100_000)
        }
        _ => Duration::ZERO,
    });
    let began = Instant::now();
    assert_eq!(rig.run(messages(3), |_| limited(7200)).await, ["m1", "m2", "m3"]);
    assert!(began.elapsed() < seconds(900));
    assert_eq!(rig.line("record_failed")["messageId"], "m2");
    assert_eq!(
        rig.logs.of_event("frigg.worker.record_visibility_extended").len(),
        2
    );
}

/// SQS refuses calls for more than one record.
fn refusing_batches(calls_at_once: &str) -> Rig {
    let rig = Rig::new(&[("FRIGG_CALLS_AT_ONCE", calls_at_once)]);
    rig.sqs.calls.fail(|call, entry| match call {
        Call::ChangeVisibilityBatch(_, changes) if changes.len() > 1 && entry == usize::MAX => {
            Some(refused("InvalidParameterValue", "one of these"))
        }
        _ => None,
    });
    rig
}

/// How many entries the visibility calls had.
fn hides(rig: &Rig) -> Vec<usize> {
    let calls = rig.sqs.calls.made().into_iter();
    let entries = |call| match call {
        Call::ChangeVisibilityBatch(_, changes) => Some(changes.len()),
        _ => None,
    };
    calls.filter_map(entries).collect()
}
