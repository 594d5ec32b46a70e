//! [`Verdict`]: what a classify function says about a response.

use std::time::Duration;

use jiff::Timestamp;

use super::{Place, Reason, Source};

/// A classify function's answer: this is a limit, for this reason, until then. Or: this is none.
///
/// It counts as a limit when it has a reason or a time; a policy name alone is none (Frigg's rule). A reason without a
/// time leaves the time to the parsers, then to the policy's window and minimum.
///
/// ```
/// use std::time::Duration;
/// use frigg_core::rate_limit::{Reason, Verdict};
///
/// let daily = Verdict::limit(Reason::Daily).with_wait(Duration::from_secs(3600)).with_policy("DAILY");
/// let final_error = Verdict::not_a_limit();
/// assert_ne!(daily, final_error);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    pub(crate) not_a_limit: bool,
    pub(crate) reason: Option<Reason>,
    pub(crate) wait: Option<Duration>,
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) policy: Option<String>,
    pub(crate) remaining: Option<u64>,
    pub(crate) source: Option<Source>,
    /// Where in the response the time was found.
    pub(crate) place: Option<Place>,
    /// The response's own times belong to another limit: read none.
    pub(crate) skip_parsers: bool,
}

impl Verdict {
    /// A limit of this kind.
    pub fn limit(reason: Reason) -> Self {
        Verdict {
            reason: Some(reason),
            ..Verdict::default()
        }
    }

    /// A limit that ends after this wait, of unknown kind.
    pub fn after(wait: Duration) -> Self {
        Verdict::default().with_wait(wait)
    }

    /// A limit that ends at this moment, of unknown kind.
    pub fn until(retry_at: Timestamp) -> Self {
        Verdict::default().with_retry_at(retry_at)
    }

    /// No limit, whatever status and headers say: waiting will not clear it.
    pub fn not_a_limit() -> Self {
        Verdict {
            not_a_limit: true,
            ..Verdict::default()
        }
    }

    /// Sets the reason.
    #[must_use]
    pub fn with_reason(self, reason: Reason) -> Self {
        Verdict {
            reason: Some(reason),
            ..self
        }
    }

    /// Sets the wait, counted from the response's arrival. Over 366 days it counts as none.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Self {
        Verdict {
            wait: Some(wait),
            ..self
        }
    }

    /// Sets the moment to come back, which wins over a wait. Over 366 days ahead it counts as none.
    #[must_use]
    pub fn with_retry_at(self, retry_at: Timestamp) -> Self {
        Verdict {
            retry_at: Some(retry_at),
            ..self
        }
    }

    /// Sets the provider's name for the limit.
    #[must_use]
    pub fn with_policy(self, policy: impl Into<String>) -> Self {
        Verdict {
            policy: Some(policy.into()),
            ..self
        }
    }

    /// Sets how many calls are left.
    #[must_use]
    pub fn with_remaining(self, remaining: u64) -> Self {
        Verdict {
            remaining: Some(remaining),
            ..self
        }
    }

    /// Sets where the time was learned: header, body or static; anything else is taken as body. Default: body.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Verdict {
            source: Some(source),
            ..self
        }
    }

    /// Which limit, where the verdict says so.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// The wait, where the verdict gives one.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The moment to come back, where the verdict gives one.
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at
    }

    /// The provider's name for the limit.
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// Where the time was learned.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// Whether the verdict says that the response is no limit.
    pub fn is_not_a_limit(&self) -> bool {
        self.not_a_limit
    }

    /// Whether it says anything at all; see [`Verdict`].
    pub(crate) fn counts(&self) -> bool {
        self.not_a_limit || self.reason.is_some() || self.wait.is_some() || self.retry_at.is_some()
    }
}
