//! What everything happens in: time, randomness, the messages of the queue, the schedules, the processes; and the trace.
//!
//! Times are nanoseconds since the scenario's start.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use fastrand::Rng;
use frigg_core::delivery::{AttributeValue, MessageAttribute};
use frigg_core::gate::Gate;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::ledger::{Job, Receive, Run};
use crate::mutation::Mutation;
use crate::scenario::Scenario;

/// Nanoseconds since the start.
pub(crate) type Nanos = i64;

pub(crate) const MS: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000 * MS;
/// 2026-09-28T12:00:00.000Z
const START_MS: i64 = 1_790_596_800_000;
/// Looks at the state, in one scenario.
const ENDLESS: u64 = 200_000;
/// Nothing that the scenarios ask for takes longer.
pub(crate) const HORIZON: Nanos = 80 * 3600 * SECOND;

/// Shared by all of a scenario's tasks.
#[derive(Debug)]
pub(crate) struct World {
    state: Mutex<State>,
    /// Told whenever something may have become visible, or gone.
    pub(crate) wake: Arc<Notify>,
    zero: Instant,
}

/// A message in the queue.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) job: usize,
    pub(crate) body: String,
    pub(crate) attributes: HashMap<String, MessageAttribute>,
    pub(crate) trace: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) sent_at: Nanos,
    pub(crate) visible_at: Nanos,
    pub(crate) receives: u32,
    pub(crate) first_received_at: Option<Nanos>,
    pub(crate) received_at: Nanos,
    pub(crate) lineage: Lineage,
    /// What its last receive came to, and whether a fault touched it.
    pub(crate) last: Run,
    pub(crate) ended_at: Option<Nanos>,
    pub(crate) excused: bool,
}

/// What the model itself knows of a message's past, whatever its envelope says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lineage {
    /// The provider's time.
    pub(crate) not_before: Nanos,
    pub(crate) deferrals: u32,
    pub(crate) first_deferred_at: Option<Nanos>,
    /// How often it was hidden since for a limit, which its envelope does not say.
    pub(crate) holds: u32,
    /// What the runtime may take these for: it counts receives, and not all of them were holds.
    pub(crate) most: u32,
    pub(crate) since: Option<Nanos>,
}

/// The gate is closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed {
    pub(crate) until: Nanos,
    /// Since when everybody could know.
    pub(crate) since: Nanos,
}

/// A one-time schedule.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) request: frigg_worker::ports::ScheduleRequest,
    pub(crate) job: usize,
    pub(crate) fire_at: Nanos,
    pub(crate) lineage: Lineage,
    /// It fires once more then.
    pub(crate) again_at: Option<Nanos>,
    /// Its maker does not know its queue.
    pub(crate) blind: bool,
}

/// A worker's process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    /// A look-up failed: it does not know its queue.
    pub(crate) blind: bool,
    /// When the gate's store last did not answer it.
    pub(crate) gate_failed_at: Option<Nanos>,
    crashed: watch::Sender<bool>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) scenario: Scenario,
    pub(crate) mutation: Option<Mutation>,
    pub(crate) rng: Rng,
    pub(crate) now: Nanos,
    pub(crate) entries: Vec<Entry>,
    pub(crate) planned: Vec<Planned>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) receives: Vec<Receive>,
    pub(crate) processes: Vec<Process>,
    pub(crate) next_id: u64,
    pub(crate) faults: u32,
    /// Of the provider's window: its number, and the calls in it.
    pub(crate) window: (i64, u32),
    /// The gate's entries.
    pub(crate) gates: HashMap<String, Gate>,
    /// Each closure that the store was told, by key.
    pub(crate) closures: HashMap<String, Vec<Closed>>,
    /// Until when a limit closed each key at most, whoever was told of it.
    pub(crate) limited: HashMap<&'static str, Nanos>,
    pub(crate) violation: Option<String>,
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) runs: u64,
    looks: u64,
    wake: Arc<Notify>,
}

impl World {
    pub(crate) fn new(scenario: Scenario, mutation: Option<Mutation>, traced: bool) -> Arc<World> {
        let jobs = scenario.jobs.iter().map(Job::new).collect();
        let wake = Arc::new(Notify::new());
        let state = State {
            rng: Rng::with_seed(scenario.seed),
            jobs,
            scenario,
            mutation,
            now: 0,
            entries: Vec::new(),
            planned: Vec::new(),
            receives: Vec::new(),
            processes: Vec::new(),
            next_id: 0,
            faults: 0,
            window: (0, 0),
            gates: HashMap::new(),
            closures: HashMap::new(),
            limited: HashMap::new(),
            violation: None,
            trace: traced.then(Vec::new),
            runs: 0,
            looks: 0,
            wake: Arc::clone(&wake),
        };
        Arc::new(World {
            state: Mutex::new(state),
            wake,
            zero: Instant::now(),
        })
    }

    /// The state, as of now: what was due has happened.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = nanos(self.zero.elapsed());
        state.happen();
        state.looks += 1;
        if state.looks > ENDLESS {
            state.violate(|| "endless: it goes round and round".to_owned());
        }
        state
    }

    pub(crate) fn now(&self) -> Timestamp {
        timestamp(nanos(self.zero.elapsed()))
    }

    /// Waits for `at`.
    pub(crate) async fn reach(&self, at: Nanos) {
        // Tokio's timers know milliseconds, and round up.
        sleep_until(self.zero + Duration::from_nanos(at.max(0).cast_unsigned())).await;
    }

    /// Waits until something may have changed by itself or by others.
    pub(crate) async fn change(&self, next: Option<Nanos>) {
        // Where nothing is to come, time runs out.
        let next = next.unwrap_or(HORIZON);
        tokio::select! {
            biased;
            () = self.wake.notified() => {}
            () = self.reach(next) => {}
        }
    }

    /// Waits until nothing is left to do.
    pub(crate) async fn quiet(&self) {
        loop {
            let next = {
                let state = self.lock();
                if state.is_over() {
                    return;
                }
                state.next_event()
            };
            self.change(next).await;
        }
    }
}

impl State {
    /// A new process; tells when it dies.
    pub(crate) fn start_process(&mut self) -> (usize, watch::Receiver<bool>) {
        let (crashed, dies) = watch::channel(false);
        self.processes.push(Process {
            alive: true,
            blind: false,
            gate_failed_at: None,
            crashed,
        });
        (self.processes.len() - 1, dies)
    }

    /// The process is gone; what it had not finished comes again.
    pub(crate) fn end_process(&mut self, process: usize) {
        if !self.processes[process].alive {
            return;
        }
        self.note(|| format!("process {process} dies"));
        self.processes[process].alive = false;
        self.processes[process].crashed.send_replace(true);
        let held: Vec<Receive> = self.receives.extract_if(.., |r| r.process == process).collect();
        for receive in held {
            self.jobs[receive.job].faults += 1;
            self.excuse(receive.entry);
        }
    }

    /// Draws whether a fault of this rate happens now.
    pub(crate) fn fault(&mut self, rate: u32) -> bool {
        if rate == 0 || self.faults >= self.scenario.weather.at_most || self.rng.u32(0..1000) >= rate {
            return false;
        }
        self.faults += 1;
        true
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            let mut line = String::new();
            let _ = write!(line, "{:>14.3} s  {}", now as f64 / SECOND as f64, text());
            trace.push(line);
        }
    }

    /// The first one counts.
    pub(crate) fn violate(&mut self, text: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let text = text();
            self.note(|| format!("VIOLATION: {text}"));
            self.violation = Some(text);
            self.wake.notify_waiters();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.violation.is_some()
            || self.now >= HORIZON
            || (self.entries.is_empty() && self.next_event().is_none())
    }

    /// When something happens by itself.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let visible = self.entries.iter().map(|entry| entry.visible_at);
        let fires = self.planned.iter().map(|planned| planned.fire_at);
        let sent = self.jobs.iter().filter(|job| !job.sent).map(|job| job.sent_at);
        let later = visible.chain(fires).chain(sent).filter(|&at| at > self.now);
        later.min()
    }

    /// Lets happen what is due: senders send, schedules fire, messages expire.
    fn happen(&mut self) {
        for job in 0..self.jobs.len() {
            if !self.jobs[job].sent && self.jobs[job].sent_at <= self.now {
                self.jobs[job].sent = true;
                let spec = &self.jobs[job];
                let (body, attributes) = (spec.raw.clone(), spec.attributes.clone());
                let (trace, group, at) = (spec.trace.clone(), spec.group.clone(), spec.sent_at);
                self.note(|| format!("job {job} is sent: {}", cut(&body)));
                self.enqueue(job, body, attributes, trace, group, at, at, Lineage::default());
            }
        }
        while let Some(index) = (0..self.planned.len()).find(|&i| self.planned[i].fire_at <= self.now) {
            self.fire(index);
        }
        let (keep, now) = (
            Duration::from_secs(self.scenario.queue.retention).as_nanos() as Nanos,
            self.now,
        );
        while let Some(index) = self
            .entries
            .iter()
            .position(|e| e.sent_at.saturating_add(keep) <= now)
        {
            let entry = self.entries.remove(index);
            self.note(|| format!("message {} of job {} expires", entry.id, entry.job));
            self.gone(&entry, "expired");
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a message has that many parts")]
    pub(crate) fn enqueue(
        &mut self,
        job: usize,
        body: String,
        attributes: HashMap<String, MessageAttribute>,
        trace: Option<String>,
        group: Option<String>,
        sent_at: Nanos,
        visible_at: Nanos,
        lineage: Lineage,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        self.note(|| {
            let visible = visible_at as f64 / SECOND as f64;
            format!(
                "message {id} of job {job} is in the queue, visible at {visible:.3} s: {}",
                cut(&body)
            )
        });
        self.entries.push(Entry {
            id,
            job,
            body,
            attributes,
            trace,
            group,
            sent_at,
            visible_at,
            receives: 0,
            first_received_at: None,
            received_at: 0,
            lineage,
            last: Run::None,
            ended_at: None,
            excused: false,
        });
    }

    /// Up to `max` messages for a process, as a receive or an event source mapping gives them.
    pub(crate) fn take(&mut self, process: usize, max: usize) -> Vec<SqsMessage> {
        self.redrive();
        let mut order = self.takeable();
        if !self.scenario.queue.fifo {
            self.rng.shuffle(&mut order);
        }
        order.truncate(max);
        order
            .into_iter()
            .map(|index| self.deliver(index, process))
            .collect()
    }

    /// What a receive could bring now, in order.
    pub(crate) fn takeable(&self) -> Vec<usize> {
        let now = self.now;
        let (entries, fifo) = (&self.entries, self.scenario.queue.fifo);
        // A group with a message in flight gives no other one.
        let blocked =
            |group: &Option<String>| fifo && entries.iter().any(|e| e.visible_at > now && e.group == *group);
        let visible = (0..entries.len()).filter(|&i| entries[i].visible_at <= now);
        visible.filter(|&i| !blocked(&entries[i].group)).collect()
    }

    fn deliver(&mut self, index: usize, process: usize) -> SqsMessage {
        let twice = !self.scenario.queue.fifo && self.fault(self.scenario.weather.duplicate);
        let now = self.now;
        let visible_at = now + Nanos::from(self.scenario.queue.visibility) * SECOND;
        self.overtaken(self.entries[index].id);
        let entry = &mut self.entries[index];
        entry.receives += 1;
        entry.last = Run::None;
        entry.ended_at = None;
        entry.received_at = now;
        entry.first_received_at.get_or_insert(now);
        if !twice {
            entry.visible_at = visible_at;
        }
        let (id, job, receives) = (entry.id, entry.job, entry.receives);
        let mut message = message(entry);
        if self.mutation == Some(Mutation::ForgetHolds) {
            message.attributes.remove("ApproximateFirstReceiveTimestamp");
        }
        let receive = Receive::of(entry, process);
        if twice {
            self.jobs[job].faults += 1;
        }
        self.note(|| {
            format!(
                "process {process} receives message {id} of job {job}, {receives}. time{}",
                if twice { ", and it stays visible" } else { "" }
            )
        });
        self.receives.push(receive);
        if twice || self.processes[process].blind {
            self.excuse(id);
        }
        message
    }
}

/// As Lambda and a receive give it.
fn message(entry: &Entry) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = Some(message_id(entry.id));
    message.receipt_handle = Some(format!("{}/{}", entry.id, entry.receives));
    message.body = Some(entry.body.clone());
    let ms = |at: Nanos| (START_MS + at / MS).to_string();
    let attributes = [
        ("ApproximateReceiveCount", Some(entry.receives.to_string())),
        ("SentTimestamp", Some(ms(entry.sent_at))),
        (
            "ApproximateFirstReceiveTimestamp",
            entry.first_received_at.map(ms),
        ),
        ("AWSTraceHeader", entry.trace.clone()),
        ("MessageGroupId", entry.group.clone()),
    ];
    for (name, value) in attributes {
        if let Some(value) = value {
            message.attributes.insert(name.to_owned(), value);
        }
    }
    for (name, attribute) in &entry.attributes {
        let mut copy = SqsMessageAttribute::default();
        copy.data_type = Some(attribute.data_type.clone());
        match &attribute.value {
            AttributeValue::Text(text) => copy.string_value = Some(text.clone()),
            AttributeValue::Binary(bytes) => {
                let mut data = aws_lambda_events::encodings::Base64Data::default();
                data.0.clone_from(bytes);
                copy.binary_value = Some(data);
            }
        }
        message.message_attributes.insert(name.clone(), copy);
    }
    message
}

/// What SQS counts.
pub(crate) fn bytes(body: &str, attributes: &HashMap<String, MessageAttribute>) -> usize {
    let value = |attribute: &MessageAttribute| match &attribute.value {
        AttributeValue::Text(text) => text.len(),
        AttributeValue::Binary(bytes) => bytes.len(),
    };
    let attribute = |(name, a): (&String, &MessageAttribute)| name.len() + a.data_type.len() + value(a);
    body.len() + attributes.iter().map(attribute).sum::<usize>()
}

pub(crate) fn message_id(id: u64) -> String {
    format!("m-{id}")
}

pub(crate) fn parse_message_id(id: &str) -> Option<u64> {
    id.strip_prefix("m-")?.parse().ok()
}

/// Message and receive of a receipt handle.
pub(crate) fn parse_handle(handle: &str) -> Option<(u64, u32)> {
    let (id, receive) = handle.split_once('/')?;
    Some((id.parse().ok()?, receive.parse().ok()?))
}

/// The job that a body or a schedule's input is of.
pub(crate) fn job_of(text: &str) -> Option<usize> {
    let mut parts = text.split('#');
    parts.next()?;
    parts.next()?.parse().ok()
}

/// The `retryAt` of an envelope, in a body or in a schedule's input.
pub(crate) fn retry_at(text: &str) -> Option<Nanos> {
    let (_, rest) = text.split_once("retryAt")?;
    let begin = rest.find(|c: char| c.is_ascii_digit())?;
    let time = rest.get(begin..begin + "2026-09-28T12:00:00.000Z".len())?;
    time.parse().ok().map(nanos_of)
}

/// The `deferrals` of an envelope, in a body or in a schedule's input.
pub(crate) fn deferrals(text: &str) -> u32 {
    let counted = text.split_once("deferrals").map_or("", |(_, rest)| rest);
    let counted = counted.trim_start_matches(['\\', '"', ':']);
    let end = counted
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(counted.len());
    counted[..end].parse().unwrap_or(0)
}

pub(crate) fn timestamp(at: Nanos) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(START_MS * MS + at)).unwrap_or(Timestamp::MAX)
}

pub(crate) fn nanos_of(at: Timestamp) -> Nanos {
    Nanos::try_from(at.as_nanosecond()).unwrap_or(Nanos::MAX) - START_MS * MS
}

fn nanos(elapsed: Duration) -> Nanos {
    Nanos::try_from(elapsed.as_nanos()).unwrap_or(Nanos::MAX)
}

pub(crate) fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}
