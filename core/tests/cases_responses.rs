//! Responses of real providers: is it a limit, how long, and why?

mod support;

use frigg_core::rate_limit::{Answer, Policy, Signal, Source};
use serde_json::Value;
use support::{Outcome, Score, body, headers, load};

/// The reader with the provider named. A provider that the table does not know is read as any other.
fn named(case: &Value) -> Policy {
    case["provider"]
        .as_str()
        .and_then(Policy::for_provider)
        .unwrap_or_else(generic)
}

/// The reader without a provider, for a caller that hands over 2xx bodies too.
fn generic() -> Policy {
    Policy::new().with_success_bodies()
}

fn read(case: &Value, policy: &Policy) -> Answer {
    let (headers, body) = (headers(&case["headers"]), body(&case["body"]));
    let status = u16::try_from(case["status"].as_u64().expect("a status")).expect("a status");
    let received_at = case["received_at"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a time");
    policy.read(&Signal::new(status, &headers, &body, received_at))
}

/// Limit and wait as expected, and the reason where it counts.
fn check(case: &Value, policy: &Policy, with_reason: bool) -> Outcome {
    let answer = read(case, policy);
    let expected = &case["expect"];
    let limited = answer.is_limited();
    let hint = answer.hint().filter(|_| limited);
    let wait = hint.and_then(|hint| hint.wait).map(|wait| wait.as_secs_f64());
    let source = hint.map(|hint| hint.source);
    let reason = hint.map(|hint| hint.reason.as_str());

    let wait_is_right = match expected["wait_s"].as_f64() {
        Some(right) => {
            wait.is_some_and(|wait| (wait - right).abs() <= expected["tolerance_s"].as_f64().unwrap_or(1.0))
        }
        // A documented wait is right too; a made-up one is not.
        None => wait.is_none() || source == Some(Source::Static),
    };
    let hinted = match (&answer, expected["retry_hint_s"].as_f64()) {
        (Answer::Unavailable(refusal), Some(right)) => refusal
            .hint
            .wait
            .is_some_and(|wait| (wait.as_secs_f64() - right).abs() <= 1.0),
        (Answer::Unavailable(_), None) => false,
        _ => true,
    };
    let right = limited == expected["rate_limited"].as_bool().unwrap_or_default()
        && wait_is_right
        && hinted
        && (!with_reason || reason == expected["reason"].as_str());
    if right {
        return Outcome::Passed;
    }
    let got = format!("rate_limited {limited}, wait {wait:?}, reason {reason:?}, source {source:?}");
    Outcome::Failed(expected.to_string(), got)
}

#[test]
fn cases_responses() {
    let Some(cases) = load("responses.jsonl") else {
        return;
    };
    let flag = |case: &Value, name: &str| case["expect"][name].as_bool().unwrap_or_default();
    let (contested, plain): (Vec<&Value>, Vec<&Value>) =
        cases.iter().partition(|case| flag(case, "contested"));

    let mut score = Score::new("responses");
    plain
        .iter()
        .for_each(|case| score.add(case, check(case, &named(case), true)));
    let all_right = score.print();

    // A reasonable person could answer these otherwise: shown, not required.
    let mut score = Score::new("responses-contested");
    contested
        .iter()
        .for_each(|case| score.add(case, check(case, &named(case), true)));
    score.print();

    let mut score = Score::new("responses-generic");
    for case in plain.iter().filter(|case| !flag(case, "needs_provider_rule")) {
        score.add(case, check(case, &generic(), false));
    }
    let generic_right = score.print();

    assert!(all_right && generic_right, "cases responses failed");
}
