//! Throws bodies at the envelope: torn, forged, nested, nonsense. A short burst by default; `FUZZ_SECONDS=300` for more.

use std::time::Duration;

use frigg_core::deferral::{Body, Counters, Envelope, Limits, Reading};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use serde::de::IgnoredAny;

/// What bodies are made of: all that the reader looks at, and all that could break it.
const PIECES: &[&str] = &[
    "{",
    "}",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    ",",
    "\"",
    "\\",
    " ",
    "\n",
    "{}",
    "[]",
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "1e400",
    "01",
    "\"\"",
    "\"a\"",
    "\"a\":1",
    "\"_frigg\"",
    "\"_frigg\":",
    "\"\\u005ffrigg\":",
    "\"_frigg\":{",
    "\"_frigg\":{}",
    "\"_frigg\":{\"body\":\"x\"}",
    "\"deferrals\":",
    "\"deferrals\":2",
    "\"deferrals\":2,",
    "\"d\\u0065ferrals\":3",
    "\"firstDeferredAt\":",
    "\"2026-09-28T12:00:00.000Z\"",
    "\"9999-12-30T22:00:00Z\"",
    "\"-009999-01-02T01:59:59Z\"",
    "\"deferralId\":\"m\"",
    "\"retryAt\":",
    "\"body\":",
    "\"body\":\"{}\"",
    "\"\\ud800\"",
    "\\u0000",
    "\u{0}",
    "\u{1}",
    "é",
    "😀",
    "\u{feff}",
    "\u{a0}",
    "\u{2028}",
    "x",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

/// An object with members of all kinds, ours among them, and then perhaps something cut, doubled or put in.
fn torn_object() -> impl Strategy<Value = String> {
    let member = (select(PIECES), select(PIECES)).prop_map(|(key, value)| {
        if key.ends_with(':') {
            format!("{key}{value}")
        } else {
            format!("\"_frigg\":{{\"deferrals\":1,\"k\":{value},{key}}}")
        }
    });
    let tear = (any::<Index>(), any::<Index>(), select(PIECES), 0..8u8);
    (prop::collection::vec(member, 0..5), tear).prop_map(|(members, (from, to, piece, kind))| {
        let text = format!("{{{}}}", members.join(","));
        let ends: Vec<usize> = text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .collect();
        let (a, b) = (*from.get(&ends), *to.get(&ends));
        let (a, b) = (a.min(b), a.max(b));
        match kind {
            0 => format!("{}{}", &text[..a], &text[b..]),
            1 => format!("{}{}", &text[..b], &text[a..]),
            2 => format!("{}{piece}{}", &text[..a], &text[a..]),
            3 => format!("{}{piece}{}", &text[..a], &text[b..]),
            _ => text,
        }
    })
}

fn bodies() -> impl Strategy<Value = String> {
    let one = || prop_oneof![3 => soup(), 5 => torn_object(), 1 => any::<String>()];
    let wrapped = one().prop_map(|text| {
        let text = serde_json::Value::from(text).to_string();
        format!("{{\"_frigg\":{{\"deferrals\":2,\"body\":{text}}}}}")
    });
    prop_oneof![4 => one(), 1 => wrapped]
}

fn check(text: &str, reading: Reading) -> Result<(), TestCaseError> {
    let now = Timestamp::UNIX_EPOCH;
    let counters = Counters {
        deferrals: 7,
        gated: 0,
        first_deferred_at: now,
        deferral_id: Some("m-1".into()),
        retry_at: Some(now + SignedDuration::from_secs(5)),
    };
    let strict = Reading::Strict {
        now,
        sent_at: Some(now),
        limits: Limits::default(),
    };
    let opened = Body::open(text, reading);
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let is_object = is_json && text.trim_start().starts_with('{');
    if !is_object || !text.contains("frig") && !text.contains('\\') {
        prop_assert_eq!((opened.text(), opened.envelope()), (text, &Envelope::default()));
        prop_assert_eq!((opened.is_object(), opened.fault()), (is_object, None));
    }
    if opened.is_object() {
        prop_assert!(
            serde_json::from_str::<IgnoredAny>(opened.text()).is_ok(),
            "{}",
            opened.text()
        );
    }
    if opened.fault().is_some() {
        prop_assert_eq!(opened.envelope(), &Envelope::default());
    }
    let stamped = opened.stamp(&counters);
    prop_assert!(
        serde_json::from_str::<IgnoredAny>(&stamped).is_ok(),
        "{}",
        stamped
    );
    let again = Body::open(&stamped, strict);
    prop_assert_eq!(again.text(), opened.text(), "{}", stamped);
    prop_assert_eq!((again.is_object(), again.fault()), (opened.is_object(), None));
    let said = Envelope {
        deferrals: 7,
        gated: 0,
        first_deferred_at: Some(now),
        deferral_id: counters.deferral_id.clone(),
        retry_at: counters.retry_at,
    };
    prop_assert_eq!(again.envelope(), &said);
    prop_assert_eq!(again.stamp(&counters), stamped, "a stamp replaces the one before");
    Ok(())
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "fuzzing lasts as long as the real clock says"
)]
fn no_body_breaks_the_envelope() {
    let seconds = std::env::var("FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let (lasts, burst) = (Duration::from_secs(seconds.unwrap_or(0)), 2_000);
    let start = std::time::Instant::now();
    let mut bursts = 0;
    while bursts == 0 || start.elapsed() < lasts {
        let config = Config {
            cases: burst,
            failure_persistence: None,
            ..Config::default()
        };
        let readings = |far: i64| Reading::Strict {
            now: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(far),
            sent_at: Some(Timestamp::UNIX_EPOCH),
            limits: Limits::default(),
        };
        let input = (
            bodies(),
            prop_oneof![Just(None), Just(Some(0)), Just(Some(1_790_596_800))],
        );
        let outcome = TestRunner::new(config).run(&input, |(text, far)| {
            check(&text, far.map_or(Reading::Frigg, readings))
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
        bursts += 1;
    }
    println!("{} bodies in {:?}", bursts * burst, start.elapsed());
}
