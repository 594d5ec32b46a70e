//! Queues: create, look into, empty.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use serde_json::json;

use super::Emulator;
use crate::wait::wait_until;

/// A queue to create.
#[derive(Clone, Debug)]
pub struct QueueSpec {
    name: String,
    fifo: bool,
    visibility_seconds: u32,
    max_receives: Option<u32>,
    attributes: Vec<(QueueAttributeName, String)>,
}

impl QueueSpec {
    /// A standard queue: visibility 30 s, and a dead-letter queue after 3 receives. Its name is made unique.
    #[must_use]
    pub fn standard(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            fifo: false,
            visibility_seconds: 30,
            max_receives: Some(3),
            attributes: Vec::new(),
        }
    }

    /// A FIFO queue, otherwise the same. `.fifo` is added to the name; the body is the deduplication id by default.
    #[must_use]
    pub fn fifo(name: impl Into<String>) -> Self {
        Self {
            fifo: true,
            ..Self::standard(name)
        }
    }

    /// The visibility timeout in seconds. Behind a function it must be no less than the function's timeout.
    #[must_use]
    pub fn with_visibility(mut self, seconds: u32) -> Self {
        self.visibility_seconds = seconds;
        self
    }

    /// Receives before the dead-letter queue.
    #[must_use]
    pub fn with_max_receives(mut self, receives: u32) -> Self {
        self.max_receives = Some(receives);
        self
    }

    /// No dead-letter queue.
    #[must_use]
    pub fn without_dead_letters(mut self) -> Self {
        self.max_receives = None;
        self
    }

    /// Any other attribute.
    #[must_use]
    pub fn with_attribute(mut self, name: QueueAttributeName, value: impl Into<String>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }
}

/// A queue that exists.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Its ARN.
    pub arn: String,
    /// Its dead-letter queue.
    pub dead_letters: Option<Box<Queue>>,
}

impl Queue {
    /// The dead-letter queue.
    ///
    /// # Errors
    ///
    /// When it has none.
    pub fn dead_letters(&self) -> Result<&Self> {
        self.dead_letters
            .as_deref()
            .with_context(|| format!("{} has no dead-letter queue", self.name))
    }
}

/// How many messages a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Waiting to be received.
    pub visible: u64,
    /// Received and neither deleted nor visible again.
    pub in_flight: u64,
    /// Sent with a delay that has not passed.
    pub delayed: u64,
}

impl Depth {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

impl Emulator {
    /// Creates a queue, with its dead-letter queue.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_queue(&self, spec: &QueueSpec) -> Result<Queue> {
        let name = self.unique(&spec.name);
        let suffix = if spec.fifo { ".fifo" } else { "" };
        let mut attributes: HashMap<_, _> = spec.attributes.iter().cloned().collect();
        attributes.insert(
            QueueAttributeName::VisibilityTimeout,
            spec.visibility_seconds.to_string(),
        );
        let mut dead_letters = None;
        if let Some(receives) = spec.max_receives {
            let queue = self
                .create(format!("{name}-dead{suffix}"), spec.fifo, HashMap::new())
                .await?;
            let redrive = json!({ "deadLetterTargetArn": queue.arn, "maxReceiveCount": receives });
            attributes.insert(QueueAttributeName::RedrivePolicy, redrive.to_string());
            dead_letters = Some(Box::new(queue));
        }
        let queue = self
            .create(format!("{name}{suffix}"), spec.fifo, attributes)
            .await?;
        Ok(Queue {
            dead_letters,
            ..queue
        })
    }

    async fn create(
        &self,
        name: String,
        fifo: bool,
        mut attributes: HashMap<QueueAttributeName, String>,
    ) -> Result<Queue> {
        if fifo {
            attributes.insert(QueueAttributeName::FifoQueue, "true".to_owned());
            attributes.insert(QueueAttributeName::ContentBasedDeduplication, "true".to_owned());
        }
        let create = self
            .sqs()
            .create_queue()
            .queue_name(&name)
            .set_attributes(Some(attributes));
        let created = create
            .send()
            .await
            .with_context(|| format!("failed to create the queue {name}"))?;
        let url = created
            .queue_url
            .with_context(|| format!("the queue {name} has no URL"))?;
        let arn = self.attribute(&url, QueueAttributeName::QueueArn).await?;
        Ok(Queue {
            name,
            url,
            arn,
            dead_letters: None,
        })
    }

    /// One attribute of a queue.
    ///
    /// # Errors
    ///
    /// When the emulator refuses, or the queue has no such attribute.
    pub async fn attribute(&self, queue_url: &str, name: QueueAttributeName) -> Result<String> {
        let mut attributes = self.attributes(queue_url).await?;
        attributes
            .remove(&name)
            .with_context(|| format!("{queue_url} has no attribute {name}"))
    }

    /// All attributes of a queue.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn attributes(&self, queue_url: &str) -> Result<HashMap<QueueAttributeName, String>> {
        let ask = self
            .sqs()
            .get_queue_attributes()
            .queue_url(queue_url)
            .attribute_names(QueueAttributeName::All);
        let answer = ask
            .send()
            .await
            .with_context(|| format!("failed to read the attributes of {queue_url}"))?;
        Ok(answer.attributes.unwrap_or_default())
    }

    /// How many messages a queue holds.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn depth(&self, queue_url: &str) -> Result<Depth> {
        let attributes = self.attributes(queue_url).await?;
        let count = |name| {
            attributes
                .get(&name)
                .and_then(|value| value.parse().ok())
                .unwrap_or_default()
        };
        Ok(Depth {
            visible: count(QueueAttributeName::ApproximateNumberOfMessages),
            in_flight: count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
            delayed: count(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
        })
    }

    /// Waits until a queue holds nothing: neither waiting, nor in flight, nor delayed.
    ///
    /// # Errors
    ///
    /// When that does not happen within `deadline`.
    pub async fn wait_until_empty(&self, queue_url: &str, deadline: Duration) -> Result<()> {
        let what = format!("{queue_url} is empty");
        wait_until(deadline, &what, async || {
            Ok(self.depth(queue_url).await? == Depth::default())
        })
        .await
    }

    /// Receives up to ten messages, with all their attributes. Waits `wait_seconds` (0–20) for the first.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn receive(&self, queue_url: &str, wait_seconds: i32) -> Result<Vec<Message>> {
        let receive = self
            .sqs()
            .receive_message()
            .queue_url(queue_url)
            .max_number_of_messages(10)
            .wait_time_seconds(wait_seconds)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All);
        let received = receive
            .send()
            .await
            .with_context(|| format!("failed to receive from {queue_url}"))?;
        Ok(received.messages.unwrap_or_default())
    }

    /// Receives and deletes all that can be received now: a dead-letter queue's messages, say.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn drain(&self, queue_url: &str) -> Result<Vec<Message>> {
        let mut drained = Vec::new();
        loop {
            let received = self.receive(queue_url, 0).await?;
            if received.is_empty() {
                return Ok(drained);
            }
            for message in received {
                let handle = message
                    .receipt_handle
                    .as_deref()
                    .context("a received message without a handle")?;
                let delete = self
                    .sqs()
                    .delete_message()
                    .queue_url(queue_url)
                    .receipt_handle(handle);
                delete
                    .send()
                    .await
                    .with_context(|| format!("failed to delete from {queue_url}"))?;
                drained.push(message);
            }
        }
    }
}
