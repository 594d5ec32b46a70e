//! What the words of an error message say: a time, a reason, a limit.

use std::time::Duration;

use super::Reason;
use super::clock::When;
use super::date;
use super::value::{self, Number, Unit};

/// Only the start of a message is read, in bytes.
const ENOUGH: usize = 1024;

/// Words before a time.
const BEFORE_TIME: &[(&str, Bare)] = &[
    ("try again in", Bare::Seconds),
    ("try again after", Bare::Seconds),
    ("try again at", Bare::No),
    ("trying again in", Bare::Seconds),
    ("retry in", Bare::Seconds),
    ("retry after", Bare::Seconds),
    ("retry-after", Bare::Seconds),
    ("retry at", Bare::No),
    ("retrying in", Bare::Seconds),
    ("retrying after", Bare::Seconds),
    ("available in", Bare::No),
    ("available again in", Bare::No),
    ("available at", Bare::No),
    ("wait", Bare::No),
    ("reset in", Bare::No),
    ("resets in", Bare::No),
    ("reset at", Bare::No),
    ("resets at", Bare::No),
    ("banned until", Bare::No),
    ("blocked until", Bare::No),
    ("limited until", Bare::No),
    ("throttled until", Bare::No),
    ("throttled", Bare::No),
    ("break for", Bare::No),
];

/// What a number without a unit means after these words: seconds, or no time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bare {
    Seconds,
    No,
}

/// Words that may stand between the words above and the time.
const FILLERS: &[&str] = &["for", "at", "least", "about", "approximately", "another", "until"];

/// The time that a message names: `Please try again in 7.5s`, `Retry after 2026-11-30T12:15:42Z`, `available in
/// 831.0 seconds`, `IP banned until 1796040548000`. Of several the last to come decides.
///
/// Other numbers (a limit, a window) are left alone.
pub(crate) fn time(text: &str) -> Option<When> {
    let text = plain(text);
    let times = ends_of(&text, BEFORE_TIME).filter_map(|(end, bare)| time_at_start(&text[end..], bare));
    times.reduce(later)
}

/// Where each of some words ends in a text, with what belongs to the word. One pass, whatever the number of words.
fn ends_of<'t, T: Copy>(
    text: &'t str,
    words: &'static [(&'static str, T)],
) -> impl Iterator<Item = (usize, T)> + 't {
    let mut starts = [false; 256];
    words
        .iter()
        .for_each(|(word, _)| starts[usize::from(word.as_bytes()[0])] = true);
    let candidates = text
        .bytes()
        .enumerate()
        .filter(move |(_, byte)| starts[usize::from(*byte)]);
    candidates.filter_map(move |(at, _)| {
        let here = &text.as_bytes()[at..];
        let (word, what) = words.iter().find(|(word, _)| here.starts_with(word.as_bytes()))?;
        Some((at + word.len(), *what))
    })
}

fn time_at_start(text: &str, bare: Bare) -> Option<When> {
    // The words must end here: `waiting`, `retry after10`.
    let mut text = text.strip_prefix([' ', ':', '='])?.trim_start();
    while let Some((_, rest)) = text.split_once(' ').filter(|(word, _)| FILLERS.contains(word)) {
        text = rest.trim_start();
    }
    if let Some((wait, _)) = value::duration_prefix(text) {
        return Some(When::After(wait));
    }
    let word = text
        .split([' ', ',', ')', ']'])
        .next()?
        .trim_end_matches(['.', ';', '!']);
    match Number::parse(word) {
        Some(number) => number
            .when(Unit::BySize)
            .filter(|when| bare == Bare::Seconds || matches!(when, When::At(_))),
        None => date::iso(word).map(When::At),
    }
}

/// A wait against a moment cannot be compared without a clock; a message that has both is rare, and the moment is exact.
fn later(one: When, other: When) -> When {
    match (one, other) {
        (When::After(a), When::After(b)) => When::After(a.max(b)),
        (When::At(a), When::At(b)) => When::At(a.max(b)),
        (at @ When::At(_), _) | (_, at) => at,
    }
}

/// In lower case, quotes and line breaks as blanks, letters other than ASCII as `?`, cut at [`ENOUGH`].
fn plain(text: &str) -> String {
    let text = &text.as_bytes()[..text.len().min(ENOUGH)];
    let plain = text.iter().map(|byte| match byte {
        b'\'' | b'"' | b'`' | b'\n' | b'\r' | b'\t' => ' ',
        0x80.. => '?',
        byte => char::from(byte.to_ascii_lowercase()),
    });
    plain.collect()
}

/// Words that name a kind of limit. Joined spellings are found because only letters and digits are compared.
const REASONS: &[(&str, Reason)] = &[
    ("concurren", Reason::Concurrency),
    ("simultaneous", Reason::Concurrency),
    ("permonth", Reason::Monthly),
    ("monthly", Reason::Monthly),
    ("perday", Reason::Daily),
    ("daily", Reason::Daily),
    ("fortheday", Reason::Daily),
    ("24hours", Reason::Daily),
    ("perhour", Reason::Hourly),
    ("hourly", Reason::Hourly),
    ("permin", Reason::Minute),
    ("minutely", Reason::Minute),
    ("persec", Reason::Burst),
    ("secondly", Reason::Burst),
];

/// The kind of limit that a message names (`requests per min`, `GenerateRequestsPerDayPerProject`, `hourly rate limit`).
/// Of several the longest window, concurrency before all.
pub(crate) fn reason(text: &str) -> Option<Reason> {
    let text = &text.as_bytes()[..text.len().min(ENOUGH)];
    let letters = text.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let squashed: String = letters
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect();
    ends_of(&squashed, REASONS)
        .map(|(_, reason)| reason)
        .max_by_key(|reason| match reason {
            Reason::Concurrency => 6,
            Reason::Monthly => 5,
            Reason::Daily => 4,
            Reason::Hourly => 3,
            Reason::Minute => 2,
            _ => 1,
        })
}

/// The kind of limit that a bucket's name says: `day`, `minutely`, `burst`.
pub(crate) fn window_name(name: &str) -> Option<Reason> {
    const NAMES: &[(&str, Reason)] = &[
        ("burst", Reason::Burst),
        ("second", Reason::Burst),
        ("secondly", Reason::Burst),
        ("per-second", Reason::Burst),
        ("minute", Reason::Minute),
        ("minutely", Reason::Minute),
        ("per-minute", Reason::Minute),
        ("hour", Reason::Hourly),
        ("hourly", Reason::Hourly),
        ("per-hour", Reason::Hourly),
        ("day", Reason::Daily),
        ("daily", Reason::Daily),
        ("per-day", Reason::Daily),
        ("month", Reason::Monthly),
        ("monthly", Reason::Monthly),
        ("per-month", Reason::Monthly),
        ("concurrent", Reason::Concurrency),
        ("concurrency", Reason::Concurrency),
    ];
    NAMES
        .iter()
        .find(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, reason)| *reason)
}

/// Whether a message says outright that a rate limit was hit.
pub(crate) fn says_limited(text: &str) -> bool {
    let text = plain(text);
    if text.contains("too many requests")
        || text.contains("rate limited")
        || text.contains("request was throttled")
    {
        return true;
    }
    // "exceeded a secondary rate limit", "rate limit of this API was reached": near each other, in either order. The text is
    // ASCII here, so it can be cut anywhere.
    let near = |(at, _): (usize, &str)| {
        let around = &text[at.saturating_sub(40)..text.len().min(at + 40)];
        ["exceed", "reached", "hit "]
            .iter()
            .any(|word| around.contains(word))
    };
    text.match_indices("rate limit")
        .chain(text.match_indices("rate-limit"))
        .any(near)
}

/// Longer waits than any window under a day that a provider documents (Docker Hub's six hours) say which limit it was.
pub(crate) fn reason_of_wait(wait: Duration) -> Option<Reason> {
    const HOUR: u64 = 3600;
    match wait.as_secs() {
        0..=21_600 => None,
        // A day, and what a clock may be off.
        21_601..=90_000 => Some(Reason::Daily),
        secs if secs > 8 * 24 * HOUR => Some(Reason::Monthly),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_time() {
        let secs = |secs: f64| Some(When::After(Duration::from_secs_f64(secs)));
        let at = |text: &str| Some(When::At(text.parse().unwrap()));
        for (text, expected) in [
            ("Please try again in 7.5s.", secs(7.5)),
            ("Please retry in 21.5s", secs(21.5)),
            ("please try again after '372' seconds", secs(372.0)),
            ("Limit 600 per Minute. Try again in 55 seconds.", secs(55.0)),
            ("Expected available in 831.0 seconds.", secs(831.0)),
            ("more requests available in 17524 seconds", secs(17_524.0)),
            ("Retry after 30", secs(30.0)),
            ("Retry after: 30.", secs(30.0)),
            ("wait at least 5 minutes", secs(300.0)),
            ("Please wait for 2 hours", secs(7200.0)),
            ("try again in 1h2m3s", secs(3723.0)),
            ("try again in 5s or wait 2 minutes", secs(120.0)),
            (
                "limit exceeded.  Retry after 2026-11-30T12:15:42.247Z",
                at("2026-11-30T12:15:42.247Z"),
            ),
            (
                "IP banned until 1796040548000. Use a websocket",
                at("2026-11-30T12:09:08Z"),
            ),
            ("EService:Throttled: 1796040548", at("2026-11-30T12:09:08Z")),
            ("Request was throttled. Come back later", None),
            ("Take a break for 9 minutes before trying again.", secs(540.0)),
            ("wait 30", None),
            ("waiting 30 seconds", None),
            ("try again later", None),
            ("try again in -5 seconds", None),
            ("try again in a few minutes", None),
            ("limit of 30 per 60 seconds", None),
            ("", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
    }

    #[test]
    fn a_message_names_a_reason() {
        for (text, expected) in [
            ("Queries per minute per user", Some(Reason::Minute)),
            (
                "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
                Some(Reason::Daily),
            ),
            ("free-models-per-day", Some(Reason::Daily)),
            ("100 requests per hour", Some(Reason::Hourly)),
            ("10 per second and 1000 per day", Some(Reason::Daily)),
            ("maximum per-second rate limit", Some(Reason::Burst)),
            ("MONTHLY quota", Some(Reason::Monthly)),
            ("exceeded the monthly quota", Some(Reason::Monthly)),
            ("10 simultaneous connections", Some(Reason::Concurrency)),
            ("slow down", None),
        ] {
            assert_eq!(reason(text), expected, "{text}");
        }
    }

    #[test]
    fn only_a_plain_statement_says_that_a_limit_was_hit() {
        for text in [
            "API rate limit exceeded",
            "You have exceeded a secondary rate limit.",
            "Calls to this api have exceeded the rate limit.",
            "Rate limit exceeded. Clients may not make more than 350 requests per hour.",
            "Your requests are exceeding the allowable rate limit.",
            "Resource level rate limit is reached",
            "Too many requests",
            "You are being rate limited.",
        ] {
            assert!(says_limited(text), "{text}");
        }
        for text in [
            "forbidden",
            "limit of connected athletes exceeded",
            "You have reached your specified API usage limits.",
            "invalid value for rate limit",
            "Resource not accessible by integration",
            "",
        ] {
            assert!(!says_limited(text), "{text}");
        }
    }
}
