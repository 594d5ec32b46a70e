//! Every spelling of Retry-After.

use http::{HeaderMap, HeaderName};

use crate::rate_limit::Hint;
use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::value::{self, Number, Unit};

/// Every header whose name ends in `Retry-After`, also with a vendor's prefix (`X-RateLimit-Retry-After`, `Beta-Retry-After`)
/// and with a unit (`Retry-After-Ms`, `X-Ms-Retry-After-Ms`).
///
/// A value is seconds with or without a fraction, an HTTP-date (RFC 9110, section 10.2.3), an ISO 8601 time, a duration
/// text, or an epoch by its size. Milliseconds are the more exact, so they win; else the longest valid value does, also
/// of several fields, or of a list into which a proxy joined them.
pub fn retry_headers(headers: &HeaderMap, clock: Clock<'_>) -> Option<Hint> {
    let hints = headers.iter().filter_map(|(name, value)| {
        let unit = unit_of(name)?;
        let hint = longest(value.to_str().ok()?.trim(), unit, clock, name)?;
        Some((unit == Unit::Millis, hint))
    });
    hints
        .max_by_key(|(millis, hint)| (*millis, hint.wait))
        .map(|(_, hint)| hint)
}

/// The unit that the name says, when it is a Retry-After at all.
fn unit_of(name: &HeaderName) -> Option<Unit> {
    let name = name.as_str();
    // Cheap, and true of most names.
    if !matches!(name.as_bytes().last(), Some(b'r' | b's')) {
        return None;
    }
    for (suffix, unit) in [
        ("-ms", Unit::Millis),
        ("-milliseconds", Unit::Millis),
        ("-seconds", Unit::Seconds),
    ] {
        if let Some(name) = name.strip_suffix(suffix) {
            return is_retry_after(name).then_some(unit);
        }
    }
    is_retry_after(name).then_some(Unit::BySize)
}

fn is_retry_after(name: &str) -> bool {
    let Some(prefix) = name
        .strip_suffix("retry-after")
        .or_else(|| name.strip_suffix("retryafter"))
    else {
        return false;
    };
    prefix.is_empty() || prefix.ends_with('-')
}

fn longest(text: &str, unit: Unit, clock: Clock<'_>, name: &HeaderName) -> Option<Hint> {
    let hint = |when: When| Hint::in_header(when, clock, name);
    // A date has a comma of its own, so the whole is tried first, and parts only as numbers.
    value::when(text, unit).and_then(hint).or_else(|| {
        let numbers = text
            .split(',')
            .filter_map(|part| Number::parse(part.trim())?.when(unit));
        numbers.filter_map(hint).max_by_key(|hint| hint.wait)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Pairs, headers, now};
    use super::*;

    #[test]
    fn every_spelling() {
        let table: &[(Pairs, Option<u128>)] = &[
            (&[("retry-after", "30")], Some(30_000)),
            (&[("retry-after", "1796040090000")], Some(90_000)),
            (&[("retry-after", "1796040090")], Some(90_000)),
            (&[("retry-after", "2026-11-30T12:02Z")], Some(120_000)),
            (&[("retry-after", "1m30s")], Some(90_000)),
            (
                &[("retry-after", "5"), ("retry-after", "10"), ("retry-after", "x")],
                Some(10_000),
            ),
            (&[("retry-after", "5, 10,x")], Some(10_000)),
            (&[("retry-after", "Mon, 30 Nov 2026 12:02:00 GMT")], Some(120_000)),
            (&[("retry-after-ms", "1500"), ("retry-after", "1")], Some(1_500)),
            (&[("retry-after-ms", "500"), ("retry-after", "1")], Some(500)),
            (&[("retry-after-ms", "x"), ("retry-after", "1")], Some(1_000)),
            (&[("x-ms-retry-after-ms", "2853")], Some(2_853)),
            (&[("x-ratelimit-retry-after", "47")], Some(47_000)),
            (&[("beta-retry-after", "4")], Some(4_000)),
            (&[("x-retry-after-seconds", "4")], Some(4_000)),
            (&[("x-ratelimit-retryafter", "1796040005")], Some(5_000)),
            (
                &[("x-vendor-retry-after", "45"), ("retry-after", "2")],
                Some(45_000),
            ),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "+5")], None),
            (&[("retry-after", "18446744073709551616")], None),
            (&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")], None),
            (&[("x-noretry-after", "5")], None),
            (&[("retry-after-policy", "5")], None),
        ];
        for (pairs, wait) in table {
            let hint = retry_headers(&headers(pairs), Clock::local(now()));
            assert_eq!(
                hint.and_then(|hint| hint.wait).map(|wait| wait.as_millis()),
                *wait,
                "{pairs:?}"
            );
        }
    }
}
