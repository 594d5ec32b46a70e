//! Waits by visibility: computed at the call, never where they would lose the message.

use frigg_worker::ports::{CallError, CallErrorKind, QueueAttributes};
use frigg_worker::testing::{Call, message};
use frigg_worker::{HandlerError, RateLimited};

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
    let rig = Rig::new(&[]);
    let handler = rig.slow_handler(|job| {
        let after = if job.delivery.message_id == "m1" {
            30_200
        } else {
            31_000
        };
        let result = if job.delivery.message_id == "m1" {
            limited(7200)
        } else {
            Ok(())
        };
        (std::time::Duration::from_millis(after), result)
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
