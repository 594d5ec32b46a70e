//! SNS topics and EventBridge buses, and queues that hear of what comes there.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Emulator, Queue};

impl Emulator {
    /// Creates a topic. Returns its ARN.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_topic(&self, name: &str) -> Result<String> {
        let name = self.unique(name);
        let fields = [("Action", "CreateTopic"), ("Version", VERSION), ("Name", &name)];
        let answer = self.api().query("sns", &fields).await?.success("CreateTopic")?;
        let arn = answer.body.split("<TopicArn>").nth(1);
        let arn = arn.and_then(|rest| rest.split('<').next());
        Ok(arn.context("CreateTopic answers an ARN")?.to_owned())
    }

    /// What is published to the topic comes to the queue.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn subscribe(&self, topic: &str, queue: &Queue) -> Result<()> {
        let fields = [
            ("Action", "Subscribe"),
            ("Version", VERSION),
            ("TopicArn", topic),
            ("Protocol", "sqs"),
            ("Endpoint", &queue.arn),
        ];
        let answer = self.api().query("sns", &fields).await?;
        answer.success("Subscribe").map(drop)
    }

    /// Creates an event bus. Returns its name.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_bus(&self, name: &str) -> Result<String> {
        let name = self.unique(name);
        self.event_bridge("CreateEventBus", &json!({ "Name": name }))
            .await?;
        Ok(name)
    }

    /// Events of the bus that fit the pattern come to the queue.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn route(&self, bus: &str, pattern: &Value, queue: &Queue) -> Result<()> {
        let rule = self.unique("rule");
        let put = json!({ "Name": rule, "EventBusName": bus, "EventPattern": pattern.to_string() });
        self.event_bridge("PutRule", &put).await?;
        let targets = json!({
            "Rule": rule, "EventBusName": bus, "Targets": [{ "Id": "queue", "Arn": queue.arn }],
        });
        self.event_bridge("PutTargets", &targets).await
    }

    async fn event_bridge(&self, operation: &str, request: &Value) -> Result<()> {
        let answer = self
            .api()
            .json("events", &format!("AWSEvents.{operation}"), request)
            .await?;
        answer.success(operation).map(drop)
    }
}

const VERSION: &str = "2010-03-31";
