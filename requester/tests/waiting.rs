//! Which answers are waited for in process, how long, and what is handed on.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Notices, Reply, Setup, error, noon, send};
use frigg_core::backoff::Ladder;
use frigg_core::marker;
use frigg_core::rate_limit::{LimitKind, Link, Policy, Reason, Verdict};
use frigg_core::scope::Scope;
use frigg_requester::{Backoff, Notice};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limited(seconds: u64) -> Reply {
    Reply::status(429).with("retry-after", seconds.to_string())
}

/// An invocation with this much time left, and this cap.
fn scope(left: u64, cap: u64) -> Scope {
    Scope {
        deadline: Some(noon() + secs(left)),
        max_in_process_wait: Some(secs(cap)),
    }
}

#[tokio::test]
async fn a_wait_that_does_not_fit_costs_one_call_and_no_sleep() {
    let setup = Setup::script([limited(900)]);
    let error = error(scope(29, 300).run(setup.get()).await);
    let limit = marker::find_limit(&error).expect("a limit");
    assert_eq!(limit.retry_at, Some(noon() + secs(900)));
    assert_eq!((limit.module.as_deref(), limit.status), (Some("acme"), Some(429)));
    assert_eq!((setup.server.calls(), setup.clock.sleeps_ms()), (1, vec![]));
}

#[tokio::test]
async fn a_wait_that_fits_is_slept_and_the_call_succeeds() {
    let setup = Setup::script([limited(2), Reply::status(200)]);
    scope(29, 300).run(setup.get()).await.unwrap();
    assert_eq!((setup.server.calls(), setup.clock.sleeps_ms()), (2, vec![2_000]));
}

#[tokio::test]
async fn a_limit_without_a_time_climbs_the_ladder_while_it_fits() {
    for (left, cap, sleeps) in [
        // A queue worker puts it back at once.
        (900, 0, vec![]),
        // An HTTP handler: 1 + 3 fit into 10 s, 10 more do not.
        (29, 10, vec![1_000, 3_000]),
        (7, 300, vec![1_000, 3_000]),
        (900, 300, vec![1_000, 3_000, 10_000, 30_000, 60_000, 180_000]),
    ] {
        let setup = Setup::script(vec![Reply::status(429); 9]);
        let error = error(scope(left, cap).run(setup.get()).await);
        let limit = marker::find_limit(&error).expect("a limit");
        assert_eq!((limit.retry_at, limit.reason), (None, Reason::Unknown));
        assert_eq!(setup.clock.sleeps_ms(), sleeps, "{left} s left, cap {cap} s");
        // Nobody can be told until when.
        assert_eq!(setup.notices.heard(), []);
    }
}

#[tokio::test]
async fn failures_climb_the_ladder_though_limits_are_put_back() {
    for status in [408, 500, 502, 503, 504] {
        let setup = Setup::script([Reply::status(status), Reply::status(status), Reply::status(200)]);
        scope(900, 0).run(setup.get()).await.unwrap();
        assert_eq!(setup.clock.sleeps_ms(), [1_000, 3_000], "{status}");
    }
    // But not past the end.
    let setup = Setup::script(vec![Reply::status(500); 9]);
    let error = error(scope(20, 0).run(setup.get()).await);
    assert_eq!(setup.clock.sleeps_ms(), [1_000, 3_000]);
    assert!(!error.is_permanent() && marker::find_limit(&error).is_none());
    assert_eq!(error.status().map(|status| status.as_u16()), Some(500));
}

#[tokio::test]
async fn a_step_counts_against_the_cap_of_a_later_hint() {
    let setup = Setup::script([Reply::status(500), limited(9), limited(9), Reply::status(200)]);
    let error = error(scope(900, 10).run(setup.get()).await);
    assert!(error.is_rate_limited());
    assert_eq!(setup.clock.sleeps_ms(), [1_000, 9_000]);
}

#[tokio::test]
async fn other_failures_are_not_retried() {
    for (status, permanent) in [
        (304, false),
        (400, true),
        (404, true),
        (422, true),
        (501, false),
        (505, false),
    ] {
        let setup = Setup::script([Reply::status(status), Reply::status(200)]);
        let error = error(setup.get().await);
        assert_eq!(
            (setup.server.calls(), error.is_permanent()),
            (1, permanent),
            "{status}"
        );
        let marked = marker::find_permanent(&error).and_then(|mark| mark.status);
        assert_eq!(marked, permanent.then_some(status), "{status}");
    }
    // Frigg takes every 5xx for one that may be over soon.
    let setup = Setup::script([Reply::status(501), Reply::status(200)]);
    let frigg = setup.builder().frigg_compat().build().unwrap();
    send(&frigg, "GET").await.unwrap();
}

#[tokio::test]
async fn a_429_that_never_clears_is_permanent() {
    let body = serde_json::json!({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}});
    let setup = Setup::script([Reply::json(429, &body), Reply::status(200)]);
    let error = error(setup.get().await);
    assert_eq!(setup.server.calls(), 1);
    assert!(error.is_permanent() && !error.is_rate_limited());
}

#[tokio::test]
async fn an_unavailable_provider_is_not_asked_twice_for_a_post() {
    let unavailable = Reply::status(503).with("retry-after", "5");
    for (method, calls) in [("GET", 2), ("POST", 1)] {
        let setup = Setup::script([unavailable.clone(), Reply::status(200)]);
        let result = send(&setup.requester(), method).await;
        assert_eq!(setup.server.calls(), calls, "{method}");
        if calls == 1 {
            let error = error(result);
            assert_eq!(error.rate_limited().unwrap().limit().kind, LimitKind::Unavailable);
        }
    }
}

#[tokio::test]
async fn no_retries_means_none() {
    for reply in [limited(1), Reply::status(429), Reply::status(503), Reply::Reset] {
        let setup = Setup::script([reply, Reply::status(200)]);
        let once = setup.builder().retries(0).build().unwrap();
        error(send(&once, "GET").await);
        assert_eq!((setup.server.calls(), setup.clock.sleeps_ms()), (1, vec![]));
    }
    let setup = Setup::script(vec![Reply::status(500); 5]);
    let twice = setup.builder().retries(2).build().unwrap();
    error(send(&twice, "GET").await);
    assert_eq!(setup.clock.sleeps_ms(), [1_000, 3_000]);
}

#[tokio::test]
async fn full_jitter_never_cuts_a_hint() {
    let setup = Setup::script([
        Reply::status(500),
        limited(70),
        Reply::status(500),
        Reply::status(200),
    ]);
    let builder = setup
        .builder()
        .backoff(Backoff::FullJitter)
        .clock(setup.clock.clock(0.5));
    send(&builder.build().unwrap(), "GET").await.unwrap();
    assert_eq!(setup.clock.sleeps_ms(), [500, 70_500, 1_000]);
}

#[tokio::test]
async fn no_connection_is_held_while_sleeping() {
    // A body of any size: read to its end, the connection serves the next call; larger than what is read, it is closed.
    for (size, connections) in [(10, 1), (3 << 20, 2)] {
        let setup = Setup::script([limited(2).body(vec![b'x'; size]), Reply::status(200)]);
        setup.get().await.unwrap();
        let used: std::collections::HashSet<_> =
            setup.server.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(used.len(), connections, "{size} bytes");
    }
}

#[tokio::test]
async fn a_refusal_is_announced_once_before_it_is_returned() {
    let link = Link {
        reason: Reason::Daily,
        label: "Usage",
        url: "https://acme.example/usage",
    };
    let other = Link {
        reason: Reason::Burst,
        ..link
    };
    let policy = Policy::new().with_link(link).with_link(other).with_classify(|_| {
        Some(
            Verdict::limit(Reason::Daily)
                .with_wait(secs(400))
                .with_policy("DAILY"),
        )
    });
    let setup = Setup::script([Reply::status(403)]);
    let requester = setup.builder().policy(policy.clone()).build().unwrap();
    error(send(&requester, "GET").await);
    let [Notice::RateLimited(announced)] = &setup.notices.heard()[..] else {
        panic!("one announcement: {:?}", setup.notices.heard())
    };
    assert_eq!(announced.module, "acme");
    assert_eq!((announced.reason, announced.status), (Reason::Daily, Some(403)));
    assert_eq!(
        (announced.retry_at, announced.policy.as_deref()),
        (noon() + secs(400), Some("DAILY"))
    );
    assert_eq!(announced.links, [link]);

    // One who cannot be told changes nothing.
    let setup = Setup::script([Reply::status(403)]);
    let deaf = Notices::failing("fault-delegate");
    let requester = setup
        .builder()
        .policy(policy)
        .notify(Arc::new(deaf.clone()))
        .build()
        .unwrap();
    let error = error(send(&requester, "GET").await);
    assert!(error.is_rate_limited());
    assert_eq!(deaf.heard().len(), 1);
    let lines = setup.logs.named("module.acme.rate_limit_notify_failed");
    assert_eq!(
        (lines.len(), &lines[0]["level"], &lines[0]["error"]["message"]),
        (1, &"WARN".into(), &"fault-delegate".into())
    );
}

#[tokio::test]
async fn every_retry_and_the_failure_are_logged() {
    let setup = Setup::script([Reply::status(500), Reply::Reset, Reply::status(404)]);
    error(setup.get().await);
    let retries = setup.logs.named("module.acme.retry");
    let shown: Vec<_> = retries
        .iter()
        .map(|line| {
            (
                line["level"].as_str(),
                line["statusCode"].as_u64(),
                line["delayMs"].as_u64(),
                line["attempt"].as_u64(),
            )
        })
        .collect();
    let debug = Some("DEBUG");
    assert_eq!(
        shown,
        [
            (debug, Some(500), Some(1_000), Some(0)),
            (debug, None, Some(3_000), Some(1))
        ]
    );
    let failed = setup.logs.named("module.acme.request_failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (failed[0]["method"].as_str(), failed[0]["statusCode"].as_u64()),
        (Some("GET"), Some(404))
    );
    let url = format!("{}/v1/contacts?access_token=REDACTED", setup.server.url());
    assert_eq!(failed[0]["url"], url);
    assert!(failed[0]["headers"].as_str().unwrap().contains("x-api-key"));
    assert_eq!(failed[0]["logger"], "module.acme");
}

#[tokio::test]
async fn a_call_never_takes_longer_than_the_invocation_has_left() {
    let setup = Setup::script([Reply::Hang]);
    let scope = Scope {
        deadline: Some(noon() + Duration::from_millis(50)),
        ..Scope::default()
    };
    let error = error(scope.run(setup.get()).await);
    assert_eq!(
        (error.is_timeout(), error.timeout()),
        (true, Some(Duration::from_millis(50)))
    );
    assert!(!error.is_permanent());
}

#[tokio::test]
async fn the_timeout_covers_the_body() {
    let setup = Setup::script([Reply::Endless { status: 200 }]);
    let requester = setup.builder().timeout(Duration::from_secs(1)).build().unwrap();
    let response = send(&requester, "GET").await.unwrap();
    let error = error(response.bytes().await);
    assert_eq!(error.timeout(), Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn an_empty_ladder_is_no_reason_to_panic() {
    let setup = Setup::script([Reply::status(401)]);
    let requester = setup
        .builder()
        .frigg_compat()
        .ladder(Ladder::new([]))
        .build()
        .unwrap();
    assert!(error(send(&requester, "GET").await).is_unauthorized());
    assert_eq!(setup.server.calls(), 1);
}
