//! Frigg's requester cases, against a real server, with a clock that sleeps at once.

mod common;
#[path = "../../core/tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Logs, Notices, Reply, Server, VirtualClock, noon, secrets};
use frigg_core::backoff::Ladder;
use frigg_core::rate_limit::{Parser, Policy, Reason, Scope as Whose, Verdict};
use frigg_core::scope::Scope;
use frigg_requester::{
    Auth, BoxError, CredentialStore, FetchError, MemoryStore, Notice, OAuth2, Requester, Token,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use support::{Outcome, Score, load, matches};

#[test]
fn cases_requester() {
    let Some(cases) = load("frigg/requester.jsonl") else {
        return;
    };
    let mut score = Score::new("requester");
    for case in &cases {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (logs, _guard) = Logs::capture();
        let outcome = runtime.block_on(async {
            match case["op"].as_str() {
                None => Run::of(case, &logs).check().await,
                Some("request_timeout") => request_timeout(case),
                Some("delegate_types") => {
                    Outcome::Skipped("TypeScript declarations; the notices are an enum")
                }
                Some("token_refresh") => token_refresh(case).await,
                Some(other) => panic!("no operation {other}"),
            }
        });
        score.add(case, outcome);
    }
    assert!(score.print(), "cases requester failed");
}

fn millis(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

/// One case, set up.
struct Run<'a> {
    case: &'a Value,
    logs: &'a Logs,
    server: Server,
    token_server: Server,
    clock: VirtualClock,
    notices: Notices,
    classified: Arc<Mutex<Option<Value>>>,
}

impl<'a> Run<'a> {
    fn of(case: &'a Value, logs: &'a Logs) -> Self {
        let replies = case["responses"].as_array().into_iter().flatten().map(reply);
        let renewals: Vec<Reply> = case["refresh_results"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(n, works)| match works.as_bool() {
                Some(true) => Reply::json(
                    200,
                    &json!({"access_token": format!("{}-{n}", secrets::TOKEN), "token_type": "bearer"}),
                ),
                _ => Reply::json(401, &json!({"error": "invalid_client"})),
            })
            .collect();
        Run {
            case,
            logs,
            server: Server::script(replies),
            token_server: Server::script(renewals),
            clock: VirtualClock::new(noon()),
            notices: Notices::default(),
            classified: Arc::default(),
        }
    }

    fn policy(&self) -> Option<Policy> {
        let declared = self.case["policy"].as_object()?;
        let mut policy = match declared.get("provider").and_then(Value::as_str) {
            Some(name) => Policy::for_provider(name).expect("in the table"),
            None => Policy::frigg(),
        };
        if let Some(wait) = declared.get("min_retry_after_ms").and_then(millis) {
            policy = policy.with_min_retry_after(wait);
        }
        if declared.get("scope").is_some() {
            policy = policy.with_scope(Whose::Entity);
        }
        if let Some(classify) = declared.get("classify").cloned() {
            let classified = Arc::clone(&self.classified);
            policy = policy.with_classify(move |signal| {
                *classified.lock().expect("unpoisoned") =
                    Some(serde_json::from_slice(signal.body()).unwrap_or_default());
                if let Some(text) = classify["throws"].as_str() {
                    std::panic::resume_unwind(Box::new(text.to_owned()));
                }
                let verdict = classify["returns"].as_object()?;
                let mut answer = Verdict::default();
                if let Some(reason) = verdict.get("reason").and_then(Value::as_str) {
                    answer = answer.with_reason(Reason::from_name(reason).expect("a reason"));
                }
                if let Some(wait) = verdict.get("wait_ms").and_then(millis) {
                    answer = answer.with_wait(wait);
                }
                Some(answer)
            });
        }
        Some(policy)
    }

    fn requester(&self) -> Requester {
        let params = &self.case["params"];
        let mut builder = Requester::builder(self.server.url())
            .frigg_compat()
            .clock(
                self.clock
                    .clock(params["random_unit"].as_f64().unwrap_or_default()),
            )
            .notify(Arc::new(self.notices.clone()));
        if let Some(policy) = self.policy() {
            builder = builder.policy(policy);
        }
        if let Some(timeout) = millis(&params["request_timeout_ms"]) {
            builder = builder.timeout(timeout);
        }
        if let Some(steps) = params["back_off_s"].as_array() {
            let steps: Vec<Duration> = steps
                .iter()
                .filter_map(Value::as_u64)
                .map(Duration::from_secs)
                .collect();
            builder = builder.ladder(Ladder::new(steps));
        }
        let label = self.case["requester_label"]
            .as_str()
            .or(params["delegate"]["name"].as_str());
        if let Some(label) = label {
            builder = builder.module(label);
        }
        if let Some(id) = params["delegate"]["entity"]["id"].as_u64() {
            builder = builder.entity(id.to_string());
        }
        builder = builder.auth(match self.case["refreshable"].as_bool() {
            Some(true) => Auth::oauth2(
                OAuth2::client_credentials(self.token_server.url(), "client", secrets::CLIENT)
                    .with_token(Token::new(secrets::TOKEN)),
            ),
            _ => Auth::bearer(secrets::TOKEN),
        });
        builder.build().expect("a requester")
    }

    async fn check(self) -> Outcome {
        let expect = &self.case["expect"];
        if expect.get("construction_error").is_some() {
            // A parser is an enum; what is unknown is a name.
            let name = self.case["policy"]["parsers"][0].as_str().expect("a name");
            return Outcome::equal(None, Parser::from_name(name));
        }
        let requester = self.requester();
        let scope = Scope {
            deadline: millis(&self.case["deadline_in_ms"]).map(|left| self.clock.now() + left),
            max_in_process_wait: millis(&self.case["caller"]["max_in_process_wait_ms"]),
        };
        let call = || async {
            let response = requester
                .get("/v1/contacts")
                .query(&[("access_token", secrets::QUERY)])
                .header("x-api-key", secrets::KEY)
                .send()
                .await?;
            response.json::<Value>().await
        };
        let mut results = Vec::new();
        scope
            .run(async {
                for _ in 0..self.case["requests"].as_u64().unwrap_or(1) {
                    let begun = tokio::time::Instant::now();
                    results.push(call().await);
                    // By the clock, not by a second timer: a busy machine fires both at once.
                    let pending = millis(&expect["pending_at_ms"]).unwrap_or_default();
                    assert!(begun.elapsed() >= pending, "it should not have ended yet");
                }
            })
            .await;
        let got = self.got(&requester, &results);
        matches(expect, &got, false)
    }

    /// What came, in the words of the case.
    fn got(&self, requester: &Requester, results: &[Result<Value, FetchError>]) -> Value {
        let expect = &self.case["expect"];
        let heard = self.notices.heard();
        let refreshes = self.token_server.calls();
        let results: Vec<Value> = results
            .iter()
            .zip(
                expect["results"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .chain(std::iter::repeat(&expect["result"])),
            )
            .map(|(result, expected)| self.result(result, expected))
            .collect();
        let mut got = json!({
            "calls": self.server.calls(),
            "sleeps_ms": self.clock.sleeps_ms(),
            "result": results.first(),
            "results": results,
            "refreshes": refreshes,
            // An answer is consumed by reading it: there is no second time.
            "body_reads": [1],
            "classify_body": *self.classified.lock().expect("unpoisoned"),
            "effective_request_timeout_ms": requester.timeout().map(|timeout| timeout.as_millis() as u64),
            "signal_sent": requester.timeout().is_some(),
            // The notice was there when the error came.
            "order": if heard.is_empty() { json!([]) } else { json!(["notified", "thrown"]) },
            "pending_at_ms": expect["pending_at_ms"],
            "logs": self.logs_like(&expect["logs"]),
        });
        if let Some(expected) = expect["notify"].as_array() {
            let like = |notice: &Notice, at: usize| {
                self.notice(notice, &expected.get(at).cloned().unwrap_or_default())
            };
            got["notify"] = heard
                .iter()
                .enumerate()
                .map(|(at, notice)| like(notice, at))
                .collect();
        }
        let lines = self.logs.lines();
        let names = || lines.iter().filter_map(|line| line["eventName"].as_str());
        let absent = |list: &Value, fits: fn(&str, &str) -> bool| {
            let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            let found = texts.filter(|text| names().any(|name| fits(name, text))).count();
            if found == 0 { list.clone() } else { json!("found") }
        };
        got["no_logs_ending"] = absent(&expect["no_logs_ending"], |name, text| name.ends_with(text));
        got["no_logs"] = absent(&expect["no_logs"], |name, text| name == text);
        let forbidden = expect["not_notified"].as_array().into_iter().flatten();
        let told = forbidden
            .filter(|kind| heard.iter().any(|notice| kind.as_str() == Some(kind_of(notice))))
            .count();
        got["not_notified"] = if told == 0 {
            expect["not_notified"].clone()
        } else {
            json!("told")
        };
        got
    }

    fn result(&self, result: &Result<Value, FetchError>, expected: &Value) -> Value {
        let error = match result {
            Ok(body) => return json!({ "ok": body }),
            Err(error) => error,
        };
        secrets::assert_none(&secrets::shown(error));
        let limit = error.rate_limited().map(|limited| limited.limit());
        let got = json!({
            "type": if error.is_rate_limited() { "RateLimitError" } else { "FetchError" },
            "is_rate_limited": error.is_rate_limited().then_some(true),
            "status_code": error.status().map(|status| status.as_u16()),
            "reason": limit.map(|limit| limit.reason.frigg_name()),
            "policy": limit.and_then(|limit| limit.policy.clone()),
            "source": limit.map(|limit| limit.source.as_str()),
            "wait_ms": limit.and_then(|limit| limit.wait).map(|wait| wait.as_millis() as u64),
            "retry_at": limit.and_then(|limit| limit.retry_at).map(|at| at.to_string()),
            "retry_at_clock_plus_ms": limit
                .and_then(|limit| limit.retry_at)
                .map(|at| at.duration_since(self.clock.now()).as_millis() as u64),
            "module": limit.and_then(|limit| limit.module.clone()),
            "scope_key": limit.and_then(|limit| limit.scope_key.clone()),
            "is_timeout": error.is_timeout().then_some(true),
            "timeout_ms": error.timeout().map(|timeout| timeout.as_millis() as u64),
            "body_contains": contained(&expected["error"]["body_contains"], error.body_excerpt()),
        });
        only_expected(&json!({ "error": got }), expected)
    }

    fn notice(&self, notice: &Notice, expected: &Value) -> Value {
        let mut got = json!({ "kind": kind_of(notice) });
        match notice {
            Notice::InvalidAuth { status, .. } => got["status_code"] = json!(status),
            Notice::RateLimited(announced) => {
                // The facts of the error that is thrown.
                got["status_code"] = json!(announced.status);
                let thrown = &self.case["expect"]["result"]["error"];
                let same = announced.module == self.case["params"]["delegate"]["name"]
                    && announced.reason.frigg_name() == thrown["reason"]
                    && Some(u64::from(announced.status.unwrap_or_default()))
                        == thrown["status_code"].as_u64();
                got["payload"] = json!(if same {
                    "the thrown error"
                } else {
                    "something else"
                });
            }
            _ => {}
        }
        only_expected(&got, expected)
    }

    /// The lines, in the form of those that are expected.
    fn logs_like(&self, expected: &Value) -> Value {
        let likes = expected.as_array().into_iter().flatten();
        likes
            .map(|expected| {
                let lines = self.logs.named(expected["event"].as_str().expect("a name"));
                let mut got = expected.clone();
                got["count"] = json!(lines.len());
                let Some(line) = lines.first() else { return got };
                got["level"] = line["level"].clone();
                for (name, value) in expected["fields"].as_object().into_iter().flatten() {
                    got["fields"][name] = match (value.as_str(), line[name].is_string()) {
                        (Some("any text"), true) => value.clone(),
                        _ => line[name].clone(),
                    };
                }
                let absent = expected["absent_fields"].as_array().into_iter().flatten();
                if absent
                    .filter_map(Value::as_str)
                    .any(|name| line.get(name).is_some())
                {
                    got["absent_fields"] = json!("present");
                }
                got
            })
            .collect()
    }
}

fn kind_of(notice: &Notice) -> &'static str {
    match notice {
        Notice::RateLimited(_) => "RATE_LIMITED",
        Notice::InvalidAuth { .. } => "INVALID_AUTH",
        _ => "another",
    }
}

fn contained(text: &Value, body: &[u8]) -> Value {
    match text.as_str() {
        Some(wanted) if String::from_utf8_lossy(body).contains(wanted) => text.clone(),
        _ => Value::Null,
    }
}

/// The parts of `got` that `expected` speaks of; a null there is an absent key.
fn only_expected(got: &Value, expected: &Value) -> Value {
    match (got, expected) {
        (Value::Object(got), Value::Object(expected)) => expected
            .iter()
            .map(|(key, expected)| {
                let got = got.get(key).cloned().unwrap_or_default();
                (key.clone(), only_expected(&got, expected))
            })
            .collect(),
        _ => got.clone(),
    }
}

fn reply(response: &Value) -> Reply {
    if response["hang"] == true {
        return Reply::Hang;
    }
    if response["error"] == "ECONNRESET" {
        return Reply::Reset;
    }
    let status = response["status"].as_u64().expect("a status") as u16;
    let mut reply = Reply::status(status).with("x-secret", secrets::BODY);
    if let Some(body) = response.get("body") {
        reply = reply.body(body.to_string());
    }
    if let Some(text) = response["text"].as_str() {
        reply = reply.body(text);
    }
    let media = response["content_type"].as_str().unwrap_or("application/json");
    reply = reply.with("content-type", media);
    for (name, value) in response["headers"].as_object().into_iter().flatten() {
        reply = reply.with(name, value.as_str().expect("a text"));
    }
    reply
}

/// The class's value is the builder's, the instance's is a later one.
fn request_timeout(case: &Value) -> Outcome {
    let input = &case["input"];
    let builder = Requester::builder("http://127.0.0.1").frigg_compat();
    let builder = [&input["class"], &input["instance"]]
        .into_iter()
        .filter_map(millis)
        .fold(builder, |builder, timeout| builder.timeout(timeout));
    let timeout = builder.build().expect("a requester").timeout();
    matches(
        &case["expect"],
        &json!(timeout.map(|timeout| timeout.as_millis() as u64)),
        false,
    )
}

/// A store that another process writes to while the token endpoint is asked.
#[derive(Default)]
struct Shared {
    memory: MemoryStore,
    loads: AtomicUsize,
}

impl CredentialStore for Shared {
    fn load<'a>(&'a self, credential: &'a str) -> BoxFuture<'a, Result<Option<Token>, BoxError>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.memory.load(credential)
    }

    fn save<'a>(&'a self, credential: &'a str, token: &'a Token) -> BoxFuture<'a, Result<(), BoxError>> {
        self.memory.save(credential, token)
    }
}

fn token(value: &Value) -> Token {
    let text = |name: &str, default: &str| value[name].as_str().unwrap_or(default).to_owned();
    Token::new(text("access_token", "access-old")).with_refresh(text("refresh_token", "refresh-old"))
}

async fn token_refresh(case: &Value) -> Outcome {
    let input = case["input"].clone();
    let store = Arc::new(Shared::default());
    if let Some(stored) = input.get("stored") {
        store.memory.put("credential", token(stored));
    }
    // Says no once, then yes to any other token, and to the same one when it was told to be new.
    let api = Server::script([Reply::status(401), Reply::status(200).body("{}")]);
    let (renewal, later) = (
        input["refresh"].clone(),
        input.get("stored_after_refresh").map(token),
    );
    let written = Arc::clone(&store);
    let endpoint = Server::start(move |_| {
        if let Some(token) = later.clone() {
            written.memory.put("credential", token);
        }
        match (renewal["status"].as_u64(), &renewal["marker"]) {
            _ if renewal == "ok" => Reply::json(
                200,
                &json!({"access_token": "access-renewed", "refresh_token": "refresh-renewed", "token_type": "Bearer"}),
            ),
            (Some(status), marker) => Reply::json(
                status as u16,
                &json!({ "error": marker, "echo": secrets::CLIENT }),
            ),
            (None, _) => Reply::Reset,
        }
    });
    let mut oauth2 = match input["grant"].as_str() {
        Some(_) => OAuth2::client_credentials(endpoint.url(), "client", secrets::CLIENT)
            .with_token(Token::new("access-old")),
        None => {
            OAuth2::refresh_token(endpoint.url(), "client", secrets::CLIENT).with_token(token(&Value::Null))
        }
    };
    if input.get("stored").is_some() {
        oauth2 = oauth2.with_store(Arc::clone(&store) as _, "credential");
    }
    let notices = Notices::default();
    let clock = VirtualClock::new(noon());
    let requester = Requester::builder(api.url())
        .frigg_compat()
        .clock(clock.clock(0.0))
        .auth(Auth::oauth2(oauth2))
        .notify(Arc::new(notices.clone()))
        .build()
        .expect("a requester");

    let result = requester.get("/").send().await;
    let calls = |grant: &str| {
        endpoint
            .seen()
            .iter()
            .filter(|seen| seen.body.contains(grant))
            .count()
    };
    let invalid: Vec<u16> = notices
        .heard()
        .iter()
        .filter_map(|notice| match notice {
            Notice::InvalidAuth { status, .. } => Some(*status),
            _ => None,
        })
        .collect();
    let used = api
        .seen()
        .last()
        .and_then(|seen| seen.header("authorization").map(str::to_owned));
    let error = result.as_ref().err();
    let transport = error.is_some_and(|error| !error.is_unauthorized() && !error.is_permanent());
    let refresh_token = match store.memory.get("credential").and_then(|token| token.refresh) {
        Some(refresh) => json!(secrecy_of(&refresh)),
        None => Value::Null,
    };
    let got = json!({
        "result": result.is_ok(),
        "reloads": store.loads.load(Ordering::Relaxed),
        "refresh_calls": calls("grant_type=refresh_token"),
        "token_request_calls": calls("grant_type=client_credentials"),
        "access_token": used.as_deref().and_then(|value| value.strip_prefix("Bearer ")),
        "refresh_token": refresh_token,
        "invalid_auth": invalid.len(),
        "notify": invalid.iter().map(|status| json!({"kind": "INVALID_AUTH", "status_code": status})).collect::<Vec<_>>(),
        "throws": if transport { "transport failure" } else { "another" },
        "status_code": error.and_then(FetchError::status).map(|status| status.as_u16()),
        "secret_free": error.is_some_and(|error| {
            secrets::assert_none(&secrets::shown(error));
            true
        }),
    });
    matches(&case["expect"], &got, false)
}

fn secrecy_of(secret: &frigg_requester::secrecy::SecretString) -> String {
    use frigg_requester::secrecy::ExposeSecret as _;
    secret.expose_secret().to_owned()
}
