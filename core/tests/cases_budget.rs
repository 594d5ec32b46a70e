//! How long a request may wait inside the process.

mod support;

use std::time::Duration;

use frigg_core::backoff::{Budget, InProcess, hinted_wait};
use frigg_core::scope::Scope;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{Outcome, matches, run};

#[test]
fn cases_budget() {
    run("frigg/budget.jsonl", "budget", check);
}

fn check(case: &Value) -> Outcome {
    let inputs = &case["inputs"];
    let millis = |name: &str| inputs[name].as_u64().map(Duration::from_millis);
    let got = match case["op"].as_str().expect("an operation") {
        "compute_wait" => {
            let fits = hinted_wait(
                millis("hint_wait_ms").expect("a wait"),
                millis("min_retry_after_ms"),
                millis("budget_ms").expect("a budget"),
                inputs["random_unit"].as_f64().expect("a number"),
            );
            match fits {
                InProcess::Sleep(wait) => json!({ "wait_ms": wait.as_secs_f64() * 1000.0, "fits": true }),
                InProcess::HandOn(wait) => json!({ "wait_ms": wait.as_secs_f64() * 1000.0, "fits": false }),
            }
        }
        "budget" => {
            let budget = Budget {
                cap: millis("max_in_process_wait_ms").unwrap_or(Budget::default().cap),
                waited: millis("waited_ms").unwrap_or_default(),
                time_left: millis("remaining_ms"),
                // A timeout of 0 is off.
                request_timeout: millis("request_timeout_ms").filter(|timeout| !timeout.is_zero()),
            };
            json!(budget.left_frigg().as_secs_f64() * 1000.0)
        }
        "deadline" => return deadline(case),
        other => panic!("no operation {other}"),
    };
    matches(&case["expect"], &got, false)
}

fn deadline(case: &Value) -> Outcome {
    let inputs = &case["inputs"];
    if inputs.get("context").is_some() {
        return Outcome::Skipped(
            "the Lambda context is typed: it always has a deadline, the worker hands it on",
        );
    }
    let scopes = inputs["scopes"].as_array().expect("a list");
    if scopes
        .iter()
        .any(|scope| matches!(scope["bad_value"].as_str(), Some("NaN" | "Infinity")))
    {
        return Outcome::Skipped("a deadline is a Timestamp: it cannot be infinite or no number");
    }
    // Milliseconds, or a bad value, which is no deadline.
    let scopes: Vec<Scope> = scopes
        .iter()
        .map(|scope| {
            scope
                .as_i64()
                .map(|ms| Timestamp::from_millisecond(ms).expect("a time"))
        })
        .map(|deadline| Scope {
            deadline,
            ..Scope::default()
        })
        .collect();
    let now = Timestamp::from_millisecond(inputs["clock_ms"].as_i64().unwrap_or_default()).expect("a time");
    let remaining = || Scope::current().time_left(now).map(|left| left.as_millis());

    let run = async {
        match scopes.as_slice() {
            [] => json!({ "remaining_ms": remaining() }),
            [one] => {
                one.run(async { json!({ "remaining_ms": remaining(), "returned": "ok" }) })
                    .await
            }
            [outer, inner, ..] => {
                let nested = async {
                    let inner = inner.run(async { remaining() }).await;
                    json!({ "remaining_ms_inner": inner, "remaining_ms_after_inner": remaining() })
                };
                outer.run(nested).await
            }
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    matches(&case["expect"], &runtime.block_on(run), false)
}
