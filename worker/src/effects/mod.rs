//! Carries decisions out: grouped AWS calls first, then state, log and verdict.
//!
//! What fails goes down to the next tier, and to [`Verdict::Fail`] when none is left; never to [`Verdict::Ack`].

mod bury;
mod calls;
mod hide;
mod pending;
mod schedule;
mod send;
mod state;

use std::sync::Arc;

use frigg_core::deferral::{Capabilities, DeadLetters, Options, Tier, degrade};
use futures_util::future::{BoxFuture, join, join4};
use futures_util::{StreamExt as _, stream};
use tokio::sync::Semaphore;
use tracing::Level;

use crate::book::{Book, Verdict};
use crate::clock::Clock;
use crate::config::Scheduling;
use crate::door::Doorkeeper;
use crate::ports::{CallError, CallErrorKind, QueueAttributes, Scheduler, Sqs};
use crate::queues::Queues;
use crate::record::Record;
use crate::report::Line;
use crate::rest::Rest;
use crate::run_state::{Mechanism, RunState, Status};
use crate::warnings::Warnings;

pub(crate) use pending::Pending;

/// State writes, and calls of one group, that are under way at once.
const AT_ONCE: usize = 8;

/// How a record was put back.
enum Done {
    Delay(u32),
    Schedule(String),
    Visibility(u32),
}

/// A record, the tier that was tried, and how that went.
type Outcome = (Pending, Tier, Result<Done, CallError>);

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
            retention: self.options.retention,
            dead_letters: DeadLetters::Unknown,
        }
    }

    /// What can be done for a record. Asks its queue, once per process, for what the environment does not say: from
    /// then on the record knows its last attempt.
    pub(crate) async fn capabilities(&self, record: &mut Record) -> Capabilities {
        let untold = self.capabilities_untold(record);
        let queue = self.know_queue(record).await;
        Capabilities {
            retention: untold
                .retention
                .or(queue.as_ref().and_then(|queue| queue.retention)),
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
                // At once: what others are told of it may take its time, and changes nothing.
                let verdict = match done {
                    Some(Done::Delay(_) | Done::Schedule(_)) => Verdict::Ack,
                    Some(Done::Visibility(_)) | None => Verdict::Fail,
                };
                book.decide(one.record.index, verdict);
                self.finish(&one, done, verdict).await;
            })
            .await;
    }

    /// State, then log, of a record that is decided about.
    async fn finish(&self, one: &Pending, done: Option<Done>, verdict: Verdict) {
        let record = &one.record;
        let line = one.line(self.clock.now());
        let (mechanism, line) = match done {
            Some(Done::Delay(seconds)) => (Mechanism::Delay, line.with_delay(seconds, one.schedule_error())),
            Some(Done::Schedule(name)) => (Mechanism::Schedule, line.with_schedule(&name)),
            Some(Done::Visibility(seconds)) => (
                Mechanism::Visibility,
                line.with_visibility(seconds, one.schedule_error()),
            ),
            None => {
                let (skipped, cause) = one.skip();
                return self.log_lost_or(record, line.with_skip(skipped, cause), "record_failed");
            }
        };
        let Some((_, limit)) = &one.cause else {
            return record.span.in_scope(|| line.write(Level::INFO, "record_early"));
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
}
