//! A herd in virtual time.

mod model;

use std::collections::HashMap;
use std::time::Duration;

use frigg_worker::testing::GateCall;

use self::model::{Scene, per, run};

const OUTAGES: &[(u64, u64)] = &[(200, 230), (600, 640)];

/// The store is away twice, and the hosts' clocks are as far apart as clocks that are kept.
#[tokio::test(start_paused = true)]
async fn ten_thousand_messages_use_the_quota_through_outages() {
    let outcome = run(Scene {
        skew_ms: 100,
        outages: OUTAGES,
        ..Scene::of(10_000, per(100, 10))
    })
    .await;
    assert_eq!((outcome.done, outcome.failed, outcome.early), (10_000, 0, 0));
    let used = outcome.utilisation(Duration::ZERO);
    println!(
        "refused {}, {} of them after the first second, of the quota used {:.2} %",
        outcome.refused(),
        outcome.refused_from(Duration::from_secs(1)),
        used * 100.0
    );
    assert!(used >= 0.95, "{used}");
    assert_eq!(outcome.refused_from(Duration::from_secs(1)), 0);
}

/// A slot is a moment, and here each worker has its own idea of that: calls that are apart by the clocks meet at the
/// provider, and a refusal closes the key for the others too. Slots at 95 % leave nothing to make up for it.
#[tokio::test(start_paused = true)]
async fn ten_thousand_messages_lose_nothing_by_clocks_two_seconds_apart_and_outages() {
    let outcome = run(Scene {
        skew_ms: 2_000,
        outages: OUTAGES,
        ..Scene::of(10_000, per(100, 10))
    })
    .await;
    assert_eq!((outcome.done, outcome.failed, outcome.early), (10_000, 0, 0));
    let (late, used) = (
        outcome.refused_from(Duration::from_secs(1)),
        outcome.utilisation(Duration::ZERO),
    );
    println!(
        "refused after the first second {late}, of the quota used {:.2} %",
        used * 100.0
    );
    assert!(used >= 0.90, "{used}");
    assert!(late < 200, "two in a hundred: {late}");
}

/// Ten calls a second leave a call 52 ms, and this store takes up to 150 ms for an answer.
#[tokio::test(start_paused = true)]
async fn a_slow_store_makes_no_call_late() {
    let shared = &[("FRIGG_PACE", "shared"), ("FRIGG_RATES", "crm:*=10/s")];
    for (variables, most) in [(&[][..], 200), (shared, 0)] {
        let outcome = run(Scene {
            store_ms: 150,
            variables,
            ..Scene::of(600, per(10, 1))
        })
        .await;
        assert_eq!((outcome.done, outcome.failed, outcome.early), (600, 0, 0));
        let late = outcome
            .provider
            .calls
            .iter()
            .filter(|(at, _, served)| !served && *at > Duration::from_secs(1))
            .count();
        println!(
            "{variables:?}: refused {}, {late} of them after the first second, of the quota used {:.2} %",
            outcome.refused(),
            outcome.utilisation(Duration::ZERO) * 100.0
        );
        assert!(
            outcome.refused() <= most && late == 0,
            "{}, {late}",
            outcome.refused()
        );
    }
}

/// `make herd` on a machine that is as fast as the rules want, a record at a time and 20 ms for a call.
#[tokio::test(start_paused = true)]
async fn five_rules_for_coming_back() {
    let frigg = &[("FRIGG_COMPAT", "1")];
    let shared = &[("FRIGG_PACE", "shared"), ("FRIGG_RATES", "crm:*=10/s")];
    let gate = Scene {
        batch: 1,
        ..Scene::of(600, per(10, 1))
    };
    let backlog = Scene { gate: false, ..gate };
    let spread = Scene {
        known: None,
        ..backlog
    };
    let run = async |name: &str, scene: Scene| {
        let outcome = run(scene).await;
        println!(
            "{name}: {} calls, refused {}, {} of them after the first second, capped {}, {:.0} s",
            outcome.provider.calls.len(),
            outcome.refused(),
            outcome.refused_from(Duration::from_secs(1)),
            outcome.failed,
            outcome.took().as_secs_f64()
        );
        assert_eq!((outcome.done + outcome.failed, outcome.early), (600, 0));
        outcome
    };
    let outcome = run(
        "as Frigg",
        Scene {
            variables: frigg,
            ..spread
        },
    )
    .await;
    assert!(
        outcome.failed > 200,
        "each comes back every second, and thirty times at most"
    );
    let (spread, backlog) = (run("spread", spread).await, run("backlog", backlog).await);
    assert_eq!((spread.failed, backlog.failed), (0, 0));
    assert!(backlog.refused() < spread.refused());
    // What is on its way when the first one is refused: a call for each worker.
    let outcome = run("gate", gate).await;
    assert_eq!(
        (outcome.failed, outcome.refused_from(Duration::from_secs(1))),
        (0, 0)
    );
    assert!(outcome.refused() <= 20);
    let outcome = run(
        "shared",
        Scene {
            variables: shared,
            ..gate
        },
    )
    .await;
    assert_eq!((outcome.failed, outcome.refused()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_daily_limit_costs_one_call_each_and_lets_no_herd_in_at_its_reset() {
    let reset = Duration::from_secs(8 * 3600);
    let scene = Scene {
        opens: reset,
        batch: 50,
        call_ms: 300,
        store_ms: 50,
        stagger_ms: 10,
        ..Scene::of(5_000, per(10, 1))
    };
    let outcome = run(scene).await;
    assert_eq!((outcome.done, outcome.failed, outcome.early), (5_000, 0, 0));
    let calls = &outcome.provider.calls;
    // The refusal is on its way to the store, and an answer of before on its way back: then all know.
    let known = outcome.first_refusal + Duration::from_millis(scene.store_ms);
    let (mut all, mut after) = (HashMap::new(), HashMap::new());
    for (at, worker, _) in calls.iter().filter(|(at, ..)| *at < reset) {
        *all.entry(*worker).or_insert(0) += 1;
        if *at > known {
            *after.entry(*worker).or_insert(0) += 1;
        }
    }
    println!(
        "the first refusal is known at {known:?}; calls before the reset by worker: {all:?}, since then {after:?}"
    );
    // Those that were on their way then: what a worker has at a time, ten.
    assert!(all.values().all(|calls| *calls <= 10), "{all:?}");
    assert!(all.len() > 5 && all.len() < 20, "{all:?}");
    assert!(after.values().all(|calls| *calls <= 1), "{after:?}");
    let mut buckets = HashMap::new();
    for (at, ..) in calls.iter().filter(|(at, ..)| *at >= reset) {
        *buckets.entry(at.as_secs()).or_insert(0) += 1;
    }
    let most = buckets.values().max().unwrap();
    println!(
        "most in a second after the reset: {most}, refused {}",
        outcome.refused()
    );
    assert!(*most <= 20, "{most}");
    let writes = outcome
        .gate
        .calls()
        .iter()
        .filter(|call| matches!(call, GateCall::Reserve(..)))
        .count();
    println!("reservations: {writes} for 5,000 messages");
}
