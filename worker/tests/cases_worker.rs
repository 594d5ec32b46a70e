//! Frigg's `worker` cases: each is run through the whole batch pipe with `Options::frigg()` and fakes of the ports.

#![allow(clippy::unwrap_used)]

#[path = "../../core/tests/support/mod.rs"]
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use frigg_core::deferral::{
    Body, Capabilities, Counters, DeadLetters, Decision, Failure, MAX_VISIBILITY, Options, Reading, plan,
};
use frigg_core::delivery::{Delivery, QueueArn};
use frigg_core::marker::Permanent;
use frigg_core::rate_limit::{Limit, RateLimited, Reason};
use frigg_core::time;
use frigg_worker::ports::{CallError, CallErrorKind, ScheduleRequest, SendRequest, Sqs};
use frigg_worker::run_state::RunState;
use frigg_worker::testing::{Call, FakeRunState, FakeScheduler, FakeSqs, Logs, StateCall, event};
use frigg_worker::{Clock, Config, HandlerError, Job, Raw, Worker, handler_fn};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use support::Outcome;
use tokio::time::Instant;

#[test]
fn cases_worker() {
    support::run("frigg/worker.jsonl", "worker", |case| {
        match case["kind"].as_str().unwrap_or_default() {
            "run" => run(case),
            "send" => send(case),
            "halt_rule" => halt_rule(case),
            "limits" => limits(case),
            "read_envelope" => read_envelope(case),
            "next_envelope" => next_envelope(case),
            "merge_envelope" => merge_envelope(case),
            "cap_check" => cap_check(case),
            "constants" => constants(case),
            "delivery" => delivery(case),
            other => Outcome::Failed("a kind that is known".to_owned(), other.to_owned()),
        }
    });
}

fn at(value: &Value) -> Option<Timestamp> {
    time::parse_iso(value.as_str()?)
}

fn now(case: &Value) -> Timestamp {
    at(&case["now"]).unwrap_or_else(|| "2026-09-28T12:00:00Z".parse().unwrap())
}

fn variables(env: &Value) -> impl Fn(&str) -> Option<String> {
    |name| match &env[name] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Every test value is read with Frigg's options, whatever the environment of the case says beside.
fn frigg_options(env: &Value) -> Options {
    let (read, _) = Options::from_variables(variables(env));
    let mut options = Options::frigg().with_limits(read.limits);
    options.max_receive_count = read.max_receive_count;
    options
}

// ---- whole batches

/// An error with a status that is no limit.
#[derive(Debug)]
struct StatusError(String, Permanent);

impl std::fmt::Display for StatusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StatusError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.1)
    }
}

fn handler_result(result: &Value) -> Result<(), HandlerError> {
    if result.is_null() || result["ok"] == json!(true) {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().map_or_else(|| "fault".to_owned(), str::to_owned);
    let status = |value: &Value| {
        value["status_code"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
    };
    if let limited @ Value::Object(_) = &result["rate_limited"] {
        let mut limit = Limit::default();
        limit.retry_at = at(&limited["retry_at"]);
        limit.reason = limited["reason"]
            .as_str()
            .and_then(Reason::from_name)
            .unwrap_or_default();
        limit.module = limited["module"].as_str().map(str::to_owned);
        limit.status = status(limited);
        return Err(RateLimited::new(limit).into());
    }
    let halts = ["halt", "halted", "is_halt"]
        .iter()
        .any(|key| !matches!(&result[*key], Value::Null | Value::Bool(false)));
    let detail = ["halt", "halted", "error"]
        .into_iter()
        .map(|key| &result[key])
        .find(|value| !value.is_null());
    let detail = detail.unwrap_or(result);
    let message = text(if detail.is_object() {
        &detail["message"]
    } else {
        detail
    });
    let status = status(detail).or(status(result));
    match status.and_then(Permanent::of_status) {
        Some(mark) => Err(StatusError(message, mark).into()),
        None if halts => Err(StatusError(message, Permanent { status }).into()),
        None => Err(message.into()),
    }
}

fn sqs_message(record: &Value, index: usize) -> Value {
    let body = match &record["body"] {
        Value::String(text) => json!(text),
        Value::Null => Value::Null,
        other => json!(other.to_string()),
    };
    json!({
        "messageId": record["message_id"].as_str().map_or_else(|| format!("runner-{index}"), str::to_owned),
        "receiptHandle": record["receipt_handle"],
        "body": body,
        "attributes": record["attributes"],
        "eventSourceARN": record["event_source_arn"],
    })
}

fn is_fault(faults: &Value, names: &[&str]) -> Option<CallError> {
    let fault = names
        .iter()
        .map(|name| &faults[*name])
        .find(|fault| !fault.is_null())?;
    let code = fault
        .as_str()
        .or(fault["name"].as_str())
        .or(fault["code"].as_str())
        .unwrap_or("fault");
    let message = fault["message"].as_str().unwrap_or(code);
    let conflict = code.contains("Conflict") || message.contains("ConflictException");
    let kind = if conflict {
        CallErrorKind::Conflict
    } else {
        CallErrorKind::Unavailable
    };
    Some(CallError::new(kind, None, message))
}

fn run(case: &Value) -> Outcome {
    if !case["context"].is_null() {
        return Outcome::Skipped("a Rust handler owns its context; none is passed through the run");
    }
    let records = case["records"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![case["record"].clone()]);
    let results = case["handler_results"].as_array().cloned();
    let results = results.unwrap_or_else(|| vec![case["handler_result"].clone(); records.len()]);
    let messages: Vec<Value> = records
        .iter()
        .enumerate()
        .map(|(i, record)| sqs_message(record, i))
        .collect();
    let ids: Vec<String> = messages
        .iter()
        .map(|m| m["messageId"].as_str().unwrap_or_default().to_owned())
        .collect();
    let batch = messages
        .into_iter()
        .map(|message| serde_json::from_value(message).expect("an SQS message"));

    let (mut config, _) = Config::from_variables(variables(&case["env"]));
    config.options = frigg_options(&case["env"]);
    let (sqs, scheduler) = (FakeSqs::default(), FakeScheduler::default());
    let faults = case["aws_faults"].clone();
    let fault = move |call: &Call, entry: usize| match call {
        Call::QueueUrl { .. } => is_fault(&faults, &["get_queue_url", "queue_url"]),
        Call::SendBatch(..) if entry == usize::MAX => None,
        Call::Send(..) | Call::SendBatch(..) => is_fault(&faults, &["send_message", "send"]),
        Call::ChangeVisibilityBatch(..) if entry == usize::MAX => None,
        Call::ChangeVisibilityBatch(..) => is_fault(
            &faults,
            &["change_message_visibility", "change_visibility", "visibility"],
        ),
        Call::CreateSchedule(..) => is_fault(&faults, &["create_schedule", "schedule", "scheduler"]),
        _ => None,
    };
    sqs.calls.fail(fault.clone());
    scheduler.calls.fail(fault);
    let state_fault = ["record", "clear"]
        .into_iter()
        .find_map(|hook| case["hook_faults"][hook].as_str());
    let states = state_fault.map_or_else(FakeRunState::default, FakeRunState::failing);

    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let handler = handler_fn(move |job: Job<JsonBody>| {
        let index = ids
            .iter()
            .position(|id| *id == job.delivery.message_id)
            .unwrap_or_default();
        let result = results.get(index).map_or(Ok(()), handler_result);
        seen.lock().unwrap().push(job);
        async { result }
    });
    let stands = now(case);
    let worker = Worker::new(handler, config)
        .with_sqs(Arc::new(sqs.clone()))
        .with_scheduler(Arc::new(scheduler.clone()))
        .with_run_state(Arc::new(states.clone()) as Arc<dyn RunState>)
        .with_clock(Clock::from_fn(move || stands));
    let (logs, guard) = Logs::capture();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let response = runtime.block_on(async {
        let deadline = Instant::now() + Duration::from_secs(900);
        worker.handle(event(batch.collect()), deadline).await
    });
    drop(guard);
    let response = match response {
        Ok(response) => response,
        Err(error) => return Outcome::Failed(case["expect"].to_string(), error.to_string()),
    };
    let failures = response
        .batch_item_failures
        .iter()
        .map(|f| json!({ "item_identifier": f.item_identifier }));
    let jobs: Vec<Job<JsonBody>> = calls.lock().unwrap().drain(..).collect();
    let got = Got {
        failures: failures.collect(),
        sent: sqs.calls.sent(),
        tried_to_send: sqs
            .calls
            .made()
            .iter()
            .any(|call| matches!(call, Call::SendBatch(..))),
        schedules: scheduler.calls.schedules(),
        calls: sqs.calls.made(),
        visibility: sqs.calls.visibility(),
        states: states.calls(),
        events: logs.events(),
        jobs,
    };
    got.compare(&case["expect"])
}

/// A body that must be JSON, as JavaScript workers take it.
struct JsonBody(Value);

impl<'de> serde::Deserialize<'de> for JsonBody {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(JsonBody)
    }
}

struct Got {
    failures: Vec<Value>,
    sent: Vec<(String, SendRequest)>,
    tried_to_send: bool,
    schedules: Vec<ScheduleRequest>,
    calls: Vec<Call>,
    visibility: Vec<(String, frigg_worker::ports::VisibilityRequest)>,
    states: Vec<StateCall>,
    events: Vec<Value>,
    jobs: Vec<Job<JsonBody>>,
}

impl Got {
    /// Compares each key under `expect` with what happened.
    fn compare(&self, expect: &Value) -> Outcome {
        let mut wrong = Vec::new();
        let mut right = Vec::new();
        for (key, want) in expect.as_object().into_iter().flatten() {
            if let Err(got) = self.check(key, want) {
                right.push(format!("{key}: {want}"));
                wrong.push(format!("{key}: {got}"));
            }
        }
        if wrong.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed(right.join("; "), wrong.join("; "))
        }
    }

    fn check(&self, key: &str, want: &Value) -> Result<(), Value> {
        let count = |n: usize| if json!(n) == *want { Ok(()) } else { Err(json!(n)) };
        match key {
            "batch_item_failures" => same(want, &Value::from(self.failures.clone())),
            "handler_calls" => count(self.jobs.len()),
            "handler_bodies" => same(want, &self.jobs.iter().map(|job| job.message.0.clone()).collect()),
            "handler_called_with" => {
                let Some(job) = self.jobs.last() else {
                    return Err(json!("no call"));
                };
                subset(
                    want,
                    &json!({ "body": job.message.0, "delivery": delivery_json(&job.delivery) }),
                )
            }
            "sent" => each(want, &self.sent.iter().map(sent_json).collect::<Vec<_>>()),
            "sent_count" => count(self.sent.len()),
            "send_attempted" => same(want, &json!(self.tried_to_send)),
            "schedules" => each(
                want,
                &self.schedules.iter().map(schedule_json).collect::<Vec<_>>(),
            ),
            "schedule_count" | "schedules_count" => count(self.schedules.len()),
            "visibility" => {
                let change = |(url, change): &(String, frigg_worker::ports::VisibilityRequest)| {
                    json!({
                        "queue_url": url, "receipt_handle": change.receipt_handle,
                        "timeout": change.seconds, "visibility_timeout": change.seconds,
                    })
                };
                each(want, &self.visibility.iter().map(change).collect::<Vec<_>>())
            }
            "visibility_count" => count(self.visibility.len()),
            "get_queue_url_calls" => {
                let call = |call: &Call| match call {
                    Call::QueueUrl {
                        name, owner: None, ..
                    } => Some(json!({ "QueueName": name })),
                    Call::QueueUrl { name, owner, .. } => {
                        Some(json!({ "QueueName": name, "QueueOwnerAWSAccountId": owner }))
                    }
                    _ => None,
                };
                same(want, &self.calls.iter().filter_map(call).collect())
            }
            "run_state" => each(want, &self.states.iter().map(state_json).collect::<Vec<_>>()),
            "logs" => {
                let missing = |line: &&Value| !self.events.iter().any(|event| log_matches(line, event));
                match want.as_array().into_iter().flatten().find(missing) {
                    None => Ok(()),
                    Some(_) => Err(Value::from(self.events.clone())),
                }
            }
            "no_logs" => {
                let there = |name: &&Value| self.count_of(name.as_str().unwrap_or_default()) > 0;
                want.as_array()
                    .into_iter()
                    .flatten()
                    .find(there)
                    .map_or(Ok(()), |name| Err(name.clone()))
            }
            "log_counts" => {
                let counts = want.as_object().into_iter().flatten();
                let got = counts.map(|(name, _)| (name.clone(), json!(self.count_of(name))));
                same(want, &Value::Object(got.collect()))
            }
            _ => Err(json!("the runner does not know this key")),
        }
    }

    fn count_of(&self, event: &str) -> usize {
        self.events
            .iter()
            .filter(|line| line["eventName"] == event)
            .count()
    }
}

fn log_matches(want: &Value, event: &Value) -> bool {
    event["eventName"] == want["event"]
        && (want["level"].is_null() || event["level"] == want["level"])
        && subset(&want["fields"], event).is_ok()
}

fn same(want: &Value, got: &Value) -> Result<(), Value> {
    if want == got { Ok(()) } else { Err(got.clone()) }
}

/// Every key of `want` is in `got`, with an equal value; `null` is a missing key.
fn subset(want: &Value, got: &Value) -> Result<(), Value> {
    let fits = match (want, got) {
        (Value::Object(want), _) if want.contains_key("contains") => {
            let (part, whole) = (want["contains"].as_str(), got.as_str());
            part.zip(whole).is_some_and(|(part, whole)| whole.contains(part))
        }
        (Value::Object(want), _) if want.contains_key("undefined") => got.is_null(),
        (Value::Object(want), Value::Object(_)) => {
            want.iter().all(|(key, value)| subset(value, &got[key]).is_ok())
        }
        _ => want == got,
    };
    if fits { Ok(()) } else { Err(got.clone()) }
}

/// As many as wanted, each as wanted; bodies are compared whole, but for the deferral id where the case says so.
fn each(want: &Value, got: &[Value]) -> Result<(), Value> {
    let want = want.as_array().map_or(&[][..], Vec::as_slice);
    let fits = |(want, got): (&Value, &Value)| {
        let loose = ["body_match", "input_match"]
            .iter()
            .any(|key| want[key] == "deferral id aside");
        want.as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| match key.as_str() {
                "body_match" | "input_match" => true,
                "body" | "input" => {
                    let mut body = got[key].clone();
                    if let (true, Some(envelope)) = (loose, body["_frigg"].as_object_mut()) {
                        envelope.remove("deferralId");
                    }
                    body == *value
                }
                _ => subset(value, &got[key]).is_ok(),
            })
    };
    if want.len() == got.len() && want.iter().zip(got).all(fits) {
        Ok(())
    } else {
        Err(Value::from(got.to_vec()))
    }
}

fn sent_json((url, request): &(String, SendRequest)) -> Value {
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let id = body["_frigg"]["deferralId"].clone();
    json!({ "queue_url": url, "delay_seconds": request.delay_seconds, "body": body, "deferral_id": id })
}

fn schedule_json(request: &ScheduleRequest) -> Value {
    let input: Value = serde_json::from_str(&request.input).unwrap_or_default();
    let id = input["_frigg"]["deferralId"].clone();
    let expression = format!("at({})", request.at.strftime("%Y-%m-%dT%H:%M:%S"));
    json!({
        "name": request.name, "group": request.group, "group_name": request.group, "at": time::iso(request.at),
        "expression": expression, "schedule_expression": expression, "timezone": "UTC",
        "target_arn": request.target.arn(), "queue_arn": request.target.arn(), "role_arn": request.role_arn,
        "input": input, "body": input, "payload": input, "deferral_id": id,
    })
}

fn state_json(call: &StateCall) -> Value {
    let json = |body: &str| serde_json::from_str::<Value>(body).unwrap_or_default();
    match call {
        StateCall::Record(body, state) => json!({
            "op": "record", "body": json(body), "status": state.status.as_str(),
            "mechanism": state.mechanism.as_str(), "retry_at": time::iso(state.retry_at),
            "retryAt": time::iso(state.retry_at), "reason": state.reason.frigg_name(), "module": state.module,
            "deferrals": state.deferrals, "deferral_id": state.deferral_id, "deferralId": state.deferral_id,
        }),
        StateCall::Clear(body, id) => {
            json!({ "op": "clear", "body": json(body), "deferral_id": id, "deferralId": id })
        }
    }
}

fn delivery_json(delivery: &Delivery) -> Value {
    json!({
        "receive_count": delivery.receive_count, "max_receive_count": delivery.max_receive_count,
        "is_last_attempt": delivery.is_last_attempt(), "deferrals": delivery.deferrals,
        "first_deferred_at": delivery.first_deferred_at.map(time::iso), "message_id": delivery.message_id,
    })
}

// ---- the parts

fn send(case: &Value) -> Outcome {
    let input = &case["input"];
    let (sqs, url) = (
        FakeSqs::default(),
        input["queue_url"].as_str().unwrap_or_default(),
    );
    let delay = input["delay"].as_u64().unwrap_or(0);
    let request = SendRequest::new(
        input["data"].to_string(),
        u32::try_from(delay).unwrap_or(u32::MAX),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let returned = runtime.block_on(sqs.send(url, &request)).unwrap_or_default();
    let sent = sqs.calls.sent();
    let got =
        json!({ "delay_seconds": sent[0].1.delay_seconds, "returns": returned, "queue_url": sent[0].0 });
    compare(&case["expect"], got)
}

fn compare(want: &Value, got: Value) -> Outcome {
    match subset(want, &got) {
        Ok(()) => Outcome::Passed,
        Err(got) => Outcome::Failed(want.to_string(), got.to_string()),
    }
}

fn halt_rule(case: &Value) -> Outcome {
    let error = &case["error"];
    let status = error["status_code"]
        .as_u64()
        .and_then(|status| u16::try_from(status).ok());
    let limited = error["is_rate_limited"] == json!(true);
    let raised: HandlerError = match status.and_then(Permanent::of_status) {
        Some(mark) if !limited => StatusError("fault".to_owned(), mark).into(),
        _ if limited => {
            let mut limit = Limit::default();
            limit.status = status;
            RateLimited::new(limit).into()
        }
        _ => "fault".into(),
    };
    compare(&case["expect"], json!({ "halt": raised.is_permanent() }))
}

fn limits(case: &Value) -> Outcome {
    let (options, _) = Options::from_variables(variables(&case["env"]));
    let limits = options.limits;
    let ms = u64::try_from(limits.max_deferred.as_millis()).unwrap_or(u64::MAX);
    compare(
        &case["expect"],
        json!({ "max_deferrals": limits.max_deferrals, "max_deferred_ms": ms }),
    )
}

fn text_of(body: &Value) -> String {
    match body {
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn read_envelope(case: &Value) -> Outcome {
    let body = Body::open(text_of(&case["body"]), Reading::Frigg);
    let envelope = body.envelope();
    let got = json!({
        "deferrals": envelope.deferrals, "firstDeferredAt": envelope.first_deferred_at.map(time::iso),
        "deferralId": envelope.deferral_id,
    });
    compare(&case["expect"], got)
}

/// What `plan` would stamp on this body.
fn next_envelope(case: &Value) -> Outcome {
    let body = Body::open(text_of(&case["body"]), Reading::Frigg);
    let mut delivery = Delivery::default();
    delivery.message_id = case["message_id"].as_str().unwrap_or_default().to_owned();
    delivery.queue_arn = QueueArn::parse("arn:aws:sqs:us-east-1:123456789012:jobs");
    delivery.deferrals = body.envelope().deferrals;
    delivery.first_deferred_at = body.envelope().first_deferred_at;
    delivery.deferral_id.clone_from(&body.envelope().deferral_id);
    let limit = {
        let mut limit = Limit::default();
        limit.retry_at = Some(now(case) + SignedDuration::from_secs(1));
        limit
    };
    let can = Capabilities {
        delay: true,
        schedule: false,
        visibility: true,
        retention: None,
        dead_letters: DeadLetters::Absent,
    };
    let decision = plan(
        now(case),
        0.0,
        Failure::Limited(&limit),
        &delivery,
        &Options::frigg(),
        can,
    );
    let Decision::Defer(deferral) = decision else {
        return Outcome::Failed("a deferral".to_owned(), format!("{decision:?}"));
    };
    let counters = deferral.counters;
    let got = json!({
        "deferrals": counters.deferrals, "firstDeferredAt": time::iso(counters.first_deferred_at),
        "deferralId": counters.deferral_id,
    });
    compare(&case["expect"], got)
}

fn merge_envelope(case: &Value) -> Outcome {
    let body = Body::open(text_of(&case["body"]), Reading::Frigg);
    let deferral = &case["deferral"];
    let stamped = body.stamp(&Counters {
        deferrals: u32::try_from(deferral["deferrals"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX),
        gated: 0,
        first_deferred_at: at(&deferral["firstDeferredAt"]).unwrap_or(Timestamp::UNIX_EPOCH),
        deferral_id: deferral["deferralId"].as_str().map(str::to_owned),
        retry_at: None,
    });
    let stamped: Value = serde_json::from_str(&stamped).unwrap_or_default();
    let unchanged = body.raw() == text_of(&case["body"]);
    match same(&case["expect"]["body"], &stamped) {
        Ok(()) => compare(&case["expect"]["input_unchanged"], json!(unchanged)),
        Err(got) => Outcome::Failed(case["expect"].to_string(), got.to_string()),
    }
}

/// Whether `plan` refuses a deferral whose envelope would be this.
fn cap_check(case: &Value) -> Outcome {
    let (limits, deferral) = (&case["limits"], &case["deferral"]);
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let limits = frigg_worker::Limits {
        max_deferrals: u32::try_from(number(&limits["max_deferrals"])).unwrap_or(u32::MAX),
        max_deferred: Duration::from_millis(number(&limits["max_deferred_ms"])),
    };
    let mut delivery = Delivery::default();
    delivery.message_id = "m-1".to_owned();
    delivery.queue_arn = QueueArn::parse("arn:aws:sqs:us-east-1:123456789012:jobs");
    delivery.deferrals = u32::try_from(number(&deferral["deferrals"]))
        .unwrap_or(u32::MAX)
        .saturating_sub(1);
    delivery.first_deferred_at = at(&deferral["firstDeferredAt"]);
    let mut limit = Limit::default();
    limit.retry_at = at(&deferral["retry_at"]);
    let can = Capabilities {
        delay: true,
        schedule: true,
        visibility: true,
        retention: None,
        dead_letters: DeadLetters::Absent,
    };
    let options = Options::frigg().with_limits(limits);
    let decision = plan(now(case), 0.0, Failure::Limited(&limit), &delivery, &options, can);
    compare(&case["expect"], json!(matches!(decision, Decision::Fail(_))))
}

fn constants(case: &Value) -> Outcome {
    // The sum that it is made of.
    let parts = &case["expect"]["made_of"];
    let sum: i64 = parts
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, part)| part.as_i64())
        .sum();
    let got = json!({ "max_deferred_visibility_seconds": MAX_VISIBILITY.as_secs(), "made_of": parts });
    match u64::try_from(sum) {
        Ok(sum) if sum == MAX_VISIBILITY.as_secs() || parts.is_null() => compare(&case["expect"], got),
        _ => Outcome::Failed(sum.to_string(), MAX_VISIBILITY.as_secs().to_string()),
    }
}

/// What the handler is told, for a message with these attributes.
fn delivery(case: &Value) -> Outcome {
    let seen = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&seen);
    let handler = handler_fn(move |job: Job<Raw>| {
        *slot.lock().unwrap() = Some(delivery_json(&job.delivery));
        async { Ok::<(), HandlerError>(()) }
    });
    let (mut config, _) = Config::from_variables(variables(&case["env"]));
    config.options = frigg_options(&case["env"]);
    let worker = Worker::new(handler, config).with_sqs(Arc::new(FakeSqs::default()));
    let record = json!({ "message_id": "m-1", "body": {}, "attributes": case["attributes"] });
    let message = serde_json::from_value(sqs_message(&record, 0)).expect("an SQS message");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let deadline = Instant::now() + Duration::from_secs(900);
        worker
            .handle(event(vec![message]), deadline)
            .await
            .map(drop)
            .expect("a message with an id")
    });
    let got = seen.lock().unwrap().clone().unwrap_or_default();
    compare(&case["expect"], got)
}
