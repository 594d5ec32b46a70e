//! The three ways back, each from the limit to the run after it.

use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_scheduler::operation::get_schedule::GetScheduleOutput;
use aws_sdk_scheduler::types::{ActionAfterCompletion, FlexibleTimeWindowMode};
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageAttributeValue;
use frigg_tests::clock;
use frigg_tests::emulator::QueueSpec;
use frigg_tests::provider::{ProviderConfig, Rule, ThrottlingProvider, Window};
use frigg_tests::secrets;
use frigg_tests::wait::{wait_for, wait_until};
use frigg_worker::core::time;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::rig::{Rig, SOON, assert_none_early};

fn attribute(data_type: &str) -> aws_sdk_sqs::types::builders::MessageAttributeValueBuilder {
    MessageAttributeValue::builder().data_type(data_type)
}

/// `at`, and no later than `bound` after it.
fn assert_between(at: Timestamp, told: Timestamp, bound: Duration) {
    assert!(at >= told, "{at} is before {told}");
    assert!(at <= told + bound, "{at} is more than {bound:?} after {told}");
}

#[tokio::test]
async fn tier_delay() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("delay"), 10).await?;
    rig.start().await?;
    let body = secrets::planted(&json!({ "id": "a", "do": "limit", "seconds": 3, "note": "1.0 <>" }));
    let send = rig
        .emulator
        .sqs()
        .send_message()
        .queue_url(&rig.queue.url)
        .message_body(body.to_string())
        .message_attributes("tenant", attribute("String").string_value("acme").build()?)
        .message_attributes("key", attribute("Binary").binary_value(Blob::new("k1")).build()?);
    let id = send.send().await?.message_id.context("no message id")?;

    let runs = rig.runs_of("a", 2, SOON).await?;
    let (first, second) = (&runs[0], &runs[1]);
    let told = first.told.context("the first run is limited")?;
    assert_between(second.at, told, SOON);
    assert_eq!((first.receive_count, first.deferrals), (Some(1), 0));
    assert_eq!(
        (second.receive_count, second.deferrals),
        (Some(1), 1),
        "no receive is spent"
    );
    assert_eq!(second.retry_at, Some(time::ceil_to_millisecond(told)));
    assert_eq!(second.deferral_id.as_ref(), Some(&id));
    let deferred_at = second.first_deferred_at.context("no firstDeferredAt")?;
    assert!(first.at <= deferred_at && deferred_at <= told, "{deferred_at}");
    assert_ne!(second.message_id, id, "it is a copy");
    assert_eq!(json!(second.body), body, "the handler sees no envelope");
    assert_eq!(first.attributes.len(), 2, "{first:?}");
    assert_eq!(second.attributes, first.attributes);
    rig.ends_empty().await
}

#[tokio::test]
async fn tier_delay_of_what_a_provider_says() -> Result<()> {
    let window = Window::rolling(2, Duration::from_secs(3));
    let provider =
        ThrottlingProvider::start(ProviderConfig::default().with_rule("acme", Rule::window(window))).await?;
    let mut rig = Rig::new(QueueSpec::standard("provider"), 10).await?;
    rig.set("PROVIDER_URL", provider.url());
    rig.start().await?;
    let ids: Vec<_> = (0..5).map(|n| format!("c{n}")).collect();
    let bodies = ids
        .iter()
        .map(|id| json!({ "id": id, "do": "call", "account": format!("acme/{id}") }).to_string());
    rig.send_batch(&bodies.collect::<Vec<_>>()).await?;

    for id in &ids {
        let path = format!("/acme/{id}");
        let what = format!("{path} is served");
        let calls = wait_for(SOON, &what, async || {
            let mut calls = provider.calls_of("acme");
            calls.retain(|call| call.path == path);
            Ok(calls.last().is_some_and(|call| call.accepted).then_some(calls))
        })
        .await?;
        for pair in calls.windows(2) {
            assert!(Some(pair[1].at) >= pair[0].retry_at, "early: {calls:?}");
        }
    }
    rig.ends_empty().await?;
    let calls = provider.calls_of("acme");
    assert_eq!(
        calls.iter().filter(|call| call.accepted).count(),
        ids.len(),
        "each is done once: {calls:?}"
    );
    assert!(calls.len() > ids.len(), "some were refused: {calls:?}");
    Ok(())
}

#[tokio::test]
async fn tier_early_arrival() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("early"), 10).await?;
    rig.start().await?;
    let now = clock::now();
    let retry_at = time::ceil_to_millisecond(now + Duration::from_secs(4));
    let envelope = json!({
        "deferrals": 1,
        "firstDeferredAt": time::iso(now),
        "deferralId": "the-first",
        "retryAt": time::iso(retry_at),
    });
    rig.send(&json!({ "id": "a", "do": "ok", "_frigg": envelope }))
        .await?;
    let runs = rig.runs_of("a", 1, SOON).await?;
    assert_none_early(&runs);
    assert_eq!(runs[0].retry_at, Some(retry_at));
    assert_eq!(
        (runs[0].receive_count, runs[0].deferrals),
        (Some(1), 1),
        "it is not counted"
    );
    assert_eq!(runs[0].deferral_id.as_deref(), Some("the-first"));
    rig.ends_empty().await?;
    assert_eq!(rig.recorder.runs().len(), 1);
    Ok(())
}

/// A rig with the schedule tier, and a minute as the longest delay.
struct Scheduled {
    rig: Rig,
    group: String,
    role: String,
    undelivered: String,
}

impl Scheduled {
    async fn new(name: &str) -> Result<Self> {
        let mut rig = Rig::new(QueueSpec::standard(name), 10).await?;
        let role = rig.emulator.create_scheduler_role(name).await?;
        let group = rig.emulator.create_schedule_group(name).await?;
        let undelivered = QueueSpec::standard(format!("{name}-undelivered")).without_dead_letters();
        let undelivered = rig.emulator.create_queue(&undelivered).await?.arn;
        rig.set("FRIGG_MAX_DELAY_SECONDS", "60");
        rig.set("SCHEDULER_ROLE_ARN", &role);
        rig.set("SCHEDULE_GROUP_NAME", &group);
        rig.set("FRIGG_SCHEDULE_DLQ_ARN", &undelivered);
        rig.start().await?;
        Ok(Self {
            rig,
            group,
            role,
            undelivered,
        })
    }

    /// Waits for a message's schedule, and asserts all but its target and input.
    async fn schedule(&self, message_id: &str, told: Timestamp) -> Result<GetScheduleOutput> {
        let (emulator, group) = (self.rig.emulator, &self.group);
        let name = format!("frigg-defer-{message_id}");
        let schedule = wait_for(SOON, "there is a schedule", async || {
            emulator.schedule(group, &name).await
        })
        .await?;
        assert_eq!(emulator.schedule_names(group).await?, [name]);
        assert_eq!(schedule.group_name(), Some(group.as_str()));
        let at = time::ceil_to_second(told).strftime("%Y-%m-%dT%H:%M:%S");
        assert_eq!(schedule.schedule_expression(), Some(format!("at({at})").as_str()));
        assert_eq!(schedule.schedule_expression_timezone(), Some("UTC"));
        assert_eq!(
            schedule.action_after_completion(),
            Some(&ActionAfterCompletion::Delete)
        );
        let window = schedule.flexible_time_window().context("no time window")?;
        assert_eq!(window.mode(), &FlexibleTimeWindowMode::Off);
        let target = schedule.target().context("no target")?;
        assert_eq!(target.role_arn(), self.role);
        let dead_letters = target.dead_letter_config().and_then(|config| config.arn());
        assert_eq!(dead_letters, Some(self.undelivered.as_str()));
        let retries = target.retry_policy().context("no retry policy")?;
        assert_eq!(retries.maximum_event_age_in_seconds(), Some(3600));
        assert_eq!(retries.maximum_retry_attempts(), Some(10));
        self.rig
            .is_empty()
            .await
            .context("acknowledged once it is scheduled")?;
        Ok(schedule)
    }

    /// What the scheduler does when the time has come, done by hand.
    async fn delete(&self, schedule: &GetScheduleOutput) -> Result<()> {
        let delete = self.rig.emulator.scheduler().delete_schedule();
        let delete = delete.set_name(schedule.name.clone()).group_name(&self.group);
        delete.send().await?;
        Ok(())
    }
}

fn input(schedule: &GetScheduleOutput) -> Result<Value> {
    let input = schedule
        .target()
        .and_then(|target| target.input())
        .context("no input")?;
    serde_json::from_str(input).with_context(|| format!("no JSON: {input}"))
}

async fn sleep_until(at: Timestamp) {
    sleep(Duration::try_from(at.duration_since(clock::now())).unwrap_or_default()).await;
}

#[tokio::test]
async fn tier_schedule() -> Result<()> {
    let mut scheduled = Scheduled::new("schedule").await?;
    let body = secrets::planted(&json!({ "id": "a", "do": "limit", "seconds": 65 }));
    let id = scheduled.rig.send(&body).await?;
    let first = scheduled.rig.runs_of("a", 1, SOON).await?.remove(0);
    let told = first.told.context("the first run is limited")?;

    let schedule = scheduled.schedule(&id, told).await?;
    let target = schedule.target().context("no target")?;
    assert_eq!(target.arn(), scheduled.rig.queue.arn);
    let mut input = input(&schedule)?;
    let envelope = input["_frigg"].take();
    let mut unchanged = body.clone();
    unchanged["_frigg"] = Value::Null;
    assert_eq!(input, unchanged);
    assert_eq!(envelope["deferrals"], 1);
    assert_eq!(envelope["deferralId"], id);
    assert_eq!(envelope["retryAt"], time::iso(time::ceil_to_millisecond(told)));

    let rig = &mut scheduled.rig;
    if !rig.emulator.fires_schedules() {
        sleep_until(told).await;
        rig.send_text(target.input().context("no input")?).await?;
    }
    let runs = rig.runs_of("a", 2, Duration::from_secs(65) + SOON).await?;
    // AWS fires within a minute.
    assert_between(runs[1].at, told, SOON);
    assert_eq!((runs[1].receive_count, runs[1].deferrals), (Some(1), 1));
    assert_eq!(runs[1].deferral_id.as_ref(), Some(&id));
    assert_eq!(json!(runs[1].body), body);
    rig.ends_empty().await?;
    if scheduled.rig.emulator.fires_schedules() {
        wait_until(SOON, "the schedule is gone", async || {
            Ok(scheduled
                .rig
                .emulator
                .schedule_names(&scheduled.group)
                .await?
                .is_empty())
        })
        .await?;
    }
    Ok(())
}

/// The plain target carries a body only. No emulator fires the universal one, so its input is delivered by hand.
#[tokio::test]
async fn tier_schedule_with_attributes() -> Result<()> {
    let mut scheduled = Scheduled::new("attributes").await?;
    let body = json!({ "id": "a", "do": "limit", "seconds": 63, "note": "<aws.scheduler.execution-id>" });
    let body = secrets::planted(&body);
    let send = scheduled
        .rig
        .emulator
        .sqs()
        .send_message()
        .queue_url(&scheduled.rig.queue.url)
        .message_body(body.to_string())
        .message_attributes("tenant", attribute("String").string_value("acme").build()?);
    let id = send.send().await?.message_id.context("no message id")?;
    let first = scheduled.rig.runs_of("a", 1, SOON).await?.remove(0);
    let told = first.told.context("the first run is limited")?;

    let schedule = scheduled.schedule(&id, told).await?;
    let target = schedule.target().context("no target")?;
    assert_eq!(target.arn(), "arn:aws:scheduler:::aws-sdk:sqs:sendMessage");
    assert!(
        !target.input().unwrap_or_default().contains('<'),
        "the scheduler would substitute it"
    );
    let call = input(&schedule)?;
    assert_eq!(call["QueueUrl"], scheduled.rig.queue.url);
    let tenant = &call["MessageAttributes"]["tenant"];
    assert_eq!(*tenant, json!({ "DataType": "String", "StringValue": "acme" }));

    // The call that the scheduler would make, a few seconds early: as precise as it promises to be.
    scheduled.delete(&schedule).await?;
    sleep_until(told - Duration::from_secs(3)).await;
    let rig = &mut scheduled.rig;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let send = rig
        .emulator
        .sqs()
        .send_message()
        .queue_url(text(&call["QueueUrl"]))
        .message_body(text(&call["MessageBody"]))
        .message_attributes(
            "tenant",
            attribute("String")
                .string_value(text(&tenant["StringValue"]))
                .build()?,
        );
    send.send().await?;
    let runs = rig.runs_of("a", 2, SOON).await?;
    assert_between(runs[1].at, told, SOON);
    assert_eq!((runs[1].receive_count, runs[1].deferrals), (Some(1), 1));
    assert_eq!(runs[1].attributes, first.attributes);
    assert_eq!(json!(runs[1].body), body);
    rig.ends_empty().await
}

#[tokio::test]
async fn tier_visibility() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("visibility"), 10).await?;
    rig.set("FRIGG_MAX_DELAY_SECONDS", "60");
    rig.start().await?;
    rig.send(&json!({ "id": "a", "do": "limit", "seconds": 62 }))
        .await?;
    let first = rig.runs_of("a", 1, SOON).await?.remove(0);
    let told = first.told.context("the first run is limited")?;
    sleep_until(told - Duration::from_secs(10)).await;
    let depth = rig.emulator.depth(&rig.queue.url).await?;
    assert_eq!(
        (depth.in_flight, depth.total()),
        (1, 1),
        "hidden far past the queue's own 10 s"
    );

    let runs = rig.runs_of("a", 2, SOON).await?;
    assert_between(runs[1].at, told, SOON);
    assert_eq!(
        (runs[1].receive_count, runs[1].deferrals),
        (Some(2), 0),
        "the same message"
    );
    assert_eq!(runs[1].message_id, first.message_id);
    let extended = rig.events("frigg.worker.record_visibility_extended").await?;
    assert_eq!(extended.len(), 1, "{extended:?}");
    // What is left of 62 s: the call comes after the refusal.
    let seconds = extended[0]["visibilityTimeout"].as_u64().context("no timeout")?;
    assert!((40..=62).contains(&seconds), "{seconds}");
    rig.ends_empty().await
}

#[tokio::test]
async fn tier_visibility_of_a_fifo_queue() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::fifo("ordered").with_max_receives(33), 6).await?;
    for (group, body) in [
        ("g", json!({ "id": "head", "do": "limit", "seconds": 9 })),
        ("g", json!({ "id": "next", "do": "ok" })),
        ("h", json!({ "id": "other", "do": "ok" })),
    ] {
        let send = rig
            .emulator
            .sqs()
            .send_message()
            .queue_url(&rig.queue.url)
            .message_body(body.to_string())
            .message_group_id(group);
        send.send().await?;
    }
    rig.start().await?;
    let head = rig.runs_of("head", 2, SOON).await?;
    assert_between(
        head[1].at,
        head[0].told.context("the first run is limited")?,
        SOON,
    );
    assert_eq!(
        (head[1].receive_count, head[1].deferrals),
        (Some(2), 0),
        "held, not sent again"
    );
    assert_eq!(head[1].message_id, head[0].message_id);
    let next = rig.runs_of("next", 1, SOON).await?;
    if rig.emulator.flavour().holds_groups() {
        assert!(next[0].at >= head[1].at, "{next:?} overtook {head:?}");
    }
    let other = rig.runs_of("other", 1, SOON).await?;
    assert_eq!(other[0].receive_count, Some(1), "another group is not held");
    rig.ends_empty().await?;
    assert_eq!(rig.recorder.runs().len(), 4);
    Ok(())
}

#[tokio::test]
async fn tier_caps_end_in_the_dead_letter_queue() -> Result<()> {
    let mut rig = Rig::new(QueueSpec::standard("capped").with_max_receives(2), 4).await?;
    rig.set("FRIGG_QUEUE_MAX_DEFERRALS", "2");
    rig.start().await?;
    let id = rig
        .send(&json!({ "id": "a", "do": "limit", "seconds": 2, "times": 99 }))
        .await?;
    let dead = rig.dead(1).await?;
    let body: Value = serde_json::from_str(dead[0].body().context("no body")?)?;
    assert_eq!(
        (&body["id"], &body["_frigg"]),
        (&json!("a"), &Value::Null),
        "as its sender wrote it"
    );
    let attributes = dead[0].message_attributes().context("the reason")?;
    for (name, value) in [
        ("FriggReason", "deferral_capped"),
        ("FriggDeferrals", "2"),
        ("FriggMessageId", id.as_str()),
    ] {
        assert_eq!(attributes[name].string_value(), Some(value), "{name}");
    }

    let runs = rig.recorder.runs_of("a");
    let counts: Vec<_> = runs
        .iter()
        .map(|run| (run.deferrals, run.receive_count))
        .collect();
    assert_eq!(counts, [(0, Some(1)), (1, Some(1)), (2, Some(1)), (2, Some(2))]);
    // Past the cap it is an ordinary failure, which the queue delivers when it likes.
    assert_none_early(&runs[..3]);
    rig.is_empty().await?;
    assert_eq!(rig.events("frigg.worker.record_deferral_capped").await?.len(), 1);
    assert_eq!(
        rig.events("frigg.worker.record_lost_rate_limited").await?.len(),
        1
    );
    rig.end().await
}
