//! Frigg's three header parsers.

mod support;

use frigg_core::rate_limit::{Clock, Hint, parsers};
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{Outcome, headers, run};

#[test]
fn cases_parsers() {
    run("frigg/parsers.jsonl", "parsers", check);
}

fn check(case: &Value) -> Outcome {
    let headers = headers(&case["headers"]);
    if case["parser"] == "headerLookup" {
        let got = parsers::header(&headers, case["name"].as_str().expect("a name"));
        return Outcome::equal(json!({ "value": got }), case["expect"].clone());
    }
    let now: Timestamp = case["now"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a time");
    let clock = Clock::local(now);
    let hint = match case["parser"].as_str().expect("a parser") {
        "retryAfter" => parsers::retry_after(&headers, clock),
        "resetHeaders" => parsers::reset_headers(&headers, clock),
        "ietf" => parsers::ietf(&headers, clock),
        other => panic!("no parser {other}"),
    };
    compare(hint.as_ref().map(as_frigg), case)
}

fn as_frigg(hint: &Hint) -> Value {
    json!({
        "wait_ms": hint.wait.map(|wait| wait.as_secs_f64() * 1000.0),
        "retry_at": hint.retry_at.map(|at| format!("{at:.3}")),
        "remaining": hint.remaining,
        "policy": hint.policy,
        "source": hint.source.as_str(),
    })
}

fn compare(got: Option<Value>, case: &Value) -> Outcome {
    support::matches(
        &case["expect"],
        &got.unwrap_or(Value::Null),
        case["match"] == "exact",
    )
}
