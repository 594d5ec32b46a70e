//! A queue that does not answer: at the start, in between, and when the worker has to stop.

use std::time::Duration;

use anyhow::Result;
use frigg_tests::clock;
use frigg_tests::emulator::QueueSpec;
use frigg_tests::wait::wait_until;
use serde_json::json;
use tokio::time::sleep;

use crate::rig::{Rig, SOON};

#[tokio::test]
async fn an_unreachable_queue_is_waited_for_without_a_flood() -> Result<()> {
    const DOWN: Duration = Duration::from_secs(15);
    // A call is three attempts, and comes after pauses of 1, 2, 4 and 8 s: at most five of them in that time.
    const MOST: usize = 16;
    let mut rig = Rig::new(QueueSpec::standard("unreachable"), 30).await?;
    let start = clock::now();
    rig.proxy.cut();
    let mut worker = rig.poll()?;
    wait_until(SOON, "it tries", async || Ok(rig.proxy.refused() > 0)).await?;
    sleep(DOWN).await;
    let tried = rig.proxy.refused();
    assert!(tried <= MOST, "{tried} attempts in {DOWN:?}");
    let troubles = worker.troubles();
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert_eq!(troubles[0]["eventName"], "frigg.worker.queue_unreachable");

    rig.proxy.mend();
    rig.send(&json!({ "id": "a", "do": "ok" })).await?;
    rig.runs_of("a", 1, SOON).await?;
    rig.is_empty().await?;
    rig.proxy.cut();
    sleep(DOWN).await;
    assert!(rig.proxy.refused() > tried, "it tries again");
    let again = rig.proxy.refused() - tried;
    assert!(again <= MOST, "{again} attempts in {DOWN:?}");
    rig.send(&json!({ "id": "b", "do": "ok" })).await?;
    rig.proxy.mend();
    rig.runs_of("b", 1, SOON).await?;
    rig.is_empty().await?;

    rig.proxy.cut();
    worker.signal("TERM").await?;
    let status = worker.ended(SOON).await?;
    assert_eq!(status.code(), Some(0), "{status}: {:?}", worker.lines());
    let minutes = clock::now().duration_since(start).as_secs() / 60;
    let troubles = worker.troubles();
    assert!(
        troubles.len() as i64 <= 1 + minutes,
        "more than one WARN a minute: {troubles:?}"
    );
    rig.ends_empty().await
}

#[tokio::test]
async fn a_stop_is_heard_while_the_queue_was_never_there() -> Result<()> {
    let rig = Rig::new(QueueSpec::standard("never"), 30).await?;
    rig.proxy.cut();
    let mut worker = rig.poll()?;
    wait_until(SOON, "it has given up once", async || {
        Ok(!worker.troubles().is_empty())
    })
    .await?;
    worker.signal("TERM").await?;
    let status = worker.ended(Duration::from_secs(10)).await?;
    assert_eq!(status.code(), Some(0), "{status}: {:?}", worker.lines());
    Ok(())
}
