//! Frigg's `retryAfter`.

use http::{HeaderMap, header::RETRY_AFTER};

use super::{header, number_or_date};
use crate::rate_limit::Hint;
use crate::rate_limit::clock::Clock;
use crate::rate_limit::value::Unit;

/// `Retry-After` as RFC 9110, section 10.2.3 has it, seconds or an HTTP-date, plus what servers send in its place:
/// decimal seconds and ISO 8601. The first of several fields counts.
pub fn retry_after(headers: &HeaderMap, clock: Clock<'_>) -> Option<Hint> {
    let when = number_or_date(header(headers, RETRY_AFTER.as_str())?, Unit::Seconds)?;
    Hint::in_header(when, clock, &RETRY_AFTER)
}
