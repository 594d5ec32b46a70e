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

#[cfg(test)]
mod tests {
    use super::super::testing::{Pairs, headers, now};
    use super::*;

    #[test]
    fn the_plain_reset_headers_as_frigg_reads_them() {
        let table: &[(Pairs, Option<u64>)] = &[
            (&[("x-ratelimit-reset", "30")], Some(30)),
            (&[("ratelimit-reset", "1796040030")], Some(30)),
            (&[("x-rate-limit-reset", "1796040030000")], Some(30)),
            (&[("x-ratelimit-reset", "2026-11-30T12:00:30Z")], Some(30)),
            (&[("x-ratelimit-reset", "5"), ("ratelimit-reset", "6")], Some(5)),
            (&[("x-ratelimit-reset", "x"), ("ratelimit-reset", "6")], Some(6)),
            (
                &[("x-ratelimit-reset-after", "3"), ("x-ratelimit-reset", "9")],
                Some(3),
            ),
            (
                &[("x-ratelimit-reset-after", "x"), ("x-ratelimit-reset", "9")],
                Some(9),
            ),
            // Over the bound there is no hint at all.
            (
                &[
                    ("x-ratelimit-reset-after", "99999999"),
                    ("x-ratelimit-reset", "9"),
                ],
                None,
            ),
            (&[("x-ratelimit-reset", "99999999")], None),
            // It does not judge what is left.
            (
                &[("x-ratelimit-reset", "30"), ("x-ratelimit-remaining", "7")],
                Some(30),
            ),
            (&[("x-ratelimit-remaining", "0")], None),
            // Buckets with a name are not Frigg's.
            (&[("x-ratelimit-reset-tokens", "30")], None),
        ];
        for (pairs, wait) in table {
            let hint = reset_headers(&headers(pairs), Clock::local(now()));
            assert_eq!(
                hint.and_then(|hint| hint.wait).map(|wait| wait.as_secs()),
                *wait,
                "{pairs:?}"
            );
        }
        let hint = reset_headers(
            &headers(&[("x-ratelimit-reset", "3"), ("ratelimit-remaining", "7.0")]),
            Clock::local(now()),
        );
        assert_eq!(hint.unwrap().remaining, Some(7));
    }
}
