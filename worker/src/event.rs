//! The event of an invocation, read for what a batch needs of it.

use std::collections::HashMap;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use serde::Deserialize;

use crate::error::Error;

/// [`SqsEvent`](aws_lambda_events::sqs::SqsEvent)'s messages, without the parts that nobody looks at.
#[derive(Debug)]
pub(crate) struct Event(pub(crate) Vec<SqsMessage>);

impl Event {
    /// # Errors
    /// When the text is not the JSON of an event of SQS.
    pub(crate) fn read(text: &[u8]) -> Result<Event, Error> {
        let event: Records = serde_json::from_slice(text)
            .map_err(|error| Error::new(format!("the event is not one of SQS: {error}")))?;
        Ok(Event(event.records.into_iter().map(SqsMessage::from).collect()))
    }
}

#[derive(Deserialize)]
struct Records {
    #[serde(rename = "Records")]
    records: Vec<Message>,
}

/// What is not here (`md5OfBody`, `awsRegion`, …) is skipped over, not copied.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    message_id: Option<String>,
    receipt_handle: Option<String>,
    body: Option<String>,
    attributes: Option<HashMap<String, String>>,
    message_attributes: Option<HashMap<String, SqsMessageAttribute>>,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: Option<String>,
}

impl From<Message> for SqsMessage {
    fn from(message: Message) -> Self {
        let mut out = SqsMessage::default();
        out.message_id = message.message_id;
        out.receipt_handle = message.receipt_handle;
        out.body = message.body;
        out.attributes = message.attributes.unwrap_or_default();
        out.message_attributes = message.message_attributes.unwrap_or_default();
        out.event_source_arn = message.event_source_arn;
        out
    }
}

#[cfg(test)]
mod tests {
    use aws_lambda_events::sqs::SqsEvent;

    use super::*;

    /// As documented, with every kind of attribute; and with what is missing, null, or unknown.
    const EVENTS: [&str; 4] = [
        r#"{"Records": [{
            "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d", "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
            "body": "{\"a\":\"\\u00e9\\n\"}",
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1545082649183", "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": "1545082649185", "MessageGroupId": "g", "AWSTraceHeader": "Root=1"},
            "messageAttributes": {
                "text": {"stringValue": "1", "stringListValues": [], "binaryListValues": [], "dataType": "Number.int"},
                "bytes": {"binaryValue": "aGk=", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"}},
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3", "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-2:123456789012:my-queue", "awsRegion": "us-east-2"}]}"#,
        r#"{"Records": []}"#,
        r#"{"Records": [{}, {"messageId": null, "body": null, "attributes": null, "messageAttributes": null, "receiptHandle": null}]}"#,
        r#"{"more": {"of": ["it"]}, "Records": [{"messageId": "1", "new": {"a": [1, null]}, "body": ""}]}"#,
    ];

    fn read(text: &str) -> Result<Vec<SqsMessage>, String> {
        Event::read(text.as_bytes())
            .map(|event| event.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn it_reads_what_the_event_crate_reads() {
        for text in EVENTS {
            let mut want = serde_json::from_str::<SqsEvent>(text).unwrap().records;
            for message in &mut want {
                message.md5_of_body = None;
                message.event_source = None;
                message.aws_region = None;
            }
            assert_eq!(read(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn it_refuses_what_the_event_crate_refuses() {
        for text in [
            r#"{}"#,
            r#"{"Records": null}"#,
            r#"{"Records": [null]}"#,
            r#"{"Records": [{"body": 1}]}"#,
            r#"{"Records": [{"attributes": {"SentTimestamp": 1}}]}"#,
            r#"{"Records": [{"messageAttributes": {"a": {"binaryValue": "?"}}}]}"#,
            "[]",
            "null",
        ] {
            assert!(serde_json::from_str::<SqsEvent>(text).is_err(), "{text}");
            let error = read(text).unwrap_err();
            assert!(error.contains("the event is not one of SQS"), "{error}");
        }
    }
}
