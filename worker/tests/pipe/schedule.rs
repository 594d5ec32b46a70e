//! The schedule tier: names, targets, times, and when it rests.

use std::time::Duration;

use frigg_worker::ports::{CallError, CallErrorKind, ScheduleTarget};
use frigg_worker::testing::{Call, message};
use serde_json::{Value, json};

use crate::support::*;

const NONE: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn schedule_02() {
    // a: the same deferral, delivered twice.
    let rig = Rig::new(&[ROLE]);
    let worker = rig.worker(rig.handler(|_| limited(7200)));
    for _ in 0..2 {
        assert_eq!(batch(&worker, vec![message("m1", "{}")]).await, NONE);
    }
    let names: Vec<String> = rig
        .scheduler
        .calls
        .schedules()
        .into_iter()
        .map(|s| s.name)
        .collect();
    assert_eq!(names, ["frigg-defer-m1", "frigg-defer-m1"]);

    // b: another deferral of the message has the name. c: nobody may look.
    for denied in [false, true] {
        let rig = Rig::new(&[ROLE]);
        rig.scheduler.calls.fail(move |call, _| {
            let looks = matches!(call, Call::GetSchedule(_)) && denied;
            looks.then(|| refused("AccessDeniedException", "not authorized"))
        });
        let id = "m".repeat(80);
        let worker = rig.worker(rig.handler(|job| limited(if job.message.0 == "{}" { 3600 } else { 7200 })));
        assert_eq!(batch(&worker, vec![message(&id, "{}")]).await, NONE);
        let failures = batch(&worker, vec![message(&id, r#"{"second":1}"#)]).await;
        let names: Vec<String> = rig
            .scheduler
            .calls
            .schedules()
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
        if denied {
            assert_eq!(
                (failures.len(), rig.hidden().len()),
                (1, 1),
                "hidden, not acknowledged"
            );
        } else {
            assert_eq!((failures.len(), names.len()), (0, 3));
            assert_ne!(names[1], names[2]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn schedule_03() {
    let rig = Rig::new(&[ROLE]);
    let mut rich = with_attribute(message("m1", r#"{"id":1}"#), "MessageGroupId", "tenant-7");
    rich = with_user_attributes(rich, 1);
    assert_eq!(
        rig.run(vec![rich, message("m2", "{}")], |_| limited(7200)).await,
        NONE
    );
    let schedules = rig.scheduler.calls.schedules();
    let of = |name: &str| schedules.iter().find(|s| s.name == name).unwrap();
    let universal = of("frigg-defer-m1");
    assert_eq!(universal.target, ScheduleTarget::SendMessage);
    assert_eq!(
        universal.target.arn(),
        "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"
    );
    let mut input: Value = serde_json::from_str(&universal.input).unwrap();
    let body: Value = serde_json::from_str(input["MessageBody"].take().as_str().unwrap()).unwrap();
    assert_eq!(
        (&body["id"], &body["_frigg"]["deferrals"]),
        (&json!(1), &json!(1))
    );
    let want = json!({
        "QueueUrl": URL, "MessageBody": null, "MessageGroupId": "tenant-7",
        // Left out, the queue's own default would come on top of the schedule's time.
        "DelaySeconds": 0,
        "MessageAttributes": { "k0": { "DataType": "String", "StringValue": "v0" } },
    });
    assert_eq!(input, want);
    let plain = of("frigg-defer-m2");
    assert_eq!(
        plain.target,
        ScheduleTarget::Queue("arn:aws:sqs:eu-west-1:111111111111:jobs".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn schedule_06() {
    // Effects run at 30 s: until then the only turn is another record's, whose call is slow.
    let rig = Rig::new(&[ROLE, ("FRIGG_CALLS_AT_ONCE", "1")]);
    rig.sqs.calls.take(|call| match call {
        Call::SendBatch(_, copies) if copies[0].body.contains(r#""id":2"#) => seconds(30) - LINGER,
        _ => Duration::ZERO,
    });
    let handler = rig.slow_handler(|job| match job.delivery.message_id.as_str() {
        "m1" => (seconds(1), limited(920)),
        _ => (Duration::ZERO, limited(60)),
    });
    assert_eq!(batch(&rig.worker(handler), messages(2)).await, NONE);
    assert_eq!(rig.sent()[1].delay_seconds, 890);
    assert_eq!(rig.scheduler.calls.schedules().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn schedule_08() {
    let environment = [
        ROLE,
        ("SCHEDULER_PROVIDER", "mock"),
        ("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "5"),
    ];
    let rig = Rig::new(&environment);
    assert_eq!(rig.run(messages(1), |_| limited(3600)).await, ["m1"]);
    assert_eq!(rig.scheduler.calls.schedules().len(), 0);
    assert_eq!(rig.hidden(), [("receipt-m1".to_owned(), 3600)]);
}

#[tokio::test(start_paused = true)]
async fn after_three_failures_no_schedule_is_tried_for_a_minute() {
    let rig = Rig::new(&[ROLE, ("FRIGG_CONCURRENCY", "1")]);
    rig.scheduler.calls.fail(|call, _| {
        matches!(call, Call::CreateSchedule(_)).then(|| {
            CallError::new(
                CallErrorKind::Refused,
                Some("ValidationException"),
                "the role cannot be assumed",
            )
        })
    });
    let tries = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let asked = std::sync::Arc::clone(&tries);
    rig.scheduler.calls.fail(move |call, _| {
        matches!(call, Call::CreateSchedule(_)).then(|| {
            asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            refused("ValidationException", "the role cannot be assumed")
        })
    });
    let count = || tries.load(std::sync::atomic::Ordering::SeqCst);
    let worker = rig.worker(rig.handler(|_| limited(7200)));
    for (round, want) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 3)] {
        assert_eq!(batch(&worker, messages(1)).await, ["m1"]);
        assert_eq!(count(), want, "round {round}");
    }
    assert_eq!(rig.hidden().len(), 5, "by visibility instead");
    assert_eq!(rig.logs.of_event("frigg.worker.schedules_rest").len(), 1);
    tokio::time::advance(seconds(60)).await;
    batch(&worker, messages(1)).await;
    assert_eq!(count(), 4, "the minute is over");
}

#[tokio::test(start_paused = true)]
async fn the_schedulers_own_words_are_escaped_in_its_input() {
    let rig = Rig::new(&[ROLE]);
    let body = r#"{"a":"<aws.scheduler.execution-id>"}"#;
    assert_eq!(rig.run(vec![message("m1", body)], |_| limited(7200)).await, NONE);
    let input = rig.scheduler.calls.schedules()[0].input.clone();
    assert!(!input.contains('<'), "{input}");
    let call: Value = serde_json::from_str(&input).unwrap();
    let sent = call["MessageBody"].as_str().unwrap();
    assert!(
        sent.starts_with(r#"{"a":"<aws.scheduler.execution-id>","#),
        "{sent}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_too_large_for_a_schedule_is_hidden() {
    let rig = Rig::new(&[ROLE]);
    let body = format!(r#"{{"a":"{}"}}"#, "x".repeat(256 * 1024));
    assert_eq!(
        rig.run(vec![message("m1", body)], |_| limited(7200)).await,
        ["m1"]
    );
    assert_eq!(
        (rig.scheduler.calls.schedules().len(), rig.hidden().len()),
        (0, 1)
    );
    assert!(
        rig.line("record_visibility_extended")["scheduleError"]
            .as_str()
            .unwrap()
            .contains("too large")
    );
}
