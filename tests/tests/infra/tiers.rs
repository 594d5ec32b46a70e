//! Each way back to the queue, on the stack.

use std::time::Duration;

use anyhow::Result;
use frigg_tests::emulator::{Emulator, QueueSpec};
use serde_json::json;

use crate::rig::{Rig, SOON};

const LATER: Duration = Duration::from_secs(65 + 60);

#[tokio::test]
async fn a_standard_stack_delays_and_schedules() -> Result<()> {
    let rig = Rig::new(Emulator::shared().await?, |spec| spec).await?;
    rig.send(&json!({ "id": "soon", "do": "limit", "seconds": 3 }), None)
        .await?;
    rig.send(&json!({ "id": "later", "do": "limit", "seconds": 65 }), None)
        .await?;
    let runs = rig.runs_of("soon", 2, SOON).await?;
    assert_eq!((runs[1].deferrals, runs[1].receive_count), (1, Some(1)));
    let group = rig.stack.output("ScheduleGroup")?.to_owned();
    assert_eq!(rig.emulator.schedule_names(&group).await?.len(), 1);
    let runs = rig.runs_of("later", 2, LATER).await?;
    assert_eq!((runs[1].deferrals, runs[1].receive_count), (1, Some(1)));
    let metrics = [
        ("Deferred by delay", 1),
        ("Deferred by schedule", 1),
        ("Succeeded", 2),
        ("HandlerMs", 4),
        ("DeferralLatenessMs", 2),
    ];
    rig.metrics_are(&metrics).await?;
    rig.ends_empty().await
}

#[tokio::test]
async fn a_stack_without_the_scheduler_hides() -> Result<()> {
    let rig = Rig::new(Emulator::shared().await?, |spec| spec.with("Scheduler", "no")).await?;
    rig.send(&json!({ "id": "later", "do": "limit", "seconds": 65 }), None)
        .await?;
    let runs = rig.runs_of("later", 2, LATER).await?;
    assert_eq!((runs[1].deferrals, runs[1].receive_count), (0, Some(2)));
    rig.metrics_are(&[("Deferred by visibility", 1), ("Succeeded", 1), ("HandlerMs", 2)])
        .await?;
    rig.ends_empty().await
}

#[tokio::test]
async fn a_fifo_stack_hides_and_keeps_order() -> Result<()> {
    let rig = Rig::new(Emulator::shared().await?, |spec| spec.with("Fifo", "yes")).await?;
    rig.send(&json!({ "id": "a", "do": "limit", "seconds": 4 }), Some("g"))
        .await?;
    rig.runs_of("a", 1, SOON).await?;
    rig.send(&json!({ "id": "b", "do": "ok" }), Some("g")).await?;
    let runs = rig.runs_of("a", 2, SOON).await?;
    assert_eq!((runs[1].deferrals, runs[1].receive_count), (0, Some(2)));
    let next = rig.runs_of("b", 1, SOON).await?;
    assert!(next[0].at >= runs[1].at, "out of order");
    rig.ends_empty().await
}

#[tokio::test]
async fn an_existing_queue_serves_as_well() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let spec = QueueSpec::standard("existing").with_visibility(60);
    let queue = emulator.create_queue(&spec).await?;
    let rig = Rig::new(emulator, |spec| spec.with("ExistingQueueArn", &queue.arn)).await?;
    assert_eq!(rig.queue.arn, queue.arn);
    rig.send(&json!({ "id": "soon", "do": "limit", "seconds": 3 }), None)
        .await?;
    rig.runs_of("soon", 2, SOON).await?;
    rig.ends_empty().await?;
    // It was there before the stack, and is there after it.
    emulator.attributes(&queue.url).await.map(drop)
}
