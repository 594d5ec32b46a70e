//! Faults that users of other clients reported in reading a wait: each is named after its story in
//! `tests/cases/scenarios.jsonl`.

mod support;

use std::time::Duration;

use frigg_core::rate_limit::{Answer, Hint, Policy, Signal, Source};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::json;

const NOW: &str = "2026-09-28T12:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    support::headers(&json!(pairs))
}

/// A 429 without a body, read by the default policy and by Frigg's.
fn hints(pairs: &[(&str, &str)]) -> [Option<Hint>; 2] {
    let headers = headers(pairs);
    let signal = Signal::new(429, &headers, b"", at(NOW));
    [Policy::new(), Policy::frigg()].map(|policy| {
        let Answer::Limited(refusal) = policy.read(&signal) else {
            panic!("a 429 is a limit")
        };
        Some(refusal.hint).filter(|hint| hint.wait.is_some())
    })
}

/// The wait in milliseconds, which both policies must agree on.
fn wait_ms(pairs: &[(&str, &str)]) -> Option<u128> {
    let [ours, frigg] = hints(pairs).map(|hint| hint.and_then(|hint| hint.wait).map(|wait| wait.as_millis()));
    assert_eq!(ours, frigg, "{pairs:?}");
    ours
}

/// A Retry-After is in seconds, also with a fraction.
#[test]
fn parser_01() {
    for (text, wait, until) in [
        ("2.0", 2_000, "2026-09-28T12:00:02Z"),
        ("10", 10_000, "2026-09-28T12:00:10Z"),
    ] {
        for hint in hints(&[("Retry-After", text)]).into_iter().flatten() {
            assert_eq!(hint.wait, Some(Duration::from_millis(wait)));
            assert_eq!(hint.retry_at, Some(at(until)));
            assert_eq!(hint.source, Source::Header);
        }
        assert_eq!(wait_ms(&[("Retry-After", text)]), Some(u128::from(wait)));
    }
}

/// The provider's moments are measured against its own clock.
#[test]
fn parser_07() {
    let date = ("Date", "Mon, 28 Sep 2026 12:00:00 GMT");
    let local = at("2026-09-28T12:05:00Z");
    let cases = [
        (
            Policy::new(),
            429,
            headers(&[date, ("Retry-After", "Mon, 28 Sep 2026 12:01:00 GMT")]),
        ),
        (
            Policy::for_provider("github").expect("in the table"),
            403,
            headers(&[
                date,
                ("X-RateLimit-Remaining", "0"),
                ("X-RateLimit-Reset", "1790596860"),
            ]),
        ),
    ];
    for (policy, status, headers) in cases {
        let answer = policy.read(&Signal::new(status, &headers, b"", local));
        let hint = answer.hint().expect("a limit");
        assert_eq!(hint.wait, Some(Duration::from_secs(60)));
        assert_eq!(hint.retry_at, Some(at("2026-09-28T12:06:00Z")));
    }
}

/// An HTTP-date is in GMT wherever the machine is. The zone of a process is set for the process as a whole, so each is
/// a process of its own.
#[test]
fn parser_08() {
    let dates = ["Mon, 28 Sep 2026 12:01:00 GMT", "Mon Sep 28 12:01:00 2026"];
    if std::env::var_os("PARSER_08_CHILD").is_some() {
        for date in dates {
            assert_eq!(wait_ms(&[("Retry-After", date)]), Some(60_000), "{date}");
        }
        return;
    }
    for zone in ["America/Los_Angeles", "Asia/Kolkata"] {
        let output = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "parser_08"])
            .env("TZ", zone)
            .env("PARSER_08_CHILD", "1")
            .output()
            .expect("to start it again");
        assert!(
            output.status.success(),
            "{zone}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }
}

/// Half a date is none.
#[test]
fn parser_10() {
    for text in [
        "Sep 2027",
        "Jan 1 2030",
        "tomorrow",
        "Mon, 31 Sep 2026 12:01:00 GMT",
    ] {
        assert_eq!(wait_ms(&[("Retry-After", text)]), None, "{text}");
    }
}

/// A long fraction is kept, and whole seconds are rounded up.
#[test]
fn parser_11() {
    for hint in hints(&[("Retry-After", "292.052427053")]) {
        let wait = hint.and_then(|hint| hint.wait).expect("a wait");
        assert!(
            wait >= Duration::from_micros(292_052_427) && wait <= Duration::from_millis(292_053),
            "{wait:?}"
        );
        assert_eq!(wait.as_nanos().div_ceil(1_000_000_000), 293);
    }
}

/// One name, a delta here and an epoch there: the size tells.
#[test]
fn parser_13() {
    assert_eq!(wait_ms(&[("X-RateLimit-Reset", "2513")]), Some(2_513_000));
    assert_eq!(wait_ms(&[("X-RateLimit-Reset", "1790599313")]), Some(2_513_000));
    assert_eq!(
        wait_ms(&[("RateLimit-Reset", "30"), ("RateLimit-Remaining", "0")]),
        Some(30_000)
    );
    assert_eq!(
        wait_ms(&[("RateLimit-Reset", "1790596830"), ("RateLimit-Remaining", "0")]),
        Some(30_000)
    );
}

/// A prefixed Retry-After, which is past Frigg.
#[test]
fn parser_15() {
    let [ours, _] = hints(&[("X-RateLimit-Retry-After", "45"), ("X-RateLimit-Limit", "60")]);
    let hint = ours.expect("a hint");
    assert_eq!(hint.wait, Some(Duration::from_secs(45)));
    assert_eq!(hint.source, Source::Header);
}

/// Header names in any letter case, values with blanks.
#[test]
fn parser_16() {
    for (name, value) in [("retry-after", "7"), ("RETRY-AFTER", "7"), ("Retry-after", " 7 ")] {
        assert_eq!(wait_ms(&[(name, value)]), Some(7_000));
    }
}

/// A negative number is no wait, and hides no later one.
#[test]
fn parser_17() {
    assert_eq!(wait_ms(&[("Retry-After", "-1")]), None);
    assert_eq!(wait_ms(&[("X-RateLimit-Reset", "-5")]), None);
    assert_eq!(
        wait_ms(&[("X-RateLimit-Reset-After", "-1"), ("X-RateLimit-Reset", "20")]),
        Some(20_000)
    );
}
