//! What the runtime writes to the log: one line per outcome, with Frigg's event names and field names.

use frigg_core::deferral::{Counters, Limits};
use frigg_core::rate_limit::{Limit, LimitKind};
use frigg_core::time;
use jiff::Timestamp;
use tracing::Level;

use crate::error::HandlerError;
use crate::metrics;
use crate::run_state::Mechanism;

/// The longest error text in a line.
const MAX_TEXT: usize = 1024;

/// A line's fields; absent ones are not written.
#[derive(Debug, Default)]
pub(crate) struct Line {
    mechanism: Option<&'static str>,
    wait_ms: Option<i64>,
    delay_seconds: Option<u32>,
    schedule_name: Option<String>,
    schedule_error: Option<String>,
    visibility_timeout: Option<u32>,
    retry_at: Option<String>,
    deferrals: Option<u32>,
    first_deferred_at: Option<String>,
    max_deferrals: Option<u32>,
    max_deferred_ms: Option<u64>,
    deferred_ms: Option<i64>,
    reason: Option<&'static str>,
    module: Option<String>,
    status_code: Option<u16>,
    dead_letter_queue: Option<String>,
    skipped: Option<&'static str>,
    cause: Option<String>,
    operation: Option<&'static str>,
    error_type: Option<&'static str>,
    error_message: Option<String>,
}

impl Line {
    /// An ordinary failure.
    pub(crate) fn of_error(error: &HandlerError, body: &str) -> Line {
        Line {
            status_code: error.status(),
            error_type: Some(error.type_name()),
            error_message: Some(clean(&error.to_string(), body)),
            ..Line::default()
        }
    }

    /// A limited record: the fields that all its lines share.
    pub(crate) fn of_limit(error: &HandlerError, limit: &Limit, body: &str) -> Line {
        Line {
            reason: Some(match limit.kind {
                LimitKind::Unavailable => "unavailable",
                _ => limit.reason.frigg_name(),
            }),
            module: limit.module.clone(),
            status_code: limit.status,
            ..Line::of_error(error, body)
        }
    }

    pub(crate) fn with_time(self, now: Timestamp, retry_at: Timestamp, counters: &Counters) -> Line {
        Line {
            wait_ms: Some(millis(time::wait(now, retry_at))),
            retry_at: Some(time::iso(retry_at)),
            deferrals: Some(counters.deferrals),
            first_deferred_at: Some(time::iso(counters.first_deferred_at)),
            ..self
        }
    }

    pub(crate) fn with_caps(self, limits: &Limits, deferred: jiff::SignedDuration) -> Line {
        Line {
            max_deferrals: Some(limits.max_deferrals),
            max_deferred_ms: Some(u64::try_from(limits.max_deferred.as_millis()).unwrap_or(u64::MAX)),
            deferred_ms: Some(millis(deferred)),
            ..self
        }
    }

    /// With the reason why there is no schedule, where one was tried first.
    pub(crate) fn with_delay(self, seconds: u32, schedule_error: Option<String>) -> Line {
        Line {
            mechanism: Some(Mechanism::Delay.as_str()),
            delay_seconds: Some(seconds),
            schedule_error: schedule_error.as_deref().map(cut),
            ..self
        }
    }

    pub(crate) fn with_schedule(self, name: &str) -> Line {
        Line {
            mechanism: Some(Mechanism::Schedule.as_str()),
            schedule_name: Some(name.to_owned()),
            ..self
        }
    }

    pub(crate) fn with_visibility(self, seconds: u32, schedule_error: Option<String>) -> Line {
        let mechanism = Some(Mechanism::Visibility.as_str());
        Line {
            mechanism,
            visibility_timeout: Some(seconds),
            schedule_error: schedule_error.as_deref().map(cut),
            ..self
        }
    }

    pub(crate) fn with_dead_letter_queue(self, name: &str) -> Line {
        Line {
            dead_letter_queue: Some(name.to_owned()),
            ..self
        }
    }

    /// Why a limited record was not put back, or a dead one not buried.
    pub(crate) fn with_skip(self, skipped: &'static str, cause: Option<String>) -> Line {
        Line {
            skipped: Some(skipped),
            cause: cause.as_deref().map(cut),
            ..self
        }
    }

    pub(crate) fn of_state_fault(operation: &'static str, error: &str) -> Line {
        Line {
            operation: Some(operation),
            error_type: Some("Error"),
            error_message: Some(cut(error)),
            ..Line::default()
        }
    }

    /// Writes the line as `frigg.worker.<event>`.
    pub(crate) fn write(self, level: Level, event: &'static str) {
        metrics::count(
            event,
            self.mechanism,
            self.module.as_deref(),
            self.max_deferrals.is_some(),
        );
        macro_rules! at {
            ($level:expr) => {
                tracing::event!(
                    target: "frigg.worker", $level,
                    eventName = tracing::field::display(format_args!("frigg.worker.{event}")),
                    mechanism = self.mechanism,
                    waitMs = self.wait_ms,
                    delaySeconds = self.delay_seconds,
                    scheduleName = self.schedule_name,
                    scheduleError = self.schedule_error,
                    visibilityTimeout = self.visibility_timeout,
                    retryAt = self.retry_at,
                    deferrals = self.deferrals,
                    firstDeferredAt = self.first_deferred_at,
                    maxDeferrals = self.max_deferrals,
                    maxDeferredMs = self.max_deferred_ms,
                    deferredMs = self.deferred_ms,
                    reason = self.reason,
                    module = self.module,
                    statusCode = self.status_code,
                    deadLetterQueue = self.dead_letter_queue,
                    "deferral.skipped" = self.skipped,
                    "deferral.cause" = self.cause,
                    operation = self.operation,
                    "error.type" = self.error_type,
                    "error.message" = self.error_message,
                )
            };
        }
        match level {
            Level::ERROR => at!(Level::ERROR),
            Level::WARN => at!(Level::WARN),
            Level::INFO => at!(Level::INFO),
            Level::DEBUG => at!(Level::DEBUG),
            Level::TRACE => at!(Level::TRACE),
        }
    }
}

/// A text that a log line and a message attribute bear: without control characters and line separators, at most 1 KiB.
pub(crate) fn cut(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}');
    let clean = text.chars().map(|c| if breaks(c) { ' ' } else { c });
    let mut out = String::new();
    for c in clean {
        if out.len() + c.len_utf8() > MAX_TEXT {
            break;
        }
        out.push(c);
    }
    out
}

/// An error's text, cut, and without what it quotes of the message's body: parsers like to cite what they stumble
/// over, and that can be a secret.
pub(crate) fn clean(text: &str, body: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '`', '\'']) {
        let (quote, after) = rest[at..].split_at(1);
        out.push_str(&rest[..at]);
        out.push_str(quote);
        rest = after;
        if let Some(end) = rest.find(quote)
            && end > 0
            && body.contains(&rest[..end])
        {
            out.push('…');
            out.push_str(quote);
            rest = &rest[end + 1..];
        }
    }
    out.push_str(rest);
    cut(&out)
}

fn millis(duration: jiff::SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_quote_the_body() {
        let body = r#"{"id":"s3cr3t-9f","mode":"Full"}"#;
        for (text, want) in [
            (
                r#"invalid type: string "s3cr3t-9f", expected u64"#,
                r#"invalid type: string "…", expected u64"#,
            ),
            (
                "unknown variant `s3cr3t-9f`, expected `Delta`",
                "unknown variant `…`, expected `Delta`",
            ),
            ("it didn't work, and won't", "it didn't work, and won't"),
            ("an open \" quote", "an open \" quote"),
            (r#"an empty "" one"#, r#"an empty "" one"#),
            ("two\nlines\u{0}", "two lines "),
        ] {
            assert_eq!(clean(text, body), want);
        }
        assert_eq!(clean(&"x".repeat(5000), body).len(), MAX_TEXT);
    }
}
