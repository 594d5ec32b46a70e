//! What no provider should send, and no caller should ask for.

mod common;

use std::time::Duration;

use common::{Reply, Server, Setup, error, noon, secrets, send};
use frigg_core::marker;
use frigg_requester::{Auth, Requester};
use serde_json::Value;

#[tokio::test]
async fn redirect_loops_end() {
    let setup = Setup::with(Server::start(|_| {
        Reply::status(302).with("location", "/v1/contacts?access_token=s3cr3t")
    }));
    let error = error(setup.get().await);
    assert_eq!(setup.server.calls(), 11);
    assert_eq!(error.status().map(|status| status.as_u16()), Some(302));
    assert!(
        error.is_permanent() && error.to_string().contains("ten"),
        "{error}"
    );
}

#[tokio::test]
async fn redirects_within_the_host_are_followed() {
    let setup = Setup::script([
        Reply::status(307).with("location", "/v2"),
        Reply::status(200).body("there"),
    ]);
    assert_eq!(setup.get().await.unwrap().text().await.unwrap(), "there");
    let seen = setup.server.seen();
    assert_eq!(seen[1].target, "/v2");
    assert_eq!(seen[1].header("authorization"), Some("Bearer s3cr3t-token"));
    assert_eq!(seen[1].header("referer"), None);
}

#[tokio::test]
async fn a_redirect_makes_no_other_call_of_one_that_changes_something() {
    for (method, status, second) in [
        ("GET", 301, Some("GET")),
        ("GET", 302, Some("GET")),
        ("GET", 303, Some("GET")),
        ("HEAD", 302, Some("HEAD")),
        ("HEAD", 303, Some("HEAD")),
        ("POST", 301, None),
        ("POST", 302, None),
        // It was done, and its result is there.
        ("POST", 303, Some("GET")),
        ("DELETE", 303, Some("GET")),
        // It was not done.
        ("POST", 307, Some("POST")),
        ("POST", 308, Some("POST")),
        ("PUT", 301, None),
        ("PATCH", 302, None),
        ("DELETE", 302, None),
    ] {
        let setup = Setup::script([
            Reply::status(status).with("location", "/v2?token=s3cr3t"),
            Reply::status(200),
        ]);
        let result = send(&setup.requester(), method).await;
        let seen = setup.server.seen();
        assert_eq!(
            seen.get(1).map(|seen| seen.method.as_str()),
            second,
            "{method} {status}"
        );
        let Some(second) = second else {
            let error = error(result);
            assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
            assert_eq!(
                marker::find_permanent(&error).and_then(|mark| mark.status),
                Some(status)
            );
            let to = format!("{}/v2?token=REDACTED", setup.server.url());
            assert!(error.to_string().contains(&to), "{error}");
            continue;
        };
        result.unwrap();
        let keeps_body = status != 303 || second == "HEAD";
        assert_eq!(seen[1].body.is_empty(), !keeps_body, "{method} {status}");
        assert_eq!(seen[1].header("content-type").is_some(), keeps_body);
        assert_eq!(seen[1].header("x-api-key"), Some(secrets::KEY));
    }
}

#[tokio::test]
async fn the_result_of_a_post_is_asked_for_again_and_the_post_is_not() {
    let setup = Setup::script([
        Reply::status(303).with("location", "/result"),
        Reply::status(503),
        Reply::status(200),
    ]);
    send(&setup.requester(), "POST").await.unwrap();
    let seen: Vec<_> = setup
        .server
        .seen()
        .into_iter()
        .map(|seen| (seen.method, seen.target))
        .collect();
    let called = |method: &str, target: &str| (method.to_owned(), target.to_owned());
    assert_eq!(
        seen,
        [
            called("POST", "/v1/contacts?access_token=s3cr3t-query"),
            called("GET", "/result"),
            called("GET", "/result")
        ]
    );
}

#[tokio::test]
async fn redirects_elsewhere_are_not_followed() {
    let elsewhere = Server::script([Reply::status(200)]);
    for location in [
        elsewhere.url(),
        format!("http://localhost:{}/", elsewhere.port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let setup = Setup::script([Reply::status(302).with("location", &location)]);
        let error = error(setup.get().await);
        assert_eq!(
            error.status().map(|status| status.as_u16()),
            Some(302),
            "{location}"
        );
    }
    assert_eq!(elsewhere.calls(), 0);
}

#[tokio::test]
async fn private_addresses_are_refused_when_told_to() {
    for base in [
        "http://127.0.0.1",
        "http://[::1]",
        "http://169.254.169.254",
        "http://2130706433",
    ] {
        let refused = Requester::builder(base)
            .public_addresses_only()
            .build()
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the base URL is of an address that is not public"
        );
    }
    // A name that leads there.
    let setup = Setup::script([Reply::status(200)]);
    let requester = Requester::builder(format!("http://localhost:{}", setup.server.port()))
        .public_addresses_only()
        .build()
        .unwrap();
    let error = error(requester.get("/").send().await);
    assert_eq!(setup.server.calls(), 0);
    assert!(error.is_permanent(), "{error:?}");
    assert!(
        secrets::shown(&error).contains("not public"),
        "{}",
        secrets::shown(&error)
    );
}

#[tokio::test]
async fn error_bodies_that_never_end_are_cut_off() {
    let setup = Setup::script([Reply::Endless { status: 404 }]);
    let requester = setup.builder().timeout(Duration::from_secs(2)).build().unwrap();
    let error = error(send(&requester, "GET").await);
    assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
    assert!(error.is_permanent());
}

#[tokio::test]
async fn success_bodies_that_never_end_are_cut_off_where_they_are_read() {
    let setup = Setup::script([Reply::Endless { status: 200 }]);
    let policy = frigg_core::rate_limit::Policy::new().with_success_bodies();
    let requester = setup
        .builder()
        .policy(policy)
        .timeout(Duration::from_secs(1))
        .build()
        .unwrap();
    assert!(error(send(&requester, "GET").await).is_timeout());
    assert_eq!(setup.server.calls(), 1);
}

#[tokio::test]
async fn gzip_is_unpacked_and_invalid_gzip_is_an_error() {
    let packed = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 202, 207, 86, 178, 42, 41, 42, 77, 173, 5, 0, 144, 95, 212,
        167, 11, 0, 0, 0,
    ];
    let gzip = |status, body: &[u8]| Reply::status(status).with("content-encoding", "gzip").body(body);
    let setup = Setup::script([
        gzip(200, &packed),
        gzip(200, b"no gzip s3cr3t"),
        gzip(429, b"no gzip").with("retry-after", "400"),
    ]);
    let body: Value = setup.get().await.unwrap().json().await.unwrap();
    assert_eq!(body["ok"], true);
    assert_eq!(setup.server.seen()[0].header("accept-encoding"), Some("gzip"));
    error(setup.get().await.unwrap().bytes().await);
    // Status and headers are enough.
    assert!(error(setup.get().await).is_rate_limited());
}

#[tokio::test]
async fn headers_that_are_no_utf_8_are_not_read() {
    let setup = Setup::script([
        Reply::status(429)
            .with("retry-after", b"\xff5")
            .with("x-odd", b"s3cr3t \xff"),
        Reply::status(200).with("x-odd", b"\xfe"),
    ]);
    let response = setup.get().await.unwrap();
    assert_eq!(response.headers()["x-odd"].as_bytes(), b"\xfe");
    assert_eq!(setup.clock.sleeps_ms(), [1_000]);
}

#[tokio::test]
async fn large_error_bodies_are_cut() {
    let setup = Setup::script([Reply::status(400).body(vec![b'x'; 10 << 20])]);
    let error = error(setup.get().await);
    assert_eq!(error.body_excerpt().len(), 4096);
    assert!(!secrets::shown(&error).contains("xxxx"));
    // And a limit is still read from a body of some size.
    let body = format!(
        r#"{{"pad":"{}","error":{{"code":"rate_limit_exceeded"}}}}"#,
        "x".repeat(500_000)
    );
    let setup = Setup::script([Reply::status(403).body(body).with("retry-after", "400")]);
    assert!(common::error(setup.get().await).is_rate_limited());
}

#[tokio::test]
async fn a_list_in_retry_after_is_never_cut_to_its_shorter_end() {
    // Two headers: the first counts. A list in one is no number.
    let two = Reply::status(429)
        .with("retry-after", "400")
        .with("retry-after", "2");
    let setup = Setup::script([two]);
    let error = error(setup.get().await);
    assert_eq!(
        error.rate_limited().unwrap().limit().retry_at,
        Some(noon() + Duration::from_secs(400))
    );
    let setup = Setup::script([
        Reply::status(429).with("retry-after", "5, 10"),
        Reply::status(200),
    ]);
    setup.get().await.unwrap();
    let slept = setup.clock.sleeps_ms();
    assert!(
        slept == [1_000] || slept == [10_000],
        "by the ladder, or the longer one: {slept:?}"
    );
}

#[tokio::test]
async fn methods_that_do_not_exist_and_headers_that_cannot_be_sent_are_permanent() {
    let setup = Setup::script([]);
    let requester = setup.requester();
    for call in [
        requester.request("GE T", "/"),
        requester.request("", "/"),
        requester.request("CONNECT", "/?email=s3cr3t"),
        requester.get("/").header("x-key", "s3cr3t\r\nx-injected: 1"),
        requester.get("/").header("x key", "s3cr3t"),
        requester.post("/").idempotency_key(""),
        requester.post("/").idempotency_key(" "),
        requester.get("https://elsewhere.example/?s3cr3t"),
        requester.get("/").query("no pairs s3cr3t"),
        requester
            .post("/")
            .json(&std::collections::HashMap::from([(vec![1], "s3cr3t")])),
    ] {
        let error = error(call.send().await);
        assert!(
            error.is_permanent() && marker::find_permanent(&error).is_some(),
            "{error}"
        );
    }
    assert_eq!(setup.server.calls(), 0);
}

#[tokio::test]
async fn a_method_of_its_own_is_sent_and_not_repeated() {
    let setup = Setup::script([Reply::status(503), Reply::status(200)]);
    error(send(&setup.requester(), "PURGE").await);
    assert_eq!(setup.server.seen()[0].method, "PURGE");
    assert_eq!(setup.server.calls(), 1);
}

#[tokio::test]
async fn bodies_of_another_form_are_errors_that_quote_nothing() {
    let setup = Setup::script([Reply::status(200).body(r#"{"id":"s3cr3t-9f"}"#)]);
    #[derive(Debug, serde::Deserialize)]
    struct Contact {
        #[allow(dead_code)]
        id: u64,
    }
    let error = error(setup.get().await.unwrap().json::<Contact>().await);
    assert!(error.to_string().ends_with("(line 1, column 17)"), "{error}");
    assert_eq!(error.body_excerpt(), br#"{"id":"s3cr3t-9f"}"#);
}

#[tokio::test]
async fn requesters_that_cannot_work_are_not_built() {
    for (builder, what) in [
        (Requester::builder("no url"), "the base URL is no URL"),
        (
            Requester::builder("ftp://a.example"),
            "the base URL is not of http or https",
        ),
        (
            Requester::builder("https://a.example").auth(Auth::bearer("a\nb")),
            "the credential has a character that no header can carry",
        ),
        (
            Requester::builder("https://a.example").auth(Auth::header("a b", "c")),
            "the name of the key's header is not a header's name",
        ),
        (
            Requester::builder("https://a.example").idempotency_header("a b"),
            "the idempotency header is not a header's name",
        ),
    ] {
        assert_eq!(builder.build().unwrap_err().to_string(), what);
    }
    assert!(
        Requester::builder("https://a.example")
            .user_agent("a\nb")
            .build()
            .is_err()
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_at_once() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let requester = Requester::new(format!("http://127.0.0.1:{port}")).unwrap();
    let error = error(requester.get("/?key=s3cr3t").send().await);
    assert!(!error.is_permanent() && error.status().is_none());
}
