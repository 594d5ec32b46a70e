//! What the workers on one limit tell each other about a key: closed until when, and whose slot is next.
//!
//! A [`Gate`] is one key's entry in a store that all workers share. It has two lines of slots, each spaced evenly at
//! 95 % of the provider's rate:
//!
//! - [`Line::Return`]: when a message that waits comes back to the queue. One that is put back takes the next slot, so
//!   `n` of them arrive spread over `n` × window ÷ limit after the provider's time.
//! - [`Line::Call`]: when a call goes out. Messages come back by whole seconds and late at times, so their slots alone
//!   would let two windows' worth of calls meet in one; the second line sets them apart by the millisecond.
//!
//! Everything here is decided from one entry and written back in one step. A store does that step atomically.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::rate_limit::{Reason, Window};

/// A record may wait this long in its process, exclusively, rather than be put back for the rest.
pub const SHORT_WAIT: SignedDuration = SignedDuration::from_secs(1);

/// A message is expected to come so late at most. After that it has lost its turn: many of them at once are a new herd.
pub const LATE: SignedDuration = SignedDuration::from_secs(10);

/// One key's entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Gate {
    /// No call before this moment.
    pub closed_until: Option<Timestamp>,
    /// Which limit closed it.
    pub reason: Reason,
    /// Whose limit that was.
    pub module: Option<String>,
    /// The provider's window, where a refusal named it.
    pub window: Option<Window>,
    /// The first slot of [`Line::Return`] that nobody has.
    pub next_return: Option<Timestamp>,
    /// The first slot of [`Line::Call`] that nobody has.
    pub next_call: Option<Timestamp>,
}

/// A limit that was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// No call before this moment.
    pub until: Timestamp,
    /// Which limit.
    pub reason: Reason,
    /// Whose limit.
    pub module: Option<String>,
    /// The provider's window, where known.
    pub window: Option<Window>,
}

/// Which slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Line {
    /// Of messages that come back.
    Return,
    /// Of calls.
    Call,
}

/// Asks for the next slot of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// Of which.
    pub line: Line,
    /// Not before this moment.
    pub from: Timestamp,
    /// Before this moment, or none.
    pub before: Timestamp,
    /// To the slot after it.
    pub gap: Duration,
}

/// Whether a limit is paced before anybody has met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// From the first refusal on, until no message waits for a slot any more.
    #[default]
    WhenLimited,
    /// Always: every call takes a slot before it goes out (`FRIGG_PACE=shared`).
    Shared,
}

/// What the gate says to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Its handler runs.
    Go,
    /// Its handler runs in a slot of [`Line::Call`] within [`SHORT_WAIT`]; when there is none, it goes back as under
    /// [`Queue`](Self::Queue).
    Take(Window),
    /// It goes back: the key is closed until then.
    Closed(Timestamp),
    /// Others were here first: its handler runs in a slot of [`Line::Call`] that is free at this moment, because whoever
    /// should have it is late. When there is none, it goes back, to the end of [`Line::Return`].
    Queue(Window),
}

impl Gate {
    /// Closes it. The later time wins; whether that is this one.
    pub fn close(&mut self, closure: &Closure) -> bool {
        if self.closed_until.is_some_and(|stored| stored >= closure.until) {
            return false;
        }
        self.closed_until = Some(closure.until);
        self.reason = closure.reason;
        self.module.clone_from(&closure.module);
        self.window = closure.window.or(self.window);
        true
    }

    /// Until when it is closed, if it is.
    pub fn closed(&self, now: Timestamp) -> Option<Timestamp> {
        self.closed_until.filter(|until| *until > now)
    }

    /// Whether messages wait for a slot that is still to come, or may be late for the last one.
    pub fn has_line(&self, now: Timestamp) -> bool {
        self.next_return
            .is_some_and(|next| now.duration_since(next) < LATE)
    }

    /// The next slot of a line, taken.
    pub fn reserve(&mut self, asked: &Reservation) -> Option<Timestamp> {
        let next = match asked.line {
            Line::Return => &mut self.next_return,
            Line::Call => &mut self.next_call,
        };
        let slot = next.map_or(asked.from, |next| next.max(asked.from));
        if slot >= asked.before {
            return None;
        }
        *next = Some(slot.checked_add(asked.gap).unwrap_or(Timestamp::MAX));
        Some(slot)
    }

    /// What becomes of a record. `returns`: it comes back from a slot of its own. `window`: what is known of the limit
    /// beside what refusals said, which counts more.
    pub fn pass(&self, now: Timestamp, returns: bool, window: Option<Window>, pace: Pace) -> Passage {
        if let Some(until) = self.closed(now) {
            return Passage::Closed(until);
        }
        let line = self.has_line(now);
        match self.window.or(window) {
            Some(window) if line && !returns => Passage::Queue(window),
            Some(window) if line || pace == Pace::Shared => Passage::Take(window),
            _ => Passage::Go,
        }
    }
}

/// The time between two slots: the window's calls, spaced evenly, at 95 % of its rate. The rest is for calls that do not
/// take equally long to the provider.
pub fn gap(window: Window) -> Duration {
    // Whole microseconds, rounded up: what a store counts in.
    let micros = window.per.as_micros() * 20;
    let micros = micros.div_ceil(u128::from(window.limit.get()) * 19);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// How late a call may begin in its slot: half of what [`gap`] leaves between two windows' worth of calls. The other half
/// is for their ways to the provider.
pub fn leeway(window: Window) -> SignedDuration {
    SignedDuration::try_from(window.per / 38).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
