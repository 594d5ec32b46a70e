//! New user warnings, announced: a topic and a bus of the emulator, each with a queue behind it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use frigg_requester::Requester;
use frigg_tests::emulator::{Emulator, Queue, QueueSpec};
use frigg_tests::provider::{ProviderConfig, ThrottlingProvider};
use frigg_tests::wait::wait_until;
use frigg_worker::core::rate_limit::Reason;
use frigg_worker::core::scope::Scope;
use frigg_worker::core::time::parse_iso;
use frigg_worker::testing::MemoryState;
use frigg_worker::warnings::{Announce, Warning, WarningStore, Warnings};
use frigg_worker::{Clock, DynamoState, EventBus, Topic};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::rig::SOON;
use crate::tables::{aws, text};

fn warning() -> Result<Warning> {
    Ok(Warning {
        module: "hubspot".to_owned(),
        reason: Reason::Daily,
        retry_at: parse_iso("2026-09-28T23:00:00.000Z").context("a time")?,
        links: vec![("Limits".to_owned(), "https://example.com/limits".to_owned())],
    })
}

/// The bodies that have come, once there is one; a moment later still no more of them.
async fn bodies(emulator: &Emulator, queue: &Queue) -> Result<Vec<Value>> {
    let depth = async || anyhow::Ok(emulator.depth(&queue.url).await?.total());
    wait_until(SOON, "the announcement comes", async || Ok(depth().await? > 0)).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let received = emulator
        .sqs()
        .receive_message()
        .queue_url(&queue.url)
        .max_number_of_messages(10)
        .send()
        .await?;
    let bodies = received.messages().iter().filter_map(|message| message.body());
    bodies
        .map(|body| serde_json::from_str(body).context("a body that is no JSON"))
        .collect()
}

/// Records the same warning twice. What is stored for the integration.
async fn record(emulator: &Emulator, announce: Arc<dyn Announce>) -> Result<Vec<Value>> {
    let table = emulator.create_table("announced").await?;
    let store = Arc::new(DynamoState::new(aws(emulator), &table, Clock::system()));
    let warnings = Warnings::new(Arc::clone(&store) as _).with_announce(announce);
    let now: Timestamp = "2026-09-28T12:00:00Z".parse()?;
    for _ in 0..2 {
        warnings.record("7", &warning()?, now).await;
    }
    let stored = WarningStore::read(&*store, "7").await;
    Ok(stored.map_err(text)?.list())
}

#[tokio::test]
async fn a_warning_is_published_to_a_topic_once() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let queue = emulator.create_queue(&QueueSpec::standard("users")).await?;
    let topic = emulator.create_topic("users").await?;
    emulator.subscribe(&topic, &queue).await?;
    let stored = record(emulator, Arc::new(Topic::new(aws(emulator), &topic))).await?;
    let came = bodies(emulator, &queue).await?;
    assert_eq!(came.len(), 1, "{came:?}");
    // As SNS wraps it.
    let message: Value = serde_json::from_str(came[0]["Message"].as_str().context("a message")?)?;
    assert_eq!(message, json!({ "integrationId": "7", "warning": stored[0] }));
    assert_eq!(stored[0]["retryAt"], "2026-09-28T23:00:00.000Z");
    let attribute = |name: &str| came[0]["MessageAttributes"][name]["Value"].clone();
    assert_eq!(
        (
            attribute("code"),
            attribute("module"),
            attribute("reason"),
            &came[0]["Subject"]
        ),
        (
            json!("RATE_LIMITED"),
            json!("hubspot"),
            json!("daily"),
            &stored[0]["title"]
        )
    );
    Ok(())
}

#[tokio::test]
async fn a_warning_is_put_on_a_bus_once() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let queue = emulator.create_queue(&QueueSpec::standard("bus")).await?;
    let bus = emulator.create_bus("users").await?;
    let pattern = json!({ "source": ["frigg"], "detail-type": ["RATE_LIMITED"] });
    emulator.route(&bus, &pattern, &queue).await?;
    let stored = record(emulator, Arc::new(EventBus::new(aws(emulator), &bus))).await?;
    let came = bodies(emulator, &queue).await?;
    assert_eq!(came.len(), 1, "{came:?}");
    assert_eq!(
        came[0]["detail"],
        json!({ "integrationId": "7", "warning": stored[0] })
    );
    Ok(())
}

/// What cannot be announced is stored, and one line says so.
#[tokio::test]
async fn a_topic_that_is_not_there_costs_a_line_and_nothing_else() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let missing = format!(
        "arn:aws:sns:{}:000000000000:nobody",
        frigg_tests::emulator::REGION
    );
    let (logs, guard) = frigg_worker::testing::Logs::capture();
    let stored = record(emulator, Arc::new(Topic::new(aws(emulator), missing))).await?;
    drop(guard);
    let lines = logs.of_event("frigg.integrations.rate_limit_message_record_failed");
    assert_eq!((stored.len(), lines.len()), (1, 1), "{logs:?}");
    Ok(())
}

/// One line of a program that is no worker: `notify(warnings.of_integration(…))`.
#[tokio::test]
async fn a_requester_tells_the_users_of_an_integration() -> Result<()> {
    let provider = ThrottlingProvider::start(ProviderConfig::default()).await?;
    provider.close_for("daily", Duration::from_secs(3_600));
    provider.close_for("burst", Duration::from_secs(50));
    let store = Arc::new(MemoryState::new(Clock::system()));
    let warnings = Warnings::new(Arc::clone(&store) as _);
    let crm = Requester::builder(provider.url())
        .module("crm")
        .notify(warnings.of_integration("7"))
        .build()?;
    let no_wait = Scope {
        deadline: None,
        max_in_process_wait: Some(Duration::ZERO),
    };
    for path in ["burst", "daily", "daily"] {
        let call = no_wait.run(async { crm.get(path).send().await.map(drop) });
        assert!(call.await.is_err(), "{path}");
    }
    let stored = WarningStore::read(&*store, "7").await.map_err(text)?.list();
    assert_eq!(
        stored.len(),
        1,
        "a minute is no news, and the second says nothing new: {stored:?}"
    );
    assert_eq!(
        (&stored[0]["module"], &stored[0]["code"]),
        (&json!("crm"), &json!("RATE_LIMITED"))
    );
    Ok(())
}
