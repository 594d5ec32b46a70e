//! Whole Lambda events, spoiled in every way that a seed can think of, through what reads them and through the batch:
//! nothing panics, and the answer names only records that there are. `make fuzz` goes on for five minutes.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use fastrand::Rng;
use frigg_core::delivery::QueueArn;
use frigg_worker::ports::{
    BatchResult, CallError, QueueAttributes, ScheduleRequest, Scheduler, SendRequest, Sqs, VisibilityRequest,
};
use frigg_worker::{Clock, Config, HandlerError, Job, RateLimited, Raw, Scheduling, Worker, handler_fn};
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

const CASES: u64 = 5_000;

/// Takes everything.
#[derive(Debug)]
struct Patient;

impl Sqs for Patient {
    fn queue_url<'a>(&'a self, _: &'a QueueArn, _: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok("queue".to_owned())))
    }
    fn queue_attributes<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        let told = QueueAttributes {
            max_receive_count: Some(3),
            dead_letter_arn: Some("arn:aws:sqs:eu-west-1:111111111111:dead".to_owned()),
            ..QueueAttributes::default()
        };
        Box::pin(ready(Ok(told)))
    }
    fn send<'a>(&'a self, _: &'a str, _: &'a SendRequest) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok("sent".to_owned())))
    }
    fn send_batch<'a>(&'a self, _: &'a str, all: &'a [SendRequest]) -> BoxFuture<'a, BatchResult> {
        assert!(all.iter().all(|one| one.delay_seconds <= 900), "{all:?}");
        Box::pin(ready(Ok(vec![Ok(()); all.len()])))
    }
    fn change_visibility_batch<'a>(
        &'a self,
        _: &'a str,
        all: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult> {
        assert!(all.iter().all(|one| one.seconds <= 43_200), "{all:?}");
        Box::pin(ready(Ok(vec![Ok(()); all.len()])))
    }
    fn receive<'a>(
        &'a self,
        _: &'a str,
        _: u32,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        Box::pin(std::future::pending())
    }
    fn delete_batch<'a>(&'a self, _: &'a str, all: &'a [String]) -> BoxFuture<'a, BatchResult> {
        Box::pin(ready(Ok(vec![Ok(()); all.len()])))
    }
}

impl Scheduler for Patient {
    fn create<'a>(&'a self, one: &'a ScheduleRequest) -> BoxFuture<'a, Result<(), CallError>> {
        assert!((1..=64).contains(&one.name.len()), "{one:?}");
        Box::pin(ready(Ok(())))
    }
    fn is_same<'a>(&'a self, _: &'a ScheduleRequest) -> BoxFuture<'a, Result<bool, CallError>> {
        Box::pin(ready(Ok(true)))
    }
}

/// An event as Lambda writes it.
fn event(rng: &mut Rng) -> Value {
    let records = (0..rng.usize(1..5)).map(|n| {
        let fifo = if rng.u8(0..4) == 0 { ".fifo" } else { "" };
        let body = match rng.u8(0..4) {
            0 => r#"{"id":1}"#,
            1 => r#"{"id":1,"_frigg":{"deferrals":2,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"m","retryAt":"2026-09-28T13:00:00.000Z"}}"#,
            2 => r#"{"_frigg":{"deferrals":1,"firstDeferredAt":"2026-09-28T11:59:00.000Z","body":"text"}}"#,
            _ => "no JSON",
        };
        json!({
            "messageId": format!("id-{n}"), "receiptHandle": format!("handle-{n}"), "body": body,
            "attributes": {
                "ApproximateReceiveCount": rng.u8(1..5).to_string(), "SentTimestamp": "1790596000000",
                "SenderId": "me", "ApproximateFirstReceiveTimestamp": "1790596000001",
                "MessageGroupId": "g", "AWSTraceHeader": "Root=1-1-1",
            },
            "messageAttributes": {
                "tenant": { "stringValue": "acme", "dataType": "String", "stringListValues": [], "binaryListValues": [] },
                "bytes": { "binaryValue": "AP8=", "dataType": "Binary" },
            },
            "md5OfBody": "00", "eventSource": "aws:sqs", "awsRegion": "eu-west-1",
            "eventSourceARN": format!("arn:aws:sqs:eu-west-1:111111111111:jobs{fifo}"),
        })
    });
    json!({ "Records": records.collect::<Vec<_>>() })
}

/// Another value in the place of one, or one key's value under another's.
fn spoil(value: &mut Value, rng: &mut Rng) {
    if rng.u8(0..3) > 0 {
        match value {
            Value::Array(items) if !items.is_empty() => {
                let index = rng.usize(0..items.len());
                return spoil(&mut items[index], rng);
            }
            Value::Object(members) if !members.is_empty() => {
                let key = members.keys().nth(rng.usize(0..members.len())).cloned();
                if let Some(member) = key.and_then(|key| members.get_mut(&key)) {
                    spoil(member, rng);
                }
                return;
            }
            Value::String(text) if rng.bool() => {
                let mut bytes = std::mem::take(text).into_bytes();
                spoil_bytes(&mut bytes, rng);
                *text = String::from_utf8_lossy(&bytes).into_owned();
                return;
            }
            _ => {}
        }
    }
    *value = match rng.u8(0..10) {
        0 => Value::Null,
        1 => json!(rng.i64(..)),
        2 => json!(""),
        3 => json!("arn:aws:sqs:::"),
        4 => json!("999999999999999999999999"),
        5 => json!("{\"_frigg\":{\"deferrals\":4294967295,\"retryAt\":\"9999-12-31T23:59:59.999Z\"}}"),
        6 => json!("é\u{0}\u{7f}\u{2028}".repeat(rng.usize(0..50))),
        7 => json!([]),
        8 => Value::Object(Map::new()),
        _ => json!(true),
    };
}

fn spoil_bytes(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const WORDS: [&str; 8] = [
        "\"",
        "\\u0000",
        "}",
        "{\"_frigg\":",
        "1e400",
        ",",
        "retryAt",
        "\u{1F600}",
    ];
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(0..=bytes.len());
        match rng.u8(0..4) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = rng.u8(..),
            2 => {
                let piece = bytes[at..].to_vec();
                bytes.extend(piece);
            }
            _ => drop(bytes.splice(at..at, WORDS[rng.usize(0..WORDS.len())].bytes())),
        }
    }
}

fn worker() -> Worker<impl frigg_worker::Handler<Message = Raw, Error = HandlerError>> {
    let now: Timestamp = "2026-09-28T12:00:00Z".parse().expect("a time");
    let handler = handler_fn(move |job: Job<Raw>| {
        let outcome = job
            .message
            .0
            .bytes()
            .fold(0_u8, |sum, byte| sum.wrapping_add(byte))
            % 6;
        async move {
            match outcome {
                0 => Err(RateLimited::after(now, Duration::from_secs(30)).into()),
                1 => Err(RateLimited::after(now, Duration::from_secs(7200)).into()),
                2 => Err(HandlerError::permanent("told to")),
                3 => Err("told to fail".into()),
                _ => Ok(()),
            }
        }
    });
    let mut config = Config::default();
    config.scheduling = Some(Scheduling {
        role_arn: "arn:aws:iam::111111111111:role/s".to_owned(),
        group: "group".to_owned(),
        dead_letter_arn: None,
    });
    Worker::new(handler, config)
        .with_sqs(Arc::new(Patient))
        .with_scheduler(Arc::new(Patient))
        .with_clock(Clock::from_fn(move || now))
}

/// One spoiled event. Whether it could be read at all.
async fn try_one<H: frigg_worker::Handler>(worker: &Worker<H>, seed: u64) -> bool {
    let mut rng = Rng::with_seed(seed);
    let mut value = event(&mut rng);
    for _ in 0..rng.usize(0..3) {
        spoil(&mut value, &mut rng);
    }
    let mut bytes = value.to_string().into_bytes();
    if rng.u8(0..4) == 0 {
        spoil_bytes(&mut bytes, &mut rng);
    }
    // As the Runtime API's client reads it.
    let Ok(event) = serde_json::from_slice::<SqsEvent>(&bytes) else {
        return false;
    };
    let ids: Vec<String> = event
        .records
        .iter()
        .map(|record| record.message_id.clone().unwrap_or_default())
        .collect();
    let answer = worker
        .handle(event, Instant::now() + Duration::from_secs(60))
        .await;
    match answer {
        Ok(answer) => {
            let mut seen = HashSet::new();
            for failure in answer.batch_item_failures {
                let id = failure.item_identifier;
                assert!(
                    ids.contains(&id) && !id.is_empty(),
                    "seed {seed}: {id:?} of {ids:?}"
                );
                assert!(seen.insert(id), "seed {seed}: an id twice");
            }
        }
        Err(_) => assert!(
            ids.iter().any(String::is_empty),
            "seed {seed}: all of {ids:?} are failed"
        ),
    }
    true
}

/// `FUZZ_SECONDS` goes on for so long, from `FUZZ_SEED` on.
#[tokio::test(start_paused = true)]
async fn spoiled_events_are_answered() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seconds, first) = (number("FUZZ_SECONDS"), number("FUZZ_SEED").unwrap_or(0));
    let worker = worker();
    let (mut tried, mut read) = (0, 0);
    #[expect(clippy::disallowed_methods, reason = "the wall's time: tokio's stands still")]
    let began = std::time::Instant::now();
    while seconds.map_or(tried < CASES, |seconds| began.elapsed().as_secs() < seconds) {
        read += u64::from(try_one(&worker, first.wrapping_add(tried)).await);
        tried += 1;
    }
    let _ = writeln!(std::io::stderr(), "{tried} events, {read} of them could be read");
    assert!(
        read > tried / 4,
        "most of what is tried is refused at the door: {read} of {tried}"
    );
}
