//! The worker that polls: it stops cleanly, deletes what is done, and keeps what is not.

use std::time::Duration;

use anyhow::Result;
use frigg_tests::emulator::QueueSpec;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::rig::{Rig, SOON};

/// An idle receive that is under way is awaited: 20 s, and some.
const STOP: Duration = Duration::from_secs(45);

fn entries(call: &frigg_tests::proxy::Call) -> usize {
    call.request["Entries"].as_array().map_or(0, Vec::len)
}

async fn stops_cleanly(signal: &str, concurrency: &str) -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("stopped"), 30).await?;
    rig.set("FRIGG_CONCURRENCY", concurrency);
    let mut worker = rig.poll()?;
    rig.send(&json!({ "id": "a", "do": "sleep", "ms": 3000 })).await?;
    rig.runs_of("a", 1, SOON).await?;
    sleep(Duration::from_secs(1)).await;
    worker.signal(signal).await?;
    let status = worker.ended(STOP).await?;

    assert_eq!(status.code(), Some(0), "{status}: {:?}", worker.lines());
    let runs = rig.recorder.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(runs[0].ended_at.is_some(), "the handler finished: {runs:?}");
    let deletes = rig.proxy.calls_of("DeleteMessageBatch");
    assert_eq!(deletes.iter().map(entries).sum::<usize>(), 1, "{deletes:?}");
    let sent = rig
        .proxy
        .calls()
        .iter()
        .filter(|call| call.operation.starts_with("SendMessage"))
        .count();
    assert_eq!(sent, 0, "no copies");
    assert_eq!(rig.emulator.depth(&rig.queue.url).await?.total(), 0);
    assert_eq!(worker.troubles(), [] as [Value; 0]);
    rig.ends_empty().await
}

#[tokio::test]
async fn poll_04_sigterm_lets_the_handler_finish_and_sends_nothing_again() -> Result<()> {
    // With free slots, a receive is under way too.
    stops_cleanly("TERM", "10").await
}

#[tokio::test]
async fn sigint_stops_as_sigterm_does() -> Result<()> {
    // Without one, nothing but the handler is waited for.
    stops_cleanly("INT", "1").await
}

#[tokio::test]
async fn poll_10_it_holds_no_more_than_it_can_handle() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("many"), 3).await?;
    rig.set("FRIGG_CONCURRENCY", "10");
    let bodies: Vec<_> = (0..60)
        .map(|n| json!({ "id": format!("m{n}"), "do": "sleep", "ms": 1000 }).to_string())
        .collect();
    for chunk in bodies.chunks(10) {
        rig.send_batch(chunk).await?;
    }
    let mut worker = rig.poll()?;
    rig.is_empty().await?;
    worker.kill().await?;

    let runs = rig.recorder.runs();
    assert_eq!(runs.len(), 60, "each once");
    let (mut received, mut most) = (0, 0);
    for call in rig.proxy.calls_of("ReceiveMessage") {
        assert_eq!(
            call.request.get("VisibilityTimeout"),
            None,
            "the queue's own value rules"
        );
        received += call.response["Messages"].as_array().map_or(0, Vec::len);
        let finished = runs
            .iter()
            .filter(|run| run.ended_at.is_some_and(|at| at <= call.at))
            .count();
        most = most.max(received - finished);
    }
    assert_eq!(received, 60);
    assert!(most <= 10, "{most} were held at once");
    rig.ends_empty().await
}

#[tokio::test]
async fn a_handler_longer_than_the_visibility_timeout_runs_once() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("long"), 10).await?;
    let mut worker = rig.poll()?;
    rig.send(&json!({ "id": "a", "do": "sleep", "ms": 21_000 }))
        .await?;
    let first = rig.runs_of("a", 1, SOON).await?.remove(0);
    rig.is_empty().await?;
    worker.kill().await?;
    let runs = rig.recorder.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(
        runs[0]
            .ended_at
            .is_some_and(|at| at >= first.at + Duration::from_secs(21))
    );
    let extended = rig.proxy.calls_of("ChangeMessageVisibilityBatch");
    assert!(
        (2..=6).contains(&extended.len()),
        "at half of the timeout: {extended:?}"
    );
    rig.ends_empty().await
}

#[tokio::test]
async fn what_is_done_is_deleted_in_batches_and_what_failed_is_left() -> Result<()> {
    let queue = QueueSpec::standard("batches").with_max_receives(2);
    let mut rig = Rig::new(queue, 4).await?;
    let body = |n: usize| {
        json!({ "id": format!("m{n}"), "do": if n.is_multiple_of(5) { "error" } else { "ok" } }).to_string()
    };
    rig.send_batch(&(0..10).map(body).collect::<Vec<_>>()).await?;
    let mut worker = rig.poll()?;
    let dead = rig.dead(2).await?;
    rig.is_empty().await?;
    worker.kill().await?;
    for message in dead {
        let body: Value = serde_json::from_str(message.body().unwrap_or_default())?;
        assert_eq!(body["do"], "error");
    }
    let deletes = rig.proxy.calls_of("DeleteMessageBatch");
    assert_eq!(deletes.iter().map(entries).sum::<usize>(), 8);
    assert!(deletes.len() <= 3, "one by one: {deletes:?}");
    assert!(rig.proxy.calls_of("DeleteMessage").is_empty());
    assert_eq!(rig.recorder.runs().len(), 8 + 2 * 2);
    rig.ends_empty().await
}
