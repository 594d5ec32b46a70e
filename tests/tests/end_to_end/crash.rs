//! Workers that are killed in the middle. Each message runs at least once more, and none is lost.
//!
//! A killed worker's outstanding receive may still take a message with it, unseen, for one visibility timeout: receive
//! counts go up by more than one.

use anyhow::Result;
use frigg_tests::emulator::QueueSpec;
use frigg_tests::proxy::Moment;
use frigg_tests::wait::wait_until;
use serde_json::json;

use crate::rig::{Rig, SOON};

/// Kills a worker that polls while it sends its copy, and lets another one go on.
async fn killed_while_it_sends(moment: Moment) -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("killed").with_max_receives(10), 5).await?;
    rig.send(&json!({ "id": "a", "do": "limit", "seconds": 2 }))
        .await?;

    let mut held = rig.proxy.hold("SendMessageBatch", moment);
    let mut worker = rig.poll()?;
    held.reached(SOON).await?;
    worker.kill().await?;
    drop(held);
    assert_eq!(rig.recorder.runs_of("a").len(), 1);
    assert!(
        rig.proxy.calls_of("DeleteMessageBatch").is_empty(),
        "deleted before it was safe"
    );
    let sent = rig.proxy.calls_of("SendMessageBatch").len();
    assert_eq!(sent, usize::from(moment == Moment::After));
    let total = rig.emulator.depth(&rig.queue.url).await?.total();
    assert_eq!(total, 1 + sent as u64, "the message, and its copy if it was sent");

    let mut second = rig.poll()?;
    let runs = rig.runs_of("a", 2 + sent, SOON).await?;
    rig.ends_empty().await?;
    second.kill().await?;
    let told = runs[0].told;
    let copies: Vec<_> = runs.iter().filter(|run| run.deferrals == 1).collect();
    assert_eq!(copies.len(), sent);
    assert!(copies.iter().all(|run| Some(run.at) >= told), "early: {runs:?}");
    assert!(
        runs.iter().any(|run| run.receive_count > Some(1)),
        "the message itself comes again: {runs:?}"
    );
    Ok(())
}

#[tokio::test]
async fn killed_between_send_and_delete_it_runs_once_more() -> Result<()> {
    killed_while_it_sends(Moment::After).await
}

#[tokio::test]
async fn killed_before_the_send_it_is_still_in_the_queue() -> Result<()> {
    killed_while_it_sends(Moment::Before).await
}

#[tokio::test]
async fn a_function_killed_between_send_and_answer_loses_nothing() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("killed-function").with_max_receives(10), 5).await?;
    if !rig.emulator.runs_lambda() {
        return Ok(());
    }
    rig.send(&json!({ "id": "a", "do": "limit", "seconds": 2 }))
        .await?;

    let mut held = rig.proxy.hold("SendMessageBatch", Moment::After);
    let (function, mapping) = rig.deploy().await?;
    held.reached(SOON).await?;
    assert!(rig.emulator.kill_function(&function)? >= 1);
    drop(held);

    let runs = rig.runs_of("a", 3, SOON).await?;
    rig.ends_empty().await?;
    assert!(
        runs.iter()
            .filter(|run| run.deferrals == 1)
            .all(|run| Some(run.at) >= runs[0].told),
        "early: {runs:?}"
    );
    assert!(runs.iter().any(|run| run.deferrals == 1), "the copy: {runs:?}");
    assert!(
        runs.iter().any(|run| run.receive_count > Some(1)),
        "the message itself: {runs:?}"
    );
    rig.emulator.delete_mapping(&mapping).await?;
    rig.emulator.delete_function(&function).await
}

#[tokio::test]
async fn a_function_killed_in_the_middle_of_a_batch_gets_it_again() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("killed-batch"), 6).await?;
    if !rig.emulator.runs_lambda() {
        return Ok(());
    }
    let body = |id: &str, ms: u32| json!({ "id": id, "do": "sleep", "ms": ms }).to_string();
    rig.send_batch(&[body("slow", 3000), body("fast-1", 1), body("fast-2", 1)])
        .await?;
    let (function, mapping) = rig.deploy().await?;
    wait_until(SOON, "two are done, and one is not", async || {
        let runs = rig.recorder.runs();
        Ok(runs.len() == 3 && runs.iter().filter(|run| run.ended_at.is_some()).count() == 2)
    })
    .await?;
    assert!(rig.emulator.kill_function(&function)? >= 1);

    for id in ["slow", "fast-1", "fast-2"] {
        let runs = rig.runs_of(id, 2, SOON).await?;
        assert_eq!(
            (runs[0].receive_count, runs[1].receive_count),
            (Some(1), Some(2)),
            "{id}"
        );
    }
    rig.ends_empty().await?;
    let done = rig.recorder.runs_of("slow");
    assert!(
        done[0].ended_at.is_none() && done[1].ended_at.is_some(),
        "{done:?}"
    );
    rig.emulator.delete_mapping(&mapping).await?;
    rig.emulator.delete_function(&function).await
}
