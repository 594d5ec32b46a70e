//! A worker with fakes of everything around it, under tokio's paused time, which starts at 12:00.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use frigg_core::delivery::QueueArn;
use frigg_worker::ports::{CallError, CallErrorKind, QueueAttributes, SendRequest, Sqs};
use frigg_worker::run_state::RunState;
use frigg_worker::testing::{
    Call, Capture, FakeRunState, FakeScheduler, FakeSqs, Logs, PLANTED_SECRET, clock_from, event, message,
};
use frigg_worker::{
    Clock, Config, Consumer, Delivery, Handler, HandlerError, Job, RateLimited, Raw, Worker, handler_fn,
};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

pub(crate) const ROLE: (&str, &str) = ("SCHEDULER_ROLE_ARN", "arn:aws:iam::111111111111:role/s");
pub(crate) const FIFO: &str = "arn:aws:sqs:eu-west-1:111111111111:jobs.fifo";
pub(crate) const URL: &str = "https://sqs.eu-west-1.amazonaws.com/111111111111/jobs";

/// How long a call that is not full waits for company.
pub(crate) const LINGER: Duration = Duration::from_millis(150);

pub(crate) fn start() -> Timestamp {
    "2026-09-28T12:00:00Z".parse().unwrap()
}

pub(crate) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What a handler was called with.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) body: String,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) at: Timestamp,
}

pub(crate) struct Rig {
    pub(crate) sqs: FakeSqs,
    pub(crate) scheduler: FakeScheduler,
    pub(crate) states: FakeRunState,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) logs: Logs,
    seen: Arc<Mutex<Vec<Seen>>>,
    _guard: Capture,
}

impl Rig {
    pub(crate) fn new(environment: &[(&str, &str)]) -> Rig {
        let variables: HashMap<String, String> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (config, bad) = Config::from_variables(|name| variables.get(name).cloned());
        assert_eq!(bad, []);
        let (logs, guard) = Logs::capture();
        Rig {
            sqs: FakeSqs::default(),
            scheduler: FakeScheduler::default(),
            states: FakeRunState::default(),
            config,
            clock: clock_from(start()),
            logs,
            seen: Arc::default(),
            _guard: guard,
        }
    }

    /// The queue tells these: the receives that it allows, and a dead-letter queue.
    pub(crate) fn with_dead_letters(self, max_receives: u32, arn: &str) -> Rig {
        self.sqs.set_attributes(QueueAttributes {
            max_receive_count: Some(max_receives),
            dead_letter_arn: Some(arn.to_owned()),
            ..QueueAttributes::default()
        });
        self
    }

    /// A handler that is remembered, and answers at once.
    pub(crate) fn handler<F>(&self, f: F) -> impl Handler<Message = Raw, Error = HandlerError> + use<F>
    where
        F: Fn(&Job<Raw>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        self.slow_handler(move |job| (Duration::ZERO, f(job)))
    }

    /// A handler that is remembered, and answers after a while.
    pub(crate) fn slow_handler<F>(&self, f: F) -> impl Handler<Message = Raw, Error = HandlerError> + use<F>
    where
        F: Fn(&Job<Raw>) -> (Duration, Result<(), HandlerError>) + Send + Sync + 'static,
    {
        let (seen, clock) = (Arc::clone(&self.seen), self.clock.clone());
        handler_fn(move |job: Job<Raw>| {
            let (body, delivery) = (job.message.0.clone(), Arc::clone(&job.delivery));
            let at = clock.now();
            seen.lock().unwrap().push(Seen { body, delivery, at });
            let (after, result) = f(&job);
            async move {
                if !after.is_zero() {
                    tokio::time::sleep(after).await;
                }
                result
            }
        })
    }

    pub(crate) fn worker<C: Consumer>(&self, consumer: C) -> Worker<C> {
        self.worker_on(consumer, Arc::new(self.sqs.clone()))
    }

    pub(crate) fn worker_on<C: Consumer>(&self, consumer: C, sqs: Arc<dyn Sqs>) -> Worker<C> {
        Worker::new(consumer, self.config.clone())
            .with_sqs(sqs)
            .with_scheduler(Arc::new(self.scheduler.clone()))
            .with_run_state(Arc::new(self.states.clone()) as Arc<dyn RunState>)
            .with_clock(self.clock.clone())
    }

    /// One batch through a new worker; gives the ids that are reported failed.
    pub(crate) async fn run(
        &self,
        messages: Vec<SqsMessage>,
        f: impl Fn(&Job<Raw>) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> Vec<String> {
        batch(&self.worker(self.handler(f)), messages).await
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The ids of the messages that the handler saw.
    pub(crate) fn handled(&self) -> Vec<String> {
        self.seen()
            .into_iter()
            .map(|seen| seen.delivery.message_id.clone())
            .collect()
    }

    /// The names of the runtime's lines, without those of level DEBUG, in order.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.logs.events().into_iter();
        lines
            .filter(|line| line["level"] != "DEBUG" && line["logger"] == "frigg.worker")
            .map(|line| name(&line))
            .collect()
    }

    pub(crate) fn line(&self, event: &str) -> Value {
        let lines = self.logs.of_event(&format!("frigg.worker.{event}"));
        assert_eq!(lines.len(), 1, "{event}: {:?}", self.logs);
        lines[0].clone()
    }

    pub(crate) fn sent(&self) -> Vec<SendRequest> {
        self.sqs.calls.sent().into_iter().map(|(_, copy)| copy).collect()
    }

    /// Seconds of the visibility changes, by receipt handle.
    pub(crate) fn hidden(&self) -> Vec<(String, u32)> {
        let changes = self.sqs.calls.visibility().into_iter();
        changes
            .map(|(_, change)| (change.receipt_handle, change.seconds))
            .collect()
    }

    pub(crate) fn count(&self, of: impl Fn(&Call) -> bool) -> usize {
        self.sqs.calls.made().iter().filter(|call| of(call)).count()
    }
}

/// `record_failed` of a line.
pub(crate) fn name(line: &Value) -> String {
    let name = line["eventName"].as_str().unwrap_or_default();
    name.trim_start_matches("frigg.worker.").to_owned()
}

pub(crate) async fn batch<C: Consumer>(worker: &Worker<C>, messages: Vec<SqsMessage>) -> Vec<String> {
    batch_until(worker, messages, seconds(900)).await
}

pub(crate) async fn batch_until<C: Consumer>(
    worker: &Worker<C>,
    messages: Vec<SqsMessage>,
    time: Duration,
) -> Vec<String> {
    let response = worker
        .handle(event(messages), Instant::now() + time)
        .await
        .unwrap();
    response
        .batch_item_failures
        .into_iter()
        .map(|failure| failure.item_identifier)
        .collect()
}

/// Limited for so long from the start of the test on.
pub(crate) fn limited(wait: u64) -> Result<(), HandlerError> {
    Err(RateLimited::after(start(), seconds(wait)).into())
}

pub(crate) fn permanent() -> Result<(), HandlerError> {
    Err(HandlerError::permanent("no such contact"))
}

pub(crate) fn broken() -> Result<(), HandlerError> {
    Err("fault".into())
}

pub(crate) fn messages(n: usize) -> Vec<SqsMessage> {
    (1..=n)
        .map(|i| {
            message(
                &format!("m{i}"),
                format!(r#"{{"id":{i},"token":"{PLANTED_SECRET}"}}"#),
            )
        })
        .collect()
}

pub(crate) fn with_attribute(mut message: SqsMessage, name: &str, value: &str) -> SqsMessage {
    message.attributes.insert(name.to_owned(), value.to_owned());
    message
}

pub(crate) fn received(message: SqsMessage, count: u32) -> SqsMessage {
    with_attribute(message, "ApproximateReceiveCount", &count.to_string())
}

pub(crate) fn on_queue(mut message: SqsMessage, arn: &str) -> SqsMessage {
    message.event_source_arn = Some(arn.to_owned());
    message
}

/// A message of a group of the FIFO queue.
pub(crate) fn grouped(id: &str, group: &str) -> SqsMessage {
    on_queue(
        with_attribute(message(id, r#"{"id":1}"#), "MessageGroupId", group),
        FIFO,
    )
}

/// With so many attributes of its sender's.
pub(crate) fn with_user_attributes(mut message: SqsMessage, n: usize) -> SqsMessage {
    for i in 0..n {
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = Some("String".to_owned());
        attribute.string_value = Some(format!("v{i}"));
        message.message_attributes.insert(format!("k{i}"), attribute);
    }
    message
}

pub(crate) fn refused(code: &str, text: &str) -> CallError {
    CallError::new(CallErrorKind::Refused, Some(code), text)
}

pub(crate) fn throttled() -> CallError {
    CallError::new(CallErrorKind::Unavailable, Some("RequestThrottled"), "slow down")
}

pub(crate) fn arn(text: &str) -> QueueArn {
    QueueArn::parse(text).unwrap()
}

/// The counter in a copy's envelope.
pub(crate) fn deferrals(copy: &SendRequest) -> u64 {
    let body: Value = serde_json::from_str(&copy.body).unwrap();
    body["_frigg"]["deferrals"].as_u64().unwrap()
}
