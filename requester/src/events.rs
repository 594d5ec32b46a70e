//! What a requester writes to the log: Frigg's event names and field names, nothing secret.

use std::error::Error;
use std::time::Duration;

use frigg_core::rate_limit::Hint;
use frigg_core::time;
use jiff::Timestamp;
use tracing::{debug, trace, warn};

use crate::error::FetchError;

/// The longest error text in a line.
const MAX_TEXT: usize = 1024;

/// Writes the lines of one module: `module.<label>.<event>`, from the logger `module.<label>`.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    label: String,
}

// The logger is a field: a target of `tracing` cannot be made at run time.
macro_rules! event {
    ($level:ident, $events:expr, $name:literal, $($fields:tt)*) => {
        $level!(
            logger = %format_args!("module.{}", $events.label),
            eventName = %format_args!(concat!("module.{}.", $name), $events.label),
            $($fields)*
        )
    };
}

impl Events {
    pub(crate) fn new(label: &str) -> Self {
        Events {
            label: label.to_owned(),
        }
    }

    /// Before the sleep that a hint asks for.
    pub(crate) fn rate_limited(
        &self,
        status: u16,
        hint: &Hint,
        wait: Duration,
        now: Timestamp,
        tried: (u32, Duration),
    ) {
        let (attempt, waited) = tried;
        event!(
            trace,
            self,
            "rate_limited",
            statusCode = status,
            waitMs = millis(wait),
            retryAt = now.checked_add(wait).ok().map(time::iso),
            reason = hint.reason.frigg_name(),
            hintSource = hint.source.as_str(),
            attempt,
            waitedMs = millis(waited),
        );
    }

    /// Before every retry.
    pub(crate) fn retry(&self, error: &FetchError, delay: Duration, attempt: u32) {
        event!(
            debug,
            self,
            "retry",
            statusCode = error.status().map(|status| status.as_u16()),
            delayMs = millis(delay),
            attempt,
        );
    }

    /// Once for a call that fails.
    pub(crate) fn request_failed(&self, error: &FetchError, headers: &http::HeaderMap) {
        event!(debug, self, "request_failed",
            method = %error.method(),
            url = %error.url(),
            statusCode = error.status().map(|status| status.as_u16()),
            headers = ?headers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(),
        );
    }

    /// The policy's classify function panicked.
    pub(crate) fn classify_failed(&self, status: u16, message: &str) {
        event!(
            warn,
            self,
            "rate_limit_classify_failed",
            statusCode = status,
            error.message = cut(message),
        );
    }

    pub(crate) fn notify_failed(&self, error: &dyn Error) {
        event!(
            warn,
            self,
            "rate_limit_notify_failed",
            error.message = cut(&error.to_string())
        );
    }

    pub(crate) fn credential_store_failed(&self, operation: &str, error: &dyn Error) {
        event!(
            warn,
            self,
            "credential_store_failed",
            operation,
            error.message = cut(&error.to_string())
        );
    }
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
