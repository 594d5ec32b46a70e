//! Frigg's policies: defaults, scope keys, the resolution order, the error's fields, three providers.

mod support;

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use frigg_core::backoff::{DEFAULT_MAX_IN_PROCESS_WAIT, Ladder, MAX_JITTER, MIN_HINTED_WAIT};
use frigg_core::rate_limit::{
    Answer, Hint, NamedWindow, Parser, Policy, RateLimited, Reason, Scope, ScopeIds, Signal, Source, Verdict,
    providers,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{Outcome, body, headers, matches, run};

#[test]
fn cases_policy() {
    run("frigg/policy.jsonl", "policy", check);
}

fn check(case: &Value) -> Outcome {
    match case["op"].as_str().expect("an operation") {
        "constants" => constants(case),
        "normalize" => normalize(case),
        "scope_key" => scope_key(case),
        "classify" | "resolve" => classify(case),
        "classify_input" => classify_input(case),
        "error_fields" => error_fields(case),
        "provider_policy" => provider_policy(case),
        "provider_classify" => provider_classify(case),
        other => panic!("no operation {other}"),
    }
}

fn constants(case: &Value) -> Outcome {
    let names: Vec<&str> = Parser::FRIGG.iter().map(|parser| parser.as_str()).collect();
    let got = json!({
        "default_parsers": names,
        "default_max_in_process_wait_ms": millis(DEFAULT_MAX_IN_PROCESS_WAIT),
        "min_hinted_wait_ms": millis(MIN_HINTED_WAIT),
        "jitter_max_ms": millis(MAX_JITTER),
    });
    matches(&case["expect"], &got, true)
}

fn normalize(case: &Value) -> Outcome {
    let declared = &case["declared"]["value"];
    let Some(fields) = declared.as_object() else {
        return Outcome::Skipped("a policy is a type: there is no other value to declare");
    };
    if case.get("signal").is_some() {
        return Outcome::Skipped("a closure has no receiver");
    }
    if let Some(unknown) = case["expect"]["error"]["names_bad_value"].as_str() {
        // The list is typed; only a name can be unknown.
        return Outcome::equal(None, Parser::from_name(unknown));
    }
    if fields.keys().any(|key| key != "parsers") {
        return Outcome::Skipped("fields are typed: a wrong type does not compile");
    }
    let mut policy = Policy::frigg();
    if let Some(list) = fields.get("parsers") {
        policy = policy.with_parsers(parsers(list));
    }
    matches(&case["expect"], &described(&policy), case["match"] == "exact")
}

fn described(policy: &Policy) -> Value {
    let names: Vec<&str> = policy.parsers().iter().map(|parser| parser.as_str()).collect();
    let mut got = json!({ "scope": scope_name(policy.scope()), "parsers": names });
    if let Some(calls) = policy.max_concurrency() {
        got["max_concurrency"] = json!(calls);
    }
    // Windows of single routes are not Frigg's.
    let windows: Vec<Value> = policy
        .windows()
        .iter()
        .filter(|window| window.route.is_none())
        .map(|window| match window.rolling {
            true => json!({ "name": window.reason.as_str(), "rolling_ms": window.per.as_millis() as u64 }),
            false => json!({ "name": window.reason.as_str(), "limit": window.limit, "per_ms": window.per.as_millis() as u64 }),
        })
        .collect();
    if !windows.is_empty() {
        got["windows"] = json!(windows);
    }
    got
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Entity => "entity",
        Scope::Credential => "credential",
        Scope::App => "app",
        _ => "?",
    }
}

fn scope_key(case: &Value) -> Outcome {
    // An id is a number or text, of an object or itself.
    let id = |value: &Value| match value.get("id").unwrap_or(value) {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let (entity, credential) = (id(&case["context"]["entity"]), id(&case["context"]["credential"]));
    let ids = ScopeIds {
        entity: entity.as_deref(),
        credential: credential.as_deref(),
    };
    let policy = Policy::frigg().with_module(case["module_label"].as_str().expect("a label"));
    let policy = match &case["policy"]["scope"] {
        // What throws in JavaScript gives nothing here.
        Value::Object(_) => policy.with_custom_scope(|_| None),
        Value::String(name) if name == "credential" => policy.with_scope(Scope::Credential),
        Value::String(name) if name == "app" => policy.with_scope(Scope::App),
        _ => policy,
    };
    Outcome::equal(case["expect"].clone(), json!(policy.scope_key(&ids)))
}

fn classify(case: &Value) -> Outcome {
    let declared = &case["policy"];
    let rule = &declared["classify"];
    if rule.get("returns_promise_of").is_some() || rule.get("returns_thenable").is_some() {
        return Outcome::Skipped("a closure returns its answer, not a promise of one");
    }
    if case["signal"]["status"].is_null() {
        return Outcome::Skipped("a status is a number");
    }
    let listener = case["listener"].as_bool().unwrap_or_default();
    let calls = Arc::new(AtomicUsize::new(0));
    let policy = policy(declared, listener.then(|| Arc::clone(&calls)));

    let (headers, body, now) = parts(case);
    let signal = Signal::new(status(case), &headers, &body, now);
    let read = || match case["op"] == "resolve" {
        true => policy.read_with_ladder(&signal, attempt(case), &ladder(case)),
        false => policy.read(&signal),
    };
    let answer = match catch_unwind(AssertUnwindSafe(read)) {
        Ok(answer) => answer,
        // A panic is what a throw is there.
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            return matches(&case["expect"], &json!({ "raises": text }), false);
        }
    };
    if let Some(expected) = case["listener_calls"].as_u64()
        && expected != calls.load(Ordering::SeqCst) as u64
    {
        return Outcome::Failed(format!("{expected} calls of the listener"), format!("{calls:?}"));
    }
    // `classify` gives a hint only with a time; `resolve` says that there is a limit in any case.
    let hint = match answer {
        Answer::Limited(refusal) if case["op"] == "resolve" || refusal.hint.wait.is_some() => {
            as_frigg(&refusal.hint)
        }
        _ => Value::Null,
    };
    matches(&case["expect"], &hint, case["match"] == "exact")
}

fn classify_input(case: &Value) -> Outcome {
    let seen = Arc::new(std::sync::Mutex::new(Value::Null));
    let policy = Policy::frigg().with_classify({
        let seen = Arc::clone(&seen);
        move |signal| {
            let body: Value = serde_json::from_slice(signal.body()).unwrap_or_default();
            let headers: serde_json::Map<String, Value> = signal
                .headers()
                .iter()
                .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap_or_default())))
                .collect();
            *seen.lock().expect("not poisoned") =
                json!({ "status": signal.status(), "headers": headers, "body": body });
            None
        }
    });
    let (headers, body, now) = parts(case);
    policy.read(&Signal::new(status(case), &headers, &body, now));
    let seen = seen.lock().expect("not poisoned").clone();
    matches(&case["expect"], &json!({ "classify_called_with": seen }), false)
}

fn error_fields(case: &Value) -> Outcome {
    let (input, expect) = (&case["input"], case["expect"].as_object().expect("an object"));
    let about_core = [
        "wait_ms",
        "retry_at",
        "reason",
        "policy",
        "source",
        "module",
        "scope_key",
        "status_code",
    ];
    let expected: serde_json::Map<String, Value> = expect
        .iter()
        .filter(|(key, _)| about_core.contains(&key.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if expected.is_empty() {
        return Outcome::Skipped(
            "JavaScript's classes, exports, enumerable keys and clock; or method, address and body, which are the requester's",
        );
    }
    let hint = &input["hint"];
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let wait = |value: &Value| value.as_u64().map(Duration::from_millis);
    let mut known = Hint::default();
    known.retry_at = time(&hint["retry_at"]);
    known.wait = wait(&hint["wait_ms"]);
    known.reason = hint["reason"]
        .as_str()
        .and_then(Reason::from_name)
        .unwrap_or_default();
    known.policy = hint["policy"].as_str().map(str::to_owned);
    known.source = source(&hint["source"]).unwrap_or_default();
    let now = time(&input["now"]).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut error = RateLimited::from_hint(known, wait(&input["wait_ms"]), now);
    if let Some(module) = input["module"].as_str() {
        error = error.with_module(module);
    }
    if let Some(key) = input["scope_key"].as_str() {
        error = error.with_scope_key(key);
    }
    if let Some(status) = input["response"]["status"].as_u64() {
        error = error.with_status(status as u16);
    }
    let limit = error.limit();
    let got = json!({
        "wait_ms": limit.wait.map(millis),
        "retry_at": limit.retry_at.map(|at| format!("{at:.3}")),
        "reason": limit.reason.as_str(),
        "policy": limit.policy,
        "source": limit.source.as_str(),
        "module": limit.module,
        "scope_key": limit.scope_key,
        "status_code": limit.status,
    });
    matches(&Value::Object(expected), &got, false)
}

fn provider_policy(case: &Value) -> Outcome {
    let policy = Policy::for_provider(case["provider"].as_str().expect("a name")).expect("in the table");
    let policy = policy.frigg_compat();
    let mut got = described(&policy);
    for link in policy.links() {
        // The label is free.
        got["user_hints"][link.reason.as_str()] =
            json!({ "links": [{ "label": "any text", "url": link.url }] });
    }
    matches(&case["expect"], &got, case["match"] == "exact")
}

fn provider_classify(case: &Value) -> Outcome {
    let provider = providers::by_name(case["provider"].as_str().expect("a name")).expect("in the table");
    let (headers, body, now) = parts(case);
    let verdict = provider.classify(&Signal::new(status(case), &headers, &body, now));
    let got = verdict.map_or(Value::Null, |verdict| {
        json!({
            "reason": verdict.reason().map(Reason::as_str),
            "policy": verdict.policy(),
            "wait_ms": verdict.wait().map(millis),
            "source": verdict.source().map(Source::as_str),
        })
    });
    matches(&case["expect"], &got, case["match"] == "exact")
}

/// A declared policy, with the classify function that the case describes.
fn policy(declared: &Value, listener: Option<Arc<AtomicUsize>>) -> Policy {
    let mut policy = Policy::frigg();
    if let Some(list) = declared.get("parsers") {
        policy = policy.with_parsers(parsers(list));
    }
    if let Some(wait) = declared["min_retry_after_ms"].as_u64() {
        policy = policy.with_min_retry_after(Duration::from_millis(wait));
    }
    if let Some(calls) = declared["max_concurrency"]
        .as_u64()
        .and_then(|calls| NonZeroU32::new(calls as u32))
    {
        policy = policy.with_max_concurrency(calls);
    }
    for window in declared["windows"].as_array().into_iter().flatten() {
        let reason = window["name"]
            .as_str()
            .and_then(Reason::from_name)
            .expect("a reason");
        let per = Duration::from_millis(window["per_ms"].as_u64().expect("a length"));
        policy = policy.with_window(NamedWindow::new(
            reason,
            window["limit"].as_u64().unwrap_or_default() as u32,
            per,
        ));
    }
    let rule = &declared["classify"];
    if let Some(text) = rule["throws"].as_str().map(str::to_owned) {
        policy = policy.with_classify(move |_| panic!("{text}"));
    } else if let Some(answer) = rule.get("returns") {
        let verdict = verdict(answer);
        policy = policy.with_classify(move |_| verdict.clone());
    }
    match listener {
        Some(calls) => policy.with_classify_listener(move |_, _| {
            calls.fetch_add(1, Ordering::SeqCst);
        }),
        None => policy,
    }
}

/// What a classify function of JavaScript gave, as far as it can be said here: unknown reasons, texts for numbers and
/// bad dates are nothing.
fn verdict(answer: &Value) -> Option<Verdict> {
    answer.as_object()?;
    let mut verdict = Verdict::default();
    let known = ["burst", "daily", "monthly", "concurrency", "unknown"];
    if let Some(reason) = answer["reason"].as_str().filter(|name| known.contains(name)) {
        verdict = verdict.with_reason(Reason::from_name(reason).expect("known"));
    }
    if let Some(wait) = answer["wait_ms"].as_u64() {
        verdict = verdict.with_wait(Duration::from_millis(wait));
    }
    let moment = match &answer["retry_at"] {
        Value::Number(millis) => millis
            .as_i64()
            .and_then(|millis| Timestamp::from_millisecond(millis).ok()),
        other => other
            .get("date")
            .unwrap_or(other)
            .as_str()
            .and_then(|text| text.parse().ok()),
    };
    if let Some(at) = moment {
        verdict = verdict.with_retry_at(at);
    }
    if let Some(policy) = answer["policy"].as_str() {
        verdict = verdict.with_policy(policy);
    }
    if let Some(source) = source(&answer["source"]) {
        verdict = verdict.with_source(source);
    }
    Some(verdict)
}

fn source(value: &Value) -> Option<Source> {
    [Source::Header, Source::Body, Source::Static, Source::Backoff]
        .into_iter()
        .find(|one| value == one.as_str())
}

fn parsers(list: &Value) -> Vec<Parser> {
    let names = list.as_array().expect("a list").iter().filter_map(Value::as_str);
    names
        .map(|name| Parser::from_name(name).expect("a parser"))
        .collect()
}

fn parts(case: &Value) -> (http::HeaderMap, Vec<u8>, Timestamp) {
    let now = case["now"]
        .as_str()
        .unwrap_or("2026-09-28T12:00:00Z")
        .parse()
        .expect("a time");
    (
        headers(&case["signal"]["headers"]),
        body(&case["signal"]["body"]),
        now,
    )
}

fn status(case: &Value) -> u16 {
    case["signal"]["status"].as_u64().expect("a status") as u16
}

fn attempt(case: &Value) -> u32 {
    case["attempt"].as_u64().expect("a number") as u32
}

fn ladder(case: &Value) -> Ladder {
    let steps = case["back_off"].as_array().expect("a list").iter();
    Ladder::new(
        steps
            .map(|step| Duration::from_secs_f64(step.as_f64().expect("seconds")))
            .collect::<Vec<_>>(),
    )
}

fn as_frigg(hint: &Hint) -> Value {
    json!({
        "wait_ms": hint.wait.map(millis),
        "retry_at": hint.retry_at.map(|at| format!("{at:.3}")),
        "reason": hint.reason.frigg_name(),
        "source": hint.source.as_str(),
        "policy": hint.policy,
        "remaining": hint.remaining,
    })
}

fn millis(wait: Duration) -> f64 {
    wait.as_secs_f64() * 1000.0
}
