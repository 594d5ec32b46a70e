//! The straight line of one batch: open, handle, plan, put back, answer.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsMessage};
use frigg_core::deferral::{Decision, Deferral, Failure, Refusal, Tier, plan, plan_arrival, plan_gated};
use frigg_core::delivery::{Delivery, QueueArn, TimeLeft};
use frigg_core::rate_limit::Limit;
use frigg_core::scope::Scope;
use futures_util::future::ready;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{Instrument as _, Level};

use crate::book::{Book, Verdict};
use crate::door::{Asked, Gated};
use crate::effects::{Effects, Pending};
use crate::error::{Error, HandlerError};
use crate::groups::{ENTRIES, Groups};
use crate::handler::{Consumer, RawJob};
use crate::metrics;
use crate::record::{Known, Record, receive_count, span_of};
use crate::report::Line;

/// Kept of a batch's time for what comes after the handlers.
const MAX_RESERVE: Duration = Duration::from_secs(5);

/// Half of the shortest retention that SQS allows: no copy that is delayed for so long is deleted before it is delivered.
const ANY_QUEUE_KEEPS: Duration = Duration::from_secs(30);

/// How long a request may wait in the process for a record that cannot be put back.
const MAX_WAIT_UNDEFERRED: Duration = Duration::from_secs(60);

/// The application's word on a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLimit {
    /// Put the message back until the provider's time. The default.
    Defer,
    /// Put it back until another time.
    DeferUntil(Timestamp),
    /// Treat it as an ordinary failure.
    Fail,
    /// Never try again.
    Permanent,
}

/// See [`Worker::on_limit`](crate::Worker::on_limit).
pub(crate) type LimitHook = Arc<dyn Fn(&Limit, &Delivery) -> OnLimit + Send + Sync>;

/// Everything that a batch needs, shared by all batches of a process.
pub(crate) struct Pipe<C> {
    pub(crate) consumer: C,
    pub(crate) effects: Effects,
    pub(crate) concurrency: usize,
    pub(crate) on_limit: Option<LimitHook>,
}

/// What a record came to, before anything is put back.
enum Handled {
    Verdict(Verdict),
    Defer(Box<Pending>),
}

impl<C: Consumer> Pipe<C> {
    /// Handles a batch and answers for each of its records, before `deadline`.
    ///
    /// # Errors
    /// When a record has no message id: it could not be reported failed, so the whole batch has to be.
    pub(crate) async fn process(
        &self,
        messages: Vec<SqsMessage>,
        deadline: Instant,
        book: &Book,
    ) -> Result<SqsBatchResponse, Error> {
        let ids: Vec<String> = messages
            .iter()
            .map(|m| m.message_id.clone().unwrap_or_default())
            .collect();
        let counts: Vec<Option<u32>> = messages.iter().map(|m| receive_count(&m.attributes)).collect();
        // Almost always that of all of them.
        let queue = messages
            .first()
            .and_then(|message| message.event_source_arn.as_deref());
        let queue = queue.and_then(QueueArn::parse);
        if let Some(index) = ids.iter().position(String::is_empty) {
            let text = format!(
                "record {index} of {} has no messageId; the whole batch is returned",
                ids.len()
            );
            return Err(Error::new(text));
        }
        let (handlers_end, batch_end) = ends(deadline);
        let time_left = TimeLeft::new(move || handlers_end.saturating_duration_since(Instant::now()));
        let asked = Arc::default();
        let (back, mut given_back) = mpsc::unbounded_channel();
        let run = Run {
            handlers_end,
            time_left,
            queue,
            counts: &counts,
            book,
            asked: &asked,
            back,
        };
        // Boxed once: it is as large as the handler's own future, and moved about until it is polled.
        let lanes = stream::iter(lanes::<C>(messages)).map(|lane| Box::pin(self.run_lane(lane, &run)));
        // Handlers go on whatever the calls do: the calls wait for each other, never the handlers for a call.
        let work = async {
            let mut lanes = pin!(lanes.buffer_unordered(self.concurrency));
            let (mut groups, mut calls, mut through) = (Groups::default(), FuturesUnordered::new(), false);
            loop {
                if groups.leave_at().is_some() {
                    let now = Instant::now();
                    // No company comes any more; or it would be waited for at the cost of what a call may take.
                    let late = through || now >= handlers_end;
                    let leaving = groups.leaving(now, late);
                    calls.extend(leaving.map(|group| self.effects.put_back(group, book)));
                }
                if through && given_back.is_empty() && calls.is_empty() {
                    break;
                }
                let leave_at = groups.leave_at();
                let leave = async {
                    match leave_at {
                        Some(at) => sleep_until(at.min(handlers_end)).await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    // Without chance: a simulation tells the same story twice.
                    biased;
                    Some(()) = calls.next() => {}
                    Some(one) = given_back.recv() => groups.add(*one, Instant::now()),
                    lane = lanes.next(), if !through => through = lane.is_none(),
                    () = leave => {}
                }
            }
        };
        let ended = timeout_at(batch_end, work).await.is_ok();
        let verdicts = book.verdicts();
        if !ended {
            log_unfinished(&ids, &counts, &verdicts);
        }
        Ok(response(ids, &verdicts))
    }

    /// Handles a lane's records, decides about those that end here, and gives back those that are put back.
    async fn run_lane(&self, lane: Vec<(usize, SqsMessage)>, run: &Run<'_>) {
        if C::WHOLE_BATCH {
            let mut records = Vec::with_capacity(lane.len());
            let mut held = HashSet::new();
            for (index, message) in lane {
                let mut record = self.open(index, message, run);
                let group = self.group_to_stop(&record);
                if group.as_ref().is_some_and(|group| held.contains(group)) {
                    run.book.decide(index, self.hold(&mut record).await);
                } else if run.book.is_lost(index) {
                    run.let_go(&record);
                    held.extend(group);
                } else {
                    records.push(record);
                }
            }
            self.handle(records, run).await;
            return;
        }
        let mut held = false;
        for (index, message) in lane {
            let mut record = self.open(index, message, run);
            if held {
                run.book.decide(index, self.hold(&mut record).await);
                continue;
            }
            let stops_group = self.stops_group(&record);
            let acked = if run.book.is_lost(index) {
                run.let_go(&record);
                false
            } else {
                self.handle(vec![record], run).await
            };
            held = stops_group && !acked;
        }
    }

    fn open(&self, index: usize, message: SqsMessage, run: &Run<'_>) -> Record {
        let (now, options) = (self.effects.clock.now(), &self.effects.options);
        let known = Known {
            receive_count: run.counts.get(index).copied().flatten(),
            queue: run.queue.as_ref(),
            deadline: run.time_left.clone(),
        };
        let mut record = Record::open(index, message, now, options, known);
        record.door = self.effects.door(&record, run.asked);
        if let Some(fault) = record.body.fault() {
            let line = Line::default().with_skip("envelope_ignored", Some(fault.to_string()));
            record
                .span
                .in_scope(|| line.write(Level::WARN, "envelope_ignored"));
        }
        record
    }

    /// Sends early ones back, calls the handler once for the others, and settles each. Whether all of them are done.
    async fn handle(&self, records: Vec<Record>, run: &Run<'_>) -> bool {
        let all = records.len();
        let mut due = records;
        if due.iter().any(|record| record.delivery.retry_at.is_some()) {
            // Boxed like all that seldom happens: every record's future would be as large as the largest of these.
            due = Box::pin(self.due(due, run)).await;
        }
        let mut all_acked = due.len() == all;
        if due.is_empty() {
            return all_acked;
        }
        for record in &mut due {
            self.know_last_attempt(record).await;
        }
        let results = self.call(&due, run).await;
        let ended = due.into_iter().zip(results);
        if !C::WHOLE_BATCH {
            for (record, result) in ended {
                all_acked &= self.end(record, result, run).await;
            }
            return all_acked;
        }
        // A call that hangs for one of a batch keeps no other from its verdict, and those that are done come first.
        let mut ended: Vec<_> = ended.collect();
        ended.sort_by_key(|(_, result)| result.is_err());
        stream::iter(ended)
            .map(|(record, result)| self.end(record, result, run))
            .buffer_unordered(self.concurrency.max(ENTRIES))
            .fold(all_acked, |all, acked| ready(all && acked))
            .await
    }

    /// What a record came to, once its handler has ended. Whether it is done.
    async fn end(&self, record: Record, result: Result<(), HandlerError>, run: &Run<'_>) -> bool {
        let index = record.index;
        let handled = match result {
            Ok(()) => {
                // At once: nothing that comes after it changes it.
                run.book.decide(index, Verdict::Ack);
                self.succeeded(&record).await;
                return true;
            }
            Err(error) => Box::pin(self.failed(record, error)).await,
        };
        match handled {
            Handled::Verdict(verdict) => {
                run.book.decide(index, verdict);
                verdict == Verdict::Ack
            }
            Handled::Defer(pending) => {
                run.put_back(pending);
                false
            }
        }
    }

    /// Whether the later records of its group wait for it.
    fn stops_group(&self, record: &Record) -> bool {
        record.delivery.is_fifo() && !self.effects.options.is_frigg()
    }

    /// The FIFO group that goes no further than this record when it fails.
    fn group_to_stop(&self, record: &Record) -> Option<String> {
        self.stops_group(record)
            .then(|| record.delivery.group_id.clone())
            .flatten()
    }

    /// A record that waits for the one ahead of it.
    async fn hold(&self, record: &mut Record) -> Verdict {
        self.know_last_attempt(record).await;
        let last = record.delivery.is_last_attempt();
        let level = if last { Level::ERROR } else { Level::DEBUG };
        record
            .span
            .in_scope(|| Line::default().write(level, "record_held"));
        Verdict::Fail
    }

    /// Sends early ones back, and waits for those that are early by less than a second.
    async fn due(&self, records: Vec<Record>, run: &Run<'_>) -> Vec<Record> {
        let mut due = Vec::with_capacity(records.len());
        let mut held = HashSet::new();
        for mut record in records {
            let group = self.group_to_stop(&record);
            if group.as_ref().is_some_and(|group| held.contains(group)) {
                run.book.decide(record.index, self.hold(&mut record).await);
                continue;
            }
            let (now, options) = (self.effects.clock.now(), &self.effects.options);
            if record.delivery.retry_at.is_some_and(|at| at > now) && !self.effects.waits_here(&record, now) {
                let can = self.effects.capabilities(&mut record).await;
                if let Some(deferral) = plan_arrival(now, &record.delivery, options, can) {
                    let in_slot = self.effects.keeper.is_some() && !record.delivery.is_fifo();
                    let early = Pending::new(record, deferral, can, None).waits_on(in_slot);
                    run.put_back(Box::new(early));
                    held.extend(group);
                    continue;
                }
            }
            due.push(record);
        }
        let now = self.effects.clock.now();
        let waiting = due.iter().filter(|record| self.effects.waits_here(record, now));
        if let Some(at) = waiting.filter_map(|record| record.delivery.retry_at).max() {
            self.effects.clock.sleep_until(at).await;
        }
        due
    }

    /// A first receive is not the last one. (A queue that allows one only is a mistake that a look-up for every message
    /// would not mend.)
    async fn know_last_attempt(&self, record: &mut Record) {
        let again = record.delivery.receive_count.is_some_and(|count| count > 1);
        if again && record.delivery.max_receive_count.is_none() {
            Box::pin(self.effects.know_queue(record)).await;
        }
    }

    /// Calls the user's code: within the deadline, its panic caught. One result per record.
    async fn call(&self, records: &[Record], run: &Run<'_>) -> Vec<Result<(), HandlerError>> {
        let jobs = records.iter().map(|record| RawJob {
            body: (!record.bodiless).then(|| record.body.text()),
            delivery: Arc::clone(&record.delivery),
            door: record.door.clone(),
            group: self.group_to_stop(record),
        });
        let span = match records {
            [record] => record.span.clone(),
            _ => tracing::Span::current(),
        };
        let began = Instant::now();
        let left = run.handlers_end.saturating_duration_since(began);
        let scope = self.scope(records, left);
        let work = pin!(self.consumer.consume(jobs.collect(), run.handlers_end));
        let work = scope.run(work);
        if !left.is_zero() {
            self.note_lateness(records);
        }
        let results = work.instrument(span).await;
        if !left.is_zero() {
            metrics::handled(began.elapsed());
        }
        results
    }

    /// How long after its time each message that was put back begins to run.
    fn note_lateness(&self, records: &[Record]) {
        for at in records.iter().filter_map(|record| record.delivery.retry_at) {
            let now = self.effects.clock.now();
            metrics::late(Duration::try_from(frigg_core::time::wait(at, now)).unwrap_or_default());
        }
    }

    /// What a client inside the handler may do: until when, and how long it may wait there. A record that can be put
    /// back does not wait in a paid function at all.
    fn scope(&self, records: &[Record], left: Duration) -> Scope {
        let frigg = self.effects.options.is_frigg();
        let can_defer =
            |record: &Record| record.delivery.queue_arn.is_some() && !(frigg && record.delivery.is_fifo());
        Scope {
            deadline: self.effects.clock.now().checked_add(left).ok(),
            max_in_process_wait: Some(if records.iter().all(can_defer) {
                Duration::ZERO
            } else {
                MAX_WAIT_UNDEFERRED
            }),
        }
    }

    async fn succeeded(&self, record: &Record) {
        let again =
            record.delivery.deferrals > 0 || record.delivery.receive_count.is_some_and(|count| count > 1);
        if again || record.delivery.gated > 0 {
            Box::pin(self.effects.clear_state(record)).await;
        }
        record
            .span
            .in_scope(|| Line::default().write(Level::DEBUG, "record_succeeded"));
    }

    async fn failed(&self, mut record: Record, error: HandlerError) -> Handled {
        if error.is_held() {
            return Handled::Verdict(self.hold(&mut record).await);
        }
        if let Some(gated) = error.as_gated().cloned() {
            return self.gated(record, error, gated).await;
        }
        let limit = error.limit().cloned();
        let (failure, limit) = match self.judge(&error, limit, &record.delivery) {
            Ok(judged) => judged,
            Err(panicked) => return fail_with(&record, &panicked),
        };
        let failure = match &limit {
            Some(limit) => Failure::Limited(limit),
            None => failure,
        };
        if let Failure::Retryable = failure {
            return fail_with(&record, &error);
        }
        if let Some(limit) = &limit {
            self.effects.close(&record, limit).await;
        }
        let (now, random) = (self.effects.clock.now(), self.effects.clock.random());
        let spaced = limit
            .as_ref()
            .and_then(|limit| self.effects.spacing(&record, limit));
        let options = &self.effects.options;
        let plan_with =
            |record: &Record, random, can| plan(now, random, failure, &record.delivery, options, can);
        // Whatever the queue would say, a short wait is a delayed copy, and costs no look-up. So is one of up to 900 s
        // where the queue's retention is told.
        let mut can = self.effects.capabilities_untold(&record);
        let mut decision = plan_with(&record, random, can);
        if spaced.is_some() || !self.is_short_delay(&decision, now) {
            can = self.effects.capabilities(&mut record).await;
            decision = plan_with(&record, random, can);
        }
        // The told time itself is what a place of its own is counted from.
        let told = if let (Some(spaced), Decision::Defer(told)) = (spaced, plan_with(&record, 0.0, can)) {
            Some((spaced, told))
        } else {
            None
        };
        match (decision, limit) {
            (Decision::Defer(deferral), Some(limit)) => {
                let pending = Pending::new(record, deferral, can, Some((error, limit)));
                Handled::Defer(Box::new(self.effects.space(pending, told).await))
            }
            (Decision::Bury(burial), limit) => {
                Handled::Verdict(self.effects.bury(&record, &burial, &error, limit.as_ref()).await)
            }
            (Decision::Discard, _) => {
                let line = Line::of_error(&error, record.body.text());
                record.span.in_scope(|| line.write(Level::ERROR, "record_halted"));
                Handled::Verdict(Verdict::Ack)
            }
            (Decision::Fail(Refusal::NotLimited), _) | (Decision::Fail(_) | Decision::Defer(_), None) => {
                fail_with(&record, &error)
            }
            (Decision::Fail(refusal), Some(limit)) => {
                self.refused(&record, &error, refusal, &limit).await;
                Handled::Verdict(Verdict::Fail)
            }
        }
    }

    /// A record that was not let in.
    async fn gated(&self, mut record: Record, error: HandlerError, gated: Gated) -> Handled {
        let (limit, place) = (*gated.limit, gated.place);
        let can = self.effects.capabilities(&mut record).await;
        let now = self.effects.clock.now();
        let until = limit.retry_at.unwrap_or(now);
        match plan_gated(now, until, &record.delivery, &self.effects.options, can) {
            Decision::Defer(deferral) => {
                let spaced = self.effects.spacing(&record, &limit).filter(|_| place);
                let told = spaced.map(|spaced| (spaced, deferral.clone()));
                let pending = Pending::new(record, deferral, can, Some((error, limit))).gated();
                Handled::Defer(Box::new(self.effects.space(pending, told).await))
            }
            Decision::Bury(burial) => {
                Handled::Verdict(self.effects.bury(&record, &burial, &error, Some(&limit)).await)
            }
            Decision::Fail(refusal) => {
                self.refused(&record, &error, refusal, &limit).await;
                Handled::Verdict(Verdict::Fail)
            }
            Decision::Discard => fail_with(&record, &error),
        }
    }

    fn is_short_delay(&self, decision: &Decision, now: Timestamp) -> bool {
        let options = &self.effects.options;
        let longest = match options.retention {
            Some(_) => options.max_delay(),
            None => options.max_delay().min(ANY_QUEUE_KEEPS),
        };
        let is_short =
            |at| Duration::try_from(frigg_core::time::wait(now, at)).is_ok_and(|wait| wait <= longest);
        matches!(decision, Decision::Defer(Deferral { retry_at, tier: Tier::Delay { .. }, .. }) if is_short(*retry_at))
    }

    /// The failure, and the limit when it is one, after the application had its word. An application that panics over
    /// it fails this record only.
    fn judge<'e>(
        &self,
        error: &'e HandlerError,
        limit: Option<Limit>,
        delivery: &Delivery,
    ) -> Result<(Failure<'e>, Option<Limit>), HandlerError> {
        let Some(limit) = limit else {
            return Ok((error.failure(), None));
        };
        let word = match &self.on_limit {
            Some(hook) => catch_unwind(AssertUnwindSafe(|| hook(&limit, delivery)))
                .map_err(|panic| HandlerError::panicked(&*panic))?,
            None => OnLimit::Defer,
        };
        Ok(match word {
            OnLimit::Defer => (Failure::Retryable, Some(limit)),
            OnLimit::DeferUntil(at) => {
                let mut limit = limit;
                limit.retry_at = Some(at);
                (Failure::Retryable, Some(limit))
            }
            OnLimit::Fail => (Failure::Retryable, None),
            OnLimit::Permanent => (Failure::Permanent, None),
        })
    }

    /// A limited record that is not put back: state and one line.
    async fn refused(&self, record: &Record, error: &HandlerError, refusal: Refusal, limit: &Limit) {
        let effects = &self.effects;
        let line = Line::of_limit(error, limit, record.body.text());
        let skipped = match refusal {
            Refusal::Capped(capped) => {
                let line = effects.capped(record, limit, line, &capped).await;
                return effects.log_lost_or(record, line, "record_deferral_capped");
            }
            Refusal::NoRetryAt => "no_retry_at",
            Refusal::NoWayBack => "no_way_back",
            _ => "no_event_source",
        };
        effects.log_lost_or(record, line.with_skip(skipped, None), "record_failed");
    }
}

/// What all records of a batch share.
struct Run<'b> {
    handlers_end: Instant,
    time_left: TimeLeft,
    /// The first record's.
    queue: Option<QueueArn>,
    counts: &'b [Option<u32>],
    book: &'b Book,
    asked: &'b Arc<Asked>,
    /// To where the calls are made.
    back: mpsc::UnboundedSender<Box<Pending>>,
}

impl Run<'_> {
    /// Another worker may have the message by now: its run here would be one too many, and on a FIFO queue out of order.
    fn let_go(&self, record: &Record) {
        if let Handled::Verdict(verdict) = fail_with(record, &HandlerError::lost()) {
            self.book.decide(record.index, verdict);
        }
    }

    fn put_back(&self, one: Box<Pending>) {
        // The receiver goes last.
        let _ = self.back.send(one);
    }
}

/// An ordinary failure: one line, and the queue delivers the message again.
fn fail_with(record: &Record, error: &HandlerError) -> Handled {
    record
        .span
        .in_scope(|| Line::of_error(error, record.body.text()).write(Level::WARN, "record_failed"));
    Handled::Verdict(Verdict::Fail)
}

/// What is not confirmed when the batch must answer counts as failed: perhaps done twice, never lost.
fn log_unfinished(ids: &[String], counts: &[Option<u32>], verdicts: &[Option<Verdict>]) {
    let error = HandlerError::unconfirmed();
    for ((id, count), verdict) in ids.iter().zip(counts).zip(verdicts) {
        if verdict.is_none() {
            span_of(id, *count).in_scope(|| Line::of_error(&error, "").write(Level::WARN, "record_failed"));
        }
    }
}

/// Records that must not overtake each other are in one lane, in order.
fn lanes<C: Consumer>(messages: Vec<SqsMessage>) -> Vec<Vec<(usize, SqsMessage)>> {
    let messages = messages.into_iter().enumerate();
    if C::WHOLE_BATCH {
        return vec![messages.collect()];
    }
    let mut lanes: Vec<Vec<(usize, SqsMessage)>> = Vec::new();
    let mut lane_of_group = HashMap::new();
    for (index, message) in messages {
        let fifo = message
            .event_source_arn
            .as_deref()
            .is_some_and(|arn| arn.ends_with(".fifo"));
        let group = message.attributes.get("MessageGroupId").filter(|_| fifo).cloned();
        let next = lanes.len();
        let lane = group.map_or(next, |group| *lane_of_group.entry(group).or_insert(next));
        match lanes.get_mut(lane) {
            Some(lane) => lane.push((index, message)),
            None => lanes.push(vec![(index, message)]),
        }
    }
    lanes
}

/// When handlers and when the batch must have ended, so that the answer is there by `deadline`.
fn ends(deadline: Instant) -> (Instant, Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    let handlers = (left / 5).min(MAX_RESERVE);
    let answer = (left / 50).min(MAX_RESERVE / 10);
    (deadline - handlers, deadline - answer)
}

/// Each failed id once, in the order of the batch: an id that failed once is failed.
fn response(ids: Vec<String>, verdicts: &[Option<Verdict>]) -> SqsBatchResponse {
    let mut seen = HashSet::new();
    let mut response = SqsBatchResponse::default();
    for (id, verdict) in ids.into_iter().zip(verdicts) {
        if *verdict != Some(Verdict::Ack) && seen.insert(id.clone()) {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            response.batch_item_failures.push(failure);
        }
    }
    response
}
