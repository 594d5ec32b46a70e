//! What the provider remembers, as plain data: tests read it, and the admin endpoint writes it as JSON.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One call that came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Whose limit it counted against.
    pub key: String,
    /// GET, POST, …
    pub method: String,
    /// Without the query.
    pub path: String,
    /// The request header `x-request-id`: the id of the message that made it, when the caller sends it along.
    pub request_id: Option<String>,
    /// When it came.
    pub at: Timestamp,
    /// The same by the monotonic clock, since the provider's start.
    pub since_start: Duration,
    /// Whether it was served.
    pub accepted: bool,
    /// The answer's status.
    pub status: u16,
    /// A refused call's `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The time that `Retry-After` means, by the provider's clock: a call before it is an early one.
    pub retry_at: Option<Timestamp>,
    /// The limit that refused it.
    pub policy: Option<String>,
}

/// A stretch in which a key's calls were refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Whose limit.
    pub key: String,
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
    /// The limit's name.
    pub policy: String,
}

/// An answer that a test lays ready for a key's next call, in place of what the limit says.
#[derive(Clone, Debug)]
pub struct Canned {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) after: Duration,
}

impl Canned {
    /// An answer with this status, no headers and an empty body, given at once.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
            after: Duration::ZERO,
        }
    }

    /// A response header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// Answers this much later (in real time). Default: at once.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }
}
