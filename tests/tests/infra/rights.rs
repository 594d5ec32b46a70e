//! Least privilege, from both sides: on an emulator that enforces the roles everything works, and everything that the
//! function's role allows is used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use aws_sdk_scheduler::types::{FlexibleTimeWindow, FlexibleTimeWindowMode, Target};
use frigg_tests::emulator::{Emulator, EmulatorOptions};
use frigg_tests::proxy::{Call, Proxy};
use frigg_tests::wait::wait_until;
use serde_json::json;

use crate::rig::{Rig, SOON};
use crate::stack::{statements, texts};

/// What the function's role allows and the worker does not call by itself.
const NOT_CALLED: [(&str, &str); 7] = [
    (
        "sqs:ReceiveMessage",
        "the event source mapping receives with the function's role",
    ),
    (
        "sqs:DeleteMessage",
        "the event source mapping deletes with the function's role",
    ),
    (
        "iam:PassRole",
        "no call of its own: CreateSchedule hands the role over",
    ),
    (
        "logs:CreateLogStream",
        "Lambda writes the log with the function's role",
    ),
    (
        "logs:PutLogEvents",
        "Lambda writes the log with the function's role",
    ),
    (
        "xray:PutTraceSegments",
        "Lambda sends traces with the function's role",
    ),
    (
        "xray:PutTelemetryRecords",
        "Lambda sends traces with the function's role",
    ),
];

/// The action that a call needs.
fn action(operation: &str) -> String {
    let mut words = operation.split([' ', '/']).filter(|word| !word.is_empty());
    match (words.next(), words.next()) {
        (Some("POST"), Some("schedules")) => "scheduler:CreateSchedule".to_owned(),
        (Some("GET"), Some("schedules")) => "scheduler:GetSchedule".to_owned(),
        (Some(operation @ ("GetItem" | "UpdateItem")), None) => format!("dynamodb:{operation}"),
        (Some(operation), None) => format!("sqs:{}", operation.trim_end_matches("Batch")),
        _ => operation.to_owned(),
    }
}

#[tokio::test]
async fn the_function_may_do_what_it_does_and_no_more() -> Result<()> {
    let enforced = EmulatorOptions::default().with_variable("AUTH", "true");
    let emulator = Emulator::start_with(enforced).await?;
    let proxy = Proxy::start(emulator.endpoint()).await?;
    let url = proxy.url();
    let with = |scheduler: &'static str| {
        let url = url.clone();
        move |spec: frigg_tests::emulator::StackSpec| {
            spec.over_http()
                .with("Scheduler", scheduler)
                // The emulator gives each function an AWS_ENDPOINT_URL of its own.
                .with_env("AWS_ENDPOINT_URL_SQS", &url)
                .with_env("AWS_ENDPOINT_URL_DYNAMODB", &url)
                .with_env("AWS_ENDPOINT_URL_SCHEDULER", url)
        }
    };
    let rig = Rig::new(&emulator, with("yes")).await?;
    let plain = Rig::new(&emulator, with("no")).await?;

    for rig in [&rig, &plain] {
        allow_for_the_emulator(rig).await?;
    }

    // Each way back, and a schedule whose name is taken.
    // With a key, and for a process of an integration, so that the tables are used.
    let data = json!({ "processId": "p-1", "integrationId": "i-1" });
    let soon = json!({ "id": "soon", "do": "limit", "seconds": 2, "key": "crm:entity:7", "data": data });
    rig.send(&soon, None).await?;
    rig.send(&json!({ "id": "later", "do": "limit", "seconds": 65 }), None)
        .await?;
    taken(&rig).await?;
    plain
        .send(&json!({ "id": "hidden", "do": "limit", "seconds": 65 }), None)
        .await?;
    rig.runs_of("taken", 1, SOON).await?;
    let hopeless = json!({ "id": "hopeless", "do": "permanent" });
    rig.send(&hopeless, None).await?;
    wait_until(SOON, "every message is put back", async || {
        let back = |call: &&Call| call.operation.contains("Batch") || call.operation.contains("schedules");
        Ok(proxy.calls().iter().filter(back).count() >= 5)
    })
    .await?;
    // A refusal shows best before it has had its consequences.
    assert_eq!(refused(&proxy.calls()), [""; 0]);
    rig.runs_of("later", 2, Duration::from_secs(65) + SOON).await?;
    plain.runs_of("hidden", 2, Duration::from_secs(65) + SOON).await?;
    let dead = rig.emulator.drain(&rig.queue.dead_letters()?.url).await?;
    assert_eq!(dead.len(), 1, "{dead:?}");
    wait_until(
        SOON,
        "the worker asks for a schedule whose name is taken",
        async || {
            Ok(proxy
                .calls()
                .iter()
                .any(|call| action(&call.operation) == "scheduler:GetSchedule"))
        },
    )
    .await?;

    let calls = proxy.calls();
    assert_eq!(refused(&calls), [""; 0]);
    let used: BTreeSet<_> = calls.iter().map(|call| action(&call.operation)).collect();
    let allowed: BTreeSet<_> = statements(&emulator, &rig.stack, "FunctionRoleArn", "work")
        .await?
        .iter()
        .flat_map(|statement| texts(&statement["Action"]))
        .collect();
    let not_called: BTreeMap<_, _> = NOT_CALLED.into_iter().collect();
    let missing: Vec<_> = used.difference(&allowed).collect();
    assert!(missing.is_empty(), "called and not allowed: {missing:?}");
    let too_much: Vec<_> = allowed
        .iter()
        .filter(|action| !used.contains(*action) && !not_called.contains_key(action.as_str()))
        .collect();
    assert!(too_much.is_empty(), "allowed and not called: {too_much:?}");
    for (action, reason) in not_called {
        assert!(
            allowed.contains(action),
            "{action} ({reason}) is not allowed at all"
        );
    }
    emulator.stop().await
}

/// The calls that were refused; a schedule's name that is taken is no refusal.
fn refused(calls: &[Call]) -> Vec<String> {
    let refused = calls
        .iter()
        .filter(|call| call.status >= 400 && call.status != 409);
    refused
        .map(|call| format!("{} {} {}", call.operation, call.status, call.response))
        .collect()
}

/// The emulator differs from AWS in two points: it wants an action for a batch call, where AWS has that of the single call
/// only, and it looks for every schedule in the group `default`.
async fn allow_for_the_emulator(rig: &Rig<'_>) -> Result<()> {
    let batches = json!({
        "Effect": "Allow",
        "Action": ["sqs:SendMessageBatch", "sqs:ChangeMessageVisibilityBatch"],
        "Resource": [rig.queue.arn, rig.queue.dead_letters()?.arn],
    });
    let schedules = json!({
        "Effect": "Allow",
        "Action": ["scheduler:CreateSchedule", "scheduler:GetSchedule"],
        "Resource": "arn:aws:scheduler:us-east-1:000000000000:schedule/default/*",
    });
    let policy = json!({ "Version": "2012-10-17", "Statement": [batches, schedules] }).to_string();
    let role = rig.stack.output("FunctionRoleArn")?;
    let put = [
        ("Action", "PutRolePolicy"),
        ("RoleName", role.rsplit('/').next().context("an ARN")?),
        ("PolicyName", "emulator"),
        ("PolicyDocument", &policy),
    ];
    rig.emulator
        .iam(&put, "allow what the emulator wants")
        .await
        .map(drop)
}

/// A message whose schedule's name is taken when it is limited.
async fn taken(rig: &Rig<'_>) -> Result<()> {
    let body = json!({ "id": "taken", "do": "limit", "seconds": 120 });
    let send = rig
        .emulator
        .sqs()
        .send_message()
        .queue_url(&rig.queue.url)
        .message_body(body.to_string())
        .delay_seconds(3);
    let id = send.send().await?.message_id.context("a message without an id")?;
    let window = FlexibleTimeWindow::builder()
        .mode(FlexibleTimeWindowMode::Off)
        .build()?;
    let target = Target::builder()
        .arn(&rig.queue.arn)
        .role_arn(rig.stack.output("SchedulerRoleArn")?)
        .input("{}")
        .build()?;
    let create = rig
        .emulator
        .scheduler()
        .create_schedule()
        .name(format!("frigg-defer-{id}"))
        .group_name(rig.stack.output("ScheduleGroup")?)
        .schedule_expression("at(2099-01-01T00:00:00)")
        .flexible_time_window(window)
        .target(target);
    create.send().await.context("failed to take the name")?;
    Ok(())
}
