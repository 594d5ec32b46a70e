//! Frigg's `resetHeaders`.

use http::{HeaderMap, HeaderName};

use super::{header, number_or_date};
use crate::rate_limit::Hint;
use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::value::{Number, Unit};

const RESET_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-reset-after");
const RESET: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-reset"),
    HeaderName::from_static("ratelimit-reset"),
    HeaderName::from_static("x-rate-limit-reset"),
];
const REMAINING: [&str; 3] = [
    "x-ratelimit-remaining",
    "ratelimit-remaining",
    "x-rate-limit-remaining",
];

/// The reset headers without a bucket in their name: `X-RateLimit-Reset-After` in seconds, else the first readable one
/// of `X-RateLimit-Reset`, `RateLimit-Reset`, `X-Rate-Limit-Reset`: an epoch or seconds by size, or a date.
///
/// What is left of the budget is reported and not judged; [`buckets()`](super::buckets()) judges it. Drafts up to -06 of
/// draft-ietf-httpapi-ratelimit-headers name `RateLimit-Reset` (in seconds); several providers put an epoch there.
pub fn reset_headers(headers: &HeaderMap, clock: Clock<'_>) -> Option<Hint> {
    let after = header(headers, RESET_AFTER.as_str()).and_then(Number::parse);
    let hint = match after {
        Some(after) => Hint::in_header(When::After(after.seconds()), clock, &RESET_AFTER),
        None => RESET.iter().find_map(|name| {
            Hint::in_header(
                number_or_date(header(headers, name.as_str())?, Unit::BySize)?,
                clock,
                name,
            )
        }),
    };
    Some(Hint {
        remaining: remaining(headers),
        ..hint?
    })
}

fn remaining(headers: &HeaderMap) -> Option<u64> {
    let text = REMAINING.iter().find_map(|name| header(headers, name))?;
    Number::parse(text).map(Number::whole)
}
