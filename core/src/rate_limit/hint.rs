//! [`Hint`]: what one response says about when to call again.

use std::time::Duration;

use http::HeaderName;
use jiff::Timestamp;

use super::clock::{Clock, When};
use super::{Limit, RateLimited, Reason, Source};

/// When to call again, why, and where that was learned.
///
/// A hint with neither [`wait`](Self::wait) nor [`retry_at`](Self::retry_at) says that there is a limit, and nothing about its end.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Hint {
    /// Not before this moment, by the local clock. It is in the past when the stated time is.
    pub retry_at: Option<Timestamp>,
    /// Time from the response's arrival until then; zero when the stated time has passed. At most 366 days.
    pub wait: Option<Duration>,
    /// Which limit was hit.
    pub reason: Reason,
    /// The provider's name for the limit.
    pub policy: Option<String>,
    /// Calls left, where the response says so.
    pub remaining: Option<u64>,
    /// Where the time was learned.
    pub source: Source,
    /// The exact place, for people; see [`explain`](super::Policy::explain).
    pub place: Option<Place>,
}

/// The place in a response that gave a time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A header.
    Header(HeaderName),
    /// A key of a JSON body.
    Field(String),
    /// The words of the body.
    Words,
}

impl Hint {
    /// The hint for a time in a header or body. `None` for a wait over 366 days.
    pub(crate) fn new(when: When, clock: Clock<'_>, source: Source) -> Option<Hint> {
        let (wait, retry_at) = clock.resolve(when)?;
        Some(Hint {
            retry_at: Some(retry_at),
            wait: Some(wait),
            source,
            ..Hint::default()
        })
    }

    pub(crate) fn in_header(when: When, clock: Clock<'_>, name: &HeaderName) -> Option<Hint> {
        Some(Hint {
            place: Some(Place::Header(name.clone())),
            ..Hint::new(when, clock, Source::Header)?
        })
    }
}

impl RateLimited {
    /// From a hint. `wait`, when given, counts from `now` and wins over the hint's own times; else its moment does, with
    /// the rest of the time until then as wait; else its wait from `now`.
    pub fn from_hint(hint: Hint, wait: Option<Duration>, now: Timestamp) -> Self {
        let rest = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
        let (wait, retry_at) = match (wait, hint.retry_at) {
            (Some(wait), _) => (Some(wait), now.checked_add(wait).ok()),
            (None, Some(at)) => (Some(rest(at)), Some(at)),
            (None, None) => (hint.wait, hint.wait.and_then(|wait| now.checked_add(wait).ok())),
        };
        RateLimited::new(Limit {
            retry_at,
            wait,
            reason: hint.reason,
            policy: hint.policy,
            source: hint.source,
            ..Limit::default()
        })
    }
}
