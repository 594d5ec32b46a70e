//! What can never be handled: to the dead-letter queue with its reason, and acknowledged only when it is there.

use std::collections::BTreeMap;

use frigg_core::delivery::AttributeValue;
use frigg_worker::ports::{CallError, CallErrorKind, QueueAttributes};
use frigg_worker::testing::{Call, message};
use frigg_worker::{HandlerError, Job, handler_fn};

use crate::queue_model::{Model, poll_for};
use crate::support::*;

const NONE: [&str; 0] = [];
const DEAD: &str = "arn:aws:sqs:eu-west-1:111111111111:dead";

#[tokio::test(start_paused = true)]
async fn dlq_01() {
    for (own, reasons) in [(10, 0), (9, 1), (0, 4)] {
        let rig = Rig::new(&[]).with_dead_letters(3, DEAD);
        let record = with_user_attributes(message("m1", "{}"), own);
        assert_eq!(rig.run(vec![record], |_| permanent()).await, NONE);
        let (url, copy) = rig.sqs.calls.sent().remove(0);
        assert!(url.ends_with("/dead"));
        let kept = copy
            .attributes
            .keys()
            .filter(|name| name.starts_with('k'))
            .count();
        assert_eq!((kept, copy.attributes.len() - kept), (own, reasons));
        assert_eq!(copy.attributes.contains_key("FriggReason"), reasons > 0);
        let line = rig.line("record_halted");
        assert_eq!(
            (&line["level"], &line["deadLetterQueue"]),
            (&"ERROR".into(), &"dead".into())
        );
        assert_eq!(line["error"]["message"], "no such contact");
    }
}

#[tokio::test(start_paused = true)]
async fn the_copy_says_why_and_is_the_senders_message() {
    let rig = Rig::new(&[]).with_dead_letters(3, DEAD);
    let body = r#"{"key":"s3cr3t","_frigg":{"deferrals":2,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"first"}}"#;
    let record = with_attribute(
        with_attribute(message("m1", body), "AWSTraceHeader", "Root=1"),
        "MessageGroupId",
        "tenant",
    );
    let failures = rig
        .run(vec![record], |_| {
            Err(HandlerError::permanent("bad key \"s3cr3t\"\nin\u{1}line"))
        })
        .await;
    assert_eq!(failures, NONE);
    let copy = rig.sent().remove(0);
    assert_eq!(copy.body, r#"{"key":"s3cr3t"}"#);
    assert_eq!(
        (copy.trace_header.as_deref(), copy.group_id.as_deref()),
        (Some("Root=1"), Some("tenant"))
    );
    assert_eq!(copy.deduplication_id, None);
    let got: BTreeMap<_, _> = copy
        .attributes
        .iter()
        .map(|(name, a)| match &a.value {
            AttributeValue::Text(text) => (name.as_str(), (a.data_type.as_str(), text.as_str())),
            AttributeValue::Binary(_) => panic!("{name}"),
        })
        .collect();
    let want = [
        ("FriggReason", ("String", "permanent")),
        ("FriggError", ("String", r#"bad key "…" in line"#)),
        ("FriggMessageId", ("String", "first")),
        ("FriggDeferrals", ("Number", "2")),
        ("FriggFirstSeen", ("String", "2026-09-28T11:00:00.000Z")),
    ];
    assert_eq!(got, BTreeMap::from(want));
}

#[tokio::test(start_paused = true)]
async fn dlq_03() {
    let rows = [
        (CallErrorKind::Refused, "KmsAccessDenied"),
        (CallErrorKind::Refused, "AccessDenied"),
        (CallErrorKind::Refused, "QueueDoesNotExist"),
        (CallErrorKind::Unavailable, "timeout"),
    ];
    for (kind, code) in rows {
        let rig = Rig::new(&[]).with_dead_letters(3, DEAD);
        rig.sqs.calls.fail(move |call, _| {
            matches!(call, Call::Send(..)).then(|| CallError::new(kind, Some(code), "no"))
        });
        assert_eq!(rig.run(messages(1), |_| permanent()).await, ["m1"]);
        let line = rig.line("dead_letter_failed");
        assert_eq!(
            (&line["level"], &line["deadLetterQueue"]),
            (&"ERROR".into(), &"dead".into())
        );
        assert!(
            line["deferral"]["cause"].as_str().unwrap().contains(code),
            "{line}"
        );
        assert_eq!(rig.lines(), ["dead_letter_failed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn dlq_05() {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL), ("FRIGG_QUEUE_MAX_DEFERRALS", "3")]);
    let model = Model::new(
        rig.clock.clone(),
        QueueAttributes {
            max_receive_count: Some(3),
            dead_letter_arn: Some(DEAD.to_owned()),
            ..Model::attributes()
        },
    );
    model.put(r#"{"id":1}"#);
    let clock = rig.clock.clone();
    let handler = rig.handler(move |_| Err(frigg_worker::RateLimited::after(clock.now(), seconds(1)).into()));
    poll_for(seconds(7200), rig.worker_on(handler, model.shared())).await;
    assert_eq!(rig.seen().len(), 6);
    let deferrals: Vec<u32> = rig.seen().iter().map(|seen| seen.delivery.deferrals).collect();
    assert_eq!(deferrals, [0, 1, 2, 3, 3, 3]);
    assert_eq!((model.dead(), model.left()), (1, 0));
    let mut lines = rig.lines();
    lines.retain(|line| line != "polling");
    assert_eq!(
        lines,
        [
            "record_deferred",
            "record_deferred",
            "record_deferred",
            "record_deferral_capped",
            "record_deferral_capped",
            "record_lost_rate_limited"
        ]
    );
    assert_eq!(rig.line("record_lost_rate_limited")["level"], "ERROR");
}

/// What the queue tells decides about what can never be handled.
#[tokio::test(start_paused = true)]
async fn without_a_dead_letter_queue() {
    let unreadable = || handler_fn(|_: Job<u64>| async { Ok::<(), HandlerError>(()) });
    for (what, known, permanent_acked) in [("none", true, true), ("not known", false, false)] {
        let rig = Rig::new(&[]);
        if !known {
            rig.sqs
                .calls
                .fail(|call, _| matches!(call, Call::QueueAttributes).then(throttled));
        }
        let failures = rig.run(messages(1), |_| permanent()).await;
        assert_eq!(failures.is_empty(), permanent_acked, "{what}");
        let event = if permanent_acked {
            "record_halted"
        } else {
            "record_failed"
        };
        assert_eq!(
            rig.logs.of_event(&format!("frigg.worker.{event}")).len(),
            1,
            "{what}"
        );
        assert_eq!(
            batch(&rig.worker(unreadable()), messages(1)).await,
            ["m1"],
            "{what}"
        );
        assert_eq!(rig.sent(), []);
    }
    let rig = Rig::new(&[]).with_dead_letters(3, DEAD);
    assert_eq!(batch(&rig.worker(unreadable()), messages(1)).await, NONE);
    assert_eq!(rig.sent().len(), 1);
    assert_eq!(rig.line("record_dead_lettered")["level"], "ERROR");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_names_no_queue_is_reported_failed() {
    let rig = Rig::new(&[]).with_dead_letters(3, DEAD);
    let mut record = message("m1", "{}");
    record.event_source_arn = None;
    assert_eq!(rig.run(vec![record], |_| permanent()).await, ["m1"]);
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_would_make_the_copy_too_large_is_left_out() {
    let largest = 1 << 20;
    for (body, reasons) in [
        (largest, vec![]),
        (largest - 40, vec!["FriggReason"]),
        (
            largest / 2,
            vec!["FriggDeferrals", "FriggError", "FriggMessageId", "FriggReason"],
        ),
    ] {
        let rig = Rig::new(&[]).with_dead_letters(3, DEAD);
        let record = message("message-id-1", "x".repeat(body));
        assert_eq!(rig.run(vec![record], |_| permanent()).await, NONE);
        let mut names: Vec<String> = rig.sent().remove(0).attributes.into_keys().collect();
        names.sort();
        assert_eq!(names, reasons);
    }
}
