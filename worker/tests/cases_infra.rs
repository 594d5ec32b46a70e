//! Frigg's `infra` cases: the scheduler request and its client. What Frigg's own deployment tool decides has no
//! counterpart here, the stack is `infra/template.yaml`.

#![allow(clippy::unwrap_used)]

#[path = "../../core/tests/support/mod.rs"]
mod support;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_scheduler::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_http_client::test_util::capture_request;
use frigg_core::delivery::QueueArn;
use frigg_core::time;
use frigg_worker::Config;
use frigg_worker::ports::{ScheduleRequest, ScheduleTarget, Scheduler};
use frigg_worker::{Aws, AwsScheduler};
use serde_json::{Value, json};
use support::Outcome;

#[test]
fn cases_infra() {
    support::run("frigg/infra.jsonl", "infra", |case| {
        match case["op"].as_str().unwrap_or_default() {
            "schedule_request" => schedule_request(case),
            "scheduler_client" | "queue_client" => Outcome::Skipped(
                "the clients are built from the environment of a process: wire_aws/environment.rs runs one for each",
            ),
            "scheduler_provisioned" | "scheduler_environment" => {
                Outcome::Skipped("the scheduler is a parameter of the stack, not found out from integrations")
            }
            "scheduler_resources" | "base_role" | "queue_worker" => {
                Outcome::Skipped("the stack has its own names and numbers; tests/infra tests them")
            }
            other => Outcome::Failed("an op that is known".to_owned(), other.to_owned()),
        }
    });
}

fn schedule_request(case: &Value) -> Outcome {
    let (input, expect) = (&case["input"], &case["expect"]);
    let fails = expect["fails"] == true;
    let (config, _) = Config::from_variables(|name| input["env"][name].as_str().map(str::to_owned));
    // Without a role there is no scheduling, without a queue no target, and a time that is no date is no `Timestamp`:
    // where Frigg's adapter refuses, no request can be written.
    let at = input["at"].as_str().and_then(time::parse_iso);
    let queue = input["queue_arn"].as_str().and_then(QueueArn::parse);
    let (Some(scheduling), Some(at), Some(queue)) = (config.scheduling, at, queue) else {
        return Outcome::equal(fails, true);
    };
    if fails {
        return Outcome::Failed("a refusal".to_owned(), "a request".to_owned());
    }
    let request = ScheduleRequest {
        name: input["name"].as_str().unwrap_or_default().to_owned(),
        group: scheduling.group,
        at,
        region: queue.region().to_owned(),
        target: ScheduleTarget::Queue(queue.as_str().to_owned()),
        role_arn: scheduling.role_arn,
        input: input["payload"].to_string(),
        dead_letter_arn: scheduling.dead_letter_arn,
    };
    let sent = sent(&request);
    let target = &sent["Target"];
    let got = json!({
        "name": sent["Name"],
        "group": sent["GroupName"],
        "expression": sent["ScheduleExpression"],
        "timezone": sent["ScheduleExpressionTimezone"],
        "flexible_window": sent["FlexibleTimeWindow"]["Mode"],
        "target_arn": target["Arn"],
        "role_arn": target["RoleArn"],
        "input": target["Input"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()),
        "action_after_completion": sent["ActionAfterCompletion"],
    });
    Outcome::equal(expect, &got)
}

/// The body of the call on the wire, with the name from its path.
fn sent(request: &ScheduleRequest) -> Value {
    let (client, captured) = capture_request(None);
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "AKID", "key", None, None, "test",
        )))
        .http_client(client)
        .build();
    let scheduler = AwsScheduler::new(Aws::with_config(config));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // The answer is empty: it is the request that matters.
    let _ = runtime.block_on(scheduler.create(request));
    let call = captured.expect_request();
    let mut body: Value = serde_json::from_slice(call.body().bytes().unwrap()).unwrap();
    let name = call.uri().rsplit('/').next().unwrap_or_default();
    body["Name"] = json!(name.split('?').next());
    body
}
