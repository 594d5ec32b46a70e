//! How decisions are carried out: grouping, falling back, and the order of things.

#![allow(clippy::type_complexity, clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use frigg_worker::core::delivery::AttributeValue;
use frigg_worker::ports::{CallError, CallErrorKind, ScheduleTarget, SendRequest};
use frigg_worker::run_state::{RunState, State};
use frigg_worker::testing::{
    Call, FakeRunState, FakeScheduler, FakeSqs, Logs, PLANTED_SECRET, clock_from, event, message,
};
use frigg_worker::{
    BoxError, Config, HandlerError, Job, Options, RateLimited, Scheduling, Worker, handler_fn,
};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

fn start() -> Timestamp {
    "2026-09-28T12:00:00Z".parse().unwrap()
}

/// The handler does what the body says: work for `work` seconds, then refuse until `wait` seconds after the start.
async fn act(job: Job<Value>) -> Result<(), HandlerError> {
    sleep(Duration::from_secs(job.message["work"].as_u64().unwrap_or(0))).await;
    match job.message["wait"].as_u64() {
        Some(wait) => Err(RateLimited::until(start() + Duration::from_secs(wait)).into()),
        None => Ok(()),
    }
}

fn limited(id: &str, wait: u64) -> SqsMessage {
    message(id, json!({ "wait": wait, "token": PLANTED_SECRET }).to_string())
}

fn several(count: usize, wait: u64) -> Vec<SqsMessage> {
    (0..count).map(|i| limited(&format!("m{i}"), wait)).collect()
}

/// A limited message with a body of at least `size` bytes.
fn large(id: &str, wait: u64, size: usize) -> SqsMessage {
    message(id, json!({ "wait": wait, "fill": "x".repeat(size) }).to_string())
}

struct Rig {
    sqs: FakeSqs,
    scheduler: FakeScheduler,
    states: FakeRunState,
    config: Config,
    time: Duration,
}

impl Rig {
    fn new() -> Self {
        Rig {
            sqs: FakeSqs::default(),
            scheduler: FakeScheduler::default(),
            states: FakeRunState::default(),
            config: Config::default(),
            time: Duration::from_secs(900),
        }
    }

    fn frigg() -> Self {
        let mut rig = Rig::new();
        rig.config.options = Options::frigg();
        rig
    }

    fn with_schedules(mut self) -> Self {
        self.config.scheduling = Some(Scheduling {
            role_arn: "arn:aws:iam::111111111111:role/scheduler".to_owned(),
            group: "schedules".to_owned(),
            dead_letter_arn: None,
        });
        self
    }

    /// The failed ids, and the log.
    async fn run(&self, messages: Vec<SqsMessage>) -> (Vec<String>, Logs) {
        let (logs, guard) = Logs::capture();
        let worker = Worker::new(handler_fn(act), self.config.clone())
            .with_sqs(Arc::new(self.sqs.clone()))
            .with_scheduler(Arc::new(self.scheduler.clone()))
            .with_run_state(Arc::new(self.states.clone()))
            .with_clock(clock_from(start()));
        let response = worker
            .handle(event(messages), Instant::now() + self.time)
            .await
            .unwrap();
        drop(guard);
        let failed = response
            .batch_item_failures
            .into_iter()
            .map(|item| item.item_identifier);
        (failed.collect(), logs)
    }

    /// Sizes of the `SendMessageBatch` calls.
    fn batches(&self) -> Vec<usize> {
        let size = |call: &Call| match call {
            Call::SendBatch(_, requests) => Some(requests.len()),
            _ => None,
        };
        self.sqs.calls.made().iter().filter_map(size).collect()
    }

    fn single_sends(&self) -> usize {
        self.sqs
            .calls
            .made()
            .iter()
            .filter(|call| matches!(call, Call::Send(..)))
            .count()
    }

    fn delays(&self) -> Vec<u32> {
        self.sqs
            .calls
            .sent()
            .iter()
            .map(|(_, copy)| copy.delay_seconds)
            .collect()
    }
}

fn error(kind: CallErrorKind) -> CallError {
    CallError::new(kind, Some("Fault"), "told to fail")
}

fn none() -> Vec<String> {
    Vec::new()
}

// ---- groups

#[tokio::test(start_paused = true)]
async fn copies_go_by_tens() {
    for (count, calls) in [(1, 1), (10, 1), (11, 2), (23, 3)] {
        let rig = Rig::new();
        let (failed, _) = rig.run(several(count, 30)).await;
        assert_eq!(failed, none());
        let batches = rig.batches();
        assert_eq!(
            (batches.len(), batches.iter().sum::<usize>()),
            (calls, count),
            "{batches:?}"
        );
        assert!(batches.iter().all(|size| *size <= 10), "{batches:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn copies_go_by_bytes_with_their_attributes() {
    let with_attribute = |mut message: SqsMessage, bytes: usize| {
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = Some("String".to_owned());
        attribute.string_value = Some("v".repeat(bytes));
        message.message_attributes.insert("fill".to_owned(), attribute);
        message
    };
    // Bytes of body and of an attribute, and how three such copies are grouped.
    for (body, attribute, want) in [
        (300_000, 0, vec![3]),
        (500_000, 0, vec![2, 1]),
        (300_000, 100_000, vec![2, 1]),
        (300_000, 300_000, vec![1, 1, 1]),
    ] {
        let rig = Rig::new();
        let one = |id| {
            let message = large(id, 30, body);
            if attribute > 0 {
                with_attribute(message, attribute)
            } else {
                message
            }
        };
        let (failed, _) = rig.run(vec![one("a"), one("b"), one("c")]).await;
        assert_eq!((failed, rig.batches()), (none(), want), "{body} + {attribute}");
    }
}

#[tokio::test(start_paused = true)]
async fn queues_are_called_apart() {
    let rig = Rig::new();
    let other = |id: &str| {
        let mut message = limited(id, 30);
        message.event_source_arn = Some("arn:aws:sqs:us-west-2:222222222222:other".to_owned());
        message
    };
    let (failed, _) = rig
        .run(vec![limited("a", 30), other("b"), limited("c", 30), other("d")])
        .await;
    assert_eq!((failed, rig.batches()), (none(), vec![2, 2]));
    let of = |url: &str| rig.sqs.calls.sent().iter().filter(|(to, _)| to == url).count();
    assert_eq!(of("https://sqs.eu-west-1.amazonaws.com/111111111111/jobs"), 2);
    assert_eq!(of("https://sqs.us-west-2.amazonaws.com/222222222222/other"), 2);
}

// ---- sends that fail

#[tokio::test(start_paused = true)]
async fn a_copy_over_the_limit_degrades_alone() {
    let rig = Rig::new();
    let too_large = |request: &SendRequest| request.body.len() > 1 << 20;
    rig.sqs.calls.fail(move |call, entry| match call {
        Call::SendBatch(_, requests) if entry == usize::MAX && requests.iter().any(too_large) => {
            Some(error(CallErrorKind::Refused))
        }
        _ => None,
    });
    let (failed, logs) = rig
        .run(vec![
            limited("a", 30),
            large("big", 30, 1 << 20),
            limited("c", 30),
        ])
        .await;
    assert_eq!(failed, ["big"]);
    assert_eq!(rig.sqs.calls.sent().len(), 2);
    assert_eq!(rig.single_sends(), 0, "the others were in no call with it");
    let hidden = rig.sqs.calls.visibility();
    assert_eq!(hidden.len(), 1);
    assert_eq!(
        (hidden[0].1.receipt_handle.as_str(), hidden[0].1.seconds),
        ("receipt-big", 30)
    );
    assert_eq!(logs.of_event("frigg.worker.record_visibility_extended").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_is_sent_one_by_one() {
    let rig = Rig::new();
    rig.sqs.calls.fail(|call, entry| match call {
        Call::SendBatch(..) if entry == usize::MAX => Some(error(CallErrorKind::Refused)),
        Call::Send(_, request) if request.body.contains("bad") => Some(error(CallErrorKind::Refused)),
        _ => None,
    });
    let bad = message("bad", r#"{"wait":30,"x":"bad"}"#);
    let (failed, _) = rig.run(vec![limited("a", 30), bad, limited("c", 30)]).await;
    assert_eq!(failed, ["bad"]);
    assert_eq!((rig.single_sends(), rig.sqs.calls.sent().len()), (3, 2));
    assert_eq!(rig.sqs.calls.visibility().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_batch_is_hidden_at_once() {
    let rig = Rig::new();
    rig.sqs.calls.fail(|call, entry| {
        (matches!(call, Call::SendBatch(..)) && entry == usize::MAX)
            .then(|| error(CallErrorKind::Unavailable))
    });
    let (failed, logs) = rig.run(several(3, 30)).await;
    assert_eq!(failed, ["m0", "m1", "m2"]);
    assert_eq!(
        (rig.batches(), rig.single_sends()),
        (vec![3], 0),
        "no more calls of a kind that is throttled"
    );
    assert_eq!(rig.sqs.calls.visibility().len(), 3);
    assert_eq!(logs.of_event("frigg.worker.record_visibility_extended").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_fails_is_one_records_matter() {
    for (kind, rig) in [
        (CallErrorKind::Refused, Rig::new()),
        (CallErrorKind::Unavailable, Rig::new()),
        (CallErrorKind::Refused, Rig::frigg()),
    ] {
        rig.sqs.calls.fail(move |call, entry| {
            (matches!(call, Call::SendBatch(..)) && entry == 1).then(|| error(kind))
        });
        let (failed, logs) = rig.run(several(3, 30)).await;
        assert_eq!(failed, ["m1"]);
        assert_eq!(logs.of_event("frigg.worker.record_deferred").len(), 2);
        let hidden = usize::from(!rig.config.options.is_frigg());
        assert_eq!(
            rig.sqs.calls.visibility().len(),
            hidden,
            "Frigg reports it failed as it is"
        );
    }
}

// ---- visibility

#[tokio::test(start_paused = true)]
async fn a_lost_handle_ends_it_and_another_fault_does_not() {
    for (kind, sent) in [
        (CallErrorKind::HandleLost, 0),
        (CallErrorKind::Refused, 1),
        (CallErrorKind::Unavailable, 1),
    ] {
        let rig = Rig::new();
        rig.sqs.calls.fail(move |call, entry| {
            (matches!(call, Call::ChangeVisibilityBatch(..)) && entry == 0).then(|| error(kind))
        });
        let (failed, logs) = rig.run(vec![limited("a", 7200)]).await;
        assert_eq!(
            rig.sqs.calls.sent().len(),
            sent,
            "{kind:?}: a copy of what is somebody else's doubles it"
        );
        assert_eq!(failed.len(), 1 - sent);
        if sent == 0 {
            let line = &logs.of_event("frigg.worker.record_failed")[0];
            assert_eq!(line["deferral"]["skipped"], "visibility_failed");
            assert_eq!(line["deferral"]["cause"], "Fault: told to fail");
        }
    }
}

// ---- schedules

#[tokio::test(start_paused = true)]
async fn a_schedule_that_fails_is_a_visibility_extension() {
    for rig in [Rig::new().with_schedules(), Rig::frigg().with_schedules()] {
        rig.scheduler
            .calls
            .fail(|_, _| Some(error(CallErrorKind::Refused)));
        let (failed, logs) = rig.run(vec![limited("a", 7200)]).await;
        assert_eq!(failed, ["a"]);
        assert_eq!(rig.sqs.calls.visibility()[0].1.seconds, 7200);
        let line = &logs.of_event("frigg.worker.record_visibility_extended")[0];
        assert_eq!(line["scheduleError"], "Fault: told to fail");
    }
}

/// Where a hop takes the schedule's place, its line says so too.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_fails_can_be_a_hop() {
    let mut rig = Rig::new().with_schedules();
    rig.config.options.relay = true;
    rig.scheduler
        .calls
        .fail(|_, _| Some(error(CallErrorKind::Refused)));
    let (failed, logs) = rig.run(vec![limited("a", 7200)]).await;
    assert_eq!((failed, rig.delays()), (none(), vec![900]));
    let line = &logs.of_event("frigg.worker.record_deferred")[0];
    assert_eq!(
        (&line["mechanism"], &line["scheduleError"]),
        (&json!("delay"), &json!("Fault: told to fail"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_too_large_for_a_schedule_goes_another_way() {
    let rig = Rig::new().with_schedules();
    let (failed, logs) = rig
        .run(vec![
            large("big", 7200, 256 * 1024),
            large("fits", 7200, 255 * 1024),
        ])
        .await;
    assert_eq!(failed, ["big"]);
    let schedules = rig.scheduler.calls.schedules();
    assert_eq!(schedules.len(), 1, "the call is not even made");
    assert_eq!(schedules[0].name, "frigg-defer-fits");
    let line = &logs.of_event("frigg.worker.record_visibility_extended")[0];
    assert_eq!(line["scheduleError"], "the body is too large for a schedule");
}

#[tokio::test(start_paused = true)]
async fn a_schedules_input_cannot_be_substituted() {
    let body = r#"{"wait":7200,"x":"<aws.scheduler.execution-id>"}"#;
    let rig = Rig::new().with_schedules();
    rig.run(vec![message("a", body)]).await;
    let schedule = &rig.scheduler.calls.schedules()[0];
    assert!(!schedule.input.contains('<'), "{}", schedule.input);
    assert_eq!(schedule.target, ScheduleTarget::SendMessage);
    let call: Value = serde_json::from_str(&schedule.input).unwrap();
    let sent = call["MessageBody"].as_str().unwrap();
    assert!(
        sent.starts_with(body.trim_end_matches('}')),
        "byte for byte: {sent}"
    );
    // Frigg's input is what Frigg sends.
    let rig = Rig::frigg().with_schedules();
    rig.run(vec![message("a", body)]).await;
    assert!(
        rig.scheduler.calls.schedules()[0]
            .input
            .contains("<aws.scheduler.execution-id>")
    );
}

/// Puts metadata on a message.
type Put = fn(&mut SqsMessage);

#[tokio::test(start_paused = true)]
async fn a_schedule_carries_metadata_by_the_universal_target() {
    let queue = ScheduleTarget::Queue("arn:aws:sqs:eu-west-1:111111111111:jobs".to_owned());
    let laden: [(&str, Put, Value); 4] = [
        ("nothing", |_| {}, Value::Null),
        (
            "a binary attribute",
            |message| {
                message.message_attributes = serde_json::from_value(json!({
                    "blob": { "dataType": "Binary", "binaryValue": "AP/+IgqA", "stringListValues": [], "binaryListValues": [] },
                }))
                .unwrap();
            },
            json!({ "MessageAttributes": { "blob": { "DataType": "Binary", "BinaryValue": "AP/+IgqA" } } }),
        ),
        (
            "a group",
            |message| {
                drop(
                    message
                        .attributes
                        .insert("MessageGroupId".to_owned(), "t<7".to_owned()),
                )
            },
            json!({ "MessageGroupId": "t<7" }),
        ),
        (
            "a trace",
            |message| {
                drop(
                    message
                        .attributes
                        .insert("AWSTraceHeader".to_owned(), "Root=1-1-1".to_owned()),
                )
            },
            json!({ "MessageSystemAttributes": { "AWSTraceHeader": { "DataType": "String", "StringValue": "Root=1-1-1" } } }),
        ),
    ];
    for (what, put, want) in laden {
        for (rig, universal) in [
            (Rig::new().with_schedules(), !want.is_null()),
            (Rig::frigg().with_schedules(), false),
        ] {
            let mut message = limited("a", 7200);
            put(&mut message);
            let (failed, _) = rig.run(vec![message]).await;
            assert_eq!(failed, none());
            let schedule = &rig.scheduler.calls.schedules()[0];
            let mut input: Value = serde_json::from_str(&schedule.input).unwrap();
            if !universal {
                assert_eq!(
                    (&schedule.target, &input["wait"]),
                    (&queue, &json!(7200)),
                    "{what}"
                );
                continue;
            }
            assert_eq!(schedule.target, ScheduleTarget::SendMessage, "{what}");
            let call = input.as_object_mut().unwrap();
            let body = call.remove("MessageBody").unwrap();
            let body: Value = serde_json::from_str(body.as_str().unwrap()).unwrap();
            assert_eq!(
                (&body["wait"], &body["_frigg"]["deferrals"]),
                (&json!(7200), &json!(1))
            );
            let mut all = json!({
                "QueueUrl": "https://sqs.eu-west-1.amazonaws.com/111111111111/jobs",
                // Left out, the queue's own delay would come on top.
                "DelaySeconds": 0,
            });
            all.as_object_mut()
                .unwrap()
                .extend(want.as_object().unwrap().clone());
            assert_eq!(input, all, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken() {
    // The same message twice: one schedule does for both. Two deferrals of it: one each.
    for (second_wait, names) in [
        (7200, vec!["frigg-defer-a", "frigg-defer-a"]),
        (
            7201,
            vec!["frigg-defer-a", "frigg-defer-a", "frigg-defer-a-6a1a7b31"],
        ),
    ] {
        let rig = Rig::new().with_schedules();
        let (failed, logs) = rig.run(vec![limited("a", 7200)]).await;
        assert_eq!(failed, none());
        let first = logs.of_event("frigg.worker.record_deferred")[0]["scheduleName"].clone();
        assert_eq!(first, "frigg-defer-a");
        let (failed, logs) = rig.run(vec![limited("a", second_wait)]).await;
        assert_eq!(failed, none());
        let got: Vec<String> = rig
            .scheduler
            .calls
            .schedules()
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert_eq!(got.len(), names.len(), "{got:?}");
        let line = &logs.of_event("frigg.worker.record_deferred")[0];
        assert_eq!(line["scheduleName"], json!(got.last().unwrap()));
        assert_eq!(got[..2], names[..2]);
        assert!(got.iter().all(|name| name.len() <= 64));
    }
    // Frigg looks no further.
    let rig = Rig::frigg().with_schedules();
    rig.run(vec![limited("a", 7200)]).await;
    let (failed, _) = rig.run(vec![limited("a", 7201)]).await;
    assert_eq!((failed, rig.scheduler.calls.schedules().len()), (none(), 2));
    // A schedule that cannot be looked at is no proof: another way.
    let rig = Rig::new().with_schedules();
    rig.run(vec![limited("a", 7200)]).await;
    rig.scheduler
        .calls
        .fail(|call, _| matches!(call, Call::GetSchedule(_)).then(|| error(CallErrorKind::Refused)));
    let (failed, _) = rig.run(vec![limited("a", 7200)]).await;
    assert_eq!(failed, ["a"]);
}

// ---- time

/// A slow call holds the others back; delay and tier are those of the call.
#[tokio::test(start_paused = true)]
async fn the_wait_is_that_of_the_call() {
    let mut rig = Rig::new().with_schedules();
    rig.config.calls_at_once = 1.try_into().unwrap();
    // It leaves after 150 ms without company, and ends at 100 s.
    rig.sqs.calls.take(|call| match call {
        Call::SendBatch(_, copies) if copies[0].body.contains("slow") => Duration::from_millis(99_850),
        _ => Duration::ZERO,
    });
    let first = message("first", r#"{"wait":400,"slow":1}"#);
    let then = |id, wait| message(id, json!({ "work": 1, "wait": wait }).to_string());
    let (failed, logs) = rig
        .run(vec![first, then("a", 300), then("b", 960), then("c", 7200)])
        .await;
    assert_eq!(failed, none());
    let mut delays = rig.delays();
    delays.sort_unstable();
    assert_eq!(delays, [200, 400, 860], "b was to be scheduled when it failed");
    let schedules = rig.scheduler.calls.schedules();
    assert_eq!(schedules.len(), 1);
    assert_eq!(
        schedules[0].at,
        start() + Duration::from_secs(7200),
        "an absolute time stays"
    );
    let waits: Vec<_> = logs
        .of_event("frigg.worker.record_deferred")
        .iter()
        .map(|l| l["waitMs"].as_i64())
        .collect();
    assert!(waits.contains(&Some(200_000)), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn no_schedule_is_made_less_than_a_minute_ahead() {
    let mut rig = Rig::new().with_schedules();
    rig.config.options = Options::default().with_max_delay(Duration::from_secs(60));
    // The others' turn comes when their time is near.
    rig.config.calls_at_once = 8.try_into().unwrap();
    rig.scheduler.calls.take(|_| Duration::from_secs(120));
    let (failed, logs) = rig.run(several(10, 170)).await;
    assert_eq!(failed, none());
    assert_eq!(rig.scheduler.calls.schedules().len(), 8);
    assert_eq!(rig.delays(), [50, 50]);
    let lines = logs.of_event("frigg.worker.record_deferred");
    let hops: Vec<_> = lines.iter().filter(|line| line["mechanism"] == "delay").collect();
    assert_eq!(hops.len(), 2);
    assert_eq!(hops[0]["scheduleError"], "too near for a schedule by now");
    assert_eq!(
        logs.of_event("frigg.worker.schedules_rest").len(),
        0,
        "that is no fault of the scheduler's"
    );
}

// ---- order, and others

/// What was there when the state was written.
#[derive(Debug, Clone)]
struct Witness {
    sqs: FakeSqs,
    scheduler: FakeScheduler,
    logs: Logs,
    seen: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl RunState for Witness {
    fn record<'a>(&'a self, _: &'a str, _: &'a State) -> BoxFuture<'a, Result<(), BoxError>> {
        let calls = self.sqs.calls.sent().len()
            + self.sqs.calls.visibility().len()
            + self.scheduler.calls.schedules().len();
        self.seen.lock().unwrap().push((calls, self.logs.lines().len()));
        Box::pin(async { Ok(()) })
    }
    fn clear<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test(start_paused = true)]
async fn first_the_call_then_the_state_then_the_line() {
    for (wait, schedules) in [(30, false), (7200, true), (7200, false)] {
        let rig = if schedules {
            Rig::new().with_schedules()
        } else {
            Rig::new()
        };
        let (logs, _guard) = Logs::capture();
        let seen = Arc::default();
        let witness = Witness {
            sqs: rig.sqs.clone(),
            scheduler: rig.scheduler.clone(),
            logs: logs.clone(),
            seen: Arc::clone(&seen),
        };
        let worker = Worker::new(handler_fn(act), rig.config.clone())
            .with_sqs(Arc::new(rig.sqs.clone()))
            .with_scheduler(Arc::new(rig.scheduler.clone()))
            .with_run_state(Arc::new(witness))
            .with_clock(clock_from(start()));
        let deadline = Instant::now() + Duration::from_secs(900);
        worker
            .handle(event(vec![limited("a", wait)]), deadline)
            .await
            .unwrap();
        assert_eq!(*seen.lock().unwrap(), [(1, 0)], "one call, no line");
        assert_eq!(logs.lines().len(), 1);
    }
}

/// It is of use to people only.
#[derive(Debug)]
struct Silent;

impl RunState for Silent {
    fn record<'a>(&'a self, _: &'a str, _: &'a State) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(std::future::pending())
    }
    fn clear<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_run_state_changes_no_verdict() {
    let rig = Rig::new();
    let worker = Worker::new(handler_fn(act), rig.config.clone())
        .with_sqs(Arc::new(rig.sqs.clone()))
        .with_run_state(Arc::new(Silent))
        .with_clock(clock_from(start()));
    let (logs, _guard) = Logs::capture();
    let again = {
        let mut message = message("again", "{}");
        let count = "2".to_owned();
        message
            .attributes
            .insert("ApproximateReceiveCount".to_owned(), count);
        message
    };
    let begin = Instant::now();
    let batch = event(vec![limited("a", 30), again]);
    let answer = worker
        .handle(batch, begin + Duration::from_secs(30))
        .await
        .unwrap();
    assert!(answer.batch_item_failures.is_empty(), "{answer:?}");
    assert!(begin.elapsed() <= Duration::from_secs(5), "{:?}", begin.elapsed());
    let faults = logs.of_event("frigg.worker.rate_limit_state_failed");
    assert_eq!(faults.len(), 2, "each says so");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_nobody_elses_matter() {
    const LONG: Duration = Duration::from_secs(100_000);
    let rig = Rig::new().with_schedules();
    let hangs = |hangs| if hangs { LONG } else { Duration::ZERO };
    rig.sqs
        .calls
        .take(move |call| hangs(matches!(call, Call::SendBatch(url, _) if url.ends_with("/other"))));
    rig.scheduler
        .calls
        .take(move |call| hangs(matches!(call, Call::CreateSchedule(one) if one.name.ends_with("stuck"))));
    let mut other = limited("other", 30);
    other.event_source_arn = Some("arn:aws:sqs:eu-west-1:111111111111:other".to_owned());
    let batch = vec![
        limited("a", 30),
        other,
        limited("stuck", 7200),
        limited("c", 7200),
        message("fine", "{}"),
        limited("d", 30),
    ];
    let begin = Instant::now();
    let (failed, logs) = rig.run(batch).await;
    // The deadline came while they ran: not confirmed, so failed, in time.
    assert_eq!(failed, ["other", "stuck"]);
    assert!(begin.elapsed() < rig.time);
    assert_eq!(logs.of_event("frigg.worker.record_deferred").len(), 3);
    assert_eq!(logs.of_event("frigg.worker.record_succeeded").len(), 1);
    let unfinished = logs.of_event("frigg.worker.record_failed");
    let ids: Vec<_> = unfinished
        .iter()
        .map(|line| line["messageId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["other", "stuck"]);
    assert!(unfinished.iter().all(|line| line["error"]["type"] == "Timeout"));
}

// ---- what a copy carries

#[tokio::test(start_paused = true)]
async fn a_copy_carries_what_the_original_carried() {
    let record: SqsMessage = serde_json::from_value(json!({
        "messageId": "a", "receiptHandle": "h", "body": r#"{ "wait": 30, "n": 1.0 }"#,
        "attributes": {
            "ApproximateReceiveCount": "1", "MessageGroupId": "tenant-7",
            "AWSTraceHeader": "Root=1-67891233-abcdef012345678912345678",
        },
        "messageAttributes": {
            "blob": { "dataType": "Binary.png", "binaryValue": "AP/+IgqA", "stringListValues": [], "binaryListValues": [] },
            "text": { "dataType": "String", "stringValue": "ü\"", "stringListValues": [], "binaryListValues": [] },
            "count": { "dataType": "Number", "stringValue": "007", "stringListValues": [], "binaryListValues": [] },
        },
        "eventSourceARN": "arn:aws:sqs:eu-west-1:111111111111:jobs",
    }))
    .unwrap();
    let rig = Rig::new();
    let (failed, _) = rig.run(vec![record]).await;
    assert_eq!(failed, none());
    let (_, copy) = &rig.sqs.calls.sent()[0];
    let value = |name: &str| copy.attributes[name].value.clone();
    assert_eq!(
        value("blob"),
        AttributeValue::Binary(vec![0x00, 0xff, 0xfe, b'"', b'\n', 0x80])
    );
    assert_eq!(copy.attributes["blob"].data_type, "Binary.png");
    assert_eq!(value("text"), AttributeValue::Text("ü\"".to_owned()));
    assert_eq!(value("count"), AttributeValue::Text("007".to_owned()));
    assert_eq!(copy.attributes.len(), 3);
    assert_eq!(
        copy.trace_header.as_deref(),
        Some("Root=1-67891233-abcdef012345678912345678")
    );
    assert_eq!(
        (copy.group_id.as_deref(), &copy.deduplication_id),
        (Some("tenant-7"), &None)
    );
    assert!(copy.body.contains(r#""wait": 30, "n": 1.0"#), "{}", copy.body);
}
