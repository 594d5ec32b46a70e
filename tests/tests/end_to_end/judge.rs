//! The judge of every request judges: what AWS refuses is named, what it accepts is not.

use anyhow::Result;
use frigg_tests::clock;
use frigg_tests::judge::refused;
use frigg_tests::proxy::Call;
use jiff::SignedDuration;
use serde_json::{Value, json};

const QUEUE: &str = "http://127.0.0.1:1/000000000000/jobs";

fn call(operation: &str, request: Value) -> Call {
    Call {
        operation: operation.to_owned(),
        trace: None,
        at: clock::now(),
        status: 200,
        request,
        response: Value::Null,
    }
}

fn send(delay: i64, queue: &str) -> Call {
    let entry = json!({ "Id": "0", "MessageBody": "{}", "DelaySeconds": delay });
    call(
        "SendMessageBatch",
        json!({ "QueueUrl": queue, "Entries": [entry] }),
    )
}

fn hide(handle: &str, seconds: i64) -> Call {
    let entry = json!({ "Id": "0", "ReceiptHandle": handle, "VisibilityTimeout": seconds });
    call(
        "ChangeMessageVisibilityBatch",
        json!({ "QueueUrl": QUEUE, "Entries": [entry] }),
    )
}

fn schedule(ahead: i64, change: impl Fn(&mut Value)) -> Call {
    let at = clock::now() + SignedDuration::from_secs(ahead);
    let mut request = json!({
        "GroupName": "frigg", "ScheduleExpression": format!("at({})", at.strftime("%Y-%m-%dT%H:%M:%S")),
        "ScheduleExpressionTimezone": "UTC", "ActionAfterCompletion": "DELETE", "FlexibleTimeWindow": { "Mode": "OFF" },
        "Target": {
            "Arn": "arn:aws:sqs:us-east-1:000000000000:jobs", "RoleArn": "arn:aws:iam::000000000000:role/s",
            "Input": "{}", "RetryPolicy": { "MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 10 },
        },
    });
    change(&mut request);
    call("POST /schedules/frigg-defer-1", request)
}

/// A receive of the handle `h`, so many seconds ago.
fn received(ago: i64) -> Call {
    let mut receive = call(
        "ReceiveMessage",
        json!({ "QueueUrl": QUEUE, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20 }),
    );
    receive.response = json!({ "Messages": [{ "ReceiptHandle": "h" }] });
    receive.at = clock::now() - SignedDuration::from_secs(ago);
    receive
}

#[tokio::test]
async fn what_aws_accepts_is_accepted() -> Result<()> {
    let mut fifo = send(0, "http://127.0.0.1:1/000000000000/dead.fifo");
    fifo.request["Entries"][0]["MessageGroupId"] = "g".into();
    fifo.request["Entries"][0]["MessageDeduplicationId"] = "d".into();
    fifo.request["Entries"][0]["DelaySeconds"].take();
    let calls = [
        send(900, QUEUE),
        fifo,
        received(3600),
        hide("h", 39_000),
        hide("h", 0),
        hide("of nobody knows when", 43_199),
        schedule(61, |_| ()),
        call(
            "DeleteMessageBatch",
            json!({ "QueueUrl": QUEUE, "Entries": [{ "Id": "0", "ReceiptHandle": "h" }] }),
        ),
        call("GetQueueUrl", json!({ "QueueName": "jobs" })),
        call(
            "GetQueueAttributes",
            json!({ "QueueUrl": QUEUE, "AttributeNames": ["All"] }),
        ),
    ];
    assert_eq!(refused(&calls).await?, [] as [&str; 0]);
    Ok(())
}

#[tokio::test]
async fn what_aws_refuses_is_refused() -> Result<()> {
    let attributes: Value = (0..11)
        .map(|i| (i.to_string(), json!({ "DataType": "String", "StringValue": "a" })))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut named = schedule(61, |_| ());
    named.operation = "POST /schedules/a%20b".to_owned();
    let message = |field: &str, value: Value| {
        let mut message = json!({ "QueueUrl": QUEUE, "MessageBody": "{}", "DelaySeconds": 0 });
        message[field] = value;
        call("SendMessage", message)
    };
    let rows = [
        ("DelaySeconds must be", vec![send(901, QUEUE)]),
        ("DelaySeconds must be", vec![message("DelaySeconds", json!(901))]),
        ("a negative delay", vec![send(-1, QUEUE)]),
        ("11 attributes", vec![message("MessageAttributes", attributes)]),
        ("a character", vec![message("MessageBody", json!("\u{1}"))]),
        ("Visibility timeout invalid", vec![hide("h", 43_201)]),
        ("beyond the limit", vec![received(6 * 3600), hide("h", 6 * 3600)]),
        ("which is past", vec![schedule(-1, |_| ())]),
        (
            "no at(…)",
            vec![schedule(61, |s| s["ScheduleExpression"] = "at(tomorrow)".into())],
        ),
        (
            "time window",
            vec![schedule(61, |s| {
                s["FlexibleTimeWindow"] = json!({ "Mode": "FLEXIBLE" })
            })],
        ),
        (
            "262145 bytes",
            vec![schedule(61, |s| {
                s["Target"]["Input"] = "x".repeat(262_145).into()
            })],
        ),
        ("the schedule's name", vec![named]),
        (
            "how to judge",
            vec![call("PurgeQueue", json!({ "QueueUrl": QUEUE }))],
        ),
    ];
    for (why, calls) in rows {
        let refused = refused(&calls).await?;
        assert!(
            refused.len() == 1 && refused[0].contains(why),
            "{why}: {refused:?}"
        );
    }
    // The call that a schedule makes is judged too.
    let inside = schedule(61, |schedule| {
        schedule["Target"]["Arn"] = "arn:aws:scheduler:::aws-sdk:sqs:sendMessage".into();
        schedule["Target"]["Input"] = json!({ "QueueUrl": QUEUE, "MessageBody": "{}", "DelaySeconds": 901 })
            .to_string()
            .into();
    });
    assert_eq!(refused(&[inside]).await?.len(), 1);
    Ok(())
}
