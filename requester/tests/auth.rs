//! How calls show who they come from, and how tokens are renewed.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Reply, Server, Setup, error, noon, secrets, send};
use frigg_core::rate_limit::{NamedWindow, Policy, Reason};
use frigg_requester::secrecy::ExposeSecret as _;
use frigg_requester::{Auth, BoxError, CredentialStore, MemoryStore, Notice, OAuth2, Token};
use futures_util::future::BoxFuture;
use serde_json::json;

fn token(access: &str) -> Reply {
    Reply::json(
        200,
        &json!({"access_token": access, "token_type": "bearer", "expires_in": 3600}),
    )
}

#[tokio::test]
async fn fixed_credentials_are_sent_as_providers_take_them() {
    for (auth, header, value) in [
        (
            Auth::bearer("s3cr3t-token"),
            "authorization",
            "Bearer s3cr3t-token",
        ),
        (
            Auth::basic("s3cr3t-user", "pa55"),
            "authorization",
            "Basic czNjcjN0LXVzZXI6cGE1NQ==",
        ),
        (
            Auth::header("X-Api-Key-2", "s3cr3t-key"),
            "x-api-key-2",
            "s3cr3t-key",
        ),
    ] {
        secrets::assert_none(&format!("{auth:?}"));
        let setup = Setup::script([Reply::status(404)]);
        error(send(&setup.builder().auth(auth).build().unwrap(), "GET").await);
        assert_eq!(setup.server.seen()[0].header(header), Some(value));
    }
    let setup = Setup::script([Reply::status(404)]);
    let requester = setup
        .builder()
        .auth(Auth::query("api_token", "s3cr3t&=key"))
        .build()
        .unwrap();
    let error = error(requester.get("/v1").query(&[("a", "b")]).send().await);
    assert_eq!(setup.server.seen()[0].target, "/v1?a=b&api_token=s3cr3t%26%3Dkey");
    assert!(
        error
            .url()
            .as_str()
            .ends_with("/v1?a=REDACTED&api_token=REDACTED")
    );
    // A call's own word counts.
    let setup = Setup::script([Reply::status(200)]);
    setup
        .requester()
        .get("/")
        .header("authorization", "Custom s3cr3t")
        .send()
        .await
        .unwrap();
    assert_eq!(
        setup.server.seen()[0].header("authorization"),
        Some("Custom s3cr3t")
    );
}

#[tokio::test]
async fn a_fixed_credential_that_is_refused_is_not_tried_again() {
    let setup = Setup::script([Reply::status(401).body(secrets::BODY)]);
    let error = error(setup.get().await);
    assert!(error.is_unauthorized() && error.is_permanent());
    assert_eq!(setup.server.calls(), 1);
    let [Notice::InvalidAuth { module, status }] = &setup.notices.heard()[..] else {
        panic!("one notice")
    };
    assert_eq!((module.as_str(), *status), ("acme", 401));
}

#[tokio::test]
async fn each_grant_asks_in_its_own_way() {
    let stored = Token::new("old")
        .with_refresh("s3cr3t-refresh")
        .with_expiry(noon());
    type Make = fn(String) -> OAuth2;
    let grants: [(Make, &[&str]); 3] = [
        (
            |url| {
                OAuth2::client_credentials(url, "app", secrets::CLIENT)
                    .with_scope("contacts")
                    .with_param("audience", "crm")
            },
            &["grant_type=client_credentials", "scope=contacts", "audience=crm"],
        ),
        (
            |url| OAuth2::refresh_token(url, "app", secrets::CLIENT),
            &["grant_type=refresh_token", "refresh_token=s3cr3t-refresh"],
        ),
        (
            |url| OAuth2::password(url, "app", secrets::CLIENT, "s3cr3t-user", "pa55"),
            &["grant_type=password", "username=s3cr3t-user", "password=pa55"],
        ),
    ];
    for (make, parts) in grants {
        for in_body in [false, true] {
            let endpoint = Server::start(|_| token("s3cr3t-new"));
            let store = Arc::new(MemoryStore::default());
            store.put("crm", stored.clone());
            let mut oauth2 = make(endpoint.url()).with_store(Arc::clone(&store) as _, "crm");
            if in_body {
                oauth2 = oauth2.with_secret_in_body();
            }
            secrets::assert_none(&format!("{oauth2:?} {:?} {store:?}", store.get("crm")));
            let setup = Setup::script([Reply::status(200), Reply::status(200)]);
            let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
            send(&requester, "GET").await.unwrap();
            send(&requester, "GET").await.unwrap();
            let seen = endpoint.seen();
            assert_eq!(seen.len(), 1, "the token is kept");
            for part in parts {
                assert!(seen[0].body.contains(part), "{part}");
            }
            assert_eq!(seen[0].body.contains("client_secret=s3cr3t-client"), in_body);
            assert_eq!(seen[0].header("authorization").is_some(), !in_body);
            assert_eq!(
                setup.server.seen()[1].header("authorization"),
                Some("Bearer s3cr3t-new")
            );
            assert_eq!(store.get("crm").unwrap().access.expose_secret(), "s3cr3t-new");
        }
    }
}

#[tokio::test]
async fn a_clone_that_is_set_up_otherwise_has_tokens_of_its_own() {
    let endpoint = Server::script([token("one-scope"), token("two-scopes")]);
    let store = Arc::new(MemoryStore::default());
    store.put("tenant-b", Token::new("token-b"));
    let base = OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT).with_scope("contacts");
    let a = base
        .clone()
        .with_token(Token::new("token-a"))
        .with_store(Arc::clone(&store) as _, "tenant-a");
    let b = base.clone().with_store(Arc::clone(&store) as _, "tenant-b");
    let a_as_b = a.clone().with_store(store, "tenant-b");
    let more = base.clone().with_scope("deals");
    let same = base.clone();
    let setup = Setup::with(Server::start(|_| Reply::status(200)));
    for (oauth2, used) in [
        (&base, "Bearer one-scope"),
        (&a, "Bearer token-a"),
        (&b, "Bearer token-b"),
        (&a_as_b, "Bearer token-b"),
        (&more, "Bearer two-scopes"),
        (&same, "Bearer one-scope"),
    ] {
        let auth = Auth::oauth2(oauth2.clone());
        send(&setup.builder().auth(auth).build().unwrap(), "GET")
            .await
            .unwrap();
        let seen = setup.server.seen();
        assert_eq!(seen[seen.len() - 1].header("authorization"), Some(used));
    }
}

#[tokio::test]
async fn a_limit_at_the_token_endpoint_stays_a_limit() {
    let endpoint = Server::script([Reply::status(429).with("retry-after", "400").body(secrets::BODY)]);
    let setup = Setup::script([]);
    let oauth2 = OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT);
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    let error = error(send(&requester, "POST").await);
    let limit = error.rate_limited().expect("a limit").limit();
    assert_eq!(limit.retry_at, Some(noon() + Duration::from_secs(400)));
    assert_eq!(
        (limit.wait, limit.module.as_deref()),
        (Some(Duration::from_secs(400)), Some("acme"))
    );
    assert_eq!((limit.reason, limit.status), (Reason::Unknown, Some(429)));
    assert!(matches!(setup.notices.heard()[..], [Notice::RateLimited(_)]));
    assert_eq!((setup.server.calls(), error.body_excerpt()), (0, &b""[..]));
}

#[tokio::test]
async fn what_is_no_token_invalidates_nothing() {
    for reply in [
        Reply::status(500).body(r#"{"error":"invalid_grant"}"#),
        Reply::status(403),
        Reply::status(200).body(r#"{"access_token":["s3cr3t"]}"#),
        Reply::status(200).body("s3cr3t"),
        Reply::Reset,
        Reply::Hang,
    ] {
        let endpoint = Server::script([reply.clone(), token("new")]);
        let setup = Setup::script([Reply::status(200)]);
        let oauth2 = OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT);
        let requester = setup
            .builder()
            .timeout(Duration::from_secs(2))
            .auth(Auth::oauth2(oauth2))
            .build()
            .unwrap();
        let error = error(send(&requester, "GET").await);
        assert!(
            !error.is_permanent() && !error.is_unauthorized() && !error.is_rate_limited(),
            "{reply:?}: {error}"
        );
        assert_eq!(setup.notices.heard(), []);
        // The credential works as soon as the endpoint does.
        send(&requester, "GET").await.unwrap();
    }
}

/// A store that is down.
struct Down;

impl CredentialStore for Down {
    fn load<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Token>, BoxError>> {
        Box::pin(async { Err("fault-load".into()) })
    }

    fn save<'a>(&'a self, _: &'a str, _: &'a Token) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async { Err("fault-save".into()) })
    }
}

#[tokio::test]
async fn a_store_that_is_down_stops_nothing() {
    let endpoint = Server::script([token("s3cr3t-new")]);
    let setup = Setup::script([Reply::status(200)]);
    let oauth2 =
        OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT).with_store(Arc::new(Down), "crm");
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    send(&requester, "GET").await.unwrap();
    let lines = setup.logs.named("module.acme.credential_store_failed");
    let operations: Vec<_> = lines.iter().map(|line| line["operation"].as_str()).collect();
    assert_eq!(operations, [Some("load"), Some("save")]);
}

#[tokio::test]
async fn a_store_that_cannot_be_written_does_not_bring_old_tokens_back() {
    /// Reads the tokens from before, whatever is saved.
    struct Stale;
    impl CredentialStore for Stale {
        fn load<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Token>, BoxError>> {
            Box::pin(async { Ok(Some(Token::new("t1").with_refresh("r1"))) })
        }
        fn save<'a>(&'a self, _: &'a str, _: &'a Token) -> BoxFuture<'a, Result<(), BoxError>> {
            Box::pin(async { Err("read only".into()) })
        }
    }
    let endpoint = Server::script([rotated("2"), rotated("3"), rotated("4")]);
    let setup = Setup::script([401, 200, 401, 200, 401, 200].map(Reply::status));
    let oauth2 =
        OAuth2::refresh_token(endpoint.url(), "app", secrets::CLIENT).with_store(Arc::new(Stale), "crm");
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    for _ in 0..3 {
        send(&requester, "GET").await.unwrap();
    }
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 3, "nothing old is adopted");
    for (seen, refresh) in seen.iter().zip(["r1", "r2", "r3"]) {
        assert!(
            seen.body.contains(&format!("refresh_token={refresh}")),
            "{refresh}"
        );
    }
}

#[tokio::test]
async fn a_newer_access_token_is_adopted_also_with_the_same_refresh_token() {
    let hours = |hours: u64| noon() + Duration::from_secs(hours * 3600);
    let mine = Token::new("t1").with_refresh("r");
    // What is stored, when ours ends, what the provider answers, and what is used in the end.
    for (stored, end, replies, used) in [
        ("t2", 0, &[200][..], "Bearer t2"),
        ("t2", 1, &[401, 200], "Bearer t2"),
        // The refused one itself, and one that is older.
        ("t1", 1, &[401, 200], "Bearer renewed"),
        ("t2", 3, &[401, 200], "Bearer renewed"),
    ] {
        let endpoint = Server::script([token("renewed")]);
        let store = Arc::new(MemoryStore::default());
        store.put("crm", Token::new(stored).with_refresh("r").with_expiry(hours(2)));
        let oauth2 = OAuth2::refresh_token(endpoint.url(), "app", secrets::CLIENT)
            .with_token(mine.clone().with_expiry(hours(end)))
            .with_store(store, "crm");
        let setup = Setup::script(replies.iter().copied().map(Reply::status));
        let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
        send(&requester, "GET").await.unwrap();
        let seen = setup.server.seen();
        assert_eq!(seen[seen.len() - 1].header("authorization"), Some(used));
        assert_eq!(endpoint.calls(), usize::from(used == "Bearer renewed"));
    }
}

fn rotated(to: &str) -> Reply {
    let body =
        json!({"access_token": format!("t{to}"), "refresh_token": format!("r{to}"), "token_type": "bearer"});
    Reply::json(200, &body)
}

#[tokio::test]
async fn a_caller_that_is_cut_takes_no_rotated_refresh_token_along() {
    let came = Arc::new(tokio::sync::Notify::new());
    let (answer, wait) = std::sync::mpsc::channel::<()>();
    let (asked, wait) = (Arc::clone(&came), std::sync::Mutex::new(wait));
    let endpoint = Server::start(move |_| {
        asked.notify_one();
        // Until the sender is gone.
        let _ = wait.lock().unwrap().recv();
        rotated("2")
    });
    let store = Arc::new(MemoryStore::default());
    store.put("crm", Token::new("t1").with_refresh("r1").with_expiry(noon()));
    let oauth2 = OAuth2::refresh_token(endpoint.url(), "app", secrets::CLIENT)
        .with_store(Arc::clone(&store) as _, "crm");
    let setup = Setup::script([Reply::status(200)]);
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    tokio::select! {
        _ = send(&requester, "GET") => panic!("there is no token yet"),
        () = came.notified() => {}
    }
    drop(answer);
    send(&requester, "GET").await.unwrap();
    assert_eq!(setup.server.seen()[0].header("authorization"), Some("Bearer t2"));
    assert_eq!(endpoint.calls(), 1, "r1 is good for one renewal");
    let stored = store.get("crm").and_then(|token| token.refresh);
    assert_eq!(stored.unwrap().expose_secret(), "r2");
}

#[tokio::test]
async fn calls_share_a_renewal_that_fails_too() {
    for status in [429, 500, 400] {
        let endpoint = Server::start(move |_| Reply::status(status).with("retry-after", "400"));
        let setup = Setup::script([]);
        let oauth2 = OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT);
        let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
        let all = futures_util::future::join_all((0..10).map(|_| send(&requester, "GET")));
        for result in all.await {
            assert_eq!(error(result).status().map(|status| status.as_u16()), Some(status));
        }
        assert_eq!(endpoint.calls(), 1, "{status}");
        // The next one asks again.
        error(send(&requester, "GET").await);
        assert_eq!(endpoint.calls(), 2, "{status}");
    }
}

#[tokio::test]
async fn a_renewal_is_waited_for_no_longer_than_the_invocation_has_left() {
    let endpoint = Server::script([Reply::Hang]);
    let setup = Setup::script([]);
    let oauth2 = OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT);
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    let left = Duration::from_millis(50);
    let scope = frigg_core::scope::Scope {
        deadline: Some(noon() + left),
        ..Default::default()
    };
    let error = error(scope.run(send(&requester, "GET")).await);
    assert_eq!(error.timeout(), Some(left));
}

#[tokio::test]
async fn a_store_that_panics_fails_one_call() {
    struct Panics(std::sync::atomic::AtomicBool);
    impl CredentialStore for Panics {
        fn load<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Token>, BoxError>> {
            let again = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
            Box::pin(async move {
                assert!(again, "the first time");
                Ok(None)
            })
        }
        fn save<'a>(&'a self, _: &'a str, _: &'a Token) -> BoxFuture<'a, Result<(), BoxError>> {
            Box::pin(async { Ok(()) })
        }
    }
    let endpoint = Server::script([token("new")]);
    let setup = Setup::script([Reply::status(200)]);
    let store = Arc::new(Panics(Default::default()));
    let oauth2 = OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT).with_store(store, "crm");
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    assert!(!error(send(&requester, "GET").await).is_permanent());
    send(&requester, "GET").await.unwrap();
}

#[tokio::test]
async fn a_token_that_ends_while_its_call_waits_is_renewed() {
    let half_a_minute = |access: &str| {
        Reply::json(
            200,
            &json!({"access_token": access, "token_type": "bearer", "expires_in": 30}),
        )
    };
    let endpoint = Server::script([half_a_minute("a"), half_a_minute("b")]);
    let setup = Setup::script([Reply::status(200), Reply::status(200)]);
    let policy = Policy::new().with_window(NamedWindow::new(Reason::Minute, 1, Duration::from_secs(60)));
    let oauth2 = OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT);
    let builder = setup.builder().policy(policy).auth(Auth::oauth2(oauth2));
    let requester = builder.build().unwrap();
    send(&requester, "GET").await.unwrap();
    send(&requester, "GET").await.unwrap();
    assert_eq!(setup.clock.sleeps_ms(), [60_250]);
    assert_eq!(setup.server.seen()[1].header("authorization"), Some("Bearer b"));
}

#[tokio::test]
async fn a_post_is_repeated_after_a_401() {
    let endpoint = Server::script([token("new")]);
    let setup = Setup::script([Reply::status(401), Reply::status(201)]);
    let oauth2 =
        OAuth2::client_credentials(endpoint.url(), "app", secrets::CLIENT).with_token(Token::new("old"));
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    send(&requester, "POST").await.unwrap();
    let seen = setup.server.seen();
    assert_eq!((seen.len(), &seen[0].body), (2, &seen[1].body));
    assert!(setup.clock.sleeps_ms().is_empty());
}

#[tokio::test]
async fn without_a_refresh_token_there_is_nothing_to_renew_with() {
    let setup = Setup::script([]);
    let oauth2 = OAuth2::refresh_token("http://127.0.0.1:9/token", "app", secrets::CLIENT);
    let requester = setup.builder().auth(Auth::oauth2(oauth2)).build().unwrap();
    let error = error(send(&requester, "GET").await);
    assert!(
        error.is_permanent() && error.to_string().ends_with("there is no refresh token"),
        "{error}"
    );
}
