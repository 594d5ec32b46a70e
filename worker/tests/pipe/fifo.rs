//! FIFO queues: a group is held, in order, and never copied.

use frigg_worker::ports::QueueAttributes;
use frigg_worker::testing::Call;
use frigg_worker::{BatchHandler, HandlerError, Job, PerBatch};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn fifo_02() {
    let rig = Rig::new(&[("FRIGG_CONCURRENCY", "1")]);
    let batch = vec![
        grouped("m1", "g1"),
        grouped("m2", "g2"),
        grouped("m3", "g1"),
        grouped("m4", "g2"),
    ];
    let failures = rig
        .run(batch, |job| {
            if job.delivery.message_id == "m1" {
                broken()
            } else {
                Ok(())
            }
        })
        .await;
    assert_eq!(
        (rig.handled(), failures),
        (
            vec!["m1".into(), "m2".into(), "m4".into()],
            vec!["m1".into(), "m3".into()]
        )
    );
}

#[tokio::test(start_paused = true)]
async fn fifo_03() {
    let rig = Rig::new(&[]);
    let batch = vec![grouped("m1", "g1"), grouped("m2", "g1"), grouped("m3", "g2")];
    let failures = rig
        .run(batch, |job| {
            if job.delivery.message_id == "m1" {
                limited(60)
            } else {
                Ok(())
            }
        })
        .await;
    assert_eq!(failures, ["m1", "m2"]);
    assert_eq!(rig.handled(), ["m1", "m3"]);
    assert_eq!(rig.hidden(), [("receipt-m1".to_owned(), 60)]);
    assert_eq!(
        rig.count(|call| matches!(call, Call::Send(..) | Call::SendBatch(..))),
        0
    );
}

struct Bulk;

impl BatchHandler for Bulk {
    type Message = serde_json::Value;
    type Error = HandlerError;

    async fn handle_batch(&self, jobs: Vec<Job<serde_json::Value>>) -> Vec<Result<(), HandlerError>> {
        jobs.iter().map(|_| Ok(())).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_batch_handler_does_not_get_holds_its_group() {
    let rig = Rig::new(&[]);
    let mut batch = vec![grouped("m1", "g1"), grouped("m2", "g1"), grouped("m3", "g2")];
    batch[0].body = Some("not json".to_owned());
    assert_eq!(
        crate::support::batch(&rig.worker(PerBatch(Bulk)), batch).await,
        ["m1", "m2"]
    );
    assert_eq!(
        rig.logs.of_event("frigg.worker.record_held")[0]["messageId"],
        "m2"
    );
}

fn three_receives() -> QueueAttributes {
    QueueAttributes {
        arn: Some(arn(FIFO)),
        max_receive_count: Some(3),
        ..QueueAttributes::default()
    }
}

#[tokio::test(start_paused = true)]
async fn fifo_05_the_start_refuses_a_queue_with_too_few_receives() {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    rig.sqs.set_attributes(three_receives());
    let worker = rig.worker(rig.handler(|_| Ok(())));
    let error = worker
        .poll_until(std::future::pending())
        .await
        .unwrap_err()
        .to_string();
    for part in ["maxReceiveCount", "3", "33", "jobs.fifo"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(rig.count(|call| matches!(call, Call::Receive { .. })), 0);
}

#[tokio::test(start_paused = true)]
async fn fifo_05_c_what_is_lost_on_its_last_receive_is_told() {
    let rig = Rig::new(&[]);
    rig.sqs.set_attributes(three_receives());
    let batch = vec![received(grouped("m1", "g1"), 3), received(grouped("m2", "g1"), 3)];
    assert_eq!(rig.run(batch, |_| limited(60)).await, ["m1", "m2"]);
    assert_eq!(rig.handled(), ["m1"]);
    let lost = rig.line("record_lost_rate_limited");
    assert_eq!(
        (&lost["level"], &lost["messageId"]),
        (&"ERROR".into(), &"m1".into())
    );
    let held = rig.line("record_held");
    assert_eq!(
        (&held["level"], &held["messageId"]),
        (&"ERROR".into(), &"m2".into())
    );
    assert_eq!(rig.line("too_few_receives")["level"], "ERROR");
}

#[tokio::test(start_paused = true)]
async fn fifo_06() {
    let rig = Rig::new(&[]).with_dead_letters(40, "arn:aws:sqs:eu-west-1:111111111111:dead.fifo");
    let mut batch = vec![grouped("m1", "g1"), grouped("m2", "g2")];
    for message in &mut batch {
        message.body = Some(r#"{"itemId":123}"#.to_owned());
    }
    assert_eq!(rig.run(batch, |_| permanent()).await, <[&str; 0]>::default());
    let mut copies: Vec<_> = rig
        .sent()
        .into_iter()
        .map(|c| (c.deduplication_id.unwrap(), c.group_id.unwrap()))
        .collect();
    copies.sort();
    assert_eq!(copies, [("m1".into(), "g1".into()), ("m2".into(), "g2".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_passes_twelve_hours_is_tried_once_more_with_half() {
    for (times_refused, want, event) in [
        (1, vec![40_000, 20_000], "record_visibility_extended"),
        (9, vec![40_000, 20_000], "record_failed"),
    ] {
        let rig = Rig::new(&[]);
        let left = std::sync::Mutex::new(times_refused);
        rig.sqs.calls.fail(move |call, entry| {
            let mut left = left.lock().unwrap();
            let refuses = matches!(call, Call::ChangeVisibilityBatch(..)) && entry == 0 && *left > 0;
            refuses.then(|| {
                *left -= 1;
                refused(
                    "InvalidParameterValue",
                    "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
                )
            })
        });
        assert_eq!(
            rig.run(vec![grouped("m1", "g1")], |_| limited(40_000)).await,
            ["m1"]
        );
        let seconds: Vec<u32> = rig.hidden().into_iter().map(|(_, seconds)| seconds).collect();
        assert_eq!(seconds, want);
        assert_eq!(rig.lines(), [event]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_gets_none_behind_one_that_goes_back_before_its_time() {
    let rig = Rig::new(&[]);
    let mut early = grouped("m1", "g");
    let history = r#"{"deferrals":1,"firstDeferredAt":"2026-09-28T11:00:00.000Z","retryAt":"2026-09-28T12:01:00.000Z"}"#;
    early.body = Some(format!(r#"{{"_frigg":{history}}}"#));
    let records = vec![early, grouped("m2", "g"), grouped("m3", "other")];
    assert_eq!(batch(&rig.worker(PerBatch(Bulk)), records).await, ["m1", "m2"]);
}
