//! The facts of one receive.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// An SQS queue's ARN: `arn:<partition>:sqs:<region>:<account>:<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueArn {
    // Every record of a batch has it.
    text: Arc<str>,
    /// Byte offsets of region, account and name in `text`.
    parts: [usize; 3],
}

impl QueueArn {
    /// Reads an ARN of any partition. `None` when it is not an SQS queue's.
    ///
    /// ```
    /// use frigg_core::delivery::QueueArn;
    ///
    /// let arn = QueueArn::parse("arn:aws-cn:sqs:cn-north-1:111111111111:jobs.fifo").ok_or("no queue")?;
    /// assert_eq!((arn.region(), arn.account(), arn.name()), ("cn-north-1", "111111111111", "jobs.fifo"));
    /// assert!(arn.is_fifo());
    /// assert!(QueueArn::parse("arn:aws:sns:eu-west-1:111111111111:topic").is_none());
    /// # Ok::<(), &str>(())
    /// ```
    pub fn parse(text: &str) -> Option<QueueArn> {
        let mut fields = text.split(':');
        let mut next = || fields.next();
        let ["arn", partition, "sqs", region, account, name] =
            [next()?, next()?, next()?, next()?, next()?, next()?]
        else {
            return None;
        };
        if fields.next().is_some() {
            return None;
        }
        if [partition, region, account, name]
            .iter()
            .any(|field| field.is_empty())
        {
            return None;
        }
        let region_at = "arn:".len() + partition.len() + ":sqs:".len();
        let account_at = region_at + region.len() + 1;
        let name_at = account_at + account.len() + 1;
        Some(QueueArn {
            text: text.into(),
            parts: [region_at, account_at, name_at],
        })
    }

    /// `eu-west-1`
    pub fn region(&self) -> &str {
        &self.text[self.parts[0]..self.parts[1] - 1]
    }

    /// The twelve digits of the queue's owner.
    pub fn account(&self) -> &str {
        &self.text[self.parts[1]..self.parts[2] - 1]
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.text[self.parts[2]..]
    }

    /// FIFO queues are told by their name's ending, as SQS demands it.
    pub fn is_fifo(&self) -> bool {
        self.name().ends_with(".fifo")
    }

    /// The whole ARN.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for QueueArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A message attribute, as SQS types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageAttribute {
    /// `String`, `Number`, `Binary`, or one of these with a custom suffix (`Number.int`).
    pub data_type: String,
    /// Its value.
    pub value: AttributeValue,
}

/// The value of a [`MessageAttribute`].
#[derive(Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// A string, or a number as text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

/// Its length: a value can be a secret of the sender's.
impl fmt::Debug for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeValue::Text(text) => write!(f, "Text({} bytes)", text.len()),
            AttributeValue::Binary(bytes) => write!(f, "Binary({} bytes)", bytes.len()),
        }
    }
}

/// Tells how much time the batch has left. Injected, so that `core` reads no clock.
#[derive(Clone)]
pub struct TimeLeft(Arc<dyn Fn() -> Duration + Send + Sync>);

impl TimeLeft {
    /// From a function that answers at each call.
    pub fn new(time_left: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        TimeLeft(Arc::new(time_left))
    }
}

impl fmt::Debug for TimeLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0().fmt(f)
    }
}

impl Default for TimeLeft {
    /// Unlimited.
    fn default() -> Self {
        TimeLeft::new(|| Duration::MAX)
    }
}

/// What is known of one receive of one message.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// The SQS message id. A re-sent message has a new one; see [`deferral_id`](Self::deferral_id).
    pub message_id: String,
    /// How often this message was received, this time included. A re-send starts again at 1.
    pub receive_count: Option<u32>,
    /// After how many receives the queue moves it to the dead-letter queue, where known.
    pub max_receive_count: Option<u32>,
    /// How often it was put back for a limit.
    pub deferrals: u32,
    /// How often it was put back before its handler ran, because its key was closed.
    pub gated: u32,
    /// When it was first put back.
    pub first_deferred_at: Option<Timestamp>,
    /// The id that stays the same through all deferrals: the id of the first message.
    pub deferral_id: Option<String>,
    /// The time before which it should not run.
    pub retry_at: Option<Timestamp>,
    /// When it was sent to the queue.
    pub sent_at: Option<Timestamp>,
    /// When it was first received.
    pub first_received_at: Option<Timestamp>,
    /// SQS's own attributes (`ApproximateReceiveCount`, `SentTimestamp`, …).
    pub attributes: HashMap<String, String>,
    /// The sender's attributes.
    pub message_attributes: HashMap<String, MessageAttribute>,
    /// FIFO message group, or the tenant on a fair queue.
    pub group_id: Option<String>,
    /// The queue it came from.
    pub queue_arn: Option<QueueArn>,
    /// See [`time_left`](Self::time_left).
    pub deadline: TimeLeft,
}

impl Delivery {
    /// Whether a failure now sends the message to the dead-letter queue. Only known when both counts are.
    pub fn is_last_attempt(&self) -> bool {
        matches!((self.receive_count, self.max_receive_count), (Some(count), Some(max)) if count >= max)
    }

    /// Time until the batch must have ended. The handler is cancelled then.
    pub fn time_left(&self) -> Duration {
        self.deadline.0()
    }

    /// Whether it came from a FIFO queue.
    pub fn is_fifo(&self) -> bool {
        self.queue_arn.as_ref().is_some_and(QueueArn::is_fifo)
    }

    /// The id that the next deferral carries.
    pub fn stable_id(&self) -> &str {
        self.deferral_id.as_deref().unwrap_or(&self.message_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_of_any_partition_are_read_and_others_refused() {
        for text in [
            "arn:aws:sqs:eu-west-1:1:q",
            "arn:aws-us-gov:sqs:us-gov-west-1:1:q",
            "arn:aws-iso:sqs:x:1:q.fifo",
        ] {
            let arn = QueueArn::parse(text).unwrap();
            assert_eq!(arn.as_str(), text);
            assert_eq!(text, format!("{arn}"));
            assert!(text.contains(&format!(":{}:{}:{}", arn.region(), arn.account(), arn.name())));
        }
        for text in [
            "",
            "q",
            "arn:aws:sqs:eu-west-1:1",
            "arn:aws:sqs:eu-west-1:1:",
            "arn:aws:sqs::1:q",
            "arn:aws:sqs:a:1:q:x",
        ] {
            assert_eq!(QueueArn::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_last_attempt_is_known_only_when_both_counts_are() {
        for (receive_count, max_receive_count, want) in [
            (Some(3), Some(3), true),
            (Some(4), Some(3), true),
            (Some(2), Some(3), false),
            (None, Some(3), false),
            (Some(3), None, false),
        ] {
            let delivery = Delivery {
                receive_count,
                max_receive_count,
                ..Delivery::default()
            };
            assert_eq!(delivery.is_last_attempt(), want);
        }
    }
}
