//! Times in a body.

use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::codes::{self, squash};
use crate::rate_limit::hint::Place;
use crate::rate_limit::json::Scalar;
use crate::rate_limit::value::{self, Unit};
use crate::rate_limit::{Hint, Signal, Source, words};

/// A time under a usual key of a JSON body (`retry_after`, `retryAfterMs`, `retry_in_seconds`, Google's `retryDelay`,
/// `RateLimitResetTime`), else in the words of its messages or of a text body (`Please try again in 7.5s`).
///
/// A unit in the key holds; a number without one is an epoch or seconds by size. The longest of several decides.
/// Sources: `google.rpc.RetryInfo`, Discord (*Rate limits*), Django REST framework (*Throttling*), and what APIs send.
pub fn body(signal: &Signal<'_>, clock: Clock<'_>) -> Option<Hint> {
    under_key(signal, clock).or_else(|| in_words(signal, clock))
}

fn under_key(signal: &Signal<'_>, clock: Clock<'_>) -> Option<Hint> {
    let hints = signal.json()?.named().filter_map(|(key, value)| {
        let unit = unit_of(key)?;
        if let Scalar::Bool(_) = value {
            return None;
        }
        let hint = Hint::new(value::when(&value.to_text()?, unit)?, clock, Source::Body)?;
        Some((key, hint))
    });
    let (key, hint) = hints.max_by_key(|(_, hint)| hint.wait)?;
    Some(Hint {
        place: Some(Place::Field(key.to_owned())),
        ..hint
    })
}

/// The unit of a key that holds a time to come back.
fn unit_of(key: &str) -> Option<Unit> {
    const KEYS: &[&str] = &[
        "bannedtill",
        "banneduntil",
        "nextretry",
        "ratelimitreset",
        "ratelimitresetat",
        "ratelimitresettime",
        "resetafter",
        "resetat",
        "resetin",
        "resetsat",
        "resetsin",
        "resettime",
        "retryafter",
        "retryat",
        "retrydelay",
        "retryin",
        "secondsuntilreset",
        "wait",
        "waitfor",
        "waittime",
        "xratelimitreset",
        "xratelimitresetafter",
        "xratelimitretryafter",
    ];
    // Cheap, and true of most keys: shorter than any of these, or another first letter.
    if key.len() < 7 || !key.starts_with(['b', 'n', 'r', 's', 'w', 'x', 'B', 'N', 'R', 'S', 'W', 'X']) {
        return None;
    }
    let mut squashed = [0; 48];
    let key = squash(key, &mut squashed)?;
    if KEYS.contains(&key) {
        return Some(Unit::BySize);
    }
    let units = [
        ("milliseconds", Unit::Millis),
        ("millis", Unit::Millis),
        ("ms", Unit::Millis),
        ("seconds", Unit::BySize),
        ("secs", Unit::BySize),
        ("sec", Unit::BySize),
        ("minutes", Unit::Minutes),
    ];
    units
        .into_iter()
        .find_map(|(suffix, unit)| KEYS.contains(&key.strip_suffix(suffix)?).then_some(unit))
}

fn in_words(signal: &Signal<'_>, clock: Clock<'_>) -> Option<Hint> {
    let times = codes::messages(signal).filter_map(words::time);
    let hints = times.filter_map(|when: When| Hint::new(when, clock, Source::Body));
    hints.max_by_key(|hint| hint.wait).map(|hint| Hint {
        place: Some(Place::Words),
        ..hint
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{headers, now};
    use super::*;

    #[test]
    fn keys_first_then_words() {
        let table = [
            (r#"{"retry_after":8}"#, Some(8_000)),
            (r#"{"retry_after":"8"}"#, Some(8_000)),
            (r#"{"error":{"retryAfterMs":12000}}"#, Some(12_000)),
            (
                r#"{"errors":[{"retry_in_seconds":3},{"retry_in_seconds":12}]}"#,
                Some(12_000),
            ),
            (r#"{"details":[{"retryDelay":"0.5s"}]}"#, Some(500)),
            (r#"{"RateLimitResetTime":"2026-11-30T12:00:09.5Z"}"#, Some(9_500)),
            (r#"{"h":{"X-RateLimit-Reset":"1796040060000"}}"#, Some(60_000)),
            (
                r#"{"retry_after":5,"message":"try again in 9 seconds"}"#,
                Some(5_000),
            ),
            (r#"{"message":"try again in 9 seconds"}"#, Some(9_000)),
            ("try again in 9 seconds", Some(9_000)),
            (r#"{"retry_after":-3}"#, None),
            (r#"{"retry_after":true}"#, None),
            (r#"{"retry_after":null}"#, None),
            (r#"{"retry_after":{}}"#, None),
            (r#"{"retry_after":1e300}"#, None),
            (r#"{"retry_after":40000000}"#, None),
            // Content is no message.
            (r#"{"comment":"try again in 9 seconds"}"#, None),
            (r#"{"retry_after":8"#, None),
            ("", None),
        ];
        let headers = headers(&[]);
        for (text, wait) in table {
            let hint = body(
                &Signal::new(429, &headers, text.as_bytes(), now()),
                Clock::local(now()),
            );
            assert_eq!(
                hint.and_then(|hint| hint.wait).map(|wait| wait.as_millis()),
                wait,
                "{text}"
            );
        }
    }
}
