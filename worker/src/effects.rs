//! Carries decisions out: grouped AWS calls first, then state, log and verdict.
//!
//! What fails goes down to the next tier, and to [`Verdict::Fail`] when none is left; never to [`Verdict::Ack`].

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use frigg_core::deferral::{
    Burial, Capabilities, Capped, DeadLetters, Deferral, MIN_SCHEDULE_AHEAD, Options, Tier, degrade, tier,
};
use frigg_core::delivery::QueueArn;
use frigg_core::rate_limit::Limit;
use frigg_core::time;
use futures_util::future::{BoxFuture, join, join4};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use tracing::Level;

use crate::book::{Book, Verdict};
use crate::clock::Clock;
use crate::config::Scheduling;
use crate::dead_letter;
use crate::door::Doorkeeper;
use crate::error::{BoxError, HandlerError};
use crate::groups::ENTRIES;
use crate::ports::{
    CallError, CallErrorKind, QueueAttributes, ScheduleRequest, ScheduleTarget, Scheduler, SendRequest, Sqs,
    VisibilityRequest,
};
use crate::queues::Queues;
use crate::record::Record;
use crate::report::Line;
use crate::rest::Rest;
use crate::run_state::{Mechanism, RunState, State, Status, integration_id};
use crate::warnings::{Warning, Warnings, is_news, links};

/// State writes, and single sends of a refused batch, that are under way at once.
const AT_ONCE: usize = 8;
/// SQS's limit on one message and on the sum of a batch.
const MAX_BYTES: usize = 1 << 20;
/// Less than [`SHORT_WAIT`](frigg_core::gate::SHORT_WAIT), which is the longest wait in the process.
const EARLY: SignedDuration = SignedDuration::from_millis(999);
const SCHEDULES_ARE_LATE: SignedDuration = SignedDuration::from_secs(60);
/// EventBridge Scheduler's limit on a target's input.
const MAX_SCHEDULE_INPUT: usize = 256 * 1024;

/// A record to put back.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) record: Record,
    pub(crate) deferral: Deferral,
    pub(crate) can: Capabilities,
    /// Why; `None` for a record that came before its time.
    pub(crate) cause: Option<(HandlerError, Limit)>,
    /// The ways that were tried.
    failed: Vec<(Tier, CallError)>,
    /// Set when SQS found a visibility extension too long.
    max_visibility: Option<u32>,
    /// Its handler was not called.
    gated: bool,
    /// It has a slot, exact to the millisecond: it may be back a little before that and wait in the process.
    in_slot: bool,
}

impl Pending {
    pub(crate) fn new(
        record: Record,
        deferral: Deferral,
        can: Capabilities,
        cause: Option<(HandlerError, Limit)>,
    ) -> Self {
        Pending {
            record,
            deferral,
            can,
            cause,
            failed: Vec::new(),
            max_visibility: None,
            gated: false,
            in_slot: false,
        }
    }

    pub(crate) fn gated(self) -> Self {
        Pending { gated: true, ..self }
    }

    /// For one that waits on: its time is a slot where there is a gate.
    pub(crate) fn waits_on(self, in_slot: bool) -> Self {
        Pending { in_slot, ..self }
    }

    pub(crate) fn in_slot(self, deferral: Deferral) -> Self {
        Pending {
            deferral,
            in_slot: true,
            ..self
        }
    }

    fn tier(&self, now: Timestamp, options: &Options) -> Option<Tier> {
        let (delivery, at) = (&self.record.delivery, self.deferral.retry_at);
        if !self.in_slot {
            return tier(now, at, delivery, options, self.can);
        }
        // The whole second before it rather than the one after it, which would add up; and no receive is spent on a slot
        // that is far away.
        let at = at.checked_sub(EARLY).unwrap_or(at);
        let mut options = options.clone();
        options.relay = true;
        match tier(now, at, delivery, &options, self.can) {
            // The scheduler may be late by a minute: it comes before that, and a delay brings it for the rest.
            Some(Tier::Schedule { at }) => {
                let at = at.checked_sub(SCHEDULES_ARE_LATE).unwrap_or(at);
                Some(Tier::Schedule { at })
            }
            other => other,
        }
    }

    fn line(&self, now: Timestamp) -> Line {
        let line = match &self.cause {
            Some((error, limit)) => Line::of_limit(error, limit, self.record.body.text()),
            None => Line::default(),
        };
        line.with_time(now, self.deferral.retry_at, &self.deferral.counters)
    }
}

/// How a record was put back.
enum Done {
    Delay(u32),
    Schedule(String),
    Visibility(u32),
}

/// What the effects need of the worker.
#[derive(Debug)]
pub(crate) struct Effects {
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) sqs: Arc<dyn Sqs>,
    pub(crate) scheduler: Arc<dyn Scheduler>,
    pub(crate) scheduling: Option<Scheduling>,
    pub(crate) queues: Queues,
    /// Whether the schedule tier rests, after it failed too often.
    pub(crate) rest: Rest,
    pub(crate) run_state: Option<Arc<dyn RunState>>,
    pub(crate) keeper: Option<Arc<Doorkeeper>>,
    /// How many calls that put records back are under way at once, in all batches of the process.
    pub(crate) calls_at_once: usize,
    pub(crate) calls: Semaphore,
    pub(crate) warnings: Option<Warnings>,
}

impl Effects {
    /// What can be done for a record as far as it is known without asking its queue.
    pub(crate) fn capabilities_untold(&self, record: &Record) -> Capabilities {
        // A body that Frigg cannot stamp can only be hidden there.
        let can_copy = !self.options.is_frigg() || record.body.is_object();
        Capabilities {
            delay: can_copy,
            schedule: can_copy && self.scheduling.is_some() && !self.rest.is_on(self.clock.now()),
            visibility: record.receipt_handle.is_some(),
            retention: None,
            dead_letters: DeadLetters::Unknown,
        }
    }

    /// What can be done for a record. Asks its queue, once per process, for what the environment does not say: from
    /// then on the record knows its last attempt.
    pub(crate) async fn capabilities(&self, record: &mut Record) -> Capabilities {
        let untold = self.capabilities_untold(record);
        let queue = self.know_queue(record).await;
        Capabilities {
            retention: queue.as_ref().and_then(|queue| queue.retention),
            dead_letters: match queue {
                None => DeadLetters::Unknown,
                Some(queue) if queue.dead_letter_arn.is_some() => DeadLetters::Present,
                Some(_) => DeadLetters::Absent,
            },
            ..untold
        }
    }

    /// What the record's queue says of itself; Frigg does not ask. The variable wins over the redrive policy.
    pub(crate) async fn know_queue(&self, record: &mut Record) -> Option<Arc<QueueAttributes>> {
        let queue = record
            .delivery
            .queue_arn
            .as_ref()
            .filter(|_| !self.options.is_frigg())?;
        let attributes = self.queues.attributes(&*self.sqs, queue, &self.options).await?;
        if self.options.max_receive_count.is_none() && attributes.max_receive_count.is_some() {
            // Only this batch holds it by now, so this copies nothing.
            Arc::make_mut(&mut record.delivery).max_receive_count = attributes.max_receive_count;
        }
        Some(attributes)
    }

    /// Sends a copy to the dead-letter queue, with the reason; the record is acknowledged once that is confirmed.
    pub(crate) async fn bury(
        &self,
        record: &Record,
        burial: &Burial,
        error: &HandlerError,
        limit: Option<&Limit>,
    ) -> Verdict {
        let body = record.body.text();
        let line = match limit {
            Some(limit) => Line::of_limit(error, limit, body),
            None => Line::of_error(error, body),
        };
        let line = match (burial, limit) {
            (Burial::Capped(capped), Some(limit)) => self.capped(record, limit, line, capped).await,
            _ => line,
        };
        match self.send_dead_letter(record, burial, error).await {
            Ok(queue) => {
                let event = match burial {
                    Burial::Permanent => "record_halted",
                    Burial::Unreadable => "record_dead_lettered",
                    Burial::Capped(_) => "record_lost_rate_limited",
                };
                let line = line.with_dead_letter_queue(&queue);
                record.span.in_scope(|| line.write(Level::ERROR, event));
                Verdict::Ack
            }
            Err((queue, error)) => {
                let line = line
                    .with_dead_letter_queue(&queue)
                    .with_skip("dead_letter_failed", Some(error.to_string()));
                record
                    .span
                    .in_scope(|| line.write(Level::ERROR, "dead_letter_failed"));
                Verdict::Fail
            }
        }
    }

    async fn send_dead_letter(
        &self,
        record: &Record,
        burial: &Burial,
        error: &HandlerError,
    ) -> Result<String, (String, CallError)> {
        let unknown = || {
            (
                String::new(),
                CallError::new(CallErrorKind::Refused, None, "no dead-letter queue is known"),
            )
        };
        let queue = record.delivery.queue_arn.as_ref().ok_or_else(unknown)?;
        let attributes = self
            .queues
            .attributes(&*self.sqs, queue, &self.options)
            .await
            .ok_or_else(unknown)?;
        let target = attributes
            .dead_letter_arn
            .as_deref()
            .and_then(QueueArn::parse)
            .ok_or_else(unknown)?;
        let copy = dead_letter::copy(record, burial, error, &target);
        let sent = async {
            self.sqs
                .send(&self.queues.url(&*self.sqs, &target).await?, &copy)
                .await
        };
        let name = target.name().to_owned();
        match sent.await {
            Ok(_) => Ok(name),
            Err(error) => Err((name, error)),
        }
    }

    /// State and figures of a record past a cap.
    pub(crate) async fn capped(&self, record: &Record, limit: &Limit, line: Line, capped: &Capped) -> Line {
        let (counters, retry_at) = (&capped.counters, capped.retry_at);
        let (status, mechanism) = (Status::Exhausted, Mechanism::None);
        self.record_state(record, limit, retry_at, counters.deferrals, status, mechanism)
            .await;
        let deferred = time::wait(counters.first_deferred_at, retry_at);
        line.with_time(self.clock.now(), retry_at, counters)
            .with_caps(&self.options.limits, deferred)
    }

    /// Puts a group of records back when its turn comes: the way and the delay are chosen then.
    pub(crate) async fn put_back(&self, group: Vec<Pending>, book: &Book) {
        let calls = match group.first().map(|one| one.deferral.tier) {
            Some(Tier::Schedule { .. }) => group.len().min(self.calls_at_once),
            _ => 1,
        };
        // It is never closed.
        let _turn = self.calls.acquire_many(u32::try_from(calls).unwrap_or(1)).await;
        self.apply(group, book).await;
    }

    /// Puts the records back, each by the best way that works, and decides about each as soon as its call is answered:
    /// one that hangs keeps no other from its verdict.
    fn apply<'a>(&'a self, pending: Vec<Pending>, book: &'a Book) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let now = self.clock.now();
            let resting = self.rest.is_on(now);
            let (mut delayed, mut scheduled, mut hidden, mut stuck) = (vec![], vec![], vec![], vec![]);
            for mut one in pending {
                one.can.schedule &= !resting;
                match one.tier(now, &self.options) {
                    Some(tier @ Tier::Delay { .. }) => delayed.push((one, tier)),
                    Some(tier @ Tier::Schedule { .. }) => scheduled.push((one, tier)),
                    Some(Tier::Visibility { seconds }) => {
                        let seconds = one.max_visibility.map_or(seconds, |max| seconds.min(max));
                        hidden.push((one, Tier::Visibility { seconds }));
                    }
                    None => stuck.push((one, None)),
                }
            }
            join4(
                self.send_delayed(delayed, book),
                self.create_schedules(scheduled, book),
                self.hide(hidden, book),
                self.finish_all(stuck, book),
            )
            .await;
        })
    }

    /// Ends the records that are back; the others go on to their next way.
    async fn settle(&self, outcomes: Vec<Outcome>, book: &Book) {
        let (mut finished, mut open) = (vec![], vec![]);
        for (mut one, tier, result) in outcomes {
            match result {
                Ok(done) => finished.push((one, Some(done))),
                Err(error) => {
                    // A lost handle means that the message is somebody else's by now: a copy would double it.
                    let lost = error.kind == CallErrorKind::HandleLost;
                    let shorter = one.shorter_visibility(tier, &error);
                    one.failed.push((tier, error));
                    if shorter.is_some() {
                        open.push(Pending {
                            max_visibility: shorter,
                            ..one
                        });
                        continue;
                    }
                    match degrade(one.can, tier, &self.options).filter(|_| !lost) {
                        Some(can) => open.push(Pending { can, ..one }),
                        None => finished.push((one, None)),
                    }
                }
            }
        }
        let finish = self.finish_all(finished, book);
        if open.is_empty() {
            finish.await;
        } else {
            let go_on = async {
                for one in &mut open {
                    // What a copy did not need to know.
                    one.can.retention = self.capabilities(&mut one.record).await.retention;
                }
                self.apply(open, book).await;
            };
            join(finish, go_on).await;
        }
    }

    async fn finish_all(&self, finished: Vec<(Pending, Option<Done>)>, book: &Book) {
        stream::iter(finished)
            .for_each_concurrent(AT_ONCE, |(one, done)| async move {
                book.decide(one.record.index, self.finish(&one, done).await);
            })
            .await;
    }

    /// State, log, verdict: in this order, after the call.
    async fn finish(&self, one: &Pending, done: Option<Done>) -> Verdict {
        let record = &one.record;
        let line = one.line(self.clock.now());
        let (verdict, mechanism, line) = match done {
            Some(Done::Delay(seconds)) => (
                Verdict::Ack,
                Mechanism::Delay,
                line.with_delay(seconds, one.schedule_error()),
            ),
            Some(Done::Schedule(name)) => (Verdict::Ack, Mechanism::Schedule, line.with_schedule(&name)),
            Some(Done::Visibility(seconds)) => (
                Verdict::Fail,
                Mechanism::Visibility,
                line.with_visibility(seconds, one.schedule_error()),
            ),
            None => {
                let (skipped, cause) = one.skip();
                self.log_lost_or(record, line.with_skip(skipped, cause), "record_failed");
                return Verdict::Fail;
            }
        };
        let Some((_, limit)) = &one.cause else {
            record.span.in_scope(|| line.write(Level::INFO, "record_early"));
            return verdict;
        };
        let lost = verdict == Verdict::Fail && record.delivery.is_last_attempt();
        let status = if lost { Status::Exhausted } else { Status::Waiting };
        self.record_state(
            record,
            limit,
            one.deferral.retry_at,
            one.deferral.counters.deferrals,
            status,
            mechanism,
        )
        .await;
        match verdict {
            Verdict::Ack if one.gated => record.span.in_scope(|| line.write(Level::INFO, "record_gated")),
            Verdict::Ack => record
                .span
                .in_scope(|| line.write(Level::WARN, "record_deferred")),
            Verdict::Fail => self.log_lost_or(record, line, "record_visibility_extended"),
        }
        verdict
    }

    /// The line of a limited record that stays where it is. On its last receive that loses it to the dead-letter
    /// queue, and one ERROR says so.
    pub(crate) fn log_lost_or(&self, record: &Record, line: Line, event: &'static str) {
        let (level, event) = if record.delivery.is_last_attempt() {
            (Level::ERROR, "record_lost_rate_limited")
        } else {
            (Level::WARN, event)
        };
        record.span.in_scope(|| line.write(level, event));
    }

    pub(crate) async fn record_state(
        &self,
        record: &Record,
        limit: &Limit,
        retry_at: Timestamp,
        deferrals: u32,
        status: Status,
        mechanism: Mechanism,
    ) {
        if status == Status::Waiting {
            self.warn_user(record, limit, retry_at).await;
        }
        let Some(run_state) = &self.run_state else { return };
        let state = State {
            status,
            mechanism,
            retry_at,
            reason: limit.reason,
            module: limit.module.clone(),
            deferrals,
            deferral_id: record.delivery.stable_id().to_owned(),
        };
        let call = async { run_state.record(record.body.raw(), &state).await };
        log_state_fault(record, "record", caught(call).await);
    }

    /// Tells the users of the message's integration of a long wait.
    async fn warn_user(&self, record: &Record, limit: &Limit, retry_at: Timestamp) {
        let now = self.clock.now();
        let Some((warnings, module)) = self.warnings.as_ref().zip(limit.module.clone()) else {
            return;
        };
        let integration = integration_id(record.body.raw()).filter(|_| is_news(now, retry_at));
        if let Some(integration) = integration {
            let warning = Warning {
                links: links(&module, limit.reason),
                module,
                reason: limit.reason,
                retry_at,
            };
            warnings.record(&integration, &warning, now).await;
        }
    }

    pub(crate) async fn clear_state(&self, record: &Record) {
        let Some(run_state) = &self.run_state else { return };
        let call = async {
            run_state
                .clear(record.body.raw(), record.delivery.stable_id())
                .await
        };
        log_state_fault(record, "clear", caught(call).await);
    }

    /// One `SendMessageBatch` per ten copies.
    async fn send_delayed(&self, all: Vec<(Pending, Tier)>, book: &Book) {
        let entries = all.into_iter().map(|(one, tier)| {
            let Tier::Delay { seconds } = tier else {
                unreachable!("grouped by tier")
            };
            let request = one.copy(seconds);
            Entry { one, tier, request }
        });
        self.by_queue(entries, SendRequest::bytes, |queue, chunk| async move {
            self.settle(self.send_chunk(queue, chunk).await, book).await;
        })
        .await;
    }

    async fn send_chunk(&self, queue: QueueArn, chunk: Vec<Entry<SendRequest>>) -> Vec<Outcome> {
        let url = match self.queues.url(&*self.sqs, &queue).await {
            Ok(url) => url,
            Err(error) => return fail_all(chunk, &error),
        };
        let (requests, rest): (Vec<_>, Vec<_>) = chunk.into_iter().map(Entry::split).unzip();
        let results = match self.sqs.send_batch(&url, &requests).await {
            Ok(results) => results,
            // The call is refused as a whole for one entry's fault, or for their sum: try them one by one.
            Err(error) if error.kind == CallErrorKind::Refused && requests.len() > 1 => {
                let calls = requests.iter().map(|request| self.sqs.send(&url, request));
                let sent: Vec<_> = stream::iter(calls.collect::<Vec<_>>())
                    .buffered(AT_ONCE)
                    .collect()
                    .await;
                sent.into_iter().map(|result| result.map(drop)).collect()
            }
            Err(error) => vec![Err(error); requests.len()],
        };
        let delays = requests.iter().map(|request| request.delay_seconds);
        answers(
            rest,
            results
                .into_iter()
                .zip(delays)
                .map(|(result, delay)| result.map(|()| Done::Delay(delay))),
        )
    }

    /// What the queue takes, in bytes, as far as it told.
    async fn largest_message(&self, queue: &QueueArn) -> usize {
        let asked = !self.options.is_frigg();
        let told = match asked {
            true => self.queues.attributes(&*self.sqs, queue, &self.options).await,
            false => None,
        };
        let largest = told.and_then(|told| told.maximum_message_size);
        largest.map_or(MAX_BYTES, |largest| largest.min(MAX_BYTES))
    }

    /// One `ChangeMessageVisibilityBatch` per ten records.
    async fn hide(&self, all: Vec<(Pending, Tier)>, book: &Book) {
        let entries = all.into_iter().map(|(one, tier)| {
            let Tier::Visibility { seconds } = tier else {
                unreachable!("grouped by tier")
            };
            let receipt_handle = one.record.receipt_handle.clone().unwrap_or_default();
            Entry {
                one,
                tier,
                request: VisibilityRequest {
                    receipt_handle,
                    seconds,
                },
            }
        });
        self.by_queue(
            entries,
            |_| 0,
            |queue, chunk| async move {
                book.hand_over(chunk.iter().map(|entry| entry.one.record.index))
                    .await;
                self.settle(self.hide_chunk(queue, chunk).await, book).await;
            },
        )
        .await;
    }

    async fn hide_chunk(&self, queue: QueueArn, chunk: Vec<Entry<VisibilityRequest>>) -> Vec<Outcome> {
        let url = match self.queues.url(&*self.sqs, &queue).await {
            Ok(url) => url,
            Err(error) => return fail_all(chunk, &error),
        };
        let (requests, rest): (Vec<_>, Vec<_>) = chunk.into_iter().map(Entry::split).unzip();
        let results = match self.sqs.change_visibility_batch(&url, &requests).await {
            Ok(results) => results,
            Err(error) => vec![Err(error); requests.len()],
        };
        let seconds = requests.iter().map(|request| request.seconds);
        answers(
            rest,
            results
                .into_iter()
                .zip(seconds)
                .map(|(result, s)| result.map(|()| Done::Visibility(s))),
        )
    }

    /// Groups entries by queue, cuts the groups by count and bytes, and makes a call for each piece.
    async fn by_queue<R, F, Fut>(
        &self,
        entries: impl Iterator<Item = Entry<R>>,
        bytes: impl Fn(&R) -> usize,
        call: F,
    ) where
        F: Fn(QueueArn, Vec<Entry<R>>) -> Fut,
        Fut: Future<Output = ()>,
    {
        let mut chunks: Vec<(QueueArn, Vec<Entry<R>>)> = Vec::new();
        let mut filling: HashMap<QueueArn, (usize, usize)> = HashMap::new();
        for entry in entries {
            // `plan` puts nothing back that names no queue.
            let Some(queue) = entry.one.record.delivery.queue_arn.clone() else {
                continue;
            };
            let size = bytes(&entry.request);
            let (chunk, used) = filling.entry(queue.clone()).or_insert((usize::MAX, 0));
            let fits = chunks
                .get(*chunk)
                .is_some_and(|(_, c)| c.len() < ENTRIES && *used + size <= MAX_BYTES);
            if !fits {
                (*chunk, *used) = (chunks.len(), 0);
                chunks.push((queue, Vec::with_capacity(ENTRIES)));
            }
            *used += size;
            chunks[*chunk].1.push(entry);
        }
        stream::iter(chunks)
            .for_each_concurrent(AT_ONCE, |(queue, chunk)| call(queue, chunk))
            .await;
    }

    async fn create_schedules(&self, all: Vec<(Pending, Tier)>, book: &Book) {
        let create = |(one, tier): (Pending, Tier)| async move {
            let Tier::Schedule { at } = tier else {
                unreachable!("grouped by tier")
            };
            let result = self.create_schedule(&one, at).await;
            self.rest.note(self.clock.now(), &result);
            (one, tier, result.map(Done::Schedule))
        };
        stream::iter(all)
            .map(create)
            .buffer_unordered(self.calls_at_once)
            // Those that fail together go on together, in one call.
            .ready_chunks(ENTRIES)
            .for_each_concurrent(None, |outcomes| self.settle(outcomes, book))
            .await;
    }

    async fn create_schedule(&self, one: &Pending, at: Timestamp) -> Result<String, CallError> {
        let scheduling = self
            .scheduling
            .as_ref()
            .ok_or_else(|| refused("no scheduler role"))?;
        let delivery = &one.record.delivery;
        let queue = delivery
            .queue_arn
            .as_ref()
            .ok_or_else(|| refused("the record names no queue"))?;
        // Its turn may have come late, behind calls that took their time.
        if at.duration_since(self.clock.now()) < MIN_SCHEDULE_AHEAD {
            return Err(refused("too near for a schedule by now"));
        }
        let copy = one.copy(0);
        let bytes = copy.bytes();
        // The scheduler replaces `<aws.scheduler.…>` in the input, and has no escape of its own. As a whole call, which is
        // JSON, the input can spell it otherwise, and the body arrives as it was.
        let whole_call = copy.has_metadata() || copy.body.contains('<');
        let (target, input) = if whole_call && !self.options.is_frigg() {
            let url = self.queues.url(&*self.sqs, queue).await?;
            let call = copy.as_call(&url).replace('<', "\\u003c");
            (ScheduleTarget::SendMessage, call)
        } else {
            (ScheduleTarget::Queue(queue.as_str().to_owned()), copy.body)
        };
        if input.len() > MAX_SCHEDULE_INPUT {
            return Err(refused("the body is too large for a schedule"));
        }
        // The queue would refuse it when the schedule fires, and then it is nowhere.
        if bytes > self.largest_message(queue).await {
            return Err(refused("the message is too large for its queue"));
        }
        let mut request = ScheduleRequest {
            name: String::new(),
            group: scheduling.group.clone(),
            at,
            region: queue.region().to_owned(),
            target,
            role_arn: scheduling.role_arn.clone(),
            input,
            dead_letter_arn: scheduling.dead_letter_arn.clone(),
        };
        for suffix in [None, Some(at)] {
            request.name = schedule_name(&delivery.message_id, suffix);
            match self.scheduler.create(&request).await {
                Err(error) if error.kind == CallErrorKind::Conflict => {}
                done => return done.map(|()| request.name),
            }
            // The name is taken: by this very deferral, delivered twice, or by another one of the same message.
            if self.options.is_frigg() || self.scheduler.is_same(&request).await? {
                return Ok(request.name);
            }
        }
        Err(refused("other schedules have the message's names"))
    }
}

/// The application's own code: its panic is a fault like another.
async fn caught(call: impl Future<Output = Result<(), BoxError>>) -> Result<(), BoxError> {
    let result = AssertUnwindSafe(call).catch_unwind().await;
    result.unwrap_or_else(|_| Err("the run-state hook panicked".into()))
}

fn log_state_fault(record: &Record, operation: &'static str, result: Result<(), BoxError>) {
    if let Err(error) = result {
        let line = Line::of_state_fault(operation, &error.to_string());
        record
            .span
            .in_scope(|| line.write(Level::WARN, "rate_limit_state_failed"));
    }
}

/// A record, the tier that was tried, and how that went.
type Outcome = (Pending, Tier, Result<Done, CallError>);

/// A record with its entry of a batch call.
struct Entry<R> {
    one: Pending,
    tier: Tier,
    request: R,
}

impl<R> Entry<R> {
    fn split(self) -> (R, (Pending, Tier)) {
        (self.request, (self.one, self.tier))
    }
}

/// The runtime's own refusal, without a call.
fn refused(text: &str) -> CallError {
    CallError::new(CallErrorKind::Refused, None, text)
}

fn fail_all<R>(entries: Vec<Entry<R>>, error: &CallError) -> Vec<Outcome> {
    entries
        .into_iter()
        .map(|entry| (entry.one, entry.tier, Err(error.clone())))
        .collect()
}

/// Joins entries with their results. One without a result is not confirmed, so it failed.
fn answers(
    entries: Vec<(Pending, Tier)>,
    results: impl Iterator<Item = Result<Done, CallError>>,
) -> Vec<Outcome> {
    let missing = || {
        Err(CallError::new(
            CallErrorKind::Unavailable,
            None,
            "the answer has no result for the entry",
        ))
    };
    let results = results.map(Some).chain(std::iter::repeat_with(|| None));
    entries
        .into_iter()
        .zip(results)
        .map(|((one, tier), r)| (one, tier, r.unwrap_or_else(missing)))
        .collect()
}

impl Pending {
    /// The copy to send, with everything that the original carried.
    fn copy(&self, delay_seconds: u32) -> SendRequest {
        let delivery = &self.record.delivery;
        SendRequest {
            body: self.record.body.stamp(&self.deferral.counters),
            delay_seconds,
            attributes: delivery.message_attributes.clone(),
            trace_header: delivery.attributes.get("AWSTraceHeader").cloned(),
            group_id: delivery.group_id.clone(),
            deduplication_id: None,
        }
    }

    /// SQS counts its 12 h from the receive, which nobody tells. On a FIFO queue, where there is no other way, an
    /// extension that passes them is tried once more with half the time.
    fn shorter_visibility(&self, failed: Tier, error: &CallError) -> Option<u32> {
        let Tier::Visibility { seconds } = failed else {
            return None;
        };
        let too_long = error.kind == CallErrorKind::Refused && error.message.contains("43200");
        let again = too_long && self.record.delivery.is_fifo() && self.max_visibility.is_none();
        again.then_some(seconds / 2)
    }

    fn schedule_error(&self) -> Option<String> {
        let failed = self
            .failed
            .iter()
            .find(|(tier, _)| matches!(tier, Tier::Schedule { .. }));
        failed.map(|(_, error)| error.to_string())
    }

    /// Frigg's name for the last thing that failed, and its cause.
    fn skip(&self) -> (&'static str, Option<String>) {
        match self.failed.last() {
            Some((Tier::Visibility { .. }, error)) => ("visibility_failed", Some(error.to_string())),
            Some((_, error)) => ("send_failed", Some(error.to_string())),
            None => ("no_way_back", None),
        }
    }
}

/// `frigg-defer-<message id>`, in the letters and the length that the scheduler takes.
fn schedule_name(message_id: &str, suffix: Option<Timestamp>) -> String {
    let suffix = suffix
        .map(|at| format!("-{:x}", at.as_second()))
        .unwrap_or_default();
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let id = message_id.chars().map(|c| if valid(c) { c } else { '-' });
    "frigg-defer-"
        .chars()
        .chain(id)
        .take(64 - suffix.len())
        .collect::<String>()
        + &suffix
}
