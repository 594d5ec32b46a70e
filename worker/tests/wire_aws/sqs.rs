//! Requests to SQS, whole.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_smithy_http_client::test_util::NeverClient;
use frigg_worker::core::delivery::{AttributeValue, MessageAttribute, QueueArn};
use frigg_worker::ports::{CallErrorKind, QueueAttributes, SendRequest, Sqs as _, VisibilityRequest};
use frigg_worker::{Aws, AwsSqs};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{config, ok, wire};

const URL: &str = "https://sqs.eu-west-1.amazonaws.com/111111111111/jobs";
/// All bytes that base64, UTF-8 or JSON could trip over.
const BYTES: [u8; 6] = [0x00, 0xff, 0xfe, b'"', b'\n', 0x80];

fn attribute(data_type: &str, value: AttributeValue) -> MessageAttribute {
    MessageAttribute {
        data_type: data_type.to_owned(),
        value,
    }
}

/// A copy with everything that a message can carry.
fn laden() -> SendRequest {
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let mut copy = SendRequest::new(r#"{"id":1,"_frigg":{"deferrals":1}}"#, 900);
    copy.attributes = HashMap::from([
        ("tenant".to_owned(), attribute("String", text("a\"b"))),
        ("count".to_owned(), attribute("Number.int", text("07"))),
        (
            "blob".to_owned(),
            attribute("Binary.png", AttributeValue::Binary(BYTES.to_vec())),
        ),
    ]);
    copy.trace_header = Some("Root=1-67891233-abcdef012345678912345678".to_owned());
    copy.group_id = Some("tenant-7".to_owned());
    copy
}

fn laden_json() -> Value {
    json!({
        "MessageBody": r#"{"id":1,"_frigg":{"deferrals":1}}"#,
        "DelaySeconds": 900,
        "MessageAttributes": {
            "tenant": { "DataType": "String", "StringValue": "a\"b" },
            "count": { "DataType": "Number.int", "StringValue": "07" },
            "blob": { "DataType": "Binary.png", "BinaryValue": "AP/+IgqA" },
        },
        "MessageSystemAttributes": {
            "AWSTraceHeader": { "DataType": "String", "StringValue": "Root=1-67891233-abcdef012345678912345678" },
        },
        "MessageGroupId": "tenant-7",
    })
}

fn with(mut object: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(more);
    object
}

fn for_fifo() -> SendRequest {
    let mut copy = SendRequest::new("{}", 0);
    copy.group_id = Some("g".to_owned());
    copy.deduplication_id = Some("m-1".to_owned());
    copy
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_copies() {
    let answer = json!({ "Successful": [
        { "Id": "1", "MessageId": "b", "MD5OfMessageBody": "x" },
        { "Id": "0", "MessageId": "a", "MD5OfMessageBody": "x" },
        { "Id": "2", "MessageId": "c", "MD5OfMessageBody": "x" },
    ], "Failed": [] });
    let (aws, wire) = wire([ok(answer)]);
    let copies = [laden(), SendRequest::new("{}", 0), for_fifo()];
    let results = AwsSqs::new(aws).send_batch(URL, &copies).await.unwrap();
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    let request = wire.request();
    // The queue's region, not the configured one.
    assert_eq!(request.uri, "https://sqs.eu-west-1.amazonaws.com/");
    assert_eq!(request.target.as_deref(), Some("AmazonSQS.SendMessageBatch"));
    let want = json!({
        "QueueUrl": URL,
        "Entries": [
            with(laden_json(), json!({ "Id": "0" })),
            { "Id": "1", "MessageBody": "{}", "DelaySeconds": 0 },
            { "Id": "2", "MessageBody": "{}", "MessageGroupId": "g", "MessageDeduplicationId": "m-1" },
        ],
    });
    assert_eq!(request.body, want);
}

#[tokio::test(start_paused = true)]
async fn a_single_copy() {
    let rows = [
        (laden(), laden_json()),
        (
            SendRequest::new("{}", 0),
            json!({ "MessageBody": "{}", "DelaySeconds": 0 }),
        ),
        (
            for_fifo(),
            json!({ "MessageBody": "{}", "MessageGroupId": "g", "MessageDeduplicationId": "m-1" }),
        ),
    ];
    for (copy, want) in rows {
        let (aws, wire) = wire([ok(json!({ "MessageId": "new", "MD5OfMessageBody": "x" }))]);
        assert_eq!(AwsSqs::new(aws).send(URL, &copy).await.unwrap(), "new");
        let request = wire.request();
        assert_eq!(request.uri, "https://sqs.eu-west-1.amazonaws.com/");
        assert_eq!(request.target.as_deref(), Some("AmazonSQS.SendMessage"));
        assert_eq!(request.body, with(want, json!({ "QueueUrl": URL })));
    }
}

#[tokio::test(start_paused = true)]
async fn a_queues_url_by_region_name_and_owner() {
    let rows = [
        (
            "arn:aws:sqs:eu-west-1:111111111111:jobs",
            true,
            "https://sqs.eu-west-1.amazonaws.com/",
            json!({ "QueueName": "jobs", "QueueOwnerAWSAccountId": "111111111111" }),
        ),
        (
            "arn:aws:sqs:ap-south-1:111111111111:jobs.fifo",
            false,
            "https://sqs.ap-south-1.amazonaws.com/",
            json!({ "QueueName": "jobs.fifo" }),
        ),
        (
            "arn:aws-cn:sqs:cn-north-1:111111111111:jobs",
            false,
            "https://sqs.cn-north-1.amazonaws.com.cn/",
            json!({ "QueueName": "jobs" }),
        ),
    ];
    for (arn, owner, endpoint, body) in rows {
        let (aws, wire) = wire([ok(json!({ "QueueUrl": URL }))]);
        let url = AwsSqs::new(aws)
            .queue_url(&QueueArn::parse(arn).unwrap(), owner)
            .await;
        assert_eq!(url.unwrap(), URL);
        let request = wire.request();
        assert_eq!(request.target.as_deref(), Some("AmazonSQS.GetQueueUrl"));
        assert_eq!((request.uri.as_str(), request.body), (endpoint, body));
    }
}

#[tokio::test(start_paused = true)]
async fn visibility_and_deletion() {
    let done = json!({ "Successful": [{ "Id": "0" }, { "Id": "1" }], "Failed": [] });
    let (aws, wire) = wire([ok(done.clone()), ok(done)]);
    let sqs = AwsSqs::new(aws);
    let change = |handle: &str, seconds| VisibilityRequest {
        receipt_handle: handle.to_owned(),
        seconds,
    };
    let changes = [change("h-0", 42_000), change("h-1", 0)];
    assert_eq!(
        sqs.change_visibility_batch(URL, &changes).await.unwrap(),
        [Ok(()), Ok(())]
    );
    let handles = ["h-0".to_owned(), "h-1".to_owned()];
    assert_eq!(sqs.delete_batch(URL, &handles).await.unwrap(), [Ok(()), Ok(())]);
    let requests = wire.requests();
    assert_eq!(
        requests[0].target.as_deref(),
        Some("AmazonSQS.ChangeMessageVisibilityBatch")
    );
    assert_eq!(
        requests[0].body,
        json!({ "QueueUrl": URL, "Entries": [
            { "Id": "0", "ReceiptHandle": "h-0", "VisibilityTimeout": 42_000 },
            { "Id": "1", "ReceiptHandle": "h-1", "VisibilityTimeout": 0 },
        ] })
    );
    assert_eq!(
        requests[1].target.as_deref(),
        Some("AmazonSQS.DeleteMessageBatch")
    );
    assert_eq!(
        requests[1].body,
        json!({ "QueueUrl": URL, "Entries": [
            { "Id": "0", "ReceiptHandle": "h-0" }, { "Id": "1", "ReceiptHandle": "h-1" },
        ] })
    );
}

#[tokio::test(start_paused = true)]
async fn a_receive_asks_for_everything_and_sets_no_visibility() {
    let message = json!({
        "MessageId": "m-1", "ReceiptHandle": "h-1", "Body": "{\"id\":1}", "MD5OfBody": "x",
        "Attributes": {
            "ApproximateReceiveCount": "2", "SentTimestamp": "1790000000000", "MessageGroupId": "g",
            "AWSTraceHeader": "Root=1-1-1",
        },
        "MessageAttributes": {
            "tenant": { "DataType": "String", "StringValue": "t" },
            "blob": { "DataType": "Binary.png", "BinaryValue": "AP/+IgqA" },
        },
    });
    let (aws, wire) = wire([ok(json!({ "Messages": [message] })), ok(json!({}))]);
    let sqs = AwsSqs::new(aws);
    let messages = sqs.receive(URL, 25, Duration::from_secs(20)).await.unwrap();
    let request = &wire.requests()[0];
    assert_eq!(request.target.as_deref(), Some("AmazonSQS.ReceiveMessage"));
    let want = json!({
        "QueueUrl": URL, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20,
        "MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"],
    });
    assert_eq!(request.body, want);

    let [got] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!(got.message_id.as_deref(), Some("m-1"));
    assert_eq!(got.receipt_handle.as_deref(), Some("h-1"));
    assert_eq!(got.body.as_deref(), Some("{\"id\":1}"));
    // The names are those of a Lambda event.
    for (name, value) in [
        ("ApproximateReceiveCount", "2"),
        ("SentTimestamp", "1790000000000"),
        ("MessageGroupId", "g"),
        ("AWSTraceHeader", "Root=1-1-1"),
    ] {
        assert_eq!(got.attributes[name], value);
    }
    let (tenant, blob) = (&got.message_attributes["tenant"], &got.message_attributes["blob"]);
    assert_eq!(tenant.string_value.as_deref(), Some("t"));
    assert_eq!(blob.data_type.as_deref(), Some("Binary.png"));
    assert_eq!(blob.binary_value.as_ref().unwrap().0, BYTES);

    let none = sqs.receive(URL, 0, Duration::from_secs(1)).await.unwrap();
    assert!(none.is_empty(), "an empty answer has no list at all");
    assert_eq!(wire.requests()[1].body["MaxNumberOfMessages"], 1);
}

/// A receive may take as long as it was told to wait; every other call is given up sooner.
#[tokio::test(start_paused = true)]
async fn a_receive_is_more_patient_than_other_calls() {
    let attempt = Duration::from_secs(10);
    let timeouts = TimeoutConfig::builder()
        .operation_attempt_timeout(attempt)
        .build();
    let config = config(NeverClient::new()).into_builder();
    let config = config.timeout_config(timeouts).build();
    let sqs = AwsSqs::new(Aws::with_config(config));
    let start = Instant::now();
    let error = sqs.send(URL, &SendRequest::new("{}", 0)).await.unwrap_err();
    let send_took = start.elapsed();
    assert_eq!(error.kind, CallErrorKind::Unavailable);
    let start = Instant::now();
    let error = sqs.receive(URL, 1, Duration::from_secs(20)).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Unavailable);
    // Three attempts each, and the back-off between them.
    let (send, receive) = (send_took.as_secs(), start.elapsed().as_secs());
    assert!((30..36).contains(&send), "{send} s");
    assert!((90..96).contains(&receive), "{receive} s");
}

#[tokio::test(start_paused = true)]
async fn what_a_queue_says_of_itself() {
    let redrive = |policy: &str| json!({ "RedrivePolicy": policy });
    let dead = "arn:aws:sqs:eu-west-1:111111111111:dead";
    let with_max = |max_receive_count| QueueAttributes {
        max_receive_count,
        dead_letter_arn: Some(dead.to_owned()),
        ..QueueAttributes::default()
    };
    let policy = |max: &str| {
        redrive(&format!(
            r#"{{"deadLetterTargetArn":"{dead}","maxReceiveCount":{max}}}"#
        ))
    };
    let rows = [
        (policy("3"), with_max(Some(3))),
        (policy(r#""3""#), with_max(Some(3))),
        // What is no count is unknown; the dead-letter queue is known all the same.
        (policy("0"), with_max(None)),
        (policy(r#""0""#), with_max(None)),
        (policy("-1"), with_max(None)),
        (policy("1.5"), with_max(None)),
        (policy("null"), with_max(None)),
        (policy("99999999999"), with_max(None)),
        (policy(r#""many""#), with_max(None)),
        (redrive(r#"{"maxReceiveCount":3}"#), QueueAttributes::default()),
        (redrive("no JSON"), QueueAttributes::default()),
        (redrive(""), QueueAttributes::default()),
        (json!({}), QueueAttributes::default()),
        (
            json!({
                "QueueArn": "arn:aws:sqs:eu-west-1:111111111111:jobs", "MessageRetentionPeriod": "345600",
                "VisibilityTimeout": "1800", "MaximumMessageSize": "1048576", "SomethingNew": "?",
            }),
            QueueAttributes {
                arn: QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs"),
                retention: Some(Duration::from_secs(345_600)),
                visibility_timeout: Some(Duration::from_secs(1800)),
                maximum_message_size: Some(1 << 20),
                ..QueueAttributes::default()
            },
        ),
        (
            json!({
                "QueueArn": "no arn", "MessageRetentionPeriod": "", "VisibilityTimeout": "-1",
                "MaximumMessageSize": "big",
            }),
            QueueAttributes::default(),
        ),
    ];
    for (attributes, want) in rows {
        let (aws, wire) = wire([ok(json!({ "Attributes": attributes }))]);
        let got = AwsSqs::new(aws).queue_attributes(URL).await.unwrap();
        assert_eq!(got, want, "{attributes}");
        let request = wire.request();
        assert_eq!(request.target.as_deref(), Some("AmazonSQS.GetQueueAttributes"));
        assert_eq!(
            request.body,
            json!({ "QueueUrl": URL, "AttributeNames": ["All"] })
        );
    }
    // A queue that may not be asked for anything answers without the map.
    let (aws, _wire) = wire([ok(json!({}))]);
    let got = AwsSqs::new(aws).queue_attributes(URL).await.unwrap();
    assert_eq!(got, QueueAttributes::default());
}

/// Each queue in its own region, however many there are; the configured region where a URL tells none.
#[tokio::test(start_paused = true)]
async fn queues_of_several_regions() {
    let sent = || ok(json!({ "MessageId": "new", "MD5OfMessageBody": "x" }));
    let (aws, wire) = wire([sent(), sent(), sent(), sent()]);
    let sqs = AwsSqs::new(aws);
    for url in [
        URL,
        "https://sqs.us-west-2.amazonaws.com/1/jobs",
        URL,
        "http://127.0.0.1:4566/1/jobs",
    ] {
        sqs.send(url, &SendRequest::new("{}", 0)).await.unwrap();
    }
    let uris: Vec<String> = wire.requests().into_iter().map(|request| request.uri).collect();
    assert_eq!(
        uris,
        [
            "https://sqs.eu-west-1.amazonaws.com/",
            "https://sqs.us-west-2.amazonaws.com/",
            "https://sqs.eu-west-1.amazonaws.com/",
            "https://sqs.us-east-1.amazonaws.com/",
        ]
    );
}
