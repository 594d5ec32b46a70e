//! One batch: its answer, its neighbours, its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use frigg_worker::testing::{Call, event, message};
use frigg_worker::{BatchHandler, HandlerError, Job, OnLimit, PerBatch, Raw, handler_fn};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::queue_model::Model;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn batch_01() {
    let rig = Rig::new(&[]);
    let worker = rig.worker(rig.handler(|job| {
        if job.delivery.message_id == "id-2" {
            broken()
        } else {
            Ok(())
        }
    }));
    let batch = vec![message("id-1", r#"{"n":1}"#), message("id-2", r#"{"n":2}"#)];
    let response = worker
        .handle(event(batch), Instant::now() + seconds(900))
        .await
        .unwrap();
    assert_eq!(
        serde_json::to_string(&response).unwrap(),
        r#"{"batchItemFailures":[{"itemIdentifier":"id-2"}]}"#
    );
}

#[tokio::test(start_paused = true)]
async fn batch_02() {
    for id in [Some(""), None] {
        let rig = Rig::new(&[]);
        let mut batch = messages(2);
        batch[0].message_id = id.map(str::to_owned);
        let worker = rig.worker(rig.handler(|_| Ok(())));
        let error = worker
            .handle(event(batch), Instant::now() + seconds(900))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("record 0 of 2 has no messageId"),
            "{error}"
        );
        assert_eq!(rig.handled(), <[&str; 0]>::default());
    }
}

#[tokio::test(start_paused = true)]
async fn batch_09() {
    let twice = || {
        let (mut one, other) = (message("m1", "{}"), message("m1", "{}"));
        one.receipt_handle = Some("r1".to_owned());
        vec![one, other]
    };
    let rig = Rig::new(&[]);
    assert_eq!(
        rig.run(twice(), |_| limited(30)).await,
        <[&str; 0]>::default(),
        "a"
    );
    assert_eq!(rig.sent().len(), 2);

    let rig = Rig::new(&[]);
    let failures = rig
        .run(twice(), |job| match job.delivery.attributes.get("second") {
            Some(_) => broken(),
            None => Ok(()),
        })
        .await;
    assert_eq!(failures, <[&str; 0]>::default());
    let mut batch = twice();
    batch[1] = with_attribute(batch[1].clone(), "second", "1");
    let failures = rig
        .run(batch, |job| match job.delivery.attributes.get("second") {
            Some(_) => broken(),
            None => Ok(()),
        })
        .await;
    assert_eq!(failures, ["m1"], "b");

    let rig = Rig::new(&[]);
    let odd = format!("folder/with+odd chars: {}", "x".repeat(90));
    assert_eq!(
        rig.run(vec![message(&odd, "{}")], |_| limited(30)).await,
        <[&str; 0]>::default(),
        "c"
    );
    assert_eq!(rig.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn performance_02_ten_limited_records_are_one_call() {
    let rig = Rig::new(&[]);
    assert_eq!(
        rig.run(messages(10), |_| limited(30)).await,
        <[&str; 0]>::default()
    );
    assert_eq!(
        rig.count(|call| matches!(call, Call::SendBatch(_, entries) if entries.len() == 10)),
        1
    );
    assert_eq!(rig.count(|call| matches!(call, Call::Send(..))), 0);
}

#[tokio::test(start_paused = true)]
async fn performance_05() {
    for (environment, most) in [(&[][..], 10), (&[("FRIGG_CONCURRENCY", "1")][..], 1)] {
        let rig = Rig::new(environment);
        let (running, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, highest) = (Arc::clone(&running), Arc::clone(&peak));
        let handler = handler_fn(move |job: Job<Value>| {
            let (now, highest) = (Arc::clone(&now), Arc::clone(&highest));
            async move {
                highest.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                match job.message["id"].as_u64() {
                    Some(id) if id % 7 == 0 => broken(),
                    _ => Ok(()),
                }
            }
        });
        let failures = batch(&rig.worker(handler), messages(1000)).await;
        let want: Vec<String> = (1..=1000)
            .filter(|id| id % 7 == 0)
            .map(|id| format!("m{id}"))
            .collect();
        assert_eq!(failures, want, "in the order of the batch");
        assert_eq!(peak.load(Ordering::SeqCst), most);
    }
}

#[tokio::test(start_paused = true)]
async fn observability_01() {
    let rig = Rig::new(&[]);
    let mut batch = messages(3);
    batch[2].body = Some(
        r#"{"_frigg":{"deferrals":30,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"m3"}}"#
            .to_owned(),
    );
    let failures = rig
        .run(batch, |job| {
            if job.delivery.message_id == "m3" {
                limited(30)
            } else {
                broken()
            }
        })
        .await;
    assert_eq!(failures, ["m1", "m2", "m3"]);
    assert_eq!(
        rig.lines(),
        ["record_failed", "record_failed", "record_deferral_capped"]
    );
    for line in rig.logs.lines() {
        assert!(!line.contains('\n'));
        let json: Value = serde_json::from_str(&line).unwrap();
        assert!(
            json["messageId"].is_string() && json["receiveCount"] == 1,
            "{line}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_answered() {
    assert_eq!(
        Rig::new(&[]).run(vec![], |_| Ok(())).await,
        <[&str; 0]>::default()
    );
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_records() {
    let rig = Rig::new(&[]);
    assert_eq!(
        rig.run(messages(10_000), |_| Ok(())).await,
        <[&str; 0]>::default()
    );
    assert_eq!((rig.seen().len(), rig.sqs.calls.made().len()), (10_000, 0));

    let rig = Rig::new(&[]);
    assert_eq!(
        rig.run(messages(10_000), |_| limited(30)).await,
        <[&str; 0]>::default()
    );
    let full = |call: &Call| matches!(call, Call::SendBatch(_, entries) if entries.len() == 10);
    assert_eq!((rig.count(full), rig.sent().len()), (1000, 10_000));
}

#[tokio::test(start_paused = true)]
async fn a_handler_past_the_deadline_is_cancelled_and_its_neighbours_are_not() {
    let rig = Rig::new(&[]);
    let handler = rig.slow_handler(|job| match job.delivery.message_id.as_str() {
        "m1" => (seconds(3600), Ok(())),
        "m2" => (Duration::ZERO, limited(600)),
        _ => (seconds(1), Ok(())),
    });
    let began = Instant::now();
    let failures = batch_until(&rig.worker(handler), messages(3), seconds(60)).await;
    assert_eq!(failures, ["m1"]);
    assert!(began.elapsed() < seconds(60), "{:?}", began.elapsed());
    assert_eq!(
        rig.sent().len(),
        1,
        "the limited one is put back before the deadline"
    );
    assert_eq!(rig.line("record_failed")["error"]["type"], "Timeout");
    // Rounded up from the time of the call, which is the end of the slow handler or sooner.
    let delay = rig.sent()[0].delay_seconds;
    assert!((540..=600).contains(&delay), "{delay}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_keeps_no_other_record_from_its_verdict() {
    let rig = Rig::new(&[]);
    let model = Model::new(rig.clock.clone(), Model::attributes()).with_sends_that_take(Duration::MAX);
    let handler = rig.handler(|job| {
        if job.delivery.message_id == "m1" {
            Ok(())
        } else {
            limited(30)
        }
    });
    let mut records = messages(3);
    records[2] = on_queue(records[2].clone(), "arn:aws:sqs:eu-west-1:111111111111:others");
    let began = Instant::now();
    let failures = batch_until(&rig.worker_on(handler, model.shared()), records, seconds(60)).await;
    assert_eq!(failures, ["m2"], "what is not confirmed is failed");
    assert!(began.elapsed() < seconds(60), "{:?}", began.elapsed());
    assert_eq!(model.sends(), [1]);
    assert_eq!(rig.line("record_failed")["messageId"], "m2");
}

#[tokio::test(start_paused = true)]
async fn no_time_left_means_no_handler_and_all_failed() {
    let rig = Rig::new(&[]);
    let failures = batch_until(&rig.worker(rig.handler(|_| Ok(()))), messages(2), Duration::ZERO).await;
    assert_eq!(failures, ["m1", "m2"]);
    assert_eq!(rig.seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_its_records_own_whatever_its_payload() {
    let rig = Rig::new(&[]);
    let handler = handler_fn(|job: Job<Raw>| async move {
        match job.delivery.message_id.as_str() {
            "m1" => panic!("a str"),
            "m2" => panic!("a {}", "String".to_owned()),
            "m3" => std::panic::panic_any(7),
            _ => Ok::<(), HandlerError>(()),
        }
    });
    assert_eq!(batch(&rig.worker(handler), messages(4)).await, ["m1", "m2", "m3"]);
    let lines = rig.logs.of_event("frigg.worker.record_failed");
    let texts: Vec<&str> = lines
        .iter()
        .map(|l| l["error"]["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        [
            "the handler panicked: a str",
            "the handler panicked: a String",
            "the handler panicked: no message"
        ]
    );
    assert!(lines.iter().all(|line| line["error"]["type"] == "Panic"));
}

struct Bulk<F>(F);

impl<F> BatchHandler for Bulk<F>
where
    F: Fn(&[Job<Value>]) -> Vec<Result<(), HandlerError>> + Send + Sync + 'static,
{
    type Message = Value;
    type Error = HandlerError;

    async fn handle_batch(&self, jobs: Vec<Job<Value>>) -> Vec<Result<(), HandlerError>> {
        (self.0)(&jobs)
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_answers_for_each_of_its_messages() {
    type Results = fn(&[Job<Value>]) -> Vec<Result<(), HandlerError>>;
    let none: [&str; 0] = [];
    let rows: [(&str, Results, &[&str]); 5] = [
        (
            "too few",
            |jobs| jobs[1..].iter().map(|_| Ok(())).collect(),
            &["m1", "m2", "m3", "m4"],
        ),
        (
            "too many",
            |_| (0..9).map(|_| Ok(())).collect(),
            &["m1", "m2", "m3", "m4"],
        ),
        ("a panic", |_| panic!("bulk"), &["m1", "m2", "m3", "m4"]),
        ("all ok", |jobs| jobs.iter().map(|_| Ok(())).collect(), &["m2"]),
        (
            "one fails, one is limited",
            |jobs| {
                let ids = jobs.iter().map(|job| job.message["id"].as_u64());
                ids.map(|id| match id {
                    Some(3) => broken(),
                    Some(4) => limited(30),
                    _ => Ok(()),
                })
                .collect()
            },
            &["m2", "m3"],
        ),
    ];
    for (what, results, want) in rows {
        let rig = Rig::new(&[]);
        let mut messages = messages(4);
        messages[1].body = Some("not json".to_owned());
        assert_eq!(
            batch(&rig.worker(PerBatch(Bulk(results))), messages).await,
            want,
            "{what}"
        );
    }
    let rig = Rig::new(&[]);
    let unread = vec![message("m1", "not json")];
    let bulk = Bulk(|_: &[Job<Value>]| panic!("must not be called"));
    assert_eq!(batch(&rig.worker(PerBatch(bulk)), unread).await, ["m1"]);
    assert_eq!(rig.line("record_failed")["error"]["type"], "DecodeError");
    let empty = Bulk(|_: &[Job<Value>]| panic!("must not be called"));
    assert_eq!(batch(&rig.worker(PerBatch(empty)), vec![]).await, none);
}

#[tokio::test(start_paused = true)]
async fn the_application_has_the_last_word_on_a_limit() {
    type Word = fn() -> OnLimit;
    type Row<'a> = (&'a str, Word, &'a [&'a str], &'a [u32], &'a [&'a str]);
    let rows: [Row<'_>; 5] = [
        ("defer", || OnLimit::Defer, &[], &[30], &["record_deferred"]),
        (
            "until",
            || OnLimit::DeferUntil(start() + seconds(90)),
            &[],
            &[90],
            &["record_deferred"],
        ),
        ("fail", || OnLimit::Fail, &["m1"], &[], &["record_failed"]),
        ("permanent", || OnLimit::Permanent, &[], &[], &["record_halted"]),
        ("a panic", || panic!("hook"), &["m1"], &[], &["record_failed"]),
    ];
    for (what, word, failures, delays, lines) in rows {
        let rig = Rig::new(&[]);
        let handler = rig.handler(|job| {
            if job.delivery.message_id == "m1" {
                limited(30)
            } else {
                Ok(())
            }
        });
        let worker = rig.worker(handler).on_limit(move |_, _| word());
        assert_eq!(batch(&worker, messages(2)).await, failures, "{what}");
        let sent: Vec<u32> = rig.sent().iter().map(|copy| copy.delay_seconds).collect();
        assert_eq!(
            (sent, rig.lines()),
            (delays.to_vec(), lines.iter().map(|l| (*l).to_owned()).collect()),
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_run_state_hook_changes_no_outcome() {
    let mut rig = Rig::new(&[]);
    rig.states = frigg_worker::testing::FakeRunState::failing("the store is down");
    let batch = vec![message("m1", "{}"), received(message("m2", "{}"), 2)];
    let failures = rig
        .run(batch, |job| {
            if job.delivery.message_id == "m1" {
                limited(30)
            } else {
                Ok(())
            }
        })
        .await;
    assert_eq!(failures, <[&str; 0]>::default());
    let faults = rig.logs.of_event("frigg.worker.rate_limit_state_failed");
    let told: Vec<(&str, &str)> = faults
        .iter()
        .map(|l| {
            (
                l["operation"].as_str().unwrap(),
                l["error"]["message"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(told.len(), 2, "{faults:?}");
    for operation in ["record", "clear"] {
        assert!(told.contains(&(operation, "the store is down")));
    }
}

#[tokio::test(start_paused = true)]
async fn every_outcome_in_one_batch() {
    let rig = Rig::new(&[ROLE]).with_dead_letters(3, "arn:aws:sqs:eu-west-1:111111111111:dead");
    let mut messages = messages(10);
    messages[6].body = None; // unreadable
    messages[7].event_source_arn = None;
    messages[8] = received(messages[8].clone(), 2);
    let failures = rig
        .run(messages, |job| match job.delivery.message_id.as_str() {
            "m2" => broken(),
            "m3" => limited(30),
            "m4" => limited(3600),
            "m5" => permanent(),
            "m6" => panic!("m6"),
            "m8" => limited(30),
            "m10" => limited(30 * 3600),
            _ => Ok(()),
        })
        .await;
    assert_eq!(failures, ["m2", "m6", "m8", "m10"]);
    assert_eq!(rig.scheduler.calls.schedules().len(), 1);
    let to: Vec<String> = rig.sqs.calls.sent().into_iter().map(|(url, _)| url).collect();
    assert_eq!(to.iter().filter(|url| *url == URL).count(), 1);
    let dead = to.iter().filter(|url| url.ends_with("/dead")).count();
    assert_eq!(
        dead, 2,
        "the permanent failure and the record without a body: {to:?}"
    );
    let mut lines = rig.lines();
    lines.sort();
    assert_eq!(
        lines,
        [
            "record_dead_lettered",
            "record_deferral_capped",
            "record_deferred",
            "record_deferred",
            "record_failed",
            "record_failed",
            "record_failed",
            "record_halted"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_handlers_panic_or_delay_is_not_the_matter_of_those_that_it_did_not_get() {
    type Handle = fn(&[Job<Value>]) -> Vec<Result<(), HandlerError>>;
    let dead = "arn:aws:sqs:eu-west-1:111111111111:dead";
    let bulk: Handle = |_| panic!("bulk");
    let rig = Rig::new(&[]).with_dead_letters(5, dead);
    let mut messages = messages(3);
    messages[1].body = Some("not json".to_owned());
    assert_eq!(
        batch(&rig.worker(PerBatch(Bulk(bulk))), messages).await,
        ["m1", "m3"]
    );
    assert_eq!(rig.line("record_dead_lettered")["messageId"], "m2");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_hangs_keeps_no_other_of_a_batch_handler_from_its_verdict() {
    let rig = Rig::new(&[]).with_dead_letters(5, "arn:aws:sqs:eu-west-1:111111111111:dead");
    rig.sqs.calls.take(|call| match call {
        Call::Send(..) => seconds(100_000),
        _ => Duration::ZERO,
    });
    let all_but_one = Bulk(|jobs: &[Job<Value>]| {
        let ids = jobs.iter().map(|job| job.message["id"].as_u64());
        ids.map(|id| match id {
            Some(1) => permanent(),
            Some(2) => limited(7200),
            _ => Ok(()),
        })
        .collect()
    });
    assert_eq!(
        batch(&rig.worker(PerBatch(all_but_one)), messages(3)).await,
        ["m1", "m2"]
    );
    assert_eq!(rig.hidden().len(), 1);
}
