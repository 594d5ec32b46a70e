//! What a handler's error means, and why a worker cannot start.

use std::error::Error as StdError;
use std::fmt;

use frigg_core::deferral::Failure;
use frigg_core::marker;
use frigg_core::rate_limit::Limit;

use crate::door::Gated;

/// Any error, boxed.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An error at the start or in the loop of a worker: what is missing, and what to do.
#[derive(Debug)]
pub struct Error {
    message: String,
    source: Option<BoxError>,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Error {
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn with_source(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Error {
            message: message.into(),
            source: Some(source.into()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// What a handler returns when it fails.
///
/// Every error becomes one through `?` and is retried by the queue, unless a
/// [`RateLimited`](frigg_core::rate_limit::RateLimited) is in it or under it (then the message is put back until its
/// time), or a [`Permanent`](frigg_core::marker::Permanent) mark (then it is not tried again).
///
/// ```
/// use frigg_core::rate_limit::RateLimited;
/// use frigg_worker::HandlerError;
///
/// fn call() -> Result<(), HandlerError> {
///     "seven".parse::<u32>()?; // retried
///     Ok(())
/// }
/// assert!(!call().unwrap_err().is_permanent());
/// assert!(HandlerError::permanent("no such contact").is_permanent());
/// assert!(HandlerError::from(RateLimited::without_time()).is_rate_limited());
/// ```
pub struct HandlerError {
    kind: Kind,
    error: BoxError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As its markers say; retryable without one.
    Marked,
    /// Retryable, whatever its markers say of permanence.
    Retryable,
    Permanent,
    Unreadable,
    Panicked,
    TimedOut,
    /// The handler was not called: its key is closed.
    Gated,
    /// The handler was not called: a record ahead of it in its FIFO group did not get through.
    Held,
    /// The handler was not called: the message became visible before its turn.
    Lost,
}

impl HandlerError {
    /// A failure that no retry can cure: never tried again (Frigg's "halt").
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        HandlerError {
            kind: Kind::Permanent,
            error: error.into(),
        }
    }

    /// A failure that the queue's next delivery may cure, whatever is in `error`, but for a rate limit.
    pub fn retryable(error: impl Into<BoxError>) -> Self {
        HandlerError {
            kind: Kind::Retryable,
            error: error.into(),
        }
    }

    /// The message itself cannot be handled; it is kept for people to look at.
    pub(crate) fn unreadable(error: impl Into<BoxError>) -> Self {
        HandlerError {
            kind: Kind::Unreadable,
            error: error.into(),
        }
    }

    pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        HandlerError {
            kind: Kind::Panicked,
            error: format!("the handler panicked: {text}").into(),
        }
    }

    pub(crate) fn timed_out() -> Self {
        let error = "the handler did not end before the batch's deadline and was cancelled".into();
        HandlerError {
            kind: Kind::TimedOut,
            error,
        }
    }

    /// A record ahead of it in its FIFO group did not get through.
    pub(crate) fn held() -> Self {
        HandlerError {
            kind: Kind::Held,
            error: "a record ahead of it in its group did not get through".into(),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.kind, Kind::Held)
    }

    /// Its message became visible before its turn.
    pub(crate) fn lost() -> Self {
        HandlerError {
            kind: Kind::Lost,
            error: "the message's visibility timeout ended before its turn, and another worker may have it; allow a longer one"
                .into(),
        }
    }

    pub(crate) fn gated(gated: Gated) -> Self {
        HandlerError {
            kind: Kind::Gated,
            error: Box::new(gated),
        }
    }

    /// Until when, and why, where the record was not let in.
    pub(crate) fn as_gated(&self) -> Option<&Gated> {
        self.error.downcast_ref().filter(|_| self.kind == Kind::Gated)
    }

    pub(crate) fn unconfirmed() -> Self {
        let error = "the batch had to answer before the record was through".into();
        HandlerError {
            kind: Kind::TimedOut,
            error,
        }
    }

    /// Whether the message is not tried again.
    pub fn is_permanent(&self) -> bool {
        matches!(self.failure(), Failure::Permanent)
    }

    /// Whether the message is put back until a provider's time.
    pub fn is_rate_limited(&self) -> bool {
        matches!(self.failure(), Failure::Limited(_))
    }

    /// The provider's refusal, where there is one.
    pub fn limit(&self) -> Option<&Limit> {
        match self.failure() {
            Failure::Limited(limit) => Some(limit),
            _ => None,
        }
    }

    /// The HTTP status that the error speaks of.
    pub fn status(&self) -> Option<u16> {
        match self.limit() {
            Some(limit) => limit.status,
            None => marker::find_permanent(&*self.error).and_then(|mark| mark.status),
        }
    }

    pub(crate) fn failure(&self) -> Failure<'_> {
        match self.kind {
            Kind::Permanent => return Failure::Permanent,
            Kind::Unreadable => return Failure::Unreadable,
            Kind::Panicked | Kind::TimedOut | Kind::Gated | Kind::Held | Kind::Lost => {
                return Failure::Retryable;
            }
            Kind::Marked | Kind::Retryable => {}
        }
        if let Some(limit) = marker::find_limit(&*self.error) {
            return Failure::Limited(limit);
        }
        if self.kind == Kind::Marked && marker::find_permanent(&*self.error).is_some() {
            Failure::Permanent
        } else {
            Failure::Retryable
        }
    }

    /// The class that logs show: Frigg's `RateLimitError`, or one of ours.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Unreadable => "DecodeError",
            Kind::Panicked => "Panic",
            Kind::TimedOut => "Timeout",
            Kind::Gated => "Gated",
            Kind::Held => "Held",
            Kind::Lost => "VisibilityLost",
            Kind::Marked | Kind::Retryable if self.is_rate_limited() => "RateLimitError",
            Kind::Marked | Kind::Retryable | Kind::Permanent => "Error",
        }
    }
}

impl<E: Into<BoxError>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        HandlerError {
            kind: Kind::Marked,
            error: error.into(),
        }
    }
}

/// The error and its sources, `: ` between them, those left out that the text before already says.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(&*self.error))
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({:?}: {self})", self.kind)
    }
}

/// An error with its sources in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = source.source();
    }
    text
}
