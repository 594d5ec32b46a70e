//! What must hold. The ledger follows each message by what the model of AWS sees, never by what its envelope says.

use std::cmp::Reverse;
use std::collections::HashMap;

use frigg_core::delivery::{AttributeValue, Delivery, MessageAttribute};

use frigg_worker::gate::Pace;

use crate::scenario::{FOREIGN, JobSpec, Platform, QueueSpec, Step};
use crate::world::{
    Entry, Lineage, Nanos, SECOND, State, bytes, deferrals, job_of, message_id, parse_handle, retry_at,
};

/// What the handler's message type does not decode.
pub(crate) const UNREADABLE: &str = "\"unreadable\"";
/// How far the runtime's own times (when it planned, after its look-ups) may be from the model's.
const SLACK: Nanos = 120 * SECOND;
/// What the ladder, or an hour for a daily limit, adds where the provider told no time.
const UNTOLD: Nanos = 3_700 * SECOND;
/// What a repeated deferral is spread over.
const SPREAD: Nanos = 900 * SECOND;
/// In what time a closure is known to who asks; longer than a worker leaves a store alone that failed.
const KNOWN: Nanos = 10 * SECOND;
/// More than an envelope takes.
const ENVELOPE: usize = 250;
/// The longest visibility extension.
const MAX_HOLD: u32 = 42_000;

/// A message of a sender's, and what became of it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) sent_at: Nanos,
    pub(crate) sent: bool,
    /// As it is sent, and without its `_frigg`, which no handler sees.
    pub(crate) raw: String,
    pub(crate) body: String,
    pub(crate) attributes: HashMap<String, MessageAttribute>,
    pub(crate) trace: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) key: Option<&'static str>,
    pub(crate) steps: Vec<Step>,
    pub(crate) runs: usize,
    pub(crate) done: u32,
    pub(crate) dead: u32,
    pub(crate) discarded: u32,
    /// It expired, as it had to.
    pub(crate) expired: u32,
    /// What may have doubled it.
    pub(crate) faults: u32,
}

/// What a handler came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// It was not called.
    None,
    Active,
    Done,
    /// The provider's time; now, where it told none.
    Limited(Nanos),
    Failed,
    Permanent,
}

/// A message in the hands of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Receive {
    pub(crate) process: usize,
    pub(crate) entry: u64,
    pub(crate) receive: u32,
    pub(crate) job: usize,
    pub(crate) run: Run,
    pub(crate) lineage: Lineage,
    pub(crate) received_at: Nanos,
    pub(crate) first_received_at: Nanos,
    /// When its run ended.
    pub(crate) ended_at: Option<Nanos>,
    /// Copies that carry it on, and copies in the dead-letter queue.
    pub(crate) copies: u32,
    pub(crate) buried: u32,
    /// It is hidden until its time, by this receive.
    pub(crate) settled: bool,
    /// A fault touched it: what failed may have made the runtime take the lesser way.
    pub(crate) excused: bool,
}

impl Job {
    pub(crate) fn new(spec: &JobSpec) -> Job {
        let mut attributes = HashMap::new();
        if spec.attributes {
            let text = |data_type: &str, value: &str| MessageAttribute {
                data_type: data_type.to_owned(),
                value: AttributeValue::Text(value.to_owned()),
            };
            attributes.insert("tenant".to_owned(), text("String", "a<b> ü"));
            attributes.insert("n".to_owned(), text("Number.int", "007"));
            let bytes = MessageAttribute {
                data_type: "Binary".to_owned(),
                value: AttributeValue::Binary(vec![0, 255, b'<']),
            };
            attributes.insert("bytes".to_owned(), bytes);
        }
        Job {
            sent_at: spec.sent_at.cast_signed() * crate::world::MS,
            sent: false,
            raw: spec.body.clone(),
            body: spec.body.replace(FOREIGN, ""),
            attributes,
            trace: spec
                .trace
                .then(|| "Root=1-5759e988-bd862e3fe1be46a994272793".to_owned()),
            group: spec.group.clone(),
            key: spec.key,
            steps: spec.steps.clone(),
            runs: 0,
            done: 0,
            dead: 0,
            discarded: 0,
            expired: 0,
            faults: 0,
        }
    }

    /// The handler cannot decode it.
    fn is_unreadable(&self) -> bool {
        self.body.contains(UNREADABLE)
    }

    /// With an envelope it does not fit its queue: all that is left is to hide it.
    fn is_too_large(&self, queue: &QueueSpec) -> bool {
        bytes(&self.raw, &self.attributes) + ENVELOPE > queue.max_bytes
    }

    fn is_settled(&self) -> bool {
        self.done + self.dead + self.discarded + self.expired > 0
    }
}

impl Receive {
    pub(crate) fn of(entry: &Entry, process: usize) -> Receive {
        Receive {
            process,
            entry: entry.id,
            receive: entry.receives,
            job: entry.job,
            run: Run::None,
            lineage: entry.lineage,
            received_at: entry.received_at,
            first_received_at: entry.first_received_at.unwrap_or(entry.received_at),
            ended_at: entry.ended_at,
            copies: 0,
            buried: 0,
            settled: false,
            excused: false,
        }
    }
}

impl State {
    /// The handler is called. Gives what it has to do.
    pub(crate) fn begin(&mut self, process: usize, body: &str, delivery: &Delivery) -> Option<Step> {
        let count = delivery.receive_count.unwrap_or(0);
        let index = self.receives.iter().position(|r| {
            r.process == process && r.receive == count && message_id(r.entry) == delivery.message_id
        })?;
        let now = self.now;
        let job = self.receives[index].job;
        self.runs += 1;
        self.note(|| {
            format!(
                "process {process} handles message {} of job {job}",
                delivery.message_id
            )
        });
        if now < self.receives[index].lineage.not_before {
            self.receives[index].lineage = self.swapped(job, now, self.receives[index].lineage);
        }
        let not_before = self.receives[index].lineage.not_before;
        if now < not_before {
            let early = (not_before - now) as f64 / SECOND as f64;
            self.violate(|| format!("early: job {job} runs {early:.3} s before the provider's time"));
        }
        self.is_open(process, job, self.receives[index].received_at);
        if job_of(body) != Some(job) || body != self.jobs[job].body {
            self.violate(|| format!("changed: job {job} has the body {body:?}"));
        }
        let of = &self.jobs[job];
        let same = delivery.message_attributes == of.attributes
            && delivery.attributes.get("AWSTraceHeader") == of.trace.as_ref()
            && delivery.group_id == of.group;
        if !same {
            self.violate(|| {
                format!("changed: job {job} lost an attribute, its trace or its group: {delivery:?}")
            });
        }
        // One that could not be kept hidden is somebody else's by now, and its order with it.
        if self.scenario.queue.fifo && !self.receives[index].excused {
            self.in_order(job, index);
        }
        self.receives[index].run = Run::Active;
        let entry = self.receives[index].entry;
        if let Some(entry) = self.entries.iter_mut().find(|e| e.id == entry) {
            entry.last = Run::Active;
        }
        let step = self.jobs[job].steps.get(self.jobs[job].runs).copied();
        self.jobs[job].runs += 1;
        Some(step.unwrap_or(Step::Work(0)))
    }

    /// Where the gate was closed when the message was received, its handler is not called.
    fn is_open(&mut self, process: usize, job: usize, received_at: Nanos) {
        let Some(key) = self.jobs[job].key.filter(|_| self.scenario.gate.is_some()) else {
            return;
        };
        // A process that the store does not answer meets limits by itself.
        let asked = self.processes[process]
            .gate_failed_at
            .is_none_or(|at| at + KNOWN < received_at);
        let now = self.now;
        let closed = self.closures.get(key).into_iter().flatten();
        let mut closed = closed.filter(|closed| closed.until > now && closed.since + KNOWN < received_at);
        if asked && let Some(until) = closed.next().map(|closed| closed.until) {
            let ahead = (until - now) as f64 / SECOND as f64;
            self.violate(|| format!("closed: job {job} runs though {key:?} is closed for {ahead:.3} s more"));
        }
    }

    /// Whether a message may go back without a run.
    fn may_be_gated(&self, job: usize) -> bool {
        let Some((gate, key)) = self.scenario.gate.zip(self.jobs[job].key) else {
            return false;
        };
        self.limited.contains_key(key) || gate.pace == Pace::Shared
    }

    fn in_order(&mut self, job: usize, index: usize) {
        let of = &self.jobs[job];
        let no_dead_letters = self.scenario.queue.max_receives.is_none();
        let dropped = |job| {
            self.receives
                .iter()
                .any(|r| r.job == job && r.run == Run::Permanent)
        };
        let before = |(i, other): &(usize, &Job)| {
            // Senders send in the order of their times, and of their numbers.
            let first = other.group == of.group && (other.sent_at, *i) < (of.sent_at, job);
            first && !other.is_settled() && !(no_dead_letters && dropped(*i))
        };
        let group = of.group.clone();
        let overtaken = self.jobs.iter().enumerate().find(before).map(|(i, _)| i);
        if let Some(other) = overtaken {
            self.violate(|| format!("order: job {job} runs before job {other} of its group is done"));
        }
        let beside = self.receives.iter().enumerate().any(|(i, r)| {
            i != index && r.run == Run::Active && !r.excused && self.jobs[r.job].group == group
        });
        if beside {
            self.violate(|| format!("order: job {job} runs beside another one of its group"));
        }
    }

    /// The handler came to an end, or was dropped.
    pub(crate) fn end(&mut self, process: usize, entry: u64, receive: u32, run: Run) {
        self.note(|| format!("process {process} is through with message {entry}: {run:?}"));
        let now = self.now;
        let held = |r: &&mut Receive| r.process == process && r.entry == entry && r.receive == receive;
        let Some(found) = self.receives.iter_mut().find(held) else {
            return;
        };
        found.run = run;
        found.ended_at = Some(now);
        let job = found.job;
        if run == Run::Done {
            self.jobs[job].done += 1;
        }
        if let (Run::Limited(told), Some(key)) = (run, self.jobs[job].key) {
            let until = if told <= now + SECOND { now + UNTOLD } else { told };
            let limited = self.limited.entry(key).or_default();
            *limited = until.max(*limited);
        }
        if let Some(entry) = self
            .entries
            .iter_mut()
            .find(|e| e.id == entry && e.receives == receive)
        {
            entry.last = run;
            entry.ended_at = Some(now);
        }
    }

    /// A worker sends a copy, or has one sent at `at`. Gives the lineage of the copy.
    /// Where a slot is waited for, it may be there earlier by `slack`.
    pub(crate) fn copied(
        &mut self,
        process: usize,
        job: usize,
        at: Nanos,
        hop: bool,
        slack: Nanos,
        text: &str,
    ) -> Lineage {
        let now = self.now;
        let (gated, slack) = (
            self.may_be_gated(job),
            if self.scenario.gate.is_some() { slack } else { 0 },
        );
        let reason = |r: &Receive| match r.run {
            Run::Limited(told) => {
                let (most, since) = self.most(r);
                Some(Lineage {
                    not_before: told,
                    deferrals: r.lineage.deferrals + r.lineage.holds + 1,
                    first_deferred_at: r.lineage.first_deferred_at.or(Some(now)),
                    holds: 0,
                    most,
                    since: Some(since),
                })
            }
            // Not let in: no deferral. Or early; or told no time, or spread: only the runtime knows until when.
            Run::None if gated || r.lineage.deferrals > 0 && now < r.lineage.not_before + UNTOLD + SPREAD => {
                let (most, since) = self.most(r);
                Some(Lineage {
                    deferrals: r.lineage.deferrals + r.lineage.holds,
                    first_deferred_at: r.lineage.first_deferred_at.or(Some(now)),
                    holds: 0,
                    most: if gated { most - 1 } else { r.lineage.most },
                    since: Some(since),
                    ..r.lineage
                })
            }
            _ => None,
        };
        let candidates = self.receives.iter().enumerate();
        // Of several receives of one message, the one that this copy fits best. Its envelope may help to tell them
        // apart, and is not believed any further.
        let fit = retry_at(text).unwrap_or(at);
        let misfit = |need: Nanos| (fit - need).abs();
        let found = candidates
            .filter(|(_, r)| r.process == process && r.job == job)
            .filter_map(|(i, r)| Some((i, r.copies, reason(r)?)))
            .min_by_key(|(i, copies, lineage)| (*copies, misfit(lineage.not_before), Reverse(*i)));
        let Some((index, _, lineage)) = found else {
            self.violate(|| format!("doubled: a copy of job {job}, which nothing limited"));
            return Lineage::default();
        };
        let lineage = if at + slack < lineage.not_before && !hop {
            self.swapped(job, at, lineage)
        } else {
            lineage
        };
        let need = lineage.not_before;
        if self.scenario.queue.fifo {
            self.violate(|| format!("order: a copy of job {job} on a FIFO queue"));
        }
        let counted = deferrals(text);
        if !(lineage.deferrals..=lineage.most).contains(&counted) && self.jobs[job].faults == 0 {
            self.violate(|| {
                format!("counted: job {job} has {counted} deferrals in its envelope: {lineage:?}")
            });
        }
        if at + slack < need && !hop {
            let early = (need - at) as f64 / SECOND as f64;
            self.violate(|| format!("early: a copy of job {job} {early:.3} s before the provider's time"));
        }
        let limits = self.scenario.limits;
        let deferred = need - lineage.first_deferred_at.unwrap_or(now);
        if lineage.deferrals > limits.max_deferrals
            || deferred > limits.max_deferred.as_nanos() as Nanos + SLACK
        {
            self.violate(|| format!("caps: job {job} is put back past a cap: {lineage:?}"));
        }
        self.receives[index].copies += 1;
        lineage
    }

    /// Where a message was doubled, the model may have taken one copy for the other when it passed a process that held
    /// both: this one is the other one then, and that one this.
    fn swapped(&mut self, job: usize, at: Nanos, lineage: Lineage) -> Lineage {
        let entries = self
            .entries
            .iter_mut()
            .filter(|e| e.job == job)
            .map(|e| &mut e.lineage);
        let planned = self
            .planned
            .iter_mut()
            .filter(|p| p.job == job)
            .map(|p| &mut p.lineage);
        let held = self
            .receives
            .iter_mut()
            .filter(|r| r.job == job)
            .map(|r| &mut r.lineage);
        let mut others = entries.chain(planned).chain(held);
        match others.find(|other| other.deferrals > 0 && other.not_before <= at) {
            Some(other) => std::mem::replace(other, lineage),
            None => lineage,
        }
    }

    /// A worker changes a message's visibility.
    pub(crate) fn hidden(&mut self, process: usize, handle: &str, seconds: u32) {
        let Some((id, receive)) = parse_handle(handle) else {
            return;
        };
        let (now, queue) = (self.now, self.scenario.queue);
        let held = |r: &&Receive| r.process == process && r.entry == id && r.receive == receive;
        let Some(found) = self.receives.iter().find(held).cloned() else {
            return;
        };
        if matches!(self.scenario.platform, Platform::Poll { .. }) && seconds == queue.visibility {
            // Kept hidden by its worker.
            return;
        }
        let end = now + Nanos::from(seconds) * SECOND;
        let slack = if self.scenario.gate.is_some() { SECOND } else { 0 };
        if found.run == Run::None && (found.lineage.deferrals > 0 || self.may_be_gated(found.job)) {
            self.settle(id, receive);
        }
        let need = match found.run {
            Run::Limited(told) => told,
            Run::None if found.lineage.not_before > now => found.lineage.not_before,
            // Kept hidden while it is worked on.
            _ => return,
        };
        let past_cap = self.past_cap(&found, need, SLACK);
        let too_large = self.jobs[found.job].is_too_large(&queue);
        let longest_delay = self.scenario.max_delay.as_nanos() as Nanos;
        self.settle(id, receive);
        let Some(entry) = self.entries.iter_mut().find(|e| e.id == id) else {
            return;
        };
        let expires = entry.sent_at + queue.retention.cast_signed() * SECOND;
        let as_long_as_possible = seconds >= MAX_HOLD || end + 65 * SECOND >= expires;
        let lesser = found.excused || ((queue.fifo || too_large) && as_long_as_possible);
        // Its envelope goes on saying until when, if it has one.
        if found.run != Run::None {
            entry.lineage.not_before = need.min(end);
            entry.lineage.first_deferred_at.get_or_insert(now);
            // Where no copy could be sent, it may have been hidden for less: nobody can tell that from a failure.
            entry.lineage.holds += u32::from(Nanos::from(seconds) * SECOND > longest_delay);
        }
        let job = found.job;
        let need = match found.run {
            Run::None if end + slack < need && !lesser => {
                let lineage = self.swapped(job, end, found.lineage);
                if let Some(entry) = self.entries.iter_mut().find(|e| e.id == id) {
                    entry.lineage = lineage;
                }
                lineage.not_before
            }
            _ => need,
        };
        if end + slack < need && !lesser {
            let early = (need - end) as f64 / SECOND as f64;
            self.violate(|| {
                format!("early: job {job} is hidden until {early:.3} s before the provider's time")
            });
        }
        if found.run != Run::None && past_cap {
            self.violate(|| format!("caps: job {job} is hidden past a cap"));
        }
    }

    fn settle(&mut self, entry: u64, receive: u32) {
        for held in self
            .receives
            .iter_mut()
            .filter(|r| r.entry == entry && r.receive == receive)
        {
            held.settled = true;
        }
    }

    /// The most that this deferral may count as, and since when. Each receive may be one more for what it looks like:
    /// one that came so long after the first.
    fn most(&self, receive: &Receive) -> (u32, Nanos) {
        let (now, scenario, lineage) = (self.now, &self.scenario, &receive.lineage);
        let shortest_hold = scenario.max_delay.as_secs().min(scenario.queue.retention / 2);
        let shortest_hold = shortest_hold.cast_signed() * SECOND;
        let fit = (now - receive.first_received_at) / shortest_hold;
        let holds = (receive.receive - 1).min(fit as u32).max(lineage.holds);
        let ended_at = receive.ended_at.unwrap_or(now);
        let first = if holds > 0 {
            receive.first_received_at
        } else {
            ended_at
        };
        (lineage.most + holds + 1, lineage.since.unwrap_or(first))
    }

    /// Whether this deferral is past a cap, by more than `slack`.
    fn past_cap(&self, receive: &Receive, told: Nanos, slack: Nanos) -> bool {
        let limits = self.scenario.limits;
        let lineage = &receive.lineage;
        let (count, first) = if self.scenario.queue.fifo {
            (receive.receive, receive.first_received_at)
        } else if slack < 0 {
            self.most(receive)
        } else {
            let first = lineage.first_deferred_at.or(receive.ended_at).unwrap_or(self.now);
            (lineage.deferrals + lineage.holds + 1, first)
        };
        count > limits.max_deferrals || told - first > limits.max_deferred.as_nanos() as Nanos + slack
    }

    /// Whether the runtime may say that it is.
    fn may_be_capped(&self, receive: &Receive) -> bool {
        let key = self.jobs[receive.job]
            .key
            .filter(|_| self.may_be_gated(receive.job));
        let told = match receive.run {
            Run::Limited(told) => told,
            Run::None => match key.and_then(|key| self.limited.get(key)) {
                Some(until) => *until,
                None => return false,
            },
            _ => return false,
        };
        let untold = if told <= self.now + SECOND { UNTOLD } else { 0 };
        self.past_cap(receive, told + untold, -SLACK)
    }

    /// A worker, or Lambda for it, deletes a message.
    pub(crate) fn acked(&mut self, process: usize, entry: u64, receive: u32) {
        let held = |r: &Receive| r.process == process && r.entry == entry && r.receive == receive;
        let Some(index) = self.receives.iter().position(held) else {
            return;
        };
        let mut found = self.receives.remove(index);
        let job = found.job;
        let no_dead_letters = self.scenario.queue.max_receives.is_none();
        let kept = |r: &Receive| match r.run {
            Run::Done => true,
            Run::Permanent => r.buried > 0 || no_dead_letters,
            Run::Limited(_) | Run::None => r.copies + r.buried > 0,
            Run::Failed | Run::Active => false,
        };
        if !kept(&found) {
            // Of two receives of one message in one process, nobody knows which one a copy was of.
            let twin = |r: &&mut Receive| r.process == process && r.job == job && r.copies + r.buried > 0;
            if let Some(twin) = self.receives.iter_mut().find(twin) {
                (found.copies, found.buried) = (twin.copies, twin.buried);
                (twin.copies, twin.buried) = (0, 0);
            }
        }
        if found.run == Run::Done {
            // It needed no copy: it was the other one's, of the same message in the same process.
            let twin = self
                .receives
                .iter_mut()
                .find(|r| r.process == process && r.job == job);
            if let Some(twin) = twin {
                twin.copies += found.copies;
                twin.buried += found.buried;
            }
        }
        if found.run == Run::Permanent && no_dead_letters {
            self.jobs[job].discarded += 1;
        }
        let kept = kept(&found);
        if !kept {
            self.violate(|| {
                format!(
                    "lost: job {job} is acknowledged after {:?}, and nothing carries it",
                    found.run
                )
            });
        }
    }

    /// A worker sends a copy to the dead-letter queue.
    pub(crate) fn buried(&mut self, process: usize, job: usize, reason: &str, body: &str) {
        let allowed = |r: &Receive| match reason {
            "permanent" => r.run == Run::Permanent,
            "unreadable" => self.jobs[r.job].is_unreadable(),
            "deferral_capped" => self.may_be_capped(r),
            _ => false,
        };
        let found = self
            .receives
            .iter()
            .rposition(|r| r.process == process && r.job == job && r.buried == 0 && allowed(r));
        self.note(|| format!("job {job} goes to the dead-letter queue: {reason}"));
        match found {
            Some(index) => self.receives[index].buried += 1,
            None => self.violate(|| format!("dead: job {job} is buried as {reason:?}, which it is not")),
        }
        if self.jobs[job].body != body {
            self.violate(|| format!("changed: job {job} is buried with the body {body:?}"));
        }
        self.jobs[job].dead += 1;
    }

    /// Moves to the dead-letter queue what was received too often.
    pub(crate) fn redrive(&mut self) {
        let Some(most) = self.scenario.queue.max_receives else {
            return;
        };
        let now = self.now;
        while let Some(index) = self
            .entries
            .iter()
            .position(|e| e.visible_at <= now && e.receives >= most)
        {
            let entry = self.entries.remove(index);
            self.note(|| {
                format!(
                    "message {} of job {} is received too often, and dead",
                    entry.id, entry.job
                )
            });
            self.gone(&entry, "dead");
        }
    }

    /// SQS itself took a message away. A deferral must not have led there.
    pub(crate) fn gone(&mut self, entry: &Entry, how: &str) {
        let job = entry.job;
        let deferred = match entry.last {
            Run::Limited(told) => {
                let mut as_received = Receive::of(entry, 0);
                as_received.run = Run::Limited(told);
                !self.may_be_capped(&as_received)
            }
            // Delayed for longer than the queue keeps it.
            Run::None if entry.receives == 0 => entry.visible_at > self.now,
            Run::None => !self.jobs[job].is_unreadable() && !self.may_be_capped(&Receive::of(entry, 0)),
            _ => false,
        };
        // It is acknowledged, and its worker has not deleted it yet.
        let carried = self.receives.iter().any(|r| r.entry == entry.id && r.copies > 0);
        let deferred = deferred && !carried;
        let no_other_way = self.scenario.queue.fifo || self.jobs[job].is_too_large(&self.scenario.queue);
        if deferred && !entry.excused && !no_other_way {
            self.violate(|| format!("lost: a deferral made message {} of job {job} {how}", entry.id));
        }
        if how == "dead" {
            self.jobs[job].dead += 1;
        } else {
            // Deleted for its age, be it in the hands of a worker: its FIFO group goes on.
            self.excuse(entry.id);
            self.jobs[job].expired += 1;
        }
    }

    /// The message is given out; nobody may be at work on it.
    pub(crate) fn overtaken(&mut self, entry: u64) {
        let fifo = self.scenario.queue.fifo;
        let mut busy = None;
        for held in self.receives.iter().filter(|r| r.entry == entry && !r.excused) {
            let waiting = held.run == Run::None
                && !fifo
                && held.lineage.deferrals == 0
                && !held.settled
                && !self.may_be_capped(held);
            if waiting || matches!(held.run, Run::Active | Run::Done) {
                busy = Some((held.job, held.process));
            }
        }
        if let Some((job, process)) = busy {
            self.violate(|| {
                format!("doubled: job {job} is given out again while process {process} works on it")
            });
        }
        let is_over = |r: &Receive| !r.excused || r.settled || r.run == Run::Failed || self.may_be_capped(r);
        let over = |(i, r): (usize, &Receive)| (r.entry == entry && is_over(r)).then_some(i);
        let over: Vec<usize> = self.receives.iter().enumerate().filter_map(over).collect();
        for index in over.into_iter().rev() {
            self.receives.remove(index);
        }
    }

    /// A fault touched this message.
    pub(crate) fn excuse(&mut self, entry: u64) {
        for held in self.receives.iter_mut().filter(|r| r.entry == entry) {
            held.excused = true;
        }
        if let Some(entry) = self.entries.iter_mut().find(|e| e.id == entry) {
            entry.excused = true;
        }
    }

    /// A fault touched what this process holds of these jobs.
    pub(crate) fn excuse_jobs(&mut self, process: usize, jobs: &[usize]) {
        let held = self
            .receives
            .iter()
            .filter(|r| r.process == process && jobs.contains(&r.job));
        let entries: Vec<u64> = held.map(|r| r.entry).collect();
        entries.into_iter().for_each(|entry| self.excuse(entry));
    }

    /// All is over: every message is done, dead with a reason, or still on its way; and none too often.
    pub(crate) fn close(&mut self) {
        let long_ago = self.now - 24 * 3600 * SECOND;
        if let Some(entry) = self.entries.iter().find(|e| e.visible_at < long_ago) {
            let (id, job) = (entry.id, entry.job);
            self.violate(|| format!("stuck: message {id} of job {job} waits, and nobody takes it"));
        }
        for job in 0..self.jobs.len() {
            let live = self.entries.iter().filter(|e| e.job == job).count()
                + self.planned.iter().filter(|p| p.job == job).count();
            let of = &self.jobs[job];
            let (done, dead, discarded, faults) = (of.done, of.dead, of.discarded, of.faults);
            if of.sent && !of.is_settled() && live == 0 {
                self.violate(|| format!("lost: job {job} is nowhere"));
            }
            let ends = done + dead + discarded + live as u32;
            if ends > 1 + faults {
                self.violate(|| {
                    format!(
                        "doubled: job {job} is done {done} times, dead {dead} times, discarded {discarded} times and \
                         still there {live} times, after {faults} faults"
                    )
                });
            }
        }
    }
}
