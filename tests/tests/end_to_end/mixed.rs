//! One batch, ten outcomes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use frigg_tests::emulator::QueueSpec;
use frigg_tests::provider::{ProviderConfig, ThrottlingProvider};
use serde_json::json;

use crate::rig::{Rig, SOON, assert_none_early};

#[tokio::test]
async fn tier_a_batch_with_mixed_outcomes_leaves_the_right_survivors() -> Result<()> {
    let provider = ThrottlingProvider::start(ProviderConfig::default()).await?;
    let mut rig = Rig::new(QueueSpec::standard("mixed").with_max_receives(2), 6).await?;
    rig.set("PROVIDER_URL", provider.url());
    let (error, panic) = (
        json!({ "id": "error", "do": "error" }),
        json!({ "id": "panic", "do": "panic" }),
    );
    let (no_json, no_task) = ("{\"id\":\"cut\",\"do\":", "{\"do\":17}");
    // All ten are there before the worker is, so that one receive brings them all.
    rig.send_batch(&[
        json!({ "id": "ok-1", "do": "ok" }).to_string(),
        error.to_string(),
        no_json.to_owned(),
        json!({ "id": "limit", "do": "limit", "seconds": 3 }).to_string(),
        panic.to_string(),
        json!({ "id": "permanent", "do": "permanent" }).to_string(),
        json!({ "id": "sleep", "do": "sleep", "ms": 500 }).to_string(),
        no_task.to_owned(),
        json!({ "id": "call", "do": "call", "account": "acme" }).to_string(),
        json!({ "id": "ok-2", "do": "ok" }).to_string(),
    ])
    .await?;
    rig.start().await?;

    let limited = rig.runs_of("limit", 2, SOON).await?;
    assert_none_early(&limited);
    assert_eq!((limited[1].receive_count, limited[1].deferrals), (Some(1), 1));
    let dead = rig.dead(5).await?;
    let dead: BTreeSet<_> = dead.iter().filter_map(|message| message.body()).collect();
    let (error, panic) = (error.to_string(), panic.to_string());
    let permanent = json!({ "id": "permanent", "do": "permanent" }).to_string();
    let want = [
        error.as_str(),
        panic.as_str(),
        permanent.as_str(),
        no_json,
        no_task,
    ];
    assert_eq!(dead, BTreeSet::from(want));
    rig.is_empty().await?;

    let mut runs = BTreeMap::new();
    for run in rig.recorder.runs() {
        *runs.entry(run.id).or_insert(0) += 1;
    }
    let runs: Vec<_> = runs.iter().map(|(id, count)| (id.as_str(), *count)).collect();
    let want = [
        ("call", 1),
        ("error", 2),
        ("limit", 2),
        ("ok-1", 1),
        ("ok-2", 1),
        ("panic", 2),
        ("permanent", 1),
        ("sleep", 1),
    ];
    assert_eq!(runs, want, "what is done does not run again, what failed does");

    // Of the first batch: who failed was reported failed, in one answer.
    let failed = rig.events("frigg.worker.record_failed").await?;
    let (first, second): (Vec<_>, Vec<_>) = failed.iter().partition(|line| line["receiveCount"] == 1);
    assert_eq!((first.len(), second.len()), (2, 2), "{failed:?}");
    if rig.emulator.runs_lambda() {
        let invocations: BTreeSet<_> = first.iter().map(|line| line["requestId"].to_string()).collect();
        assert_eq!(invocations.len(), 1, "all ten came at once: {first:?}");
    }
    // What nothing cures went to the dead-letter queue at once.
    assert_eq!(rig.events("frigg.worker.record_halted").await?.len(), 1);
    assert_eq!(rig.events("frigg.worker.record_dead_lettered").await?.len(), 2);
    rig.end().await
}
