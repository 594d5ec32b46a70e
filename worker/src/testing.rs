//! Fakes of the ports, a clock that follows tokio's (paused) time, and captured logs. For tests of handlers, and of
//! this crate.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use frigg_core::delivery::QueueArn;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::clock::Clock;
use crate::error::BoxError;
use crate::gate::{Closure, Gate, GateStore, Reservation};
use crate::log::JsonLines;
use crate::ports::{
    BatchResult, CallError, CallErrorKind, QueueAttributes, ScheduleRequest, Scheduler, SendRequest, Sqs,
    VisibilityRequest,
};
use crate::run_state::{RunState, State, process_id};
use crate::warnings::{Stored, WarningStore};

/// A clock that stands at `start` and goes with tokio's time: under `start_paused`, only when a test lets it.
pub fn clock_from(start: Timestamp) -> Clock {
    let zero = Instant::now();
    Clock::from_fn(move || start.checked_add(zero.elapsed()).unwrap_or(Timestamp::MAX))
}

/// A message as Lambda delivers it: first receive, from `arn:aws:sqs:eu-west-1:111111111111:jobs`.
pub fn message(id: &str, body: impl Into<String>) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = Some(id.to_owned());
    message.receipt_handle = Some(format!("receipt-{id}"));
    message.body = Some(body.into());
    message
        .attributes
        .insert("ApproximateReceiveCount".to_owned(), "1".to_owned());
    message.event_source_arn = Some("arn:aws:sqs:eu-west-1:111111111111:jobs".to_owned());
    message
}

/// An event of these messages.
pub fn event(messages: Vec<SqsMessage>) -> SqsEvent {
    let mut event = SqsEvent::default();
    event.records = messages;
    event
}

/// A call of [`FakeSqs`] or [`FakeScheduler`], as it was made.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// `GetQueueUrl`
    QueueUrl {
        /// Queue name.
        name: String,
        /// `QueueOwnerAWSAccountId`
        owner: Option<String>,
        /// The region that was called.
        region: String,
    },
    /// `GetQueueAttributes`
    QueueAttributes,
    /// `SendMessage`
    Send(String, SendRequest),
    /// `SendMessageBatch`
    SendBatch(String, Vec<SendRequest>),
    /// `ChangeMessageVisibilityBatch`
    ChangeVisibilityBatch(String, Vec<VisibilityRequest>),
    /// `ReceiveMessage`
    Receive {
        /// `MaxNumberOfMessages`
        max_messages: u32,
    },
    /// `DeleteMessageBatch`
    DeleteBatch(Vec<String>),
    /// `CreateSchedule`
    CreateSchedule(ScheduleRequest),
    /// `GetSchedule`
    GetSchedule(String),
}

type Fault = dyn Fn(&Call, usize) -> Option<CallError> + Send + Sync;
type Time = dyn Fn(&Call) -> Duration + Send + Sync;

/// Remembers calls, fails those that it is told to, and lets them take their time. Shared by clones.
#[derive(Clone, Default)]
pub struct Calls {
    made: Arc<Mutex<Vec<Call>>>,
    fault: Arc<Mutex<Option<Box<Fault>>>>,
    time: Arc<Mutex<Option<Box<Time>>>>,
    under_way: Arc<Mutex<UnderWay>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    now: usize,
    most: usize,
}

/// Ends when it is dropped, as a call does that is given up.
struct Turn<'c>(&'c Calls);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.under_way).now -= 1;
    }
}

impl Calls {
    /// All calls so far, in order.
    pub fn made(&self) -> Vec<Call> {
        lock(&self.made).clone()
    }

    /// Fails calls: `fault` is asked for every call, with the number of the batch's entry (0 for a call without
    /// entries; `usize::MAX` for a batch call as a whole).
    pub fn fail(&self, fault: impl Fn(&Call, usize) -> Option<CallError> + Send + Sync + 'static) {
        *lock(&self.fault) = Some(Box::new(fault));
    }

    /// Lets calls take so long; they have their effect, and are made, at the end of it.
    pub fn take(&self, time: impl Fn(&Call) -> Duration + Send + Sync + 'static) {
        *lock(&self.time) = Some(Box::new(time));
    }

    /// How many calls were under way at once, at most.
    pub fn most_at_once(&self) -> usize {
        lock(&self.under_way).most
    }

    async fn pass_time(&self, call: &Call) {
        let time = lock(&self.time).as_ref().map(|time| time(call));
        let Some(time) = time.filter(|time| !time.is_zero()) else {
            return;
        };
        {
            let mut under_way = lock(&self.under_way);
            under_way.now += 1;
            under_way.most = under_way.most.max(under_way.now);
        }
        let _turn = Turn(self);
        sleep(time).await;
    }

    async fn make(&self, call: &Call, entry: usize) -> Result<(), CallError> {
        self.pass_time(call).await;
        lock(&self.made).push(call.clone());
        self.ask(call, entry)
    }

    fn ask(&self, call: &Call, entry: usize) -> Result<(), CallError> {
        lock(&self.fault)
            .as_ref()
            .and_then(|fault| fault(call, entry))
            .map_or(Ok(()), Err)
    }

    async fn make_batch(&self, call: &Call, entries: usize) -> BatchResult {
        self.make(call, usize::MAX).await?;
        Ok((0..entries).map(|entry| self.ask(call, entry)).collect())
    }

    /// Copies sent, by batch or alone, that were not refused.
    pub fn sent(&self) -> Vec<(String, SendRequest)> {
        let mut sent = Vec::new();
        for call in self.made() {
            match &call {
                Call::Send(url, request) if self.ask(&call, 0).is_ok() => {
                    sent.push((url.clone(), request.clone()))
                }
                Call::SendBatch(url, requests) if self.ask(&call, usize::MAX).is_ok() => {
                    let accepted = requests
                        .iter()
                        .enumerate()
                        .filter(|(entry, _)| self.ask(&call, *entry).is_ok());
                    sent.extend(accepted.map(|(_, request)| (url.clone(), request.clone())));
                }
                _ => {}
            }
        }
        sent
    }

    /// Visibility changes asked for.
    pub fn visibility(&self) -> Vec<(String, VisibilityRequest)> {
        let mut changes = Vec::new();
        for call in self.made() {
            if let Call::ChangeVisibilityBatch(url, requests) = call {
                changes.extend(requests.into_iter().map(|request| (url.clone(), request)));
            }
        }
        changes
    }

    /// Schedules asked for.
    pub fn schedules(&self) -> Vec<ScheduleRequest> {
        let schedule = |call| {
            if let Call::CreateSchedule(request) = call {
                Some(request)
            } else {
                None
            }
        };
        self.made().into_iter().filter_map(schedule).collect()
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.made().fmt(f)
    }
}

/// One answer to `ReceiveMessage`.
#[derive(Debug, Clone)]
pub struct Receive {
    /// How long the answer takes.
    pub after: Duration,
    /// What it brings.
    pub result: Result<Vec<SqsMessage>, CallError>,
}

/// An SQS that accepts everything, unless told to fail. Receives are scripted; after the script nothing comes.
#[derive(Debug, Clone, Default)]
pub struct FakeSqs {
    /// The calls made.
    pub calls: Calls,
    receives: Arc<Mutex<VecDeque<Receive>>>,
    attributes: Arc<Mutex<QueueAttributes>>,
}

impl FakeSqs {
    /// Answers the next receives in this way.
    pub fn script(&self, receives: impl IntoIterator<Item = Receive>) {
        lock(&self.receives).extend(receives);
    }

    /// What `GetQueueAttributes` answers.
    pub fn set_attributes(&self, attributes: QueueAttributes) {
        *lock(&self.attributes) = attributes;
    }
}

impl Sqs for FakeSqs {
    fn queue_url<'a>(&'a self, queue: &'a QueueArn, owner: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let (name, region) = (queue.name().to_owned(), queue.region().to_owned());
            let owner = owner.then(|| queue.account().to_owned());
            let url = format!("https://sqs.{region}.amazonaws.com/{}/{name}", queue.account());
            self.calls
                .make(&Call::QueueUrl { name, owner, region }, 0)
                .await
                .map(|()| url)
        })
    }

    fn queue_attributes<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        Box::pin(async {
            self.calls
                .make(&Call::QueueAttributes, 0)
                .await
                .map(|()| lock(&self.attributes).clone())
        })
    }

    fn send<'a>(
        &'a self,
        url: &'a str,
        message: &'a SendRequest,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        let call = Call::Send(url.to_owned(), message.clone());
        Box::pin(async move {
            self.calls
                .make(&call, 0)
                .await
                .map(|()| "delayed-message-id".to_owned())
        })
    }

    fn send_batch<'a>(&'a self, url: &'a str, messages: &'a [SendRequest]) -> BoxFuture<'a, BatchResult> {
        let call = Call::SendBatch(url.to_owned(), messages.to_vec());
        Box::pin(async move { self.calls.make_batch(&call, messages.len()).await })
    }

    fn change_visibility_batch<'a>(
        &'a self,
        url: &'a str,
        changes: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult> {
        let call = Call::ChangeVisibilityBatch(url.to_owned(), changes.to_vec());
        Box::pin(async move { self.calls.make_batch(&call, changes.len()).await })
    }

    fn receive<'a>(
        &'a self,
        _: &'a str,
        max_messages: u32,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        Box::pin(async move {
            self.calls.make(&Call::Receive { max_messages }, 0).await?;
            let next = lock(&self.receives).pop_front();
            match next {
                Some(receive) => {
                    sleep(receive.after).await;
                    receive.result
                }
                None => std::future::pending().await,
            }
        })
    }

    fn delete_batch<'a>(&'a self, _: &'a str, receipt_handles: &'a [String]) -> BoxFuture<'a, BatchResult> {
        let call = Call::DeleteBatch(receipt_handles.to_vec());
        Box::pin(async move { self.calls.make_batch(&call, receipt_handles.len()).await })
    }
}

/// A scheduler that accepts everything, unless told to fail.
#[derive(Debug, Clone, Default)]
pub struct FakeScheduler {
    /// The calls made.
    pub calls: Calls,
}

impl Scheduler for FakeScheduler {
    fn create<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<(), CallError>> {
        let call = Call::CreateSchedule(request.clone());
        Box::pin(async move {
            self.calls.pass_time(&call).await;
            self.calls.ask(&call, 0)?;
            let taken = self
                .calls
                .schedules()
                .iter()
                .any(|schedule| schedule.name == request.name);
            lock(&self.calls.made).push(call);
            match taken {
                true => Err(CallError::new(
                    CallErrorKind::Conflict,
                    Some("ConflictException"),
                    "the name is taken",
                )),
                false => Ok(()),
            }
        })
    }

    fn is_same<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<bool, CallError>> {
        let call = Call::GetSchedule(request.name.clone());
        Box::pin(async move {
            self.calls.make(&call, 0).await?;
            let first = self
                .calls
                .schedules()
                .into_iter()
                .find(|schedule| schedule.name == request.name);
            Ok(first.is_some_and(|schedule| schedule == *request))
        })
    }
}

/// One call of a [`RunState`].
#[derive(Debug, Clone, PartialEq)]
pub enum StateCall {
    /// A state was recorded for this body.
    Record(String, State),
    /// It was cleared by this deferral id.
    Clear(String, String),
}

/// Remembers states, and fails when told to.
#[derive(Debug, Clone, Default)]
pub struct FakeRunState {
    calls: Arc<Mutex<Vec<StateCall>>>,
    fault: Option<String>,
}

impl FakeRunState {
    /// Fails every call with this text.
    pub fn failing(text: &str) -> Self {
        FakeRunState {
            calls: Arc::default(),
            fault: Some(text.to_owned()),
        }
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<StateCall> {
        lock(&self.calls).clone()
    }

    fn call(&self, call: StateCall) -> Result<(), BoxError> {
        lock(&self.calls).push(call);
        self.fault.clone().map_or(Ok(()), |text| Err(text.into()))
    }
}

impl RunState for FakeRunState {
    fn record<'a>(&'a self, body: &'a str, state: &'a State) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move { self.call(StateCall::Record(body.to_owned(), state.clone())) })
    }

    fn clear<'a>(&'a self, body: &'a str, deferral_id: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move { self.call(StateCall::Clear(body.to_owned(), deferral_id.to_owned())) })
    }
}

/// One call of a [`GateStore`].
#[derive(Debug, Clone, PartialEq)]
pub enum GateCall {
    /// A key's entry was read.
    Look(String),
    /// A key was closed.
    Close(String, Closure),
    /// A slot was asked for.
    Reserve(String, Reservation),
}

type GateWay = dyn Fn() -> Duration + Send + Sync;
type GateFault = dyn Fn(&GateCall) -> Option<String> + Send + Sync;

/// A gate in memory, shared by clones: give one to several workers. It fails, or takes its time, when told to.
#[derive(Clone, Default)]
pub struct FakeGate {
    gates: Arc<Mutex<HashMap<String, Gate>>>,
    calls: Arc<Mutex<Vec<GateCall>>>,
    fault: Arc<Mutex<Option<Box<GateFault>>>>,
    way: Arc<Mutex<Option<Box<GateWay>>>>,
}

impl FakeGate {
    /// All calls so far, those that failed too.
    pub fn calls(&self) -> Vec<GateCall> {
        lock(&self.calls).clone()
    }

    /// A key's entry.
    pub fn gate(&self, key: &str) -> Gate {
        lock(&self.gates).get(key).cloned().unwrap_or_default()
    }

    /// Fails the calls for which `fault` gives a text.
    pub fn fail(&self, fault: impl Fn(&GateCall) -> Option<String> + Send + Sync + 'static) {
        *lock(&self.fault) = Some(Box::new(fault));
    }

    /// Takes so long on the way to it, and again on the way back.
    pub fn delay(&self, way: impl Fn() -> Duration + Send + Sync + 'static) {
        *lock(&self.way) = Some(Box::new(way));
    }

    async fn travel(&self) {
        let way = lock(&self.way).as_ref().map(|way| way());
        if let Some(way) = way {
            sleep(way).await;
        }
    }

    async fn call<T>(
        &self,
        key: &str,
        call: GateCall,
        act: impl FnOnce(&mut Gate) -> T,
    ) -> Result<T, BoxError> {
        self.travel().await;
        lock(&self.calls).push(call.clone());
        let fault = lock(&self.fault).as_ref().and_then(|fault| fault(&call));
        let answer = match fault {
            Some(text) => Err(text.into()),
            None => Ok(act(lock(&self.gates).entry(key.to_owned()).or_default())),
        };
        self.travel().await;
        answer
    }
}

impl GateStore for FakeGate {
    fn look<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Gate, BoxError>> {
        Box::pin(async move {
            self.call(key, GateCall::Look(key.to_owned()), |gate| gate.clone())
                .await
        })
    }

    fn close<'a>(&'a self, key: &'a str, closure: &'a Closure) -> BoxFuture<'a, Result<(), BoxError>> {
        let call = GateCall::Close(key.to_owned(), closure.clone());
        Box::pin(async move { self.call(key, call, |gate| _ = gate.close(closure)).await })
    }

    fn reserve<'a>(
        &'a self,
        key: &'a str,
        asked: &'a Reservation,
    ) -> BoxFuture<'a, Result<Option<Timestamp>, BoxError>> {
        let call = GateCall::Reserve(key.to_owned(), *asked);
        Box::pin(async move { self.call(key, call, |gate| gate.reserve(asked)).await })
    }
}

impl fmt::Debug for FakeGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lock(&self.gates).fmt(f)
    }
}

/// Processes' states and integrations' warnings in memory, by Frigg's rules.
#[derive(Debug, Clone)]
pub struct MemoryState {
    clock: Clock,
    states: Arc<Mutex<HashMap<String, (State, Timestamp)>>>,
    warnings: Arc<Mutex<HashMap<String, Stored>>>,
}

impl MemoryState {
    /// An empty one, which writes this clock's times.
    pub fn new(clock: Clock) -> Self {
        MemoryState {
            clock,
            states: Arc::default(),
            warnings: Arc::default(),
        }
    }

    /// The same states, with another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        MemoryState { clock, ..self }
    }

    /// What a process waits for, and when that was written.
    pub fn state(&self, process: &str) -> Option<(State, Timestamp)> {
        lock(&self.states).get(process).cloned()
    }
}

impl RunState for MemoryState {
    fn record<'a>(&'a self, body: &'a str, state: &'a State) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let Some(process) = process_id(body) else {
                return Ok(());
            };
            let mut states = lock(&self.states);
            if states
                .get(&process)
                .is_none_or(|(stored, _)| state.replaces(stored))
            {
                states.insert(process, (state.clone(), self.clock.now()));
            }
            Ok(())
        })
    }

    fn clear<'a>(&'a self, body: &'a str, deferral_id: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let Some(process) = process_id(body) else {
                return Ok(());
            };
            let now = self.clock.now();
            lock(&self.states)
                .retain(|id, (state, _)| *id != process || !state.is_cleared_by(deferral_id, now));
            Ok(())
        })
    }
}

impl WarningStore for MemoryState {
    fn read<'a>(&'a self, integration: &'a str) -> BoxFuture<'a, Result<Stored, BoxError>> {
        Box::pin(async move { Ok(lock(&self.warnings).get(integration).cloned().unwrap_or_default()) })
    }

    fn write<'a>(
        &'a self,
        integration: &'a str,
        stored: &'a Stored,
    ) -> BoxFuture<'a, Result<bool, BoxError>> {
        Box::pin(async move {
            let mut all = lock(&self.warnings);
            let entry = all.entry(integration.to_owned()).or_default();
            let written = entry.revision == stored.revision;
            if written {
                *entry = Stored {
                    revision: stored.revision + 1,
                    ..stored.clone()
                };
            }
            Ok(written)
        })
    }
}

/// The log lines of a test's own thread.
#[derive(Clone, Default)]
pub struct Logs {
    lines: Arc<Mutex<Vec<String>>>,
}

/// Put it where secrets are, in bodies, credentials and addresses: a captured line that shows it fails the test.
pub const PLANTED_SECRET: &str = "s3cr3t";

/// Captures until it is dropped.
///
/// # Panics
/// On drop, when a line shows [`PLANTED_SECRET`].
#[must_use = "what is logged after it is dropped is not captured"]
pub struct Capture {
    logs: Logs,
    _guard: DefaultGuard,
}

impl Drop for Capture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let lines = self.logs.lines();
        let leak = lines.iter().find(|line| line.contains(PLANTED_SECRET));
        assert_eq!(leak, None, "a secret is logged");
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.logs.fmt(f)
    }
}

impl Logs {
    /// Captures what this thread logs, all levels, until the guard is dropped.
    pub fn capture() -> (Logs, Capture) {
        let logs = Logs::default();
        let lines = Arc::clone(&logs.lines);
        let clock = Clock::from_fn(|| Timestamp::UNIX_EPOCH);
        let layer = JsonLines::new(clock, move |line| lock(&lines).push(line.to_owned()));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let capture = Capture {
            logs: logs.clone(),
            _guard: guard,
        };
        (logs, capture)
    }

    /// The lines as they are written.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.lines).clone()
    }

    /// The lines as JSON, those with this `eventName`.
    pub fn of_event(&self, name: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .filter(|line| line["eventName"] == name)
            .collect()
    }

    /// All lines as JSON.
    pub fn events(&self) -> Vec<Value> {
        self.lines()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().fmt(f)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
