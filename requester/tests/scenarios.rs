//! What real users of other libraries ran into, one test for each story, named by its id.
//!
//! Not here: security-05 (the worker's decode errors) and observability-01 (the worker's lines, and the template).

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Logs, Reply, Server, VirtualClock, noon, secrets};
use frigg_core::deferral::{Burial, Capabilities, DeadLetters, Decision, Failure, Options, Tier, plan};
use frigg_core::delivery::{Delivery, QueueArn};
use frigg_core::marker;
use frigg_core::pacing::{Pace, take};
use frigg_core::rate_limit::{LimitKind, Policy, Reason, Verdict, Window};
use frigg_core::scope::Scope;
use frigg_requester::{
    Auth, CredentialStore as _, FetchError, MemoryStore, OAuth2, Requester, RequesterBuilder, Token,
};
use serde_json::{Value, json};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A requester of this server whose clock sleeps at once.
fn builder(server: &Server, clock: &VirtualClock) -> RequesterBuilder {
    Requester::builder(server.url()).clock(clock.clock(0.0))
}

/// Under a queue worker that can put messages back.
async fn in_worker<T>(future: impl Future<Output = T>) -> T {
    let scope = Scope {
        max_in_process_wait: Some(Duration::ZERO),
        ..Scope::default()
    };
    scope.run(future).await
}

fn throttled() -> Reply {
    Reply::json(
        200,
        &json!({"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}], "extensions": {"cost": {
            "requestedQueryCost": 202,
            "throttleStatus": {"maximumAvailable": 2000, "currentlyAvailable": 2, "restoreRate": 100}
        }}}),
    )
}

#[tokio::test]
async fn requester_02() {
    let named_only =
        json!({"errors": [{"message": "Throttled by name only", "extensions": {"code": "BAD_USER_INPUT"}}]});
    let server = Server::script([
        throttled(),
        Reply::json(200, &json!({"data": {"product": {"title": "Throttled"}}})),
        Reply::json(200, &named_only),
        throttled(),
    ]);
    let clock = VirtualClock::new(noon());
    let shopify = builder(&server, &clock)
        .provider("shopify")
        .pacing(false)
        .build()
        .unwrap();
    in_worker(async {
        let query = || {
            shopify
                .post("/graphql.json")
                .json(&json!({"query": "{ shop { name } }"}))
                .send()
        };
        let error = query().await.unwrap_err();
        let limit = error.rate_limited().expect("a limit").limit();
        assert_eq!(limit.wait, Some(secs(2)));
        // The table knows more than "burst": it is a budget of points, which Frigg's wire calls burst.
        assert_eq!(limit.reason.frigg_name(), "burst");
        let body: Value = query().await.unwrap().json().await.unwrap();
        assert_eq!(body["data"]["product"]["title"], "Throttled");
        let body: Value = query().await.unwrap().json().await.unwrap();
        assert_eq!(body, named_only);

        let plain = builder(&server, &clock).policy(Policy::new()).build().unwrap();
        assert!(plain.post("/graphql.json").send().await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn requester_03() {
    let exhausted = |body: Value| {
        Reply::json(200, &body)
            .with("x-ratelimit-remaining", "0")
            .with("x-ratelimit-reset", "1790598600")
    };
    let data = json!({"data": {"viewer": {"login": "a"}}});
    let server = Server::script([
        exhausted(json!({"errors": [{"type": "RATE_LIMIT", "message": "API rate limit already exceeded"}]})),
        exhausted(json!({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]})),
        exhausted(data.clone()),
    ]);
    let clock = VirtualClock::new(noon());
    let policy = Policy::for_provider("github")
        .unwrap()
        .with_success_bodies()
        .with_classify(|signal| {
            let limited = signal
                .fields("errors.*.type")
                .any(|kind| kind == "RATE_LIMIT" || kind == "RATE_LIMITED");
            limited.then(|| Verdict::limit(Reason::Hourly))
        });
    let github = builder(&server, &clock)
        .policy(policy)
        .pacing(false)
        .build()
        .unwrap();
    in_worker(async {
        for _ in 0..2 {
            let error = github.post("/graphql").send().await.unwrap_err();
            let retry_at = error.rate_limited().expect("a limit").limit().retry_at;
            assert_eq!(retry_at, Some("2026-09-28T12:30:00Z".parse().unwrap()));
        }
        let body: Value = github
            .post("/graphql")
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(body, data);
    })
    .await;
}

#[tokio::test]
async fn requester_06() {
    let limited = Reply::status(429).with("retry-after", "1");
    for (method, first, calls) in [
        ("POST", Reply::status(504), 1),
        ("PATCH", Reply::status(504), 1),
        ("POST", Reply::Reset, 1),
        ("POST", Reply::Close, 1),
        ("POST", limited, 2),
        ("GET", Reply::status(504), 2),
        ("PUT", Reply::Reset, 2),
        ("DELETE", Reply::Close, 2),
    ] {
        let server = Server::script([first.clone(), Reply::status(200)]);
        let requester = builder(&server, &VirtualClock::new(noon())).build().unwrap();
        let result = requester
            .request(method, "/things")
            .json(&json!({"n": 1}))
            .send()
            .await;
        assert_eq!(server.calls(), calls, "{method} {first:?}");
        assert_eq!(result.is_ok(), calls == 2, "{method} {first:?}");
        assert!(server.seen().iter().all(|seen| seen.body == r#"{"n":1}"#));
    }
    // With a key it is safe, and the key is the same.
    let server = Server::script([Reply::status(504), Reply::Reset, Reply::status(201)]);
    let requester = builder(&server, &VirtualClock::new(noon())).build().unwrap();
    requester
        .post("/things")
        .idempotency_key("order-7")
        .json(&json!({"n": 1}))
        .send()
        .await
        .unwrap();
    let keys: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(keys, vec![Some("order-7".to_owned()); 3]);
}

#[tokio::test]
async fn requester_09() {
    let clock = VirtualClock::new(noon());
    let scope = Scope {
        deadline: Some(noon() + Duration::from_millis(17_670)),
        max_in_process_wait: Some(secs(300)),
    };
    let server = Server::script([Reply::status(429).with("retry-after", "12")]);
    let requester = builder(&server, &clock).build().unwrap();
    let error = scope.run(requester.get("/").send()).await.unwrap_err();
    assert_eq!(error.rate_limited().unwrap().limit().wait, Some(secs(12)));
    assert_eq!((server.calls(), clock.sleeps_ms()), (1, vec![]));

    for (retry_after, fits) in [("8.835", true), ("8.836", false)] {
        let clock = VirtualClock::new(noon());
        let server = Server::script([
            Reply::status(429).with("retry-after", retry_after),
            Reply::status(200),
        ]);
        let requester = builder(&server, &clock).build().unwrap();
        assert_eq!(
            scope.run(requester.get("/").send()).await.is_ok(),
            fits,
            "{retry_after}"
        );
    }

    let clock = VirtualClock::new(noon());
    let server = Server::script([Reply::status(429).with("retry-after", "8"), Reply::status(200)]);
    let requester = builder(&server, &clock).build().unwrap();
    scope.run(requester.get("/").send()).await.unwrap();
    assert_eq!((server.calls(), clock.sleeps_ms()), (2, vec![8_000]));
}

#[tokio::test]
async fn requester_10() {
    let unavailable = Reply::status(503).with("retry-after", "120");
    let server = Server::script([unavailable.clone()]);
    let clock = VirtualClock::new(noon());
    let requester = builder(&server, &clock).build().unwrap();
    let error = in_worker(requester.get("/").send()).await.unwrap_err();
    assert_eq!(server.calls(), 1);
    let limit = marker::find_limit(&error).expect("put back like a limit");
    assert_eq!(limit.kind, LimitKind::Unavailable);
    assert_eq!(delay_of(&error), Tier::Delay { seconds: 120 });

    for (reply, frigg) in [(Reply::status(503), false), (unavailable, true)] {
        let server = Server::script([reply, Reply::status(200)]);
        let clock = VirtualClock::new(noon());
        let mut builder = builder(&server, &clock);
        if frigg {
            builder = builder.frigg_compat();
        }
        let requester = builder.build().unwrap();
        let call = requester.get("/").send();
        match frigg {
            true => call.await.unwrap(),
            false => in_worker(call).await.unwrap(),
        };
        assert_eq!(clock.sleeps_ms(), [1_000]);
    }
}

/// What the worker's plan makes of an error on a standard queue.
fn decision(error: &FetchError) -> Decision {
    let failure = match (marker::find_limit(error), marker::find_permanent(error)) {
        (Some(limit), _) => Failure::Limited(limit),
        (None, Some(_)) => Failure::Permanent,
        (None, None) => Failure::Retryable,
    };
    let can = Capabilities {
        delay: true,
        schedule: true,
        visibility: true,
        retention: None,
        dead_letters: DeadLetters::Present,
    };
    let mut delivery = Delivery::default();
    delivery.message_id = "m".to_owned();
    delivery.queue_arn = QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs");
    plan(noon(), 0.0, failure, &delivery, &Options::default(), can)
}

fn delay_of(error: &FetchError) -> Tier {
    match decision(error) {
        Decision::Defer(deferral) => deferral.tier,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn requester_13() {
    for lost_race in [false, true] {
        let used = AtomicUsize::new(0);
        let store = Arc::new(MemoryStore::default());
        store.put("crm", Token::new("t1").with_refresh("r1").with_expiry(noon()));
        let written = Arc::clone(&store);
        let endpoint = Server::start(move |seen| {
            let first = used.fetch_add(1, Ordering::Relaxed) == 0;
            if lost_race {
                // Another process was there before, and stores what it got.
                written.put("crm", Token::new("t2").with_refresh("r2"));
            }
            match first && !lost_race && seen.body.contains("refresh_token=r1") {
                true => Reply::json(
                    200,
                    &json!({"access_token": "t2", "refresh_token": "r2", "token_type": "bearer"}),
                ),
                false => Reply::json(400, &json!({"error": "invalid_grant"})),
            }
        });
        let api = Server::start(|seen| match seen.header("authorization") {
            Some("Bearer t2") => Reply::status(200),
            _ => Reply::status(401),
        });
        let notices = common::Notices::default();
        let oauth2 = OAuth2::refresh_token(endpoint.url(), "app", secrets::CLIENT)
            .with_store(Arc::clone(&store) as _, "crm");
        let requester = builder(&api, &VirtualClock::with_tasks(noon(), 1))
            .auth(Auth::oauth2(oauth2))
            .notify(Arc::new(notices.clone()))
            .build()
            .unwrap();
        let calls: Vec<_> = (0..10).map(|_| requester.get("/").send()).collect();
        let ok = futures_util::future::join_all(calls)
            .await
            .iter()
            .filter(|result| result.is_ok())
            .count();
        assert_eq!((ok, endpoint.calls()), (10, 1), "lost race: {lost_race}");
        assert_eq!(notices.heard(), []);
        let stored = store.load("crm").await.unwrap().unwrap();
        use frigg_requester::secrecy::ExposeSecret as _;
        assert_eq!(stored.refresh.unwrap().expose_secret(), "r2");
    }
}

#[tokio::test]
async fn requester_14() {
    for (cap, sleeps) in [(300_000, [10_000, 10_500, 10_999]), (10_000, [10_000; 3])] {
        for (random, sleep) in [0.0, 0.5, 0.999].into_iter().zip(sleeps) {
            let clock = VirtualClock::new(noon());
            let server = Server::script([Reply::status(429).with("retry-after", "10"), Reply::status(200)]);
            let requester = Requester::builder(server.url())
                .clock(clock.clock(random))
                .build()
                .unwrap();
            let scope = Scope {
                max_in_process_wait: Some(Duration::from_millis(cap)),
                ..Scope::default()
            };
            scope.run(requester.get("/").send()).await.unwrap();
            assert_eq!(clock.sleeps_ms(), [sleep], "cap {cap}, random {random}");
        }
    }
}

#[tokio::test]
async fn requester_15() {
    let reply = Reply::json(400, &json!({"error": "name is required"}))
        .with("x-ratelimit-remaining", "0")
        .with("x-ratelimit-reset", "1790596860");
    let server = Server::script([reply]);
    let requester = builder(&server, &VirtualClock::new(noon())).build().unwrap();
    let error = in_worker(requester.get("/").send()).await.unwrap_err();
    assert_eq!(server.calls(), 1);
    assert!(!error.is_rate_limited() && error.is_permanent());
    assert_eq!(decision(&error), Decision::Bury(Burial::Permanent));
}

#[test]
fn requester_18() {
    let window = |limit| Window {
        limit: std::num::NonZeroU32::new(limit).unwrap(),
        per: secs(10),
    };
    let (mut app, mut a, mut b) = (Pace::new(window(2)), Pace::new(window(1)), Pace::new(window(1)));
    assert_eq!(take(&mut [&mut app, &mut a], noon()), Ok(()));
    for second in [1, 2] {
        assert_eq!(
            take(&mut [&mut app, &mut a], noon() + secs(second)),
            Err(noon() + secs(10))
        );
    }
    assert_eq!(take(&mut [&mut app, &mut b], noon() + secs(6)), Ok(()));
    // Two of the app's two slots are used: nobody else gets one before A's is free again.
    assert_eq!(take(&mut [&mut app], noon() + secs(6)), Err(noon() + secs(10)));
}

#[tokio::test]
async fn security_02() {
    let (logs, _guard) = Logs::capture();
    let server = Server::script([
        Reply::status(403).body(secrets::BODY),
        Reply::status(429)
            .with("retry-after", "400")
            .with("set-cookie", secrets::KEY),
        Reply::Hang,
    ]);
    let requester = builder(&server, &VirtualClock::new(noon()))
        .auth(Auth::bearer(secrets::TOKEN))
        .build()
        .unwrap();
    for (status, timeout) in [
        (Some(403), secs(60)),
        (Some(429), secs(60)),
        (None, Duration::from_millis(100)),
    ] {
        let error = requester
            .get("/v1/contacts")
            .timeout(timeout)
            .header("X-Api-Key", secrets::KEY)
            .send()
            .await
            .unwrap_err();
        secrets::assert_none(&secrets::shown(&error));
        assert_eq!(error.status().map(|status| status.as_u16()), status);
        assert_eq!(
            (error.method().as_str(), error.is_timeout()),
            ("GET", status.is_none())
        );
        assert!(
            error
                .to_string()
                .contains(&format!("GET {}/v1/contacts", server.url())),
            "{error}"
        );
    }
    let ok = Server::script([Reply::status(200).with("set-cookie", secrets::KEY)]);
    let response = Requester::new(ok.url())
        .unwrap()
        .get("/?key=s3cr3t")
        .send()
        .await
        .unwrap();
    secrets::assert_none(&format!("{response:?}"));
    let first = server.seen()[0].clone();
    assert_eq!(first.header("authorization"), Some("Bearer s3cr3t-token"));
    assert_eq!(first.header("x-api-key"), Some("s3cr3t-key"));
    assert!(!logs.lines().is_empty());
    for debug in [
        format!("{requester:?}"),
        format!(
            "{:?}",
            requester.get("/?key=s3cr3t").header("x-api-key", secrets::KEY)
        ),
    ] {
        secrets::assert_none(&debug);
    }
}

#[tokio::test]
async fn security_03() {
    let (_logs, _guard) = Logs::capture();
    let server = Server::script([Reply::status(500), Reply::status(429).with("retry-after", "400")]);
    let path = "/v1/contacts?access_token=s3cr3t&email=a%40b.c#frag";
    let shown = format!(
        "{}/v1/contacts?access_token=REDACTED&email=REDACTED",
        server.url()
    );
    let requester = builder(&server, &VirtualClock::new(noon())).build().unwrap();
    // In the call's URL, and in the base URL.
    let whole = format!("http://user:pa55@127.0.0.1:{}{path}", server.port());
    let error = requester.get(&whole).send().await.unwrap_err();
    secrets::assert_none(&secrets::shown(&error));
    assert_eq!(error.url().as_str(), shown);
    assert_eq!(server.calls(), 2);
    let seen = server.seen();
    assert_eq!(seen[0].target, "/v1/contacts?access_token=s3cr3t&email=a%40b.c");
    // user:pa55, as the URL says.
    assert_eq!(seen[0].header("authorization"), Some("Basic dXNlcjpwYTU1"));

    let server = Server::script([Reply::status(404)]);
    let base = format!("http://user:pa55@127.0.0.1:{}", server.port());
    let requester = Requester::new(base).unwrap();
    let error = requester.get(path).send().await.unwrap_err();
    secrets::assert_none(&format!("{requester:?} {}", secrets::shown(&error)));
    assert_eq!(
        server.seen()[0].header("authorization"),
        Some("Basic dXNlcjpwYTU1")
    );
}

#[tokio::test]
async fn observability_03() {
    let (logs, _guard) = Logs::capture();
    let clock = VirtualClock::new(noon());
    let server = Server::script([Reply::status(429).with("retry-after", "51"), Reply::status(200)]);
    let requester = Requester::builder(server.url())
        .module("hubspot")
        .clock(clock.clock(0.5))
        .build()
        .unwrap();
    requester.get("/").send().await.unwrap();
    let lines = logs.named("module.hubspot.rate_limited");
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["level"], "TRACE");
    assert_eq!(lines[0]["waitMs"], 51_500);
    assert_eq!(lines[0]["retryAt"], "2026-09-28T12:00:51.500Z");
    assert_eq!(clock.sleeps_ms(), [51_500]);
    let retries = logs.named("module.hubspot.retry");
    assert_eq!(retries.len(), 1);
    assert_eq!(
        (
            &retries[0]["delayMs"],
            &retries[0]["statusCode"],
            &retries[0]["attempt"]
        ),
        (&json!(51_500), &json!(429), &json!(0))
    );
    assert_eq!(retries[0]["level"], "DEBUG");
}
