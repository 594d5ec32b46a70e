//! Poll mode: what is received is worked on at once, deleted when done, and never dropped.

use std::time::Duration;

use frigg_worker::ports::{CallError, CallErrorKind, QueueAttributes};
use frigg_worker::testing::{Call, Receive, message};
use tokio::time::{Instant, sleep};

use crate::queue_model::{Model, poll_for};
use crate::support::*;

fn polling(visibility: u64) -> Rig {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    rig.sqs.set_attributes(QueueAttributes {
        visibility_timeout: Some(seconds(visibility)),
        ..Model::attributes()
    });
    rig
}

fn brings(after: u64, ids: &[&str]) -> Receive {
    let messages = ids.iter().map(|id| message(id, "{}")).collect();
    Receive {
        after: Duration::from_millis(after),
        result: Ok(messages),
    }
}

fn receives(rig: &Rig) -> usize {
    rig.count(|call| matches!(call, Call::Receive { .. }))
}

fn deleted(rig: &Rig) -> Vec<Vec<String>> {
    let calls = rig.sqs.calls.made().into_iter();
    calls
        .filter_map(|call| {
            if let Call::DeleteBatch(handles) = call {
                Some(handles)
            } else {
                None
            }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn poll_02() {
    let rig = polling(300);
    rig.sqs.script([brings(2500, &["m1"])]);
    let began = Instant::now();
    poll_for(seconds(2), rig.worker(rig.handler(|_| Ok(())))).await;
    assert_eq!(began.elapsed().as_millis(), 2500);
    assert_eq!(
        (rig.handled(), deleted(&rig), receives(&rig)),
        (vec!["m1".into()], vec![vec!["receipt-m1".into()]], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_receive_that_never_ends_does_not_hold_the_stop() {
    let rig = polling(300);
    let began = Instant::now();
    poll_for(seconds(2), rig.worker(rig.handler(|_| Ok(())))).await;
    assert_eq!(
        (began.elapsed().as_secs(), receives(&rig)),
        (27, 1),
        "its wait time and five seconds more"
    );
}

#[tokio::test(start_paused = true)]
async fn running_handlers_end_within_a_bound() {
    for (handler, taken, done) in [(20, 20, 1), (500, 31, 0)] {
        let rig = polling(300);
        rig.sqs
            .script([brings(0, &["m1"]), brings(1000, &[]), brings(1, &[])]);
        let worker = rig.worker(rig.slow_handler(move |_| (seconds(handler), Ok(()))));
        let began = Instant::now();
        worker
            .poll_until(sleep(Duration::from_millis(500)))
            .await
            .unwrap();
        assert_eq!(
            (began.elapsed().as_secs(), deleted(&rig).len()),
            (taken, done),
            "{handler}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn poll_06() {
    for again in [false, true] {
        let rig = polling(300);
        rig.sqs
            .script([brings(0, &["m1", "m2", "m3"]), brings(1000, &["m4"])]);
        rig.sqs.calls.fail(move |call, entry| match call {
            Call::DeleteBatch(handles) => handles
                .get(entry)
                .filter(|handle| *handle == "receipt-m2" && (again || handles.len() > 1))
                .map(|_| CallError::new(CallErrorKind::Unavailable, Some("InternalError"), "once more")),
            _ => None,
        });
        poll_for(seconds(30), rig.worker(rig.handler(|_| Ok(())))).await;
        let calls = deleted(&rig);
        assert_eq!(
            (calls[0].len(), calls[1].as_slice()),
            (3, &["receipt-m2".to_owned()][..])
        );
        assert_eq!(calls[2..], [vec!["receipt-m4".to_owned()]], "the loop goes on");
        let warned: Vec<_> = rig.logs.of_event("frigg.worker.delete_failed");
        assert_eq!(warned.len(), usize::from(again));
        assert!(
            warned
                .iter()
                .all(|line| line["messageId"] == "m2" && line["level"] == "WARN")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn poll_07() {
    let rig = polling(300);
    rig.sqs
        .script([brings(20_000, &[]), brings(20_900, &[]), brings(0, &["m1"])]);
    poll_for(seconds(60), rig.worker(rig.handler(|_| Ok(())))).await;
    assert_eq!(
        (rig.handled(), rig.lines()),
        (vec!["m1".into()], vec!["polling".into()])
    );
}

#[tokio::test(start_paused = true)]
async fn poll_10() {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let attributes = QueueAttributes {
        visibility_timeout: Some(seconds(3)),
        ..Model::attributes()
    };
    let model = Model::new(rig.clock.clone(), attributes);
    for i in 0..60 {
        model.put(&format!(r#"{{"id":{i}}}"#));
    }
    let handler = rig.slow_handler(|_| (seconds(1), Ok(())));
    poll_for(seconds(60), rig.worker_on(handler, model.shared())).await;
    assert_eq!((rig.seen().len(), model.left()), (60, 0));
    assert!(model.most_held() <= 10, "{}", model.most_held());
}

#[tokio::test(start_paused = true)]
async fn a_handler_longer_than_the_visibility_timeout_keeps_its_message() {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let attributes = QueueAttributes {
        visibility_timeout: Some(seconds(4)),
        ..Model::attributes()
    };
    let model = Model::new(rig.clock.clone(), attributes);
    model.put("{}");
    let handler = rig.slow_handler(|_| (seconds(30), Ok(())));
    poll_for(seconds(60), rig.worker_on(handler, model.shared())).await;
    assert_eq!((rig.seen().len(), model.left()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_hidden_until_it_is_put_back_or_deleted() {
    let attributes = || QueueAttributes {
        visibility_timeout: Some(seconds(4)),
        ..Model::attributes()
    };
    // A send that takes longer than the visibility timeout: the copy is the only one that comes again.
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let model = Model::new(rig.clock.clone(), attributes()).with_sends_that_take(seconds(30));
    model.put("{}");
    let handler = rig.handler(|job| {
        if job.delivery.deferrals == 0 {
            limited(60)
        } else {
            Ok(())
        }
    });
    poll_for(seconds(200), rig.worker_on(handler, model.shared())).await;
    let runs: Vec<_> = rig.seen().iter().map(|seen| seen.delivery.deferrals).collect();
    assert_eq!((runs, model.left()), (vec![0, 1], 0));

    // One that is done waits for its batch, which takes longer than the visibility timeout.
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let model = Model::new(rig.clock.clone(), attributes());
    model.put("{}");
    model.put(r#"{"slow":1}"#);
    let handler = rig.slow_handler(|job| (seconds(if job.message.0 == "{}" { 0 } else { 30 }), Ok(())));
    poll_for(seconds(60), rig.worker_on(handler, model.shared())).await;
    assert_eq!((rig.seen().len(), model.left()), (2, 0));

    // What failed, and what a deferral hides, is nobody else's to hide.
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let model = Model::new(rig.clock.clone(), attributes());
    model.put(r#"{"slow":1}"#);
    model.put(r#"{"limited":1}"#);
    model.put("{}");
    let handler = rig.slow_handler(|job| match job.message.0.as_str() {
        r#"{"slow":1}"# => (seconds(30), Ok(())),
        r#"{"limited":1}"# => (seconds(0), limited(7200)),
        _ if job.delivery.receive_count == Some(1) => (seconds(0), broken()),
        _ => (seconds(0), Ok(())),
    });
    poll_for(seconds(60), rig.worker_on(handler, model.shared())).await;
    assert_eq!((rig.seen().len(), model.left()), (4, 1));
    assert_eq!(
        rig.seen()[3].at,
        start() + seconds(4),
        "at the queue's own timeout"
    );
}

#[tokio::test(start_paused = true)]
async fn performance_02_ten_messages_are_received_and_deleted_together() {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let model = Model::new(rig.clock.clone(), Model::attributes());
    (0..10).for_each(|_| model.put("{}"));
    poll_for(
        seconds(10),
        rig.worker_on(rig.handler(|_| Ok(())), model.shared()),
    )
    .await;
    assert_eq!(model.deletes(), [10]);
    let rig = polling(30);
    poll_for(seconds(1), rig.worker(rig.handler(|_| Ok(())))).await;
    assert_eq!(rig.count(|call| *call == Call::Receive { max_messages: 10 }), 1);
}

#[tokio::test(start_paused = true)]
async fn receive_errors_are_waited_out_with_one_warning_a_minute() {
    let rig = polling(300);
    let fails = || Receive {
        after: Duration::ZERO,
        result: Err(throttled()),
    };
    rig.sqs
        .script([fails(), fails(), fails(), fails(), brings(0, &["m1"])]);
    poll_for(seconds(60), rig.worker(rig.handler(|_| Ok(())))).await;
    assert_eq!(rig.handled(), ["m1"]);
    assert_eq!(rig.seen()[0].at, start() + seconds(1 + 2 + 4 + 8));
    assert_eq!(
        rig.line("receive_failed")["error"]["message"],
        "RequestThrottled: slow down"
    );
}

/// One worker, one group: what runs, when the first one's handler takes 12 s of the 10 s for which the queue hides them.
async fn group_of_two(
    keep_alive: impl Fn(usize) -> Option<CallError> + Send + Sync + 'static,
) -> Vec<String> {
    let rig = polling(10);
    rig.sqs.set_attributes(QueueAttributes {
        arn: Some(arn(FIFO)),
        visibility_timeout: Some(seconds(10)),
        ..QueueAttributes::default()
    });
    let messages = ["m1", "m2"].map(|id| grouped(id, "g"));
    rig.sqs.script([Receive {
        after: Duration::ZERO,
        result: Ok(messages.into()),
    }]);
    rig.sqs.calls.fail(move |call, entry| match call {
        Call::ChangeVisibilityBatch(..) => keep_alive(entry),
        _ => None,
    });
    let handler = rig.slow_handler(|_| (seconds(12), Ok(())));
    poll_for(seconds(40), rig.worker(handler)).await;
    rig.handled()
}

#[tokio::test(start_paused = true)]
async fn a_record_that_could_not_be_kept_hidden_is_not_begun() {
    assert_eq!(group_of_two(|_| None).await, ["m1", "m2"]);
    let silent = |entry| (entry == usize::MAX).then(throttled);
    assert_eq!(group_of_two(silent).await, ["m1"], "hidden no longer than 10 s");
    let gone = |entry| {
        (entry == 1).then(|| CallError::new(CallErrorKind::HandleLost, Some("MessageNotInflight"), "gone"))
    };
    assert_eq!(group_of_two(gone).await, ["m1"], "somebody else has it");
}

/// A stop is no fault: neither is done work done again, nor is there twice what was put back.
#[tokio::test(start_paused = true)]
async fn when_the_time_to_stop_is_over_what_is_done_is_deleted() {
    let rig = polling(300);
    rig.sqs.script([brings(0, &["done", "slow", "limited"])]);
    let handler = rig.slow_handler(|job| match job.delivery.message_id.as_str() {
        "slow" => (seconds(200), Ok(())),
        "limited" => (seconds(0), limited(60)),
        _ => (seconds(0), Ok(())),
    });
    rig.worker(handler).poll_until(sleep(seconds(5))).await.unwrap();
    assert_eq!(rig.sent().len(), 1);
    assert_eq!(deleted(&rig), [["receipt-done", "receipt-limited"]]);
}
