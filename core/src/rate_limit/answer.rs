//! [`Answer`]: limited, unavailable until a time, or neither.

use std::time::Duration;

use jiff::Timestamp;

use super::{Hint, Limit, LimitKind, RateLimited, Source, Window};
use crate::backoff::{Ladder, MIN_HINTED_WAIT};

/// What a response means to a caller who would wait.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// A rate limit that waiting clears.
    Limited(Refusal),
    /// A retryable server error that says when to come back. No limit, and put back like one.
    Unavailable(Refusal),
    /// A success, or an error that waiting does not clear.
    Neither,
}

impl Answer {
    /// Whether it is a rate limit.
    pub fn is_limited(&self) -> bool {
        matches!(self, Answer::Limited(_))
    }

    /// The refusal: a limit, or an unavailability with a time.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Answer::Limited(refusal) | Answer::Unavailable(refusal) => Some(refusal),
            Answer::Neither => None,
        }
    }

    /// When to call again, why, and where that was learned.
    pub fn hint(&self) -> Option<&Hint> {
        self.refusal().map(|refusal| &refusal.hint)
    }

    /// The error to return from a handler; `None` when there is nothing to wait for.
    pub fn into_error(self) -> Option<RateLimited> {
        match self {
            Answer::Limited(refusal) => Some(refusal.into_error(LimitKind::RateLimit)),
            Answer::Unavailable(refusal) => Some(refusal.into_error(LimitKind::Unavailable)),
            Answer::Neither => None,
        }
    }

    /// `Err` when the provider says "not now", so that one `?` in a handler puts its message back.
    pub fn check(self) -> Result<(), RateLimited> {
        self.into_error().map_or(Ok(()), Err)
    }

    /// Gives a bare 429 the ladder's step for this attempt, counted from 0 (Frigg's resolution order, last step): wait 0
    /// past the end, source [`Backoff`](Source::Backoff). Anything that has a time, or another status, stays as it is.
    #[must_use]
    pub fn or_step(self, attempt: u32, ladder: &Ladder) -> Self {
        match self {
            Answer::Limited(mut refusal) if refusal.status == 429 && refusal.hint.wait.is_none() => {
                let wait = ladder.step(attempt.saturating_add(1)).unwrap_or_default();
                refusal.hint.wait = Some(wait);
                refusal.hint.retry_at = refusal.received_at.checked_add(wait).ok();
                refusal.hint.source = Source::Backoff;
                Answer::Limited(refusal)
            }
            other => other,
        }
    }
}

/// A provider's "not now", with what the policy knows about it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// When to call again, why, and where that was learned.
    pub hint: Hint,
    /// HTTP status.
    pub status: u16,
    /// When the response arrived.
    pub received_at: Timestamp,
    /// The provider's short name, where known.
    pub module: Option<String>,
    /// The provider's documented window for this reason, where its limit is known; else the one that the response states.
    pub window: Option<Window>,
    /// The policy's shortest wait.
    pub min_retry_after: Option<Duration>,
}

impl Refusal {
    /// How long to wait at least: the hint, never under the policy's minimum or one second. `None` without a time.
    pub fn base_wait(&self) -> Option<Duration> {
        Some(
            self.hint
                .wait?
                .max(self.min_retry_after.unwrap_or_default())
                .max(MIN_HINTED_WAIT),
        )
    }

    fn into_error(self, kind: LimitKind) -> RateLimited {
        let wait = self.base_wait();
        RateLimited::new(Limit {
            retry_at: wait.and_then(|wait| self.received_at.checked_add(wait).ok()),
            wait,
            reason: self.hint.reason,
            kind,
            policy: self.hint.policy,
            source: self.hint.source,
            module: self.module,
            scope_key: None,
            status: Some(self.status),
            window: self.window,
        })
    }
}
