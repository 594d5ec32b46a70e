//! The straight line of one batch: open, handle, plan, put back, answer.

use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsMessage};
use frigg_core::deferral::{Decision, Failure, Refusal, plan, plan_arrival};
use frigg_core::delivery::{Delivery, TimeLeft};
use frigg_core::rate_limit::Limit;
use frigg_core::scope::Scope;
use frigg_core::time;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Level};

use crate::effects::{Effects, Pending, Verdict};
use crate::error::{Error, HandlerError};
use crate::handler::{Consumer, RawJob};
use crate::record::Record;
use crate::report::Line;
use crate::run_state::{Mechanism, Status};

/// Deferrals that are put back together, and how many such groups at once.
const GROUP: usize = 10;
const GROUPS_AT_ONCE: usize = 4;
/// Kept of a batch's time for what comes after the handlers.
const MAX_RESERVE: Duration = Duration::from_secs(5);

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

/// Told when a record's handler is through; nothing may touch its visibility from elsewhere after that.
pub(crate) trait Progress: Sync {
    fn handled(&self, index: usize) -> impl Future<Output = ()> + Send;
}

impl Progress for () {
    async fn handled(&self, _: usize) {}
}

/// What a record came to, before anything is put back.
enum Handled {
    Verdict(usize, Verdict),
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
        progress: &impl Progress,
    ) -> Result<SqsBatchResponse, Error> {
        let ids: Vec<String> = messages
            .iter()
            .map(|m| m.message_id.clone().unwrap_or_default())
            .collect();
        if let Some(index) = ids.iter().position(String::is_empty) {
            let text = format!(
                "record {index} of {} has no messageId; the whole batch is returned",
                ids.len()
            );
            return Err(Error::new(text));
        }
        let (handlers_end, batch_end) = ends(deadline);
        let time_left = TimeLeft::new(move || handlers_end.saturating_duration_since(Instant::now()));
        let run = Run {
            handlers_end,
            time_left,
            progress,
        };

        let verdicts = Mutex::new(vec![Verdict::Fail; ids.len()]);
        let decide = |(index, verdict)| {
            if let Some(slot) = lock(&verdicts).get_mut::<usize>(index) {
                *slot = verdict;
            }
        };
        let work = stream::iter(lanes::<C>(messages))
            .map(|lane| self.run_lane(lane, &run))
            .buffer_unordered(self.concurrency)
            .flat_map(stream::iter)
            .filter_map(|handled| {
                ready(match handled {
                    Handled::Verdict(index, verdict) => {
                        decide((index, verdict));
                        None
                    }
                    Handled::Defer(pending) => Some(*pending),
                })
            })
            .chunks(GROUP)
            .map(|group| self.effects.apply(group))
            .buffer_unordered(GROUPS_AT_ONCE)
            .for_each(|done| {
                done.into_iter().for_each(decide);
                ready(())
            });
        // What is not confirmed by then counts as failed: perhaps done twice, never lost.
        if timeout_at(batch_end, work).await.is_err() {
            Line::default().write(Level::ERROR, "batch_deadline");
        }
        let verdicts = lock(&verdicts).clone();
        Ok(response(ids, &verdicts))
    }

    async fn run_lane<P: Progress>(&self, lane: Vec<(usize, SqsMessage)>, run: &Run<'_, P>) -> Vec<Handled> {
        let mut handled = Vec::with_capacity(lane.len());
        if C::WHOLE_BATCH {
            let records = lane
                .into_iter()
                .map(|(index, message)| self.open(index, message, run))
                .collect();
            self.handle(records, run, &mut handled).await;
            return handled;
        }
        let mut held = false;
        for (index, message) in lane {
            let record = self.open(index, message, run);
            let stops_group = record.delivery.is_fifo() && !self.effects.options.is_frigg();
            if held {
                run.progress.handled(index).await;
                let last = record.delivery.is_last_attempt();
                let level = if last { Level::ERROR } else { Level::DEBUG };
                record
                    .span
                    .in_scope(|| Line::default().write(level, "record_held"));
                handled.push(Handled::Verdict(index, Verdict::Fail));
                continue;
            }
            self.handle(vec![record], run, &mut handled).await;
            let done = matches!(handled.last(), Some(Handled::Verdict(_, Verdict::Ack)));
            held = stops_group && !done;
        }
        handled
    }

    fn open<P>(&self, index: usize, message: SqsMessage, run: &Run<'_, P>) -> Record {
        let (now, options) = (self.effects.clock.now(), &self.effects.options);
        let record = Record::open(index, message, now, options, run.time_left.clone());
        if let Some(fault) = record.body.fault() {
            let line = Line::default().with_skip("envelope_ignored", Some(fault.to_string()));
            record
                .span
                .in_scope(|| line.write(Level::WARN, "envelope_ignored"));
        }
        record
    }

    /// Sends early ones back, calls the handler once for the others, and settles each.
    async fn handle<P: Progress>(&self, records: Vec<Record>, run: &Run<'_, P>, handled: &mut Vec<Handled>) {
        let mut due = Vec::with_capacity(records.len());
        for record in records {
            let can = self.effects.capabilities(&record);
            let now = self.effects.clock.now();
            match plan_arrival(now, &record.delivery, &self.effects.options, can) {
                Some(deferral) => {
                    run.progress.handled(record.index).await;
                    handled.push(Handled::Defer(Box::new(Pending::new(
                        record, deferral, can, None,
                    ))));
                }
                None => due.push(record),
            }
        }
        if due.is_empty() {
            return;
        }
        let results = self.call(&due, run).await;
        for (record, result) in due.into_iter().zip(results) {
            run.progress.handled(record.index).await;
            handled.push(match result {
                Ok(()) => self.succeeded(record).await,
                Err(error) => self.failed(record, error).await,
            });
        }
    }

    /// Calls the user's code: within the deadline, its panic caught. One result per record.
    async fn call<P>(&self, records: &[Record], run: &Run<'_, P>) -> Vec<Result<(), HandlerError>> {
        let jobs = records.iter().map(|record| RawJob {
            body: (!record.bodiless).then(|| record.body.text()),
            delivery: Arc::clone(&record.delivery),
        });
        let span = match records {
            [record] => record.span.clone(),
            _ => tracing::Span::current(),
        };
        let scope = self.scope(records, run.handlers_end);
        let work = AssertUnwindSafe(scope.run(self.consumer.consume(jobs.collect())))
            .catch_unwind()
            .instrument(span);
        let all = |error: &dyn Fn() -> HandlerError| records.iter().map(|_| Err(error())).collect();
        // A handler must not even begin past its end; `timeout_at` alone would poll it once.
        if Instant::now() >= run.handlers_end {
            return all(&HandlerError::timed_out);
        }
        match timeout_at(run.handlers_end, work).await {
            Ok(Ok(results)) => results,
            Ok(Err(panic)) => all(&|| HandlerError::panicked(&*panic)),
            Err(_) => all(&HandlerError::timed_out),
        }
    }

    /// What a client inside the handler may do: until when, and how long it may wait there. A record that can be put
    /// back does not wait in a paid function at all.
    fn scope(&self, records: &[Record], handlers_end: Instant) -> Scope {
        let frigg = self.effects.options.is_frigg();
        let can_defer =
            |record: &Record| record.delivery.queue_arn.is_some() && !(frigg && record.delivery.is_fifo());
        let left = handlers_end.saturating_duration_since(Instant::now());
        Scope {
            deadline: self.effects.clock.now().checked_add(left).ok(),
            max_in_process_wait: Some(if records.iter().all(can_defer) {
                Duration::ZERO
            } else {
                MAX_WAIT_UNDEFERRED
            }),
        }
    }

    async fn succeeded(&self, record: Record) -> Handled {
        record
            .span
            .in_scope(|| Line::default().write(Level::DEBUG, "record_succeeded"));
        let again =
            record.delivery.deferrals > 0 || record.delivery.receive_count.is_some_and(|count| count > 1);
        if again {
            self.effects.clear_state(&record).await;
        }
        Handled::Verdict(record.index, Verdict::Ack)
    }

    async fn failed(&self, record: Record, error: HandlerError) -> Handled {
        let options = &self.effects.options;
        let (now, can) = (self.effects.clock.now(), self.effects.capabilities(&record));
        let limit = error.limit().cloned();
        let (failure, limit) = self.judge(&error, limit, &record.delivery);
        let failure = match &limit {
            Some(limit) => Failure::Limited(limit),
            None => failure,
        };
        let decision = plan(
            now,
            self.effects.clock.random(),
            failure,
            &record.delivery,
            options,
            can,
        );
        let index = record.index;
        let refusal = match (decision, limit) {
            (Decision::Defer(deferral), Some(limit)) => {
                return Handled::Defer(Box::new(Pending::new(
                    record,
                    deferral,
                    can,
                    Some((error, limit)),
                )));
            }
            (Decision::Discard, _) => {
                record
                    .span
                    .in_scope(|| Line::of_error(&error).write(Level::ERROR, "record_halted"));
                return Handled::Verdict(index, Verdict::Ack);
            }
            (Decision::Fail(refusal), Some(limit)) => (refusal, limit),
            (Decision::Fail(_) | Decision::Defer(_), None) => {
                record
                    .span
                    .in_scope(|| Line::of_error(&error).write(Level::WARN, "record_failed"));
                return Handled::Verdict(index, Verdict::Fail);
            }
        };
        self.refused(&record, &error, refusal, now).await;
        Handled::Verdict(index, Verdict::Fail)
    }

    /// The failure, and the limit when it is one, after the application had its word.
    fn judge<'e>(
        &self,
        error: &'e HandlerError,
        limit: Option<Limit>,
        delivery: &Delivery,
    ) -> (Failure<'e>, Option<Limit>) {
        let Some(limit) = limit else {
            return (error.failure(), None);
        };
        match self
            .on_limit
            .as_ref()
            .map_or(OnLimit::Defer, |hook| hook(&limit, delivery))
        {
            OnLimit::Defer => (Failure::Retryable, Some(limit)),
            OnLimit::DeferUntil(at) => {
                let mut limit = limit;
                limit.retry_at = Some(at);
                (Failure::Retryable, Some(limit))
            }
            OnLimit::Fail => (Failure::Retryable, None),
            OnLimit::Permanent => (Failure::Permanent, None),
        }
    }

    /// A limited record that is not put back: state and one line.
    async fn refused(
        &self,
        record: &Record,
        error: &HandlerError,
        (refusal, limit): (Refusal, Limit),
        now: Timestamp,
    ) {
        let effects = &self.effects;
        let line = Line::of_limit(error, &limit);
        match refusal {
            Refusal::Capped(capped) => {
                let (counters, retry_at) = (&capped.counters, capped.retry_at);
                effects
                    .record_state(
                        record,
                        &limit,
                        retry_at,
                        counters.deferrals,
                        Status::Exhausted,
                        Mechanism::None,
                    )
                    .await;
                let deferred = time::wait(counters.first_deferred_at, retry_at);
                let line = line
                    .with_time(now, retry_at, counters)
                    .with_caps(&effects.options.limits, deferred);
                effects.log_lost_or(record, line, "record_deferral_capped");
            }
            Refusal::NoRetryAt => {
                effects.log_lost_or(record, line.with_skip("no_retry_at", None), "record_failed")
            }
            Refusal::NoWayBack => {
                effects.log_lost_or(record, line.with_skip("no_way_back", None), "record_failed")
            }
            _ => effects.log_lost_or(record, line.with_skip("no_event_source", None), "record_failed"),
        }
    }
}

/// What all records of a batch share.
struct Run<'p, P> {
    handlers_end: Instant,
    time_left: TimeLeft,
    progress: &'p P,
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
fn response(ids: Vec<String>, verdicts: &[Verdict]) -> SqsBatchResponse {
    let mut seen = HashSet::new();
    let mut response = SqsBatchResponse::default();
    for (id, verdict) in ids.into_iter().zip(verdicts) {
        if *verdict == Verdict::Fail && seen.insert(id.clone()) {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            response.batch_item_failures.push(failure);
        }
    }
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
