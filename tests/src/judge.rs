//! A second judge of every request: what a [`Proxy`](crate::proxy::Proxy) saw go to a lenient emulator is asked once more
//! of moto, the strictest one, and by AWS's rules that moto does not know.
//!
//! A receipt handle is worth something only where it was received. What is done to one is done to a message that is
//! received for that; and as SQS counts its 12 hours from the receive, for so much longer as the original had been
//! received before. Requests that differ in handles alone are asked once.
//!
//! Asked are the calls of SQS and EventBridge Scheduler; the table of gate and state is not.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::emulator::{ACCOUNT, Emulator, EmulatorOptions, Flavour, REGION};
use crate::proxy::Call;

const STANDARD: &str = "judged";
const FIFO: &str = "judged.fifo";
/// Where messages are received whose handles are needed.
const HELD: &str = "held";
/// EventBridge Scheduler's limit on a target's input.
const MAX_INPUT: usize = 256 * 1024;

static STRICT: OnceCell<Emulator> = OnceCell::const_new();

/// What AWS would not have accepted of these calls, and why; nothing, when all is well.
///
/// # Errors
///
/// When moto does not start or does not answer.
pub async fn refused(calls: &[Call]) -> Result<Vec<String>> {
    let options = || EmulatorOptions::default().with_flavour(Flavour::Moto);
    let strict = STRICT.get_or_try_init(|| Emulator::start_with(options())).await?;
    let court = Court::open(strict).await?;
    let (mut received, mut asked, mut refused) = (HashMap::new(), HashSet::new(), Vec::new());
    for call in calls {
        for message in call.response["Messages"].as_array().into_iter().flatten() {
            if let Some(handle) = message["ReceiptHandle"].as_str() {
                received.insert(handle.to_owned(), call.at);
            }
        }
        let request = without_handles(call, &received);
        if !asked.insert((call.operation.clone(), request.to_string())) {
            continue;
        }
        if let Err(why) = court.judge(call, request).await {
            refused.push(format!("{}: {why:#}: {}", call.operation, call.request));
        }
    }
    Ok(refused)
}

/// The request with handles by their place, and with visibility as long as it is since the receive.
fn without_handles(call: &Call, received: &HashMap<String, Timestamp>) -> Value {
    let mut request = call.request.clone();
    for (place, entry) in request["Entries"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let Some(handle) = entry.get("ReceiptHandle").and_then(Value::as_str) else {
            continue;
        };
        // In minutes, rounded up: few requests differ, and the rule has hours to spare.
        let age = received
            .get(handle)
            .map_or(0, |at| call.at.duration_since(*at).as_secs());
        let age = (age + 59) / 60 * 60;
        if let Some(seconds) = entry.get("VisibilityTimeout").and_then(Value::as_i64) {
            entry["VisibilityTimeout"] = json!(if seconds > 0 { seconds + age } else { seconds });
        }
        entry["ReceiptHandle"] = json!(place);
    }
    request
}

/// Queues of one judgement.
struct Court<'e> {
    client: Client,
    strict: &'e Emulator,
    suffix: String,
}

impl<'e> Court<'e> {
    async fn open(strict: &'e Emulator) -> Result<Self> {
        let client = Client::builder()
            .no_proxy()
            .build()
            .context("failed to build an HTTP client")?;
        let court = Court {
            client,
            strict,
            suffix: strict.unique("q"),
        };
        for (name, attributes) in [
            (STANDARD, json!({})),
            (HELD, json!({})),
            (FIFO, json!({ "FifoQueue": "true" })),
        ] {
            let queue = json!({ "QueueName": court.name(name), "Attributes": attributes });
            court.sqs("CreateQueue", &queue).await?;
        }
        Ok(court)
    }

    fn name(&self, queue: &str) -> String {
        format!("{}-{queue}", self.suffix)
    }

    fn url(&self, queue: &str) -> String {
        format!("{}/{ACCOUNT}/{}", self.strict.endpoint(), self.name(queue))
    }

    async fn judge(&self, call: &Call, mut request: Value) -> Result<()> {
        let of_fifo = request["QueueUrl"]
            .as_str()
            .is_some_and(|url| url.ends_with(".fifo"));
        let queue = if of_fifo { FIFO } else { STANDARD };
        let operation = call.operation.as_str();
        match operation {
            "SendMessage" => self.send(queue, &request).await,
            "SendMessageBatch" => {
                for message in entries(&request) {
                    message_rules(message)?;
                }
                request["QueueUrl"] = self.url(queue).into();
                self.sqs(operation, &request).await.map(drop)
            }
            "ChangeMessageVisibilityBatch" | "DeleteMessageBatch" => {
                let handles = self.receive(entries(&request).len()).await?;
                let entries = request["Entries"].as_array_mut().into_iter().flatten();
                for (entry, handle) in entries.zip(&handles) {
                    ensure!(
                        !entry["VisibilityTimeout"].as_i64().is_some_and(i64::is_negative),
                        "a negative visibility"
                    );
                    entry["ReceiptHandle"] = handle.as_str().into();
                }
                request["QueueUrl"] = self.url(HELD).into();
                self.sqs(operation, &request).await.map(drop)
            }
            "ReceiveMessage" => {
                // It need not wait.
                self.send_one(HELD).await?;
                request["QueueUrl"] = self.url(HELD).into();
                self.sqs(operation, &request).await.map(drop)
            }
            "GetQueueUrl" => {
                request["QueueName"] = self.name(STANDARD).into();
                self.sqs(operation, &request).await.map(drop)
            }
            "GetQueueAttributes" => {
                request["QueueUrl"] = self.url(queue).into();
                self.sqs(operation, &request).await.map(drop)
            }
            _ => match operation.split_once(" /schedules/") {
                Some(("POST", name)) => self.schedule(name, &request, call.at).await,
                Some((_, name)) => schedule_name(name),
                // The table's.
                None if is_of_a_table(operation) => Ok(()),
                None => bail!("nobody knows how to judge it"),
            },
        }
    }

    async fn send(&self, queue: &str, message: &Value) -> Result<()> {
        message_rules(message)?;
        let mut message = message.clone();
        message["QueueUrl"] = self.url(queue).into();
        self.sqs("SendMessage", &message).await.map(drop)
    }

    async fn send_one(&self, queue: &str) -> Result<()> {
        self.send(queue, &json!({ "MessageBody": "held" })).await
    }

    /// Handles of messages that are received now.
    async fn receive(&self, count: usize) -> Result<Vec<String>> {
        let mut handles = Vec::with_capacity(count);
        for _ in 0..count {
            self.send_one(HELD).await?;
            let receive = json!({ "QueueUrl": self.url(HELD), "MaxNumberOfMessages": 1 });
            let received = self.sqs("ReceiveMessage", &receive).await?;
            let handle = received["Messages"][0]["ReceiptHandle"].as_str();
            handles.push(handle.context("moto gives no message")?.to_owned());
        }
        Ok(handles)
    }

    /// A schedule, and the call that it makes.
    async fn schedule(&self, name: &str, request: &Value, at: Timestamp) -> Result<()> {
        schedule_name(name)?;
        schedule_rules(request, at)?;
        let mut here = request.clone();
        here["GroupName"] = "default".into();
        let path = format!("/schedules/{}", self.strict.unique("judged"));
        self.post("scheduler", &path, None, &here).await?;
        let target = &request["Target"];
        let input = target["Input"].as_str().unwrap_or_default();
        if target["Arn"] == "arn:aws:scheduler:::aws-sdk:sqs:sendMessage" {
            let call = serde_json::from_str(input).context("the universal target's input is no JSON")?;
            self.send(STANDARD, &call).await
        } else {
            self.send(STANDARD, &json!({ "MessageBody": input })).await
        }
    }

    async fn sqs(&self, operation: &str, request: &Value) -> Result<Value> {
        let target = format!("AmazonSQS.{operation}");
        let answer = self.post("sqs", "/", Some(&target), request).await?;
        let failed = answer["Failed"]
            .as_array()
            .is_some_and(|failed| !failed.is_empty());
        ensure!(!failed, "{}", answer["Failed"]);
        Ok(answer)
    }

    async fn post(&self, service: &str, path: &str, target: Option<&str>, body: &Value) -> Result<Value> {
        let signature = format!(
            "AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let mut request = self.client.post(format!("{}{path}", self.strict.endpoint()));
        if let Some(target) = target {
            request = request.header("x-amz-target", target);
        }
        let kind = if target.is_some() {
            "application/x-amz-json-1.0"
        } else {
            "application/json"
        };
        let request = request
            .header("authorization", signature)
            .header("content-type", kind);
        let answer = request
            .body(body.to_string())
            .send()
            .await
            .context("moto does not answer")?;
        let status = answer.status();
        let text = answer.text().await.context("moto's answer broke off")?;
        ensure!(status.is_success(), "{status} {text}");
        serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))
    }
}

fn entries(request: &Value) -> &[Value] {
    request["Entries"].as_array().map_or(&[], Vec::as_slice)
}

fn is_of_a_table(operation: &str) -> bool {
    matches!(
        operation,
        "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem" | "Query" | "TransactWriteItems"
    )
}

/// [SendMessage]: what moto lets through.
///
/// [SendMessage]: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
fn message_rules(message: &Value) -> Result<()> {
    ensure!(
        !message["DelaySeconds"].as_i64().is_some_and(i64::is_negative),
        "a negative delay"
    );
    let attributes = message["MessageAttributes"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    ensure!(attributes <= 10, "{attributes} attributes");
    let body = message["MessageBody"].as_str().context("no body")?;
    ensure!(!body.is_empty(), "an empty body");
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    ensure!(body.chars().all(allowed), "a character that SQS refuses");
    Ok(())
}

fn schedule_name(name: &str) -> Result<()> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    ensure!(
        !name.is_empty() && name.len() <= 64 && name.chars().all(valid),
        "the schedule's name {name:?}"
    );
    Ok(())
}

/// [CreateSchedule] and its target: moto looks at none of it.
///
/// [CreateSchedule]: https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html
fn schedule_rules(request: &Value, now: Timestamp) -> Result<()> {
    let expression = request["ScheduleExpression"].as_str().unwrap_or_default();
    let at = expression.strip_prefix("at(").and_then(|at| at.strip_suffix(')'));
    let at = at
        .filter(|at| at.len() == "2026-09-28T12:00:00".len())
        .context("the expression is no at(…)")?;
    let at = at.parse::<DateTime>().context("the expression's time")?;
    ensure!(
        request["ScheduleExpressionTimezone"] == "UTC",
        "the expression's time zone"
    );
    let at = TimeZone::UTC.to_timestamp(at).context("the expression's time")?;
    ensure!(at > now, "at {at}, which is past");
    ensure!(
        request["FlexibleTimeWindow"] == json!({ "Mode": "OFF" }),
        "the time window"
    );
    ensure!(
        ["NONE", "DELETE"]
            .iter()
            .any(|after| request["ActionAfterCompletion"] == *after),
        "what comes after"
    );
    schedule_name(request["GroupName"].as_str().unwrap_or("default"))?;
    let target = &request["Target"];
    for name in ["Arn", "RoleArn"] {
        ensure!(
            target[name]
                .as_str()
                .is_some_and(|arn| arn.starts_with("arn:aws")),
            "the target's {name}"
        );
    }
    if let Some(dead_letters) = target["DeadLetterConfig"].get("Arn") {
        ensure!(
            dead_letters
                .as_str()
                .is_some_and(|arn| arn.starts_with("arn:aws:sqs:")),
            "its dead-letter queue"
        );
    }
    let input = target["Input"].as_str().unwrap_or_default();
    ensure!(
        !input.is_empty() && input.len() <= MAX_INPUT,
        "an input of {} bytes",
        input.len()
    );
    let number = |name: &str| target["RetryPolicy"].get(name).and_then(Value::as_i64);
    let (age, attempts) = (number("MaximumEventAgeInSeconds"), number("MaximumRetryAttempts"));
    ensure!(
        age.is_none_or(|age| (60..=86_400).contains(&age)),
        "MaximumEventAgeInSeconds"
    );
    ensure!(
        attempts.is_none_or(|attempts| (0..=185).contains(&attempts)),
        "MaximumRetryAttempts"
    );
    Ok(())
}
