//! The harness itself: an emulator starts, does what its flavour can do, and ends with everything that it started.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_scheduler::types::{FlexibleTimeWindow, FlexibleTimeWindowMode, Target};
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use frigg_tests::clock;
use frigg_tests::emulator::{Bootstrap, Depth, Emulator, FunctionSpec, QueueSpec};
use frigg_tests::wait::wait_until;
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

async fn send(emulator: &Emulator, queue_url: &str, body: &str) -> Result<()> {
    emulator
        .sqs()
        .send_message()
        .queue_url(queue_url)
        .message_body(body)
        .send()
        .await
        .context("failed to send")?;
    Ok(())
}

#[tokio::test]
async fn queues_are_created_counted_and_drained() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let spec = QueueSpec::standard("plain")
        .with_visibility(7)
        .with_max_receives(2);
    let queue = emulator.create_queue(&spec).await?;
    assert_eq!(
        emulator
            .attribute(&queue.url, QueueAttributeName::VisibilityTimeout)
            .await?,
        "7"
    );
    let redrive = emulator
        .attribute(&queue.url, QueueAttributeName::RedrivePolicy)
        .await?;
    assert!(redrive.contains(&queue.dead_letters()?.arn), "{redrive}");

    send(emulator, &queue.url, "a").await?;
    send(emulator, &queue.url, "b").await?;
    let delayed = emulator
        .sqs()
        .send_message()
        .queue_url(&queue.url)
        .message_body("c")
        .delay_seconds(60);
    delayed.send().await?;
    assert_eq!(
        emulator.depth(&queue.url).await?,
        Depth {
            visible: 2,
            in_flight: 0,
            delayed: 1
        }
    );
    assert_eq!(emulator.drain(&queue.url).await?.len(), 2);
    assert_eq!(emulator.depth(&queue.url).await?.total(), 1);
    Ok(())
}

#[tokio::test]
async fn a_fifo_queue_holds_its_groups() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let queue = emulator.create_queue(&QueueSpec::fifo("ordered")).await?;
    for body in ["1", "2"] {
        let send = emulator
            .sqs()
            .send_message()
            .queue_url(&queue.url)
            .message_body(body)
            .message_group_id("g");
        send.send().await?;
    }
    let received = emulator.receive(&queue.url, 1).await?;
    assert_eq!(received[0].body.as_deref(), Some("1"));
    let attributes = received[0].attributes.as_ref().context("no attributes")?;
    assert_eq!(attributes[&MessageSystemAttributeName::MessageGroupId], "g");
    Ok(())
}

#[tokio::test]
async fn a_schedule_is_created_and_fires_where_the_emulator_can() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let queue = emulator.create_queue(&QueueSpec::standard("target")).await?;
    let role = emulator.create_scheduler_role("scheduler").await?;
    let group = emulator.create_schedule_group("group").await?;
    let at = clock::now() + Duration::from_secs(2);
    let window = FlexibleTimeWindow::builder()
        .mode(FlexibleTimeWindowMode::Off)
        .build()?;
    let target = Target::builder()
        .arn(&queue.arn)
        .role_arn(role)
        .input(r#"{"id":1}"#)
        .build()?;
    emulator
        .scheduler()
        .create_schedule()
        .name("one")
        .group_name(&group)
        .schedule_expression(format!("at({})", at.strftime("%Y-%m-%dT%H:%M:%S")))
        .flexible_time_window(window)
        .target(target)
        .action_after_completion("DELETE".into())
        .send()
        .await?;
    assert_eq!(emulator.schedule_names(&group).await?, ["one"]);
    let schedule = emulator
        .schedule(&group, "one")
        .await?
        .context("no such schedule")?;
    assert_eq!(
        schedule.target.and_then(|target| target.input).as_deref(),
        Some(r#"{"id":1}"#)
    );
    assert!(emulator.schedule(&group, "other").await?.is_none());
    if !emulator.fires_schedules() {
        return Ok(());
    }
    wait_until(SOON, "the schedule is gone", async || {
        Ok(emulator.schedule(&group, "one").await?.is_none())
    })
    .await?;
    let fired = emulator.receive(&queue.url, 2).await?;
    assert_eq!(fired[0].body.as_deref(), Some(r#"{"id":1}"#));
    Ok(())
}

#[tokio::test]
async fn a_function_runs_behind_a_queue_and_dies_when_killed() -> Result<()> {
    let emulator = Emulator::shared().await?;
    if !emulator.runs_lambda() {
        return Ok(());
    }
    let queue = emulator
        .create_queue(
            &QueueSpec::standard("events")
                .with_visibility(2)
                .with_max_receives(2),
        )
        .await?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/echo.py");
    let spec = FunctionSpec::new("echo", Bootstrap::package(program)?)
        .with_timeout(2)
        .with_env("SAYS", "hello");
    let function = emulator.deploy(&spec).await?;
    let mapping = emulator.map_queue(&function, &queue, 10).await?;
    send(emulator, &queue.url, "fine").await?;
    send(emulator, &queue.url, "fail").await?;
    let dead = &queue.dead_letters()?.url;
    wait_until(SOON, "the failing one is dead", async || {
        Ok(emulator.depth(dead).await?.visible == 1)
    })
    .await?;
    emulator.wait_until_empty(&queue.url, SOON).await?;

    let lines = emulator.events(&function, "echo").await?;
    let seen = |body: &str| lines.iter().filter(|line| line["body"] == body).count();
    assert_eq!((seen("fine"), seen("fail")), (1, 2), "{lines:?}");
    assert_eq!(lines[0]["says"], "hello");
    assert_eq!(
        lines[0]["endpoint"],
        emulator.endpoint(),
        "a function finds the emulator"
    );

    assert!(
        emulator.kill_function(&function)? >= 1,
        "a mapping may have started several"
    );
    assert_eq!(
        emulator.invoke(&function, &json!({})).await?,
        json!({ "batchItemFailures": [] }),
        "a new process"
    );
    emulator.delete_mapping(&mapping).await?;
    emulator.delete_function(&function).await?;
    wait_until(SOON, "its process is gone", async || {
        Ok(emulator.function_processes(&function)?.is_empty())
    })
    .await
}

#[tokio::test]
async fn a_private_emulator_is_gone_after_stop() -> Result<()> {
    let emulator = Emulator::start_with(Default::default()).await?;
    let endpoint = emulator.endpoint().to_owned();
    let flavour = emulator.flavour();
    emulator.stop().await?;
    assert!(Emulator::attach(flavour, endpoint).await.is_err());
    Ok(())
}
