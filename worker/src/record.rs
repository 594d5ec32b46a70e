//! One record of a batch: the SQS message as it came, and the facts of its delivery.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use frigg_core::deferral::{Body, Options, Reading, positive_integer};
use frigg_core::delivery::{AttributeValue, Delivery, MessageAttribute, QueueArn, TimeLeft};
use jiff::Timestamp;
use tracing::Span;

use crate::door::Door;

/// A record on its way through the batch.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its place in the batch.
    pub(crate) index: usize,
    pub(crate) receipt_handle: Option<String>,
    pub(crate) body: Body,
    /// The event had no body for it.
    pub(crate) bodiless: bool,
    pub(crate) delivery: Arc<Delivery>,
    /// Its way to the handler, where there is a gate.
    pub(crate) door: Option<Arc<Door>>,
    /// Carries `messageId` and `receiveCount` into every line.
    pub(crate) span: Span,
}

/// What the batch knows of a record already.
#[derive(Debug)]
pub(crate) struct Known<'b> {
    pub(crate) receive_count: Option<u32>,
    /// Very probably the record's queue.
    pub(crate) queue: Option<&'b QueueArn>,
    pub(crate) deadline: TimeLeft,
}

impl Record {
    /// Reads a message's facts and opens its envelope. A message without a body counts as one with an empty body.
    pub(crate) fn open(
        index: usize,
        message: SqsMessage,
        now: Timestamp,
        options: &Options,
        known: Known<'_>,
    ) -> Record {
        let mut delivery = delivery(message.message_id, message.attributes);
        let arn = message.event_source_arn.as_deref();
        delivery.queue_arn = match known.queue {
            Some(queue) if arn == Some(queue.as_str()) => Some(queue.clone()),
            _ => arn.and_then(QueueArn::parse),
        };
        delivery.message_attributes = message_attributes(message.message_attributes);
        delivery.receive_count = known.receive_count;
        delivery.max_receive_count = options.max_receive_count;
        delivery.deadline = known.deadline;

        let reading = if options.is_frigg() {
            Reading::Frigg
        } else {
            Reading::Strict {
                now,
                sent_at: delivery.sent_at,
                limits: options.limits,
            }
        };
        let bodiless = message.body.is_none();
        let body = Body::open(message.body.unwrap_or_default(), reading);
        let envelope = body.envelope();
        delivery.deferrals = envelope.deferrals;
        delivery.gated = envelope.gated;
        delivery.first_deferred_at = envelope.first_deferred_at;
        delivery.deferral_id.clone_from(&envelope.deferral_id);
        delivery.retry_at = envelope.retry_at;

        let span = span_of(&delivery.message_id, delivery.receive_count);
        let receipt_handle = message.receipt_handle.filter(|handle| !handle.is_empty());
        Record {
            index,
            receipt_handle,
            body,
            bodiless,
            delivery: Arc::new(delivery),
            door: None,
            span,
        }
    }
}

/// Carries a record's id and receive count into every line. A span of level ERROR is never filtered out.
pub(crate) fn span_of(message_id: &str, receive_count: Option<u32>) -> Span {
    tracing::error_span!(
        target: "frigg.worker", "record",
        messageId = message_id, receiveCount = receive_count,
    )
}

/// `ApproximateReceiveCount`, where it is a positive integer.
pub(crate) fn receive_count(attributes: &HashMap<String, String>) -> Option<u32> {
    let value = positive_integer(attributes.get("ApproximateReceiveCount")?)?;
    Some(u32::try_from(value).unwrap_or(u32::MAX))
}

fn delivery(id: Option<String>, attributes: HashMap<String, String>) -> Delivery {
    let time = |name: &str| Timestamp::from_millisecond(attributes.get(name)?.trim().parse().ok()?).ok();
    let mut delivery = Delivery::default();
    delivery.sent_at = time("SentTimestamp");
    delivery.first_received_at = time("ApproximateFirstReceiveTimestamp");
    delivery.group_id = attributes.get("MessageGroupId").cloned();
    delivery.message_id = id.unwrap_or_default();
    delivery.attributes = attributes;
    delivery
}

fn message_attributes(attributes: HashMap<String, SqsMessageAttribute>) -> HashMap<String, MessageAttribute> {
    let convert = |(name, attribute): (String, SqsMessageAttribute)| {
        let value = match (attribute.string_value, attribute.binary_value) {
            (Some(text), _) => AttributeValue::Text(text),
            (None, Some(bytes)) => AttributeValue::Binary(bytes.0),
            // SQS accepts no attribute without a value; one that it did not deliver cannot be sent on.
            (None, None) => return None,
        };
        let data_type = attribute.data_type.unwrap_or_else(|| match value {
            AttributeValue::Text(_) => "String".to_owned(),
            AttributeValue::Binary(_) => "Binary".to_owned(),
        });
        Some((name, MessageAttribute { data_type, value }))
    };
    attributes.into_iter().filter_map(convert).collect()
}
