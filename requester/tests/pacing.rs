//! Twenty tasks against a provider that allows 100 calls in 10 s: a real server that counts by the virtual clock.

// Helpers may unwrap too.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Reply, Server, VirtualClock, noon};
use frigg_core::rate_limit::{NamedWindow, Policy, Reason};
use frigg_core::scope::Scope;
use frigg_requester::{Requester, RequesterBuilder};
use jiff::{SignedDuration, Timestamp};

const TASKS: usize = 20;
const LIMIT: usize = 100;
const PER: SignedDuration = SignedDuration::from_secs(10);

/// When a call came, and how long it was refused for.
type Arrival = (Timestamp, Option<SignedDuration>);

/// A rolling window, and what came when.
#[derive(Clone)]
struct Provider {
    server: Server,
    calls: Arc<Mutex<Vec<Arrival>>>,
}

impl Provider {
    fn start(clock: &VirtualClock, limit: usize, per: SignedDuration) -> Provider {
        let window = Mutex::new(VecDeque::<Timestamp>::new());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (clock, seen) = (clock.clone(), Arc::clone(&calls));
        let server = Server::start(move |_| {
            let now = clock.now();
            let mut window = window.lock().unwrap();
            while window.front().is_some_and(|first| *first + per <= now) {
                window.pop_front();
            }
            if window.len() < limit {
                window.push_back(now);
                seen.lock().unwrap().push((now, None));
                return Reply::status(200);
            }
            let wait = (window[0] + per).duration_since(now);
            seen.lock().unwrap().push((now, Some(wait)));
            Reply::status(429).with("retry-after", format!("{:.3}", wait.as_secs_f64()))
        });
        Provider { server, calls }
    }

    fn calls(&self) -> Vec<Arrival> {
        self.calls.lock().unwrap().clone()
    }
}

fn known() -> Policy {
    Policy::new().with_module("acme").with_window(NamedWindow::new(
        Reason::Burst,
        LIMIT as u32,
        Duration::from_secs(10),
    ))
}

/// Every task makes this many calls; the answers that were no success are counted.
async fn run(clock: &VirtualClock, requester: &Requester, path: &'static str, calls: usize) -> usize {
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (requester, clock) = (requester.clone(), clock.clone());
            tokio::spawn(async move {
                let mut failed = 0;
                for _ in 0..calls {
                    failed += usize::from(requester.get(path).send().await.is_err());
                }
                clock.done();
                failed
            })
        })
        .collect();
    clock.clone().drive().await;
    let mut failed = 0;
    for task in tasks {
        failed += task.await.unwrap();
    }
    failed
}

fn requester(server: &Server, clock: &VirtualClock, policy: Policy) -> RequesterBuilder {
    Requester::builder(server.url())
        .policy(policy)
        .clock(clock.clock(0.5))
}

#[tokio::test]
async fn a_known_limit_is_used_and_never_passed() {
    let clock = VirtualClock::with_tasks(noon(), TASKS);
    let provider = Provider::start(&clock, LIMIT, PER);
    let requester = requester(&provider.server, &clock, known()).build().unwrap();
    let start = clock.now();
    // Enough for ten windows.
    assert_eq!(run(&clock, &requester, "/", 50).await, 0);
    let calls = provider.calls();
    assert!(
        calls.iter().all(|(_, refused)| refused.is_none()),
        "no call is refused"
    );
    assert_eq!(calls.len(), TASKS * 50);
    let (last, _) = calls[calls.len() - 1];
    // The first window's calls go at once, so nine windows pass.
    let windows = last.duration_since(start).as_secs_f64() / PER.as_secs_f64();
    let used = (calls.len() - LIMIT) as f64 / LIMIT as f64 / windows;
    println!(
        "pacing: {:.1} % of the allowed rate used, 0 refused",
        used * 100.0
    );
    assert!(used >= 0.95, "{used}");
}

#[tokio::test]
async fn under_an_unknown_limit_every_task_waits_as_told() {
    let clock = VirtualClock::with_tasks(noon(), TASKS);
    let provider = Provider::start(&clock, LIMIT, PER);
    let requester = requester(&provider.server, &clock, Policy::new())
        .build()
        .unwrap();
    assert_eq!(run(&clock, &requester, "/", 10).await, 0);
    let calls = provider.calls();
    let refused: Vec<_> = calls
        .iter()
        .filter_map(|(at, wait)| Some((*at, (*wait)?)))
        .collect();
    assert!(!refused.is_empty());
    // All tasks are refused at one moment, and none comes back before the wait that it was told.
    for (at, wait) in &refused {
        let early = calls
            .iter()
            .filter(|(call, _)| call > at && *call < *at + *wait)
            .count();
        assert_eq!(early, 0, "a call came within {wait:#} of {at}");
    }
    println!("pacing: limit unknown, {} refused, none early", refused.len());
}

#[tokio::test]
async fn after_a_shared_wait_one_call_probes_and_the_rest_follow() {
    let clock = VirtualClock::with_tasks(noon(), TASKS);
    let told = Mutex::new(VecDeque::from([30, 20]));
    let at = Arc::new(Mutex::new(Vec::new()));
    let (seen, now) = (Arc::clone(&at), clock.clone());
    let server = Server::start(move |_| {
        seen.lock().unwrap().push(now.now());
        match told.lock().unwrap().pop_front() {
            Some(seconds) => Reply::status(429).with("retry-after", seconds.to_string()),
            None => Reply::status(200),
        }
    });
    // One call at a time, so that the first answer comes before the second call.
    let policy = known().with_max_concurrency(NonZeroU32::MIN);
    let requester = requester(&server, &clock, policy).build().unwrap();
    assert_eq!(run(&clock, &requester, "/", 1).await, 0);
    let at: Vec<i64> = at
        .lock()
        .unwrap()
        .iter()
        .map(|at| at.duration_since(noon()).as_secs())
        .collect();
    assert_eq!(at[..3], [0, 30, 50]);
    assert_eq!(at.len(), TASKS + 2);
    assert!(at[3..].iter().all(|at| *at == 50), "{at:?}");
}

#[tokio::test]
async fn one_call_at_a_time_probes_until_one_is_let_in() {
    let limited = Reply::status(429).with("retry-after", "30");
    for refusal in [
        Reply::status(429),
        Reply::status(500),
        Reply::status(503),
        Reply::Reset,
    ] {
        let clock = VirtualClock::new(noon());
        let server = Server::script(
            [limited.clone(), refusal.clone(), refusal, Reply::status(404)]
                .into_iter()
                .chain(vec![Reply::status(200); 4]),
        );
        let requester = requester(&server, &clock, known()).retries(0).build().unwrap();
        let zero = Scope {
            max_in_process_wait: Some(Duration::ZERO),
            ..Scope::default()
        };
        let call = || zero.run(requester.get("/").send());
        call().await.unwrap_err();
        clock.advance(Duration::from_secs(30));
        let mut calls = Vec::new();
        for _ in 0..4 {
            let _ = tokio::join!(call(), call(), call());
            calls.push(server.calls());
        }
        // Two probes that are refused, one that is let in, and all three of the last.
        assert_eq!(calls, [2, 3, 4, 7]);
    }
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_allowed() {
    let clock = VirtualClock::with_tasks(noon(), TASKS);
    let running = Arc::new(Mutex::new((0, 0)));
    let seen = Arc::clone(&running);
    let server = Server::start(move |_| {
        let count = |by: i32| {
            let mut running = seen.lock().unwrap();
            running.0 += by;
            running.1 = running.1.max(running.0);
        };
        count(1);
        std::thread::park_timeout(Duration::from_millis(2));
        count(-1);
        Reply::status(200)
    });
    let policy = Policy::new().with_max_concurrency(NonZeroU32::new(3).unwrap());
    let requester = requester(&server, &clock, policy).build().unwrap();
    assert_eq!(run(&clock, &requester, "/", 3).await, 0);
    assert_eq!(running.lock().unwrap().1, 3);
}

#[tokio::test]
async fn a_call_runs_until_its_body_was_read_or_dropped() {
    let clock = VirtualClock::new(noon());
    let server = Server::start(|_| Reply::status(200).body("{}"));
    let policy = Policy::new().with_max_concurrency(NonZeroU32::MIN);
    let requester = requester(&server, &clock, policy).build().unwrap();
    let zero = Scope {
        max_in_process_wait: Some(Duration::ZERO),
        ..Scope::default()
    };
    let call = || zero.run(requester.get("/").send());
    for way in ["drop", "bytes", "json", "chunk"] {
        let mut first = call().await.unwrap();
        let held = call().await.unwrap_err();
        assert_eq!(
            held.rate_limited().expect("held").limit().reason,
            Reason::Concurrency
        );
        match way {
            "drop" => drop(first),
            "bytes" => drop(first.bytes().await.unwrap()),
            "json" => drop(first.json::<serde_json::Value>().await.unwrap()),
            _ => {
                while first.chunk().await.unwrap().is_some() {
                    assert!(call().await.is_err());
                }
            }
        }
        assert!(call().await.is_ok(), "{way}");
    }
}

#[tokio::test]
async fn a_route_has_its_own_window_and_takes_from_the_general_one() {
    let clock = VirtualClock::new(noon());
    let provider = Provider::start(&clock, 1_000, PER);
    let policy = Policy::new()
        .with_window(NamedWindow::new(Reason::Burst, 3, Duration::from_secs(10)))
        .with_window(NamedWindow::new(Reason::Minute, 1, Duration::from_secs(60)).on("/search/*"));
    let requester = requester(&provider.server, &clock, policy).build().unwrap();
    let zero = Scope {
        max_in_process_wait: Some(Duration::ZERO),
        ..Scope::default()
    };
    let call = async |path: &str| match zero.run(requester.get(path).send()).await {
        Ok(_) => None,
        Err(error) => Some(error.rate_limited().expect("held").limit().clone()),
    };
    assert_eq!(call("/search/a").await, None);
    let held = call("/search/b").await.expect("held back");
    assert_eq!((held.reason, held.status), (Reason::Minute, None));
    assert_eq!(held.retry_at, Some(noon() + Duration::from_millis(60_250)));
    assert_eq!(held.window.map(|window| window.limit.get()), Some(1));
    // The refused search took nothing: two of three are left.
    assert_eq!(call("/a").await, None);
    assert_eq!(call("/b").await, None);
    assert_eq!(call("/c").await.map(|held| held.reason), Some(Reason::Burst));
    assert_eq!(provider.calls().len(), 3);
}

#[tokio::test]
async fn what_an_answer_says_is_left_is_believed() {
    let clock = VirtualClock::new(noon());
    let left = Mutex::new(VecDeque::from([5, 4, 0]));
    let server = Server::start(move |_| {
        let left = left.lock().unwrap().pop_front().unwrap_or(99);
        Reply::status(200)
            .with("x-ratelimit-remaining", left.to_string())
            .with("x-ratelimit-reset", "20")
    });
    let requester = requester(&server, &clock, known()).build().unwrap();
    let call = async || {
        requester.get("/").send().await.unwrap();
        clock.now().duration_since(noon()).as_secs()
    };
    // 5 of 100 for 20 s: 4 s apart. 4 for 20 s: 5 s. Then none until the reset.
    assert_eq!(
        [
            call().await,
            call().await,
            call().await,
            call().await,
            call().await
        ],
        [0, 4, 9, 29, 29]
    );
}

#[tokio::test]
async fn without_a_known_limit_nothing_left_is_believed_in_every_spelling() {
    for (remaining, reset) in [
        ("x-ratelimit-remaining", "x-ratelimit-reset"),
        ("ratelimit-remaining", "ratelimit-reset"),
        ("x-rate-limit-remaining", "x-rate-limit-reset"),
    ] {
        let clock = VirtualClock::new(noon());
        let server = Server::start(move |_| Reply::status(200).with(remaining, "0").with(reset, "20"));
        let requester = requester(&server, &clock, Policy::new())
            .pacing(true)
            .build()
            .unwrap();
        for _ in 0..2 {
            requester.get("/").send().await.unwrap();
        }
        let waited = clock.now().duration_since(noon()).as_secs();
        assert_eq!(waited, 20, "{remaining}");
    }
}

#[tokio::test]
async fn a_redirect_waits_for_its_turn_too() {
    let clock = VirtualClock::new(noon());
    let server = Server::script([Reply::status(307).with("location", "/there"), Reply::status(200)]);
    let policy = Policy::new().with_window(NamedWindow::new(Reason::Burst, 1, Duration::from_secs(10)));
    let requester = requester(&server, &clock, policy).build().unwrap();
    requester.get("/").send().await.unwrap();
    assert_eq!((server.calls(), clock.sleeps_ms()), (2, vec![10_250]));
}

#[tokio::test]
async fn scopes_do_not_share_and_clones_do() {
    let clock = VirtualClock::new(noon());
    let provider = Provider::start(&clock, 1_000, PER);
    let policy = known().with_window(NamedWindow::new(Reason::Minute, 1, Duration::from_secs(60)));
    let requester = requester(&provider.server, &clock, policy).build().unwrap();
    let zero = Scope {
        max_in_process_wait: Some(Duration::ZERO),
        ..Scope::default()
    };
    let call =
        async |requester: Requester, entity: &str| zero.run(requester.get("/").entity(entity).send()).await;
    assert!(call(requester.clone(), "7").await.is_ok());
    assert!(call(requester.clone(), "8").await.is_ok());
    let error = call(requester.clone(), "7").await.unwrap_err();
    assert_eq!(
        error.rate_limited().unwrap().limit().scope_key.as_deref(),
        Some("acme:entity:7")
    );
}

#[tokio::test]
async fn keys_whose_closure_is_over_make_place_for_others() {
    let clock = VirtualClock::new(noon());
    let server = Server::start(|_| Reply::status(429).with("retry-after", "5"));
    let requester = requester(&server, &clock, known()).build().unwrap();
    let zero = Scope {
        max_in_process_wait: Some(Duration::ZERO),
        ..Scope::default()
    };
    let call = async |entity: usize| {
        let sent = requester.get("/").entity(entity.to_string()).send();
        zero.run(sent).await.unwrap_err()
    };
    // As many as are kept.
    for entity in 0..1024 {
        call(entity).await;
    }
    clock.advance(Duration::from_secs(60));
    call(1024).await;
    // A key that is kept lets one call probe, and holds the other; one that is forgotten knows of no closure.
    tokio::join!(call(7), call(7));
    assert_eq!(server.calls(), 1024 + 1 + 2);
}

#[tokio::test]
async fn unknown_providers_and_frigg_are_not_paced() {
    let clock = VirtualClock::new(noon());
    let exhausted = || {
        Reply::status(200)
            .with("x-ratelimit-remaining", "0")
            .with("x-ratelimit-reset", "20")
    };
    for (policy, frigg) in [(Policy::new(), false), (known(), true)] {
        let server = Server::start(move |_| exhausted());
        let mut builder = requester(&server, &clock, policy);
        if frigg {
            builder = builder.frigg_compat();
        }
        let requester = builder.build().unwrap();
        for _ in 0..3 {
            requester.get("/").send().await.unwrap();
        }
        assert!(clock.sleeps_ms().is_empty());
    }
}
