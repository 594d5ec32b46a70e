//! What the batch code asks of AWS. The adapters in `aws/` do it; the fakes in `testing` remember it.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_lambda_events::encodings::Base64Data;
use aws_lambda_events::sqs::SqsMessage;
use frigg_core::delivery::{AttributeValue, MessageAttribute, QueueArn};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;

/// Why a call, or one entry of a batch call, did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// AWS's error code (`RequestThrottled`), where there was one.
    pub code: Option<String>,
    /// What happened.
    pub message: String,
    /// What kind of failure it is.
    pub kind: CallErrorKind,
}

/// What a [`CallError`] means to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The request was not valid; the same again is refused again.
    Refused,
    /// Throttled, unreachable, or broken on the other side.
    Unavailable,
    /// The receipt handle is worth nothing any more.
    HandleLost,
    /// A schedule of this name exists.
    Conflict,
}

impl CallError {
    /// An error of this kind and text.
    pub fn new(kind: CallErrorKind, code: Option<&str>, message: impl Into<String>) -> Self {
        CallError {
            code: code.map(str::to_owned),
            message: message.into(),
            kind,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) if !self.message.contains(code.as_str()) => write!(f, "{code}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for CallError {}

/// A copy to be sent. Without a group id on a standard queue it is its own tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct SendRequest {
    /// The body, stamped.
    pub body: String,
    /// `DelaySeconds`, always sent: when it is left out, the queue's own default applies.
    pub delay_seconds: u32,
    /// The sender's attributes.
    pub attributes: HashMap<String, MessageAttribute>,
    /// `AWSTraceHeader` of the original.
    pub trace_header: Option<String>,
    /// `MessageGroupId` of the original (fair queues).
    pub group_id: Option<String>,
    /// `MessageDeduplicationId`, for a FIFO queue only. Such a queue knows no delay per message: none is sent.
    pub deduplication_id: Option<String>,
}

/// Without the body and the values of attributes: they belong in no log.
impl fmt::Debug for SendRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendRequest")
            .field("body_bytes", &self.body.len())
            .field("delay_seconds", &self.delay_seconds)
            .field("attributes", &self.attributes.keys())
            .field("trace_header", &self.trace_header)
            .field("group_id", &self.group_id)
            .finish()
    }
}

impl SendRequest {
    /// A message without metadata.
    pub fn new(body: impl Into<String>, delay_seconds: u32) -> Self {
        SendRequest {
            body: body.into(),
            delay_seconds,
            attributes: HashMap::new(),
            trace_header: None,
            group_id: None,
            deduplication_id: None,
        }
    }
}

impl SendRequest {
    /// What counts against SQS's limits: the body, and names, types and values of the attributes.
    pub(crate) fn bytes(&self) -> usize {
        let value = |value: &AttributeValue| match value {
            AttributeValue::Text(text) => text.len(),
            AttributeValue::Binary(bytes) => bytes.len(),
        };
        let attribute =
            |(name, a): (&String, &MessageAttribute)| name.len() + a.data_type.len() + value(&a.value);
        self.body.len() + self.attributes.iter().map(attribute).sum::<usize>()
    }

    /// Whether it has anything but a body.
    pub(crate) fn has_metadata(&self) -> bool {
        !self.attributes.is_empty() || self.trace_header.is_some() || self.group_id.is_some()
    }

    /// The `SendMessage` call as JSON, spelled as the scheduler's universal target takes it.
    pub(crate) fn as_call(&self, url: &str) -> String {
        let attribute = |attribute: &MessageAttribute| match &attribute.value {
            AttributeValue::Text(text) => json!({ "DataType": attribute.data_type, "StringValue": text }),
            AttributeValue::Binary(bytes) => {
                let mut base64 = Base64Data::default();
                base64.0.clone_from(bytes);
                json!({ "DataType": attribute.data_type, "BinaryValue": base64 })
            }
        };
        let mut call = json!({
            "QueueUrl": url, "MessageBody": self.body, "DelaySeconds": self.delay_seconds,
        });
        if !self.attributes.is_empty() {
            let attributes = self
                .attributes
                .iter()
                .map(|(name, a)| (name.clone(), attribute(a)));
            call["MessageAttributes"] = attributes.collect::<serde_json::Map<_, _>>().into();
        }
        if let Some(group) = &self.group_id {
            call["MessageGroupId"] = group.as_str().into();
        }
        if let Some(trace) = &self.trace_header {
            call["MessageSystemAttributes"] =
                json!({ "AWSTraceHeader": { "DataType": "String", "StringValue": trace } });
        }
        call.to_string()
    }
}

/// A new visibility timeout for one message, counted from the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibilityRequest {
    /// Receipt handle of this receive.
    pub receipt_handle: String,
    /// 0–43,200.
    pub seconds: u32,
}

/// A one-time schedule.
#[derive(Clone, PartialEq, Eq)]
pub struct ScheduleRequest {
    /// `[0-9a-zA-Z-_.]{1,64}`
    pub name: String,
    /// The schedule group.
    pub group: String,
    /// Whole seconds, UTC.
    pub at: Timestamp,
    /// Region in which to create it: the queue's.
    pub region: String,
    /// What it calls.
    pub target: ScheduleTarget,
    /// The role that calls it.
    pub role_arn: String,
    /// The target's input.
    pub input: String,
    /// Where an event goes that could not be delivered.
    pub dead_letter_arn: Option<String>,
}

/// Without the input, which is a body.
impl fmt::Debug for ScheduleRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleRequest")
            .field("name", &self.name)
            .field("group", &self.group)
            .field("at", &self.at)
            .field("region", &self.region)
            .field("target", &self.target)
            .field("role_arn", &self.role_arn)
            .field("input_bytes", &self.input.len())
            .field("dead_letter_arn", &self.dead_letter_arn)
            .finish()
    }
}

/// What a schedule calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleTarget {
    /// The queue itself; the input is the body.
    Queue(String),
    /// `aws-sdk:sqs:sendMessage`; the input is the whole call, with attributes and group. Also for a body with `<`.
    SendMessage,
}

impl ScheduleTarget {
    /// The target's ARN.
    pub fn arn(&self) -> &str {
        match self {
            ScheduleTarget::Queue(arn) => arn,
            ScheduleTarget::SendMessage => "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
        }
    }
}

/// What `GetQueueAttributes` says of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueAttributes {
    /// Its ARN.
    pub arn: Option<QueueArn>,
    /// `maxReceiveCount` of its redrive policy.
    pub max_receive_count: Option<u32>,
    /// ARN of its dead-letter queue.
    pub dead_letter_arn: Option<String>,
    /// `MessageRetentionPeriod`.
    pub retention: Option<Duration>,
    /// `VisibilityTimeout`.
    pub visibility_timeout: Option<Duration>,
    /// `MaximumMessageSize` in bytes.
    pub maximum_message_size: Option<usize>,
    /// How many messages wait: `ApproximateNumberOfMessages` and `ApproximateNumberOfMessagesDelayed`.
    pub backlog: Option<u64>,
}

/// One result per entry, in the order of the request; the outer error when the call as a whole failed.
pub type BatchResult = Result<Vec<Result<(), CallError>>, CallError>;

/// SQS, as far as the runtime needs it. Batch calls take at most ten entries.
pub trait Sqs: Send + Sync + fmt::Debug {
    /// `GetQueueUrl`, in the queue's own region; `owner` passes `QueueOwnerAWSAccountId`.
    fn queue_url<'a>(&'a self, queue: &'a QueueArn, owner: bool) -> BoxFuture<'a, Result<String, CallError>>;

    /// `GetQueueAttributes`.
    fn queue_attributes<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>>;

    /// `SendMessage`; gives the new message's id.
    fn send<'a>(&'a self, url: &'a str, message: &'a SendRequest)
    -> BoxFuture<'a, Result<String, CallError>>;

    /// `SendMessageBatch`.
    fn send_batch<'a>(&'a self, url: &'a str, messages: &'a [SendRequest]) -> BoxFuture<'a, BatchResult>;

    /// `ChangeMessageVisibilityBatch`.
    fn change_visibility_batch<'a>(
        &'a self,
        url: &'a str,
        changes: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult>;

    /// `ReceiveMessage` with all attributes, waiting up to `wait`.
    fn receive<'a>(
        &'a self,
        url: &'a str,
        max_messages: u32,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>>;

    /// `DeleteMessageBatch`, by receipt handles.
    fn delete_batch<'a>(&'a self, url: &'a str, receipt_handles: &'a [String]) -> BoxFuture<'a, BatchResult>;
}

/// EventBridge Scheduler, as far as the runtime needs it.
pub trait Scheduler: Send + Sync + fmt::Debug {
    /// `CreateSchedule`: once, deleted after completion. [`CallErrorKind::Conflict`] when the name is taken.
    fn create<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<(), CallError>>;

    /// `GetSchedule`: whether the schedule of this name does what `request` asks for.
    fn is_same<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<bool, CallError>>;
}
