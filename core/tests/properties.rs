//! What holds for every response, whatever is in it.

use std::time::Duration;

use frigg_core::rate_limit::{Answer, MAX_WAIT, Parser, Policy, Signal, providers};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use proptest::prelude::*;

/// Names that the reader knows, and any other.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "retry-after",
            "retry-after-ms",
            "x-ms-retry-after-ms",
            "x-ratelimit-retry-after",
            "x-ratelimit-reset",
            "x-ratelimit-reset-after",
            "x-ratelimit-remaining",
            "x-ratelimit-reset-tokens",
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-day-reset",
            "x-ratelimit-day-remaining",
            "x-ratelimit-period",
            "ratelimit",
            "ratelimit-policy",
            "ratelimit-reset",
            "ratelimit-remaining",
            "date",
            "x-amzn-errortype",
        ])
        .prop_map(str::to_owned),
        "[a-z][a-z0-9-]{0,30}",
    ]
}

/// Values that mean something, nearly mean something, and any bytes that a header may hold.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        (0u32..200_000).prop_map(|number| number.to_string().into_bytes()),
        "-?[0-9]{1,25}(\\.[0-9]{1,12})?".prop_map(String::into_bytes),
        "[0-9]{1,4}(ms|s|m|h|d)([0-9]{1,3}(ms|s))?".prop_map(String::into_bytes),
        "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9](:[0-5][0-9])?(Z|[+-][01][0-9]:00)?"
            .prop_map(String::into_bytes),
        "(Mon|Tue), [0-3][0-9] (Jan|Sep|Nov) 20[0-9]{2} [0-2][0-9]:[0-5][0-9]:[0-5][0-9] (GMT|EST|UTC)"
            .prop_map(String::into_bytes),
        "\"[a-z;,]{0,5}\";r=[0-9]{1,2};t=[0-9]{1,5}(, \"b\";r=0;t=[0-9]{1,3})?".prop_map(String::into_bytes),
        "limit=1, remaining=[01], reset=[0-9]{1,6}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn pairs() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    prop::collection::vec((name(), value()), 0..8)
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "\\PC{0,40}".prop_map(Into::into),
        "(please )?(try again|retry) (in|after) [0-9.]{1,9} ?(s|seconds|ms|minutes)?".prop_map(Into::into),
        prop::sample::select(vec![
            "rate_limited",
            "RATELIMITED",
            "insufficient_quota",
            "rate limit exceeded"
        ])
        .prop_map(Into::into),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "error",
            "errors",
            "code",
            "message",
            "retry_after",
            "retryAfterMs",
            "status"
        ])
        .prop_map(str::to_owned),
        "\\PC{0,10}",
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key.clone(), inner), 0..4)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        json().prop_map(|json| json.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..200),
        "\\PC{0,200}".prop_map(String::into_bytes),
    ]
}

fn status() -> impl Strategy<Value = u16> {
    prop_oneof![
        Just(429),
        prop::sample::select(vec![200, 400, 402, 403, 404, 418, 500, 503, 529]),
        100u16..1000
    ]
}

fn map(pairs: &[(String, Vec<u8>)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        // Bytes that no header may hold never arrive.
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

fn policies() -> Vec<Policy> {
    let mut all = vec![
        Policy::new(),
        Policy::new().with_success_bodies(),
        Policy::frigg(),
    ];
    all.extend(providers::all().map(|provider| provider.policy()));
    all
}

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().expect("a time")
}

fn check(answer: &Answer) -> Result<(), TestCaseError> {
    let Some(refusal) = answer.refusal() else {
        return Ok(());
    };
    // A duration is never negative; what must hold is that it is bounded and that the error is never in the past.
    prop_assert!(refusal.hint.wait.is_none_or(|wait| wait <= MAX_WAIT));
    prop_assert_eq!(refusal.hint.wait.is_some(), refusal.hint.retry_at.is_some());
    let error = answer.clone().into_error().expect("a refusal is an error");
    let floor = now() + Duration::from_secs(1);
    prop_assert!(error.limit().retry_at.is_none_or(|at| at >= floor));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// No response makes the reader panic, and no wait is out of bounds.
    #[test]
    fn nothing_panics(status in status(), pairs in pairs(), body in body(), route in prop::option::of("\\PC{0,20}")) {
        let headers = map(&pairs);
        for policy in policies() {
            let mut signal = Signal::new(status, &headers, &body, now());
            if let Some(route) = &route {
                signal = signal.with_route(route);
            }
            check(&policy.read(&signal))?;
            prop_assert!(!policy.explain(&signal).is_empty());
        }
    }

    /// A header that has nothing to do with limits changes nothing.
    #[test]
    fn an_unrelated_header_changes_nothing(
        status in status(),
        pairs in pairs(),
        body in body(),
        unrelated in "(x-request-id|etag|server|set-cookie|link|x-next-page|access-control-max-age|age|via)",
        value in "[ -~]{0,30}",
    ) {
        let signal_of = |headers: &HeaderMap| Policy::new().read(&Signal::new(status, headers, &body, now()));
        let before = map(&pairs);
        let mut after = before.clone();
        after.insert(unrelated.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"));
        // Where the header was there already, it has only another value now.
        prop_assert_eq!(signal_of(&before), signal_of(&after));
    }

    /// Neither the letter case of names nor the order of different headers matters.
    #[test]
    fn case_and_order_do_not_matter(status in status(), pairs in pairs(), body in body()) {
        // Several fields of one name are a list, whose order is the sender's to choose.
        let mut seen = std::collections::HashSet::new();
        let pairs: Vec<_> = pairs.into_iter().filter(|(name, _)| seen.insert(name.clone())).collect();
        let upper: Vec<_> = pairs.iter().rev().map(|(name, value)| (name.to_ascii_uppercase(), value.clone())).collect();
        for policy in [Policy::new(), Policy::frigg(), Policy::for_provider("github").expect("known")] {
            let read = |headers: &HeaderMap| policy.read(&Signal::new(status, headers, &body, now()));
            let (one, other) = (read(&map(&pairs)), read(&map(&upper)));
            let essence = |answer: &Answer| answer.hint().map(|hint| (hint.wait, hint.retry_at));
            prop_assert_eq!(one.is_limited(), other.is_limited());
            prop_assert_eq!(essence(&one), essence(&other));
        }
    }

    /// What comes back is never before the wait that a Retry-After states.
    #[test]
    fn never_before_the_stated_wait(seconds in 0u64..31_622_400, fraction in 0u32..1000) {
        let text = format!("{seconds}.{fraction:03}");
        let headers = map(&[("retry-after".to_owned(), text.into_bytes())]);
        let stated = Duration::new(seconds, fraction * 1_000_000);
        for policy in policies() {
            let answer = policy.read(&Signal::new(429, &headers, b"", now()));
            // A rule may know a longer wait, never a shorter one; only a documented one replaces it.
            if let Some(hint) = answer.hint().filter(|hint| hint.source.as_str() == "header") {
                prop_assert!(hint.wait >= Some(stated), "{:?} {:?}", policy, hint);
            }
        }
    }

    /// Each parser alone is total.
    #[test]
    fn every_parser_is_total(pairs in pairs(), body in body()) {
        let headers = map(&pairs);
        let signal = Signal::new(429, &headers, &body, now());
        let names = ["retryAfter", "resetHeaders", "ietf", "retryHeaders", "buckets", "body"];
        for parser in names.map(|name| Parser::from_name(name).expect("a parser")) {
            for clock in [
                frigg_core::rate_limit::Clock::local(now()),
                frigg_core::rate_limit::Clock::of_response(now(), &headers),
            ] {
                if let Some(hint) = parser.read(&signal, clock) {
                    prop_assert!(hint.wait.is_some_and(|wait| wait <= MAX_WAIT));
                }
            }
        }
    }
}
