//! Checks the test rows of a file of entries: what each row is read as, and that every rule has a row.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Provider;
use crate::rate_limit::clock::Clock;
use crate::rate_limit::{Answer, Reason, Signal};

/// Provider, status, headers, body, and what they mean: a reason and a wait in seconds, or no limit.
pub(super) type Row = (
    &'static str,
    u16,
    &'static [(&'static str, &'static str)],
    &'static str,
    Option<(Reason, Option<f64>)>,
);

/// When every row is received.
pub(super) const NOW: &str = "2026-11-30T12:00:00Z";

pub(super) fn check(entries: &'static [Provider], rows: &[Row]) {
    let now = NOW.parse().unwrap();
    let mut unused: Vec<(&str, usize)> = entries
        .iter()
        .flat_map(|entry| (0..entry.rules.len()).map(move |rule| (entry.name, rule)))
        .collect();
    for (name, status, headers, body, expected) in rows {
        let entry = entries
            .iter()
            .find(|entry| entry.name == *name)
            .unwrap_or_else(|| panic!("no entry {name}"));
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let signal = Signal::new(*status, &headers, body.as_bytes(), now);
        let got = match entry.policy().read(&signal) {
            Answer::Limited(refusal) => Some((
                refusal.hint.reason,
                refusal.hint.wait.as_ref().map(Duration::as_secs_f64),
            )),
            _ => None,
        };
        assert_eq!(got, *expected, "{name} {status} {body}");
        if let Some(rule) = entry.rules.iter().position(|rule| rule.fits(&signal)) {
            // A rule that fits must also give its verdict without the rest of the reading.
            assert!(entry.judge(&signal, Clock::local(now), false).is_some());
            unused.retain(|one| *one != (entry.name, rule));
        }
    }
    assert!(unused.is_empty(), "rules without a row: {unused:?}");
}

#[test]
fn the_table_is_sound() {
    let mut names = std::collections::HashSet::new();
    for entry in super::all() {
        for name in [entry.name].iter().chain(entry.aliases) {
            assert!(names.insert(*name), "{name} is there twice");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
                "{name}"
            );
            assert!(name.len() <= 32, "{name} is longer than a look-up allows");
            assert_eq!(
                super::by_name(&name.to_ascii_uppercase()).map(|found| found.name),
                Some(entry.name)
            );
        }
        assert!(entry.docs.starts_with("https://"), "{} has no page", entry.name);
        for pattern in entry.hosts {
            let host = pattern.replace('*', "acme");
            assert_eq!(
                super::by_host(&host).map(|found| found.name),
                Some(entry.name),
                "{host}"
            );
        }
    }
    assert!(super::by_name("nobody").is_none());
    assert!(super::by_name("a name that is longer than any in the table").is_none());
    assert!(super::by_host("example.com").is_none());
    assert!(super::by_host("evilsalesforce.com").is_none());
}
