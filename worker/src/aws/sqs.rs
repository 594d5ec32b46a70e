//! SQS.

use std::collections::HashMap;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageAttributeValue, MessageSystemAttributeName, MessageSystemAttributeNameForSends,
    MessageSystemAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry,
};
use frigg_core::delivery::{AttributeValue, MessageAttribute, QueueArn};
use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::{ATTEMPT_TIMEOUT, Aws, PerRegion, call_error, kind_of};
use crate::ports::{
    BatchResult, CallError, CallErrorKind, QueueAttributes, SendRequest, Sqs, VisibilityRequest,
};

/// [`Sqs`] by the AWS SDK. Each queue is called in its own region.
#[derive(Debug, Default)]
pub struct AwsSqs {
    aws: Aws,
    clients: PerRegion<Client>,
}

impl AwsSqs {
    /// Builds its clients when they are first needed.
    pub fn new(aws: Aws) -> Self {
        AwsSqs {
            aws,
            clients: PerRegion::default(),
        }
    }

    async fn in_region(&self, region: Option<&str>) -> Client {
        self.clients.get(&self.aws, region, Client::new).await
    }

    /// The client for a queue's URL. Local endpoints tell no region; the configured one will do.
    async fn for_url(&self, url: &str) -> Client {
        self.in_region(region_of(url)).await
    }
}

/// `eu-west-1` of `https://sqs.eu-west-1.amazonaws.com/1/jobs`. Partitions and dual-stack endpoints have domains of
/// their own, but the region has its form everywhere.
fn region_of(url: &str) -> Option<&str> {
    let host = url.split("://").nth(1)?.split('/').next()?;
    let (service, rest) = host.split_once('.')?;
    let (region, _) = rest.split_once('.')?;
    let number = region.rsplit('-').next()?;
    let is_region = region.matches('-').count() >= 2 && number.bytes().all(|b| b.is_ascii_digit());
    (matches!(service, "sqs" | "sqs-fips") && is_region).then_some(region)
}

impl Sqs for AwsSqs {
    fn queue_url<'a>(&'a self, queue: &'a QueueArn, owner: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let call = self
                .in_region(Some(queue.region()))
                .await
                .get_queue_url()
                .queue_name(queue.name());
            let call = call.set_queue_owner_aws_account_id(owner.then(|| queue.account().to_owned()));
            let output = call.send().await.map_err(|error| call_error(&error))?;
            output
                .queue_url
                .ok_or_else(|| no_answer("GetQueueUrl gave no URL"))
        })
    }

    fn queue_attributes<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        Box::pin(async move {
            let call = self.for_url(url).await.get_queue_attributes().queue_url(url);
            let output = call.attribute_names(QueueAttributeName::All).send().await;
            let attributes = output
                .map_err(|error| call_error(&error))?
                .attributes
                .unwrap_or_default();
            Ok(queue_attributes(&attributes))
        })
    }

    fn send<'a>(
        &'a self,
        url: &'a str,
        message: &'a SendRequest,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let call = self.for_url(url).await.send_message().queue_url(url);
            let output = call
                .message_body(&message.body)
                .set_delay_seconds(delay(message))
                .set_message_attributes(attributes(message)?)
                .set_message_system_attributes(system_attributes(message)?)
                .set_message_group_id(message.group_id.clone())
                .set_message_deduplication_id(message.deduplication_id.clone())
                .send()
                .await
                .map_err(|error| call_error(&error))?;
            output
                .message_id
                .ok_or_else(|| no_answer("SendMessage gave no message id"))
        })
    }

    fn send_batch<'a>(&'a self, url: &'a str, messages: &'a [SendRequest]) -> BoxFuture<'a, BatchResult> {
        Box::pin(async move {
            let entries = messages.iter().enumerate().map(|(index, message)| {
                SendMessageBatchRequestEntry::builder()
                    .id(entry_id(index))
                    .message_body(&message.body)
                    .set_delay_seconds(delay(message))
                    .set_message_attributes(attributes(message)?)
                    .set_message_system_attributes(system_attributes(message)?)
                    .set_message_group_id(message.group_id.clone())
                    .set_message_deduplication_id(message.deduplication_id.clone())
                    .build()
                    .map_err(refused)
            });
            let call = self.for_url(url).await.send_message_batch().queue_url(url);
            let call = call.set_entries(Some(entries.collect::<Result<_, _>>()?));
            let output = call.send().await.map_err(|error| call_error(&error))?;
            let succeeded = output.successful().iter().map(|entry| entry.id());
            Ok(per_entry(messages.len(), succeeded, output.failed()))
        })
    }

    fn change_visibility_batch<'a>(
        &'a self,
        url: &'a str,
        changes: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult> {
        Box::pin(async move {
            let entries = changes.iter().enumerate().map(|(index, change)| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(entry_id(index))
                    .receipt_handle(&change.receipt_handle)
                    .visibility_timeout(change.seconds.cast_signed())
                    .build()
                    .map_err(refused)
            });
            let call = self
                .for_url(url)
                .await
                .change_message_visibility_batch()
                .queue_url(url);
            let call = call.set_entries(Some(entries.collect::<Result<_, _>>()?));
            let output = call.send().await.map_err(|error| call_error(&error))?;
            let succeeded = output.successful().iter().map(|entry| entry.id());
            Ok(per_entry(changes.len(), succeeded, output.failed()))
        })
    }

    fn receive<'a>(
        &'a self,
        url: &'a str,
        max_messages: u32,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        Box::pin(async move {
            // An empty answer comes after the whole wait, and a little later on a slow day.
            let timeouts = TimeoutConfig::builder()
                .operation_attempt_timeout(wait + ATTEMPT_TIMEOUT)
                .build();
            let patience = aws_sdk_sqs::config::Builder::new().timeout_config(timeouts);
            let call = self.for_url(url).await.receive_message().queue_url(url);
            let output = call
                .max_number_of_messages(max_messages.clamp(1, 10).cast_signed())
                .wait_time_seconds(i32::try_from(wait.as_secs()).unwrap_or(20))
                .message_system_attribute_names(MessageSystemAttributeName::All)
                .message_attribute_names("All")
                .customize()
                .config_override(patience)
                .send()
                .await
                .map_err(|error| call_error(&error))?;
            Ok(output
                .messages
                .unwrap_or_default()
                .into_iter()
                .map(as_event)
                .collect())
        })
    }

    fn delete_batch<'a>(&'a self, url: &'a str, receipt_handles: &'a [String]) -> BoxFuture<'a, BatchResult> {
        Box::pin(async move {
            let entries = receipt_handles.iter().enumerate().map(|(index, handle)| {
                let entry = DeleteMessageBatchRequestEntry::builder()
                    .id(entry_id(index))
                    .receipt_handle(handle);
                entry.build().map_err(refused)
            });
            let call = self.for_url(url).await.delete_message_batch().queue_url(url);
            let call = call.set_entries(Some(entries.collect::<Result<_, _>>()?));
            let output = call.send().await.map_err(|error| call_error(&error))?;
            let succeeded = output.successful().iter().map(|entry| entry.id());
            Ok(per_entry(receipt_handles.len(), succeeded, output.failed()))
        })
    }
}

/// Always sent, also 0, but to a FIFO queue, which refuses it.
fn delay(message: &SendRequest) -> Option<i32> {
    message
        .deduplication_id
        .is_none()
        .then_some(message.delay_seconds.cast_signed())
}

/// Entries are named by their place: one message can be in a batch twice, and message ids can have any form.
fn entry_id(index: usize) -> String {
    index.to_string()
}

/// A 200 answer has a result per entry. One that is in neither list is not confirmed.
fn per_entry<'a>(
    count: usize,
    succeeded: impl Iterator<Item = &'a str>,
    failed: &[BatchResultErrorEntry],
) -> Vec<Result<(), CallError>> {
    let unconfirmed = no_answer("the answer says nothing of the entry");
    let mut results = vec![Err(unconfirmed); count];
    let place = |id: &str| id.parse::<usize>().ok().filter(|index| *index < count);
    for index in succeeded.filter_map(place) {
        results[index] = Ok(());
    }
    for entry in failed {
        if let Some(index) = place(entry.id()) {
            let message = entry.message().unwrap_or("no message");
            let kind = kind_of(
                entry.code(),
                message,
                if entry.sender_fault() { 400 } else { 500 },
            );
            results[index] = Err(CallError::new(kind, Some(entry.code()), message));
        }
    }
    results
}

fn attributes(message: &SendRequest) -> Result<Option<HashMap<String, MessageAttributeValue>>, CallError> {
    if message.attributes.is_empty() {
        return Ok(None);
    }
    let attribute = |(name, attribute): (&String, &MessageAttribute)| {
        let value = MessageAttributeValue::builder().data_type(&attribute.data_type);
        let value = match &attribute.value {
            AttributeValue::Text(text) => value.string_value(text),
            AttributeValue::Binary(bytes) => value.binary_value(Blob::new(bytes.as_slice())),
        };
        Ok((name.clone(), value.build().map_err(refused)?))
    };
    message
        .attributes
        .iter()
        .map(attribute)
        .collect::<Result<_, _>>()
        .map(Some)
}

type SystemAttributes = HashMap<MessageSystemAttributeNameForSends, MessageSystemAttributeValue>;

fn system_attributes(message: &SendRequest) -> Result<Option<SystemAttributes>, CallError> {
    let Some(trace) = &message.trace_header else {
        return Ok(None);
    };
    let value = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value(trace);
    let value = value.build().map_err(refused)?;
    Ok(Some(HashMap::from([(
        MessageSystemAttributeNameForSends::AwsTraceHeader,
        value,
    )])))
}

/// A received message in the form in which Lambda gives it to a function.
fn as_event(message: Message) -> SqsMessage {
    let mut event = SqsMessage::default();
    event.message_id = message.message_id;
    event.receipt_handle = message.receipt_handle;
    event.body = message.body;
    let attributes = message.attributes.unwrap_or_default();
    event.attributes = attributes
        .into_iter()
        .map(|(name, value)| (name.as_str().to_owned(), value))
        .collect();
    let attributes = message.message_attributes.unwrap_or_default();
    event.message_attributes = attributes
        .into_iter()
        .map(|(name, value)| {
            let mut attribute = SqsMessageAttribute::default();
            attribute.data_type = Some(value.data_type);
            attribute.string_value = value.string_value;
            attribute.binary_value = value.binary_value.map(|blob| {
                let mut data = aws_lambda_events::encodings::Base64Data::default();
                data.0 = blob.into_inner();
                data
            });
            (name, attribute)
        })
        .collect();
    event
}

fn queue_attributes(attributes: &HashMap<QueueAttributeName, String>) -> QueueAttributes {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Redrive {
        // A number, or a number as text.
        max_receive_count: serde_json::Value,
        dead_letter_target_arn: String,
    }
    let redrive = attributes.get(&QueueAttributeName::RedrivePolicy);
    let redrive = redrive.and_then(|json| serde_json::from_str::<Redrive>(json).ok());
    let number = |name| attributes.get(&name).and_then(|text| text.parse::<u64>().ok());
    QueueAttributes {
        arn: attributes
            .get(&QueueAttributeName::QueueArn)
            .and_then(|arn| QueueArn::parse(arn)),
        max_receive_count: redrive
            .as_ref()
            .and_then(|redrive| match &redrive.max_receive_count {
                serde_json::Value::String(text) => text.parse().ok(),
                count => count.as_u64().and_then(|count| u32::try_from(count).ok()),
            })
            .filter(|count| *count > 0),
        dead_letter_arn: redrive.map(|redrive| redrive.dead_letter_target_arn),
        retention: number(QueueAttributeName::MessageRetentionPeriod).map(Duration::from_secs),
        visibility_timeout: number(QueueAttributeName::VisibilityTimeout).map(Duration::from_secs),
        maximum_message_size: number(QueueAttributeName::MaximumMessageSize)
            .and_then(|size| usize::try_from(size).ok()),
        backlog: number(QueueAttributeName::ApproximateNumberOfMessages).map(|waiting| {
            waiting + number(QueueAttributeName::ApproximateNumberOfMessagesDelayed).unwrap_or_default()
        }),
    }
}

fn refused(error: aws_sdk_sqs::error::BuildError) -> CallError {
    CallError::new(CallErrorKind::Refused, None, error.to_string())
}

fn no_answer(text: &str) -> CallError {
    CallError::new(CallErrorKind::Unavailable, None, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_region_is_in_its_url() {
        assert_eq!(
            region_of("https://sqs.eu-west-1.amazonaws.com/1/jobs"),
            Some("eu-west-1")
        );
        assert_eq!(
            region_of("https://sqs.cn-north-1.amazonaws.com.cn/1/jobs"),
            Some("cn-north-1")
        );
        for (url, region) in [
            ("https://sqs.us-iso-east-1.c2s.ic.gov/1/jobs", "us-iso-east-1"),
            ("https://sqs.eu-west-1.api.aws/1/jobs", "eu-west-1"),
            (
                "https://sqs-fips.us-gov-west-1.amazonaws.com/1/jobs",
                "us-gov-west-1",
            ),
        ] {
            assert_eq!(region_of(url), Some(region), "{url}");
        }
        for local in [
            "http://127.0.0.1:4566/000000000000/jobs",
            "http://sqs.localhost:4566/1/jobs",
            "jobs",
        ] {
            assert_eq!(region_of(local), None, "{local}");
        }
    }
}
