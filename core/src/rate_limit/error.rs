//! [`RateLimited`]: the error that sends a message back to the queue, and the vocabulary of its fields.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;

/// Which limit was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reason {
    /// Seconds: too many calls at once.
    Burst,
    /// A limit per minute.
    Minute,
    /// A limit per hour.
    Hourly,
    /// A limit per day.
    Daily,
    /// A limit per month.
    Monthly,
    /// Too many calls at the same time.
    Concurrency,
    /// A budget of points or tokens rather than calls.
    Cost,
    /// The provider did not say.
    #[default]
    Unknown,
}

impl Reason {
    /// The reason's own name: `burst`, `minute`, `hourly`, `daily`, `monthly`, `concurrency`, `cost`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Burst => "burst",
            Reason::Minute => "minute",
            Reason::Hourly => "hourly",
            Reason::Daily => "daily",
            Reason::Monthly => "monthly",
            Reason::Concurrency => "concurrency",
            Reason::Cost => "cost",
            Reason::Unknown => "unknown",
        }
    }

    /// The name in Frigg's logs and stored state, which knows five: the short ones are written as `burst`.
    pub fn frigg_name(self) -> &'static str {
        match self {
            Reason::Minute | Reason::Hourly | Reason::Cost => "burst",
            other => other.as_str(),
        }
    }

    /// The reason of a limit with a window of this length: under a minute burst, under an hour minute, under a day
    /// hourly, under 28 days daily, else monthly.
    pub fn of_window(length: Duration) -> Reason {
        match length.as_secs() {
            0..60 => Reason::Burst,
            60..3_600 => Reason::Minute,
            3_600..86_400 => Reason::Hourly,
            86_400..2_419_200 => Reason::Daily,
            _ => Reason::Monthly,
        }
    }

    /// The reverse of [`as_str`](Self::as_str), in lower case only.
    pub fn from_name(name: &str) -> Option<Reason> {
        Some(match name {
            "burst" => Reason::Burst,
            "minute" => Reason::Minute,
            "hourly" => Reason::Hourly,
            "daily" => Reason::Daily,
            "monthly" => Reason::Monthly,
            "concurrency" => Reason::Concurrency,
            "cost" => Reason::Cost,
            "unknown" => Reason::Unknown,
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the time to wait was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Source {
    /// A response header.
    Header,
    /// The response body.
    Body,
    /// The provider's documented window or minimum wait.
    Static,
    /// Nothing said so: the ladder of waits.
    Backoff,
    /// Not known; Frigg's default.
    #[default]
    Unknown,
}

impl Source {
    /// `header`, `body`, `static`, `backoff` or `unknown`, as Frigg writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Header => "header",
            Source::Body => "body",
            Source::Static => "static",
            Source::Backoff => "backoff",
            Source::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of "not now" it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LimitKind {
    /// A rate limit.
    #[default]
    RateLimit,
    /// The provider is unavailable and says until when (a retryable 5xx with a time): put back like a limit, but none.
    Unavailable,
}

/// A known window: at most `limit` calls in any `per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// Calls allowed.
    pub limit: NonZeroU32,
    /// Length of the window.
    pub per: Duration,
}

/// The facts of one refusal.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Limit {
    /// Not before this moment. `None`: the provider gave no time.
    pub retry_at: Option<Timestamp>,
    /// The wait as it was read, before it became [`retry_at`](Self::retry_at).
    pub wait: Option<Duration>,
    /// Which limit.
    pub reason: Reason,
    /// A rate limit, or an unavailable provider.
    pub kind: LimitKind,
    /// The provider's name for the limit (`DAILY`, `search`).
    pub policy: Option<String>,
    /// Where the time was learned.
    pub source: Source,
    /// The module (provider) that refused: `hubspot`.
    pub module: Option<String>,
    /// Whose limit it is: `hubspot:entity:7`.
    pub scope_key: Option<String>,
    /// HTTP status of the refusal.
    pub status: Option<u16>,
    /// The provider's window for this limit, as documented or as its answer states it.
    pub window: Option<Window>,
}

/// A `Limit` is the source of every [`RateLimited`], where [`marker`](crate::marker) finds it.
impl Error for Limit {}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(module) = &self.module {
            write!(f, "{module}: ")?;
        }
        match self.kind {
            LimitKind::RateLimit => write!(f, "rate limited ({})", self.reason)?,
            LimitKind::Unavailable => f.write_str("unavailable")?,
        }
        match self.retry_at {
            Some(at) => write!(f, ", not before {at:.3}"),
            None => f.write_str(", no time given"),
        }
    }
}

/// The error for "the provider refuses for now": the worker puts the message back until [`Limit::retry_at`].
///
/// It is recognised through `?`, `anyhow`, `Box<dyn Error>`, `Arc` and `#[error(transparent)]`; see
/// [`marker`](crate::marker).
///
/// ```
/// use frigg_core::rate_limit::{RateLimited, Reason};
///
/// let error = RateLimited::until("2026-09-28T23:00:00Z".parse()?)
///     .with_reason(Reason::Daily)
///     .with_module("hubspot")
///     .with_status(429);
/// assert_eq!(error.to_string(), "hubspot: rate limited (daily), not before 2026-09-28T23:00:00.000Z");
/// # Ok::<(), jiff::Error>(())
/// ```
// Boxed: an error that travels through `Result` should be small.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimited(Box<Limit>);

impl RateLimited {
    /// From the facts of a refusal.
    pub fn new(limit: Limit) -> Self {
        RateLimited(Box::new(limit))
    }

    /// Not before `retry_at`.
    pub fn until(retry_at: Timestamp) -> Self {
        Self::new(Limit {
            retry_at: Some(retry_at),
            ..Limit::default()
        })
    }

    /// Not before `now + wait`. A wait that passes the end of time counts as no time given.
    pub fn after(now: Timestamp, wait: Duration) -> Self {
        Self::new(Limit {
            retry_at: now.checked_add(wait).ok(),
            wait: Some(wait),
            ..Limit::default()
        })
    }

    /// Limited, and nobody knows for how long. The worker waits by its ladder.
    pub fn without_time() -> Self {
        Self::new(Limit {
            source: Source::Backoff,
            ..Limit::default()
        })
    }

    /// Sets [`Limit::reason`]. Default: [`Reason::Unknown`].
    #[must_use]
    pub fn with_reason(self, reason: Reason) -> Self {
        self.with(|limit| limit.reason = reason)
    }

    /// Sets [`Limit::module`]: the provider's short name, as it shall appear in logs.
    #[must_use]
    pub fn with_module(self, module: impl Into<String>) -> Self {
        self.with(|limit| limit.module = Some(module.into()))
    }

    /// Sets [`Limit::scope_key`].
    #[must_use]
    pub fn with_scope_key(self, key: impl Into<String>) -> Self {
        self.with(|limit| limit.scope_key = Some(key.into()))
    }

    /// Sets [`Limit::status`].
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        self.with(|limit| limit.status = Some(status))
    }

    /// Sets [`Limit::window`], which lets the worker spread waiting messages over the provider's rate.
    #[must_use]
    pub fn with_window(self, window: Window) -> Self {
        self.with(|limit| limit.window = Some(window))
    }

    fn with(mut self, set: impl FnOnce(&mut Limit)) -> Self {
        set(&mut self.0);
        self
    }

    /// The facts of the refusal.
    pub fn limit(&self) -> &Limit {
        &self.0
    }
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit().fmt(f)
    }
}

impl Error for RateLimited {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}
