//! The decision: what becomes of a record whose handler failed.
//!
//! [`plan`] answers *whether* a message is put back, and until when; [`tier`] answers *how*. They are apart because the
//! way is chosen again at the moment of the call: time has passed since the decision, and a way that failed is out.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Counters, Options};
use crate::delivery::Delivery;
use crate::gate;
use crate::rate_limit::{Limit, LimitKind, Reason, Window};
use crate::time;

/// The longest visibility extension that the runtime asks for: SQS's 12 h, which count from the receive, less a
/// function's 900 s and a batching window of 300 s.
pub const MAX_VISIBILITY: Duration = Duration::from_secs(43_200 - 900 - 300);
/// A schedule is never created less than this ahead.
pub const MIN_SCHEDULE_AHEAD: SignedDuration = SignedDuration::from_secs(60);
/// A retry time this near is none: a slow clock, or `Retry-After: 0`.
const NO_WAIT: SignedDuration = SignedDuration::from_secs(1);
/// How long a daily or monthly limit that gives no time is waited for.
const LONG_WINDOW_WAIT: Duration = Duration::from_secs(3600);
/// The first deferral of a message that is spread.
const SPREAD_FROM: u32 = 3;
const MAX_SPREAD: SignedDuration = SignedDuration::from_secs(900);
/// A hidden message is deleted when its retention ends; stay clear of that.
const RETENTION_MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// What a handler's failure means.
#[derive(Debug, Clone, Copy)]
pub enum Failure<'a> {
    /// A provider refused for now.
    Limited(&'a Limit),
    /// Anything that another receive may cure.
    Retryable,
    /// Nothing cures it: Frigg's "halt".
    Permanent,
    /// The message itself cannot be handled: it does not decode, or nobody handles its event.
    Unreadable,
}

/// What the runtime can do for this record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// A copy can be sent with a delay.
    pub delay: bool,
    /// A schedule can be created.
    pub schedule: bool,
    /// The visibility timeout can be changed.
    pub visibility: bool,
    /// The queue's retention, where known.
    pub retention: Option<Duration>,
    /// Where a message goes that can never be handled.
    pub dead_letters: DeadLetters,
}

/// Whether the queue has a dead-letter queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadLetters {
    /// It has one, and a copy can be sent there.
    Present,
    /// It has none.
    Absent,
    /// Nobody could tell. What can never be handled is then reported failed, and ends where the queue's own rule says.
    #[default]
    Unknown,
}

impl Capabilities {
    /// Without the way that just failed.
    #[must_use]
    fn without(self, failed: Tier) -> Capabilities {
        match failed {
            Tier::Delay { .. } => Capabilities { delay: false, ..self },
            Tier::Schedule { .. } => Capabilities {
                schedule: false,
                ..self
            },
            Tier::Visibility { .. } => Capabilities {
                visibility: false,
                ..self
            },
        }
    }
}

/// What is left to do for a record when the way back `failed`; `None` when that was the end, as a failed send is for
/// Frigg.
pub fn degrade(can: Capabilities, failed: Tier, options: &Options) -> Option<Capabilities> {
    match failed {
        Tier::Delay { .. } if options.is_frigg() => None,
        _ => Some(can.without(failed)),
    }
}

/// What becomes of the record.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Put it back until its time.
    Defer(Deferral),
    /// Report it failed: the queue delivers it again, or moves it to the dead-letter queue.
    Fail(Refusal),
    /// Send a copy to the dead-letter queue, with the reason, and acknowledge it once it is there.
    Bury(Burial),
    /// Acknowledge and drop it: a permanent failure (Frigg's "halt") where there is no dead-letter queue.
    Discard,
}

/// Why a message goes to the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Burial {
    /// The handler says that nothing cures it.
    Permanent,
    /// The message cannot be handled.
    Unreadable,
    /// It is limited, past a cap, and on its last receive.
    Capped(Capped),
}

impl Burial {
    /// `permanent`, `unreadable` or `deferral_capped`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Burial::Permanent => "permanent",
            Burial::Unreadable => "unreadable",
            Burial::Capped(_) => "deferral_capped",
        }
    }
}

/// A message that is put back.
#[derive(Debug, Clone, PartialEq)]
pub struct Deferral {
    /// It must not run before this moment. Whole milliseconds.
    pub retry_at: Timestamp,
    /// What its envelope says from now on.
    pub counters: Counters,
    /// How, if it were done at once and the time were not moved since. Effects ask [`tier`] again.
    pub tier: Tier,
}

/// The ways back to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// A copy with `DelaySeconds`; the record is acknowledged once it is sent.
    Delay {
        /// 0–900, rounded up.
        seconds: u32,
    },
    /// A one-time schedule that sends a copy; the record is acknowledged once it is created.
    Schedule {
        /// The moment, in whole seconds.
        at: Timestamp,
    },
    /// The record itself, hidden for longer and reported failed. It spends a receive.
    Visibility {
        /// 0–42,000, rounded up; less where the message's retention ends sooner.
        seconds: u32,
    },
}

/// Why a limited record is not put back, or that it was no limit at all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Not limited: an ordinary failure.
    NotLimited,
    /// The limit has no time (Frigg only; otherwise the ladder gives one).
    NoRetryAt,
    /// The record names no queue that it could be sent back to.
    NoEventSource,
    /// There is a queue, and no way back to it: no receipt handle on a FIFO queue, say.
    NoWayBack,
    /// A cap is passed.
    Capped(Capped),
}

/// The figures of a passed cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capped {
    /// What the envelope would have said.
    pub counters: Counters,
    /// The time that was asked for.
    pub retry_at: Timestamp,
}

/// Decides what becomes of a record whose handler failed.
///
/// `random` is uniform in `0.0..1.0`; it moves repeated deferrals apart. Same input, same decision.
pub fn plan(
    now: Timestamp,
    random: f64,
    failure: Failure<'_>,
    delivery: &Delivery,
    options: &Options,
    can: Capabilities,
) -> Decision {
    let limit = match failure {
        // A provider that is down and says until when is put back like a limit; Frigg knows no such thing.
        Failure::Limited(limit) if options.is_frigg() && limit.kind == LimitKind::Unavailable => {
            return Decision::Fail(Refusal::NotLimited);
        }
        Failure::Limited(limit) => limit,
        Failure::Retryable => return Decision::Fail(Refusal::NotLimited),
        Failure::Unreadable => return unreadable(options, can),
        Failure::Permanent => return permanent(options, can),
    };
    if options.is_frigg() && limit.retry_at.is_none() {
        return Decision::Fail(Refusal::NoRetryAt);
    }
    if delivery.queue_arn.is_none() || (options.is_frigg() && delivery.is_fifo()) {
        return Decision::Fail(Refusal::NoEventSource);
    }

    let (deferrals, first_deferred_at) = history(now, delivery, options, longest_delay(options, can));
    let told = time::ceil_to_millisecond(retry_time(now, limit, deferrals, options));
    let counters = Counters {
        deferrals,
        gated: delivery.gated,
        first_deferred_at,
        deferral_id: stable_id(delivery),
        retry_at: None,
    };
    let over = past_cap(&counters, told, options);
    let retry_at = spread(now, told, random, &counters, options, can);
    put_back(now, over, told, retry_at, counters, delivery, options, can)
}

/// Decides about a record whose key is closed until `until`, or has no place before then: it goes back without its
/// handler's having run. That is no deferral of its own, so only the cap on the time counts.
pub fn plan_gated(
    now: Timestamp,
    until: Timestamp,
    delivery: &Delivery,
    options: &Options,
    can: Capabilities,
) -> Decision {
    if delivery.queue_arn.is_none() {
        return Decision::Fail(Refusal::NoEventSource);
    }
    let (deferrals, first_deferred_at) = history(now, delivery, options, longest_delay(options, can));
    let told = time::ceil_to_millisecond(until.max(now));
    let counters = Counters {
        // As many as before: none of its own.
        deferrals: deferrals - 1,
        gated: delivery.gated.saturating_add(1),
        first_deferred_at,
        deferral_id: stable_id(delivery),
        retry_at: None,
    };
    let over = told > last_moment(&counters, options);
    put_back(now, over, told, told, counters, delivery, options, can)
}

/// When a limited message is to be tried again, before any spread: what the provider said, or what the ladder says in
/// its place.
pub fn told(now: Timestamp, limit: &Limit, delivery: &Delivery, options: &Options) -> Timestamp {
    let (deferrals, _) = history(now, delivery, options, options.max_delay().as_secs());
    time::ceil_to_millisecond(retry_time(now, limit, deferrals, options))
}

#[expect(
    clippy::too_many_arguments,
    reason = "the facts of one decision, each of another kind"
)]
fn put_back(
    now: Timestamp,
    over: bool,
    told: Timestamp,
    retry_at: Timestamp,
    mut counters: Counters,
    delivery: &Delivery,
    options: &Options,
    can: Capabilities,
) -> Decision {
    if over {
        let capped = Capped {
            counters,
            retry_at: told,
        };
        // Before that it still has receives left, and with them a chance.
        let buried = buries(options, can) && delivery.is_last_attempt();
        return if buried {
            Decision::Bury(Burial::Capped(capped))
        } else {
            Decision::Fail(Refusal::Capped(capped))
        };
    }
    if !options.is_frigg() {
        counters.retry_at = Some(retry_at);
    }
    match tier(now, retry_at, delivery, options, can) {
        Some(tier) => Decision::Defer(Deferral {
            retry_at,
            counters,
            tier,
        }),
        None => Decision::Fail(Refusal::NoWayBack),
    }
}

/// Frigg leaves dead letters to the queue.
fn buries(options: &Options, can: Capabilities) -> bool {
    can.dead_letters == DeadLetters::Present && !options.is_frigg()
}

fn permanent(options: &Options, can: Capabilities) -> Decision {
    match can.dead_letters {
        _ if options.is_frigg() => Decision::Discard,
        DeadLetters::Present => Decision::Bury(Burial::Permanent),
        DeadLetters::Absent => Decision::Discard,
        DeadLetters::Unknown => Decision::Fail(Refusal::NotLimited),
    }
}

/// The message's fault, not the moment's, and perhaps a deployment's: never discarded.
fn unreadable(options: &Options, can: Capabilities) -> Decision {
    if buries(options, can) {
        Decision::Bury(Burial::Unreadable)
    } else {
        Decision::Fail(Refusal::NotLimited)
    }
}

/// Decides about a record before its handler runs: one that is here before its time (a schedule that fired early, a
/// hop of a long wait) goes back for the rest, uncounted. `None`: run it.
pub fn plan_arrival(
    now: Timestamp,
    delivery: &Delivery,
    options: &Options,
    can: Capabilities,
) -> Option<Deferral> {
    let retry_at = delivery.retry_at.filter(|&at| at > now && !options.is_frigg())?;
    let retry_at = time::ceil_to_millisecond(retry_at);
    delivery.queue_arn.as_ref()?;
    let counters = Counters {
        deferrals: delivery.deferrals.max(u32::from(delivery.gated == 0)),
        gated: delivery.gated,
        first_deferred_at: time::ceil_to_millisecond(delivery.first_deferred_at.unwrap_or(now)),
        deferral_id: stable_id(delivery),
        retry_at: Some(retry_at),
    };
    let tier = tier(now, retry_at, delivery, options, can)?;
    Some(Deferral {
        retry_at,
        counters,
        tier,
    })
}

/// Chooses the way back for a wait until `retry_at`, among those that `can` still do. `None`: no way is left.
pub fn tier(
    now: Timestamp,
    retry_at: Timestamp,
    delivery: &Delivery,
    options: &Options,
    can: Capabilities,
) -> Option<Tier> {
    let wait = time::wait(now, retry_at);
    let seconds = time::ceil_seconds(wait);
    let longest_delay = longest_delay(options, can);
    let short = seconds <= longest_delay;
    let delay = Tier::Delay {
        seconds: seconds.min(longest_delay) as u32,
    };
    let longest = longest_visibility(now, delivery, options, can);
    let visibility = Tier::Visibility {
        seconds: seconds.min(longest) as u32,
    };

    if delivery.is_fifo() {
        // A copy would break the group's order, and FIFO queues know no delay per message.
        return can.visibility.then_some(visibility);
    }
    if can.delay && short {
        return Some(delay);
    }
    if can.schedule && wait >= MIN_SCHEDULE_AHEAD {
        let at = if options.is_frigg() {
            // Frigg drops the milliseconds, and is up to one second early.
            time::floor_to_second(retry_at)
        } else {
            time::ceil_to_second(retry_at)
        };
        return Some(Tier::Schedule { at });
    }
    let serves = can.visibility && seconds <= longest && !delivery.is_last_attempt();
    if can.delay && (!serves || options.relay) && !options.is_frigg() {
        // Relay: the longest delay, and from there the next one. The envelope says until when.
        return Some(delay);
    }
    can.visibility.then_some(visibility)
}

/// For how many seconds a copy can be delayed. Its retention runs from the moment when it is sent; half of that is left
/// for its delivery.
fn longest_delay(options: &Options, can: Capabilities) -> u64 {
    let longest = options.max_delay().as_secs();
    match can.retention {
        Some(keep) if !options.is_frigg() => longest.min(keep.as_secs() / 2),
        _ => longest,
    }
}

/// For how many seconds the message can be hidden: what SQS allows, and not past its retention, where SQS would delete
/// it. A message that is back too early is the lesser evil.
fn longest_visibility(now: Timestamp, delivery: &Delivery, options: &Options, can: Capabilities) -> u64 {
    let expires_at = can
        .retention
        .zip(delivery.sent_at)
        .and_then(|(keep, sent)| sent.checked_add(keep).ok());
    match expires_at {
        Some(at) if !options.is_frigg() => {
            let rest = time::wait(now, at).saturating_sub(RETENTION_MARGIN).as_secs();
            u64::try_from(rest).unwrap_or(0).min(MAX_VISIBILITY.as_secs())
        }
        _ => MAX_VISIBILITY.as_secs(),
    }
}

/// Number of this deferral, and the time of the first one, in the milliseconds that an envelope can say.
fn history(now: Timestamp, delivery: &Delivery, options: &Options, longest_delay: u64) -> (u32, Timestamp) {
    let first_received_at = delivery.first_received_at.unwrap_or(now).min(now);
    let (deferrals, first) = if options.is_frigg() {
        (delivery.deferrals.saturating_add(1), delivery.first_deferred_at)
    } else if delivery.is_fifo() {
        (delivery.receive_count.unwrap_or(1), Some(first_received_at))
    } else {
        let holds = holds(now, first_received_at, delivery, longest_delay);
        let deferrals = delivery.deferrals.saturating_add(holds).saturating_add(1);
        let held_since = (holds > 0).then_some(first_received_at);
        (deferrals, delivery.first_deferred_at.or(held_since))
    };
    (deferrals, time::ceil_to_millisecond(first.unwrap_or(now)))
}

/// How often this message was hidden for a limit, at most. It is the same message then, and its envelope cannot count
/// that; its receives do. What only failed was received again too, but a limit hides a message for longer than the
/// longest delay, or a copy would have been sent.
fn holds(now: Timestamp, first_received_at: Timestamp, delivery: &Delivery, longest_delay: u64) -> u32 {
    let again = delivery.receive_count.unwrap_or(1).saturating_sub(1);
    let since = now.duration_since(first_received_at).as_secs().unsigned_abs();
    again.min(u32::try_from(since / longest_delay.max(1)).unwrap_or(u32::MAX))
}

/// The id that the envelope carries. An empty one would be malformed, and the whole envelope with it.
fn stable_id(delivery: &Delivery) -> Option<String> {
    let id = delivery.stable_id();
    (!id.is_empty()).then(|| id.to_owned())
}

/// When the provider's answer says to come back; where it does not, when the ladder does.
fn retry_time(now: Timestamp, limit: &Limit, deferrals: u32, options: &Options) -> Timestamp {
    let ladder = || match limit.reason {
        Reason::Daily | Reason::Monthly => LONG_WINDOW_WAIT,
        _ => options.ladder.saturating_step(deferrals),
    };
    let later = |wait: Duration| now.checked_add(wait).unwrap_or(Timestamp::MAX);
    match limit.retry_at {
        Some(at) if options.is_frigg() => at,
        Some(at) if at.duration_since(now) > NO_WAIT => at,
        Some(at) => at.max(later(options.ladder.saturating_step(deferrals))),
        None => later(ladder()),
    }
}

/// A count over the limit, or a retry time too long after the first deferral. Equality is allowed.
fn past_cap(counters: &Counters, retry_at: Timestamp, options: &Options) -> bool {
    let limits = &options.limits;
    counters.deferrals > limits.max_deferrals || retry_at > last_moment(counters, options)
}

fn last_moment(counters: &Counters, options: &Options) -> Timestamp {
    counters
        .first_deferred_at
        .checked_add(options.limits.max_deferred)
        .unwrap_or(Timestamp::MAX)
}

/// Adds a random time after a repeated deferral. Messages that all come back exactly when told meet the same window
/// again, and all but its first few burn their caps.
fn spread(
    now: Timestamp,
    told: Timestamp,
    random: f64,
    counters: &Counters,
    options: &Options,
    can: Capabilities,
) -> Timestamp {
    if options.is_frigg() || counters.deferrals < SPREAD_FROM {
        return told;
    }
    let doublings = (counters.deferrals - 2).min(16);
    let width = time::wait(now, told).saturating_mul(1 << doublings);
    spread_by(now, told, width, random, counters, options, can)
}

/// `told`, and a random share of `width` (at most 900 s) after it.
fn spread_by(
    now: Timestamp,
    told: Timestamp,
    width: SignedDuration,
    random: f64,
    counters: &Counters,
    options: &Options,
    can: Capabilities,
) -> Timestamp {
    let random = if random.is_nan() {
        0.0
    } else {
        random.clamp(0.0, 1.0)
    };
    let extra = SignedDuration::from_secs_f64(width.min(MAX_SPREAD).as_secs_f64() * random);
    let spread = told.checked_add(extra).unwrap_or(told);
    // Neither past the cap, nor out of the delay tier into one that spends a receive.
    let delay_ends = now.checked_add(options.max_delay()).unwrap_or(Timestamp::MAX);
    let bound = if can.schedule || told > delay_ends {
        last_moment(counters, options)
    } else {
        last_moment(counters, options).min(delay_ends)
    };
    time::floor_to_millisecond(spread.min(bound))
}

impl Deferral {
    /// Comes back in a slot of its own rather than when it was told: never before that, and not past the cap on the
    /// time.
    #[must_use]
    pub fn at_slot(self, slot: Timestamp, options: &Options) -> Deferral {
        let told = self.retry_at;
        let slot = time::ceil_to_millisecond(slot).min(last_moment(&self.counters, options));
        self.moved_to(slot.max(told))
    }

    /// Comes back at a random moment of the time that the whole `backlog` takes at the window's rate, at most 900 s
    /// after it was told. For queues whose workers have no gate in common.
    #[must_use]
    pub fn spread_over(
        self,
        now: Timestamp,
        backlog: u64,
        window: Window,
        random: f64,
        options: &Options,
        can: Capabilities,
    ) -> Deferral {
        let width = gate::gap(window).as_secs_f64() * backlog as f64;
        let width = SignedDuration::try_from_secs_f64(width).unwrap_or(MAX_SPREAD);
        let at = spread_by(now, self.retry_at, width, random, &self.counters, options, can);
        self.moved_to(at)
    }

    fn moved_to(mut self, at: Timestamp) -> Deferral {
        self.retry_at = at;
        self.counters.retry_at = self.counters.retry_at.map(|_| at);
        self
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
