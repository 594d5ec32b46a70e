//! Requests to EventBridge Scheduler, whole, and its refusals.

use frigg_worker::AwsScheduler;
use frigg_worker::ports::{CallErrorKind, ScheduleRequest, ScheduleTarget, Scheduler as _};
use serde_json::{Value, json};

use super::{ok, scheduler_error, wire};

const QUEUE: &str = "arn:aws:sqs:eu-west-1:111111111111:jobs";

fn request() -> ScheduleRequest {
    ScheduleRequest {
        name: "frigg-defer-m-1".to_owned(),
        group: "crm-prod-schedules".to_owned(),
        at: "2026-09-28T23:00:01Z".parse().unwrap(),
        region: "eu-west-1".to_owned(),
        target: ScheduleTarget::Queue(QUEUE.to_owned()),
        role_arn: "arn:aws:iam::111111111111:role/scheduler".to_owned(),
        input: r#"{"id":1}"#.to_owned(),
        dead_letter_arn: Some("arn:aws:sqs:eu-west-1:111111111111:undelivered".to_owned()),
    }
}

fn created() -> super::Answer {
    ok(json!({ "ScheduleArn": "arn:aws:scheduler:eu-west-1:111111111111:schedule/crm-prod-schedules/x" }))
}

#[tokio::test(start_paused = true)]
async fn a_schedule() {
    let (aws, wire) = wire([created()]);
    AwsScheduler::new(aws).create(&request()).await.unwrap();
    let mut sent = wire.request();
    assert_eq!(sent.method, "POST");
    assert_eq!(
        sent.uri,
        "https://scheduler.eu-west-1.amazonaws.com/schedules/frigg-defer-m-1"
    );
    let token = sent.body.as_object_mut().unwrap().remove("ClientToken");
    assert!(
        token.is_some(),
        "the SDK's own attempts must not conflict with each other"
    );
    let want = json!({
        "GroupName": "crm-prod-schedules",
        "ScheduleExpression": "at(2026-09-28T23:00:01)",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": { "Mode": "OFF" },
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": QUEUE,
            "RoleArn": "arn:aws:iam::111111111111:role/scheduler",
            "Input": r#"{"id":1}"#,
            "RetryPolicy": { "MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 10 },
            "DeadLetterConfig": { "Arn": "arn:aws:sqs:eu-west-1:111111111111:undelivered" },
        },
    });
    assert_eq!(sent.body, want);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_with_metadata_and_without_a_dead_letter_queue() {
    let (aws, wire) = wire([created()]);
    let request = ScheduleRequest {
        target: ScheduleTarget::SendMessage,
        dead_letter_arn: None,
        region: "cn-north-1".to_owned(),
        ..request()
    };
    AwsScheduler::new(aws).create(&request).await.unwrap();
    let sent = wire.request();
    assert!(
        sent.uri
            .starts_with("https://scheduler.cn-north-1.amazonaws.com.cn/"),
        "{}",
        sent.uri
    );
    assert_eq!(
        sent.body["Target"]["Arn"],
        "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"
    );
    assert_eq!(sent.body["Target"]["DeadLetterConfig"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn refusals() {
    use CallErrorKind::{Conflict, Refused, Unavailable};
    let role = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role.";
    let rows = [
        (
            scheduler_error(
                409,
                "ConflictException",
                "Schedule frigg-defer-m-1 already exists.",
            ),
            Conflict,
            1,
        ),
        (
            scheduler_error(
                402,
                "ServiceQuotaExceededException",
                "The maximum number of schedules is reached.",
            ),
            Refused,
            1,
        ),
        (scheduler_error(400, "ValidationException", role), Refused, 1),
        (
            scheduler_error(
                404,
                "ResourceNotFoundException",
                "Schedule group x does not exist.",
            ),
            Refused,
            1,
        ),
        (
            scheduler_error(
                403,
                "AccessDeniedException",
                "not authorized to perform: iam:PassRole",
            ),
            Refused,
            1,
        ),
        (
            scheduler_error(429, "ThrottlingException", "Rate exceeded"),
            Unavailable,
            3,
        ),
        (
            scheduler_error(500, "InternalServerException", "sorry"),
            Unavailable,
            3,
        ),
    ];
    for (answer, kind, attempts) in rows {
        let (aws, wire) = wire([answer.clone(), answer.clone(), answer.clone()]);
        let error = AwsScheduler::new(aws).create(&request()).await.unwrap_err();
        assert_eq!(
            (error.kind, error.code.as_deref()),
            (kind, answer.error_type),
            "{answer:?}"
        );
        let requests = wire.requests();
        assert_eq!(requests.len(), attempts, "attempts at {kind:?}");
        // An attempt that came through unseen is not a conflict with the next one.
        assert!(
            requests
                .iter()
                .all(|sent| sent.body["ClientToken"] == requests[0].body["ClientToken"])
        );
    }
}

/// A validation error can cite the request, and the input is a body.
#[tokio::test(start_paused = true)]
async fn an_error_does_not_cite_the_input() {
    let message = |input: &str| {
        format!(
            "1 validation error detected: Value '{input}' at 'target.input' failed to satisfy constraint: Member must \
             have length less than or equal to 262144"
        )
    };
    for (input, cited) in [
        (r#"{"token":"s3cr3t"}"#, r#"{"token":"s3cr3t"}"#),
        (r#"{"token":"s3cr3t's"}"#, r#"{"token":"s3cr3t's"}"#),
        // Cut on the way.
        (r#"{"token":"s3cr3t","more":1}"#, r#"{"token":"s3cr3t","#),
    ] {
        let (aws, _wire) = wire([scheduler_error(400, "ValidationException", &message(cited))]);
        let request = ScheduleRequest {
            input: input.to_owned(),
            ..request()
        };
        let error = AwsScheduler::new(aws).create(&request).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cr3t"), "{text}");
        assert!(
            text.contains("at 'target.input' failed to satisfy constraint"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_schedule_that_is_there() {
    let found = |expression: &str, arn: &str, input: &str| {
        ok(json!({
            "Name": "frigg-defer-m-1", "GroupName": "crm-prod-schedules", "ScheduleExpression": expression,
            "ScheduleExpressionTimezone": "UTC", "State": "ENABLED",
            "FlexibleTimeWindow": { "Mode": "OFF" },
            "Target": { "Arn": arn, "RoleArn": "arn:aws:iam::111111111111:role/scheduler", "Input": input },
        }))
    };
    let (time, input) = ("at(2026-09-28T23:00:01)", r#"{"id":1}"#);
    let rows = [
        (found(time, QUEUE, input), true),
        (found("at(2026-09-28T23:00:00)", QUEUE, input), false),
        (
            found(time, "arn:aws:sqs:eu-west-1:111111111111:other", input),
            false,
        ),
        (found(time, QUEUE, r#"{"id":2}"#), false),
        (found(time, QUEUE, ""), false),
        (ok(json!({})), false),
    ];
    for (answer, same) in rows {
        let (aws, wire) = wire([answer.clone()]);
        let got = AwsScheduler::new(aws).is_same(&request()).await.unwrap();
        assert_eq!(got, same, "{answer:?}");
        let sent = wire.request();
        assert_eq!(
            (sent.method.as_str(), sent.uri.as_str()),
            (
                "GET",
                "https://scheduler.eu-west-1.amazonaws.com/schedules/frigg-defer-m-1?groupName=crm-prod-schedules"
            )
        );
    }
}
