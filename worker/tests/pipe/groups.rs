//! When the calls leave that put records back: full at once, others after a short wait for company.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use frigg_worker::testing::{Call, message};
use frigg_worker::{BatchHandler, HandlerError, Job, PerBatch, Raw};
use tokio::time::{Instant, sleep};

use crate::support::*;

const NONE: [&str; 0] = [];

/// What calls were made, with so many records, after so many milliseconds.
type Log = Arc<Mutex<Vec<(&'static str, usize, u128)>>>;

fn logged(rig: &Rig) -> Log {
    let (log, began) = (Log::default(), Instant::now());
    for calls in [&rig.sqs.calls, &rig.scheduler.calls] {
        let log = Arc::clone(&log);
        calls.take(move |call| {
            let (name, records) = match call {
                Call::SendBatch(_, copies) => ("send", copies.len()),
                Call::ChangeVisibilityBatch(_, changes) => ("hide", changes.len()),
                Call::CreateSchedule(_) => ("schedule", 1),
                _ => return Duration::ZERO,
            };
            log.lock()
                .unwrap()
                .push((name, records, began.elapsed().as_millis()));
            Duration::ZERO
        });
    }
    log
}

/// Each message's handler takes the milliseconds of its body, and is limited for `wait` seconds then; 0: it is done.
async fn run(rig: &Rig, wait: u64, milliseconds: &[u64]) -> (Vec<String>, Vec<(&'static str, usize, u128)>) {
    let log = logged(rig);
    let handler = rig.slow_handler(move |job| {
        let (takes, wait) = job.message.0.split_once(' ').unwrap();
        let result = match wait.parse().unwrap() {
            0 => Ok(()),
            wait => limited(wait),
        };
        (Duration::from_millis(takes.parse().unwrap()), result)
    });
    // The last one works on for ten minutes.
    let bodies = milliseconds.iter().map(|takes| format!("{takes} {wait}"));
    let bodies = bodies.chain(["600000 0".to_owned()]);
    let messages = bodies
        .enumerate()
        .map(|(i, body)| message(&format!("m{i}"), body));
    let failed = batch(&rig.worker(handler), messages.collect()).await;
    let log = log.lock().unwrap().clone();
    (failed, log)
}

#[tokio::test(start_paused = true)]
async fn a_deferral_waits_for_no_neighbour() {
    for (environment, wait, call, failed) in [
        (&[][..], 60, "send", &[][..]),
        (&[ROLE][..], 7200, "schedule", &[]),
        (&[][..], 7200, "hide", &["m0"]),
    ] {
        let rig = Rig::new(environment);
        let (failures, log) = run(&rig, wait, &[1000]).await;
        assert_eq!(failures, failed);
        assert_eq!(log, [(call, 1, 1000 + LINGER.as_millis())]);
    }
}

#[tokio::test(start_paused = true)]
async fn those_that_come_shortly_after_each_other_share_a_call() {
    let apart = |n: u64, ms: u64| (0..n).map(|i| i * ms).collect::<Vec<_>>();
    let rig = Rig::new(&[]);
    let (_, log) = run(&rig, 60, &apart(5, 100)).await;
    assert_eq!(log, [("send", 5, 400 + LINGER.as_millis())]);
    let rig = Rig::new(&[]);
    let (_, log) = run(&rig, 60, &apart(2, 200)).await;
    assert_eq!(
        log,
        [
            ("send", 1, LINGER.as_millis()),
            ("send", 1, 200 + LINGER.as_millis())
        ]
    );
    // The tenth one fills the call.
    let rig = Rig::new(&[("FRIGG_CONCURRENCY", "20")]);
    let (_, log) = run(&rig, 60, &apart(12, 100)).await;
    assert_eq!(log, [("send", 10, 900), ("send", 2, 1100 + LINGER.as_millis())]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_that_are_limited_together_are_ten_calls() {
    let rig = Rig::new(&[("FRIGG_CONCURRENCY", "200")]);
    let (failures, log) = run(&rig, 60, &[5; 100]).await;
    assert_eq!(failures, NONE);
    assert_eq!(log, [("send", 10, 5); 10]);
}

#[tokio::test(start_paused = true)]
async fn one_kind_does_not_wait_for_another() {
    let rig = Rig::new(&[]);
    let log = logged(&rig);
    let handler = rig.slow_handler(|job| match job.delivery.message_id.as_str() {
        "m1" => (Duration::ZERO, limited(60)),
        "m2" => (Duration::from_millis(100), limited(7200)),
        _ => (seconds(600), Ok(())),
    });
    batch(&rig.worker(handler), messages(3)).await;
    let linger = LINGER.as_millis();
    assert_eq!(
        *log.lock().unwrap(),
        [("send", 1, linger), ("hide", 1, 100 + linger)]
    );
}

struct Slow;

impl BatchHandler for Slow {
    type Message = Raw;
    type Error = HandlerError;

    async fn handle_batch(&self, jobs: Vec<Job<Raw>>) -> Vec<Result<(), HandlerError>> {
        sleep(seconds(600)).await;
        jobs.iter().map(|_| Ok(())).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_early_message_does_not_wait_for_the_batch_that_it_came_with() {
    let rig = Rig::new(&[]);
    let log = logged(&rig);
    let early = r#"{"_frigg":{"deferrals":1,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"x","retryAt":"2026-09-28T12:05:00.000Z"}}"#;
    let batch_of = vec![message("m1", early), message("m2", "{}")];
    assert_eq!(batch(&rig.worker(PerBatch(Slow)), batch_of).await, NONE);
    assert_eq!(*log.lock().unwrap(), [("send", 1, LINGER.as_millis())]);
}
