//! A worker that does what a message says: `{"id":"a","do":"limit","seconds":3}`. Tells a recorder of every run.
//!
//! `RECORDER_URL` is where the recorder is, `PROVIDER_URL` where `"do":"call"` calls. With `ENDS_WITH_STDIN` set, it ends
//! when its standard input does, so that it never outlives a test.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

use anyhow::{Context, Result};
use frigg_tests::clock;
use frigg_tests::recorder::Run;
use frigg_worker::core::delivery::AttributeValue;
use frigg_worker::{Delivery, Handler, HandlerError, Job, RateLimited, Worker, read_limit};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A message: the whole body, and what it says.
#[derive(Deserialize)]
#[serde(try_from = "Map<String, Value>")]
struct Task {
    body: Map<String, Value>,
    said: Said,
}

#[derive(Deserialize)]
struct Said {
    id: String,
    #[serde(flatten)]
    action: Action,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Action {
    Ok,
    /// Calls the provider, and turns its answer into the handler's.
    Call {
        account: String,
    },
    /// Is limited for so many seconds, so many times.
    Limit {
        seconds: u64,
        #[serde(default = "once")]
        times: u32,
    },
    Error,
    Panic,
    Permanent,
    Sleep {
        ms: u64,
    },
}

fn once() -> u32 {
    1
}

impl TryFrom<Map<String, Value>> for Task {
    type Error = serde_json::Error;

    fn try_from(body: Map<String, Value>) -> Result<Self, Self::Error> {
        let said = Said::deserialize(Value::Object(body.clone()))?;
        Ok(Self { body, said })
    }
}

struct TestWorker {
    client: reqwest::Client,
    recorder: String,
    provider: Option<String>,
}

impl Handler for TestWorker {
    type Message = Task;
    type Error = HandlerError;

    async fn handle(&self, job: Job<Task>) -> Result<(), HandlerError> {
        let Task { body, said } = job.message;
        let now = clock::now();
        let limited_until = match said.action {
            Action::Limit { seconds, times } if turns(&job.delivery) < times => {
                Some(now + Duration::from_secs(seconds))
            }
            _ => None,
        };
        let run = run(said.id, now, limited_until, &job.delivery, body);
        let index: usize = self
            .client
            .post(format!("{}/runs", self.recorder))
            .json(&run)
            .send()
            .await?
            .json()
            .await?;
        let done = self.act(said.action, limited_until).await;
        let end = format!("{}/runs/{index}/end", self.recorder);
        self.client.put(end).json(&clock::now()).send().await?;
        done
    }

    fn scope_key(&self, task: &Task) -> Option<String> {
        Some(task.body.get("key")?.as_str()?.to_owned())
    }
}

impl TestWorker {
    async fn act(&self, action: Action, limited_until: Option<Timestamp>) -> Result<(), HandlerError> {
        match action {
            Action::Ok => Ok(()),
            Action::Limit { .. } => match limited_until {
                Some(at) => Err(RateLimited::until(at).into()),
                None => Ok(()),
            },
            Action::Call { account } => self.call(&account).await,
            Action::Error => Err("told to fail".into()),
            Action::Panic => panic!("told to panic"),
            Action::Permanent => Err(HandlerError::permanent("told to fail for good")),
            Action::Sleep { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
        }
    }

    async fn call(&self, path: &str) -> Result<(), HandlerError> {
        let provider = self.provider.as_deref().ok_or("PROVIDER_URL is not set")?;
        let answer = self.client.get(format!("{provider}/{path}")).send().await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        read_limit(status.as_u16(), &headers, &answer.bytes().await?, None).check()?;
        if !status.is_success() {
            return Err(format!("the provider answers {status}").into());
        }
        Ok(())
    }
}

/// How often the message was here before: as a copy, or as itself.
fn turns(delivery: &Delivery) -> u32 {
    delivery.deferrals + delivery.receive_count.unwrap_or(1) - 1
}

fn run(
    id: String,
    at: Timestamp,
    told: Option<Timestamp>,
    delivery: &Delivery,
    body: Map<String, Value>,
) -> Run {
    let attributes = delivery.message_attributes.iter().map(|(name, attribute)| {
        let value = match &attribute.value {
            AttributeValue::Text(text) => text.clone(),
            AttributeValue::Binary(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        (name.clone(), value)
    });
    Run {
        id,
        message_id: delivery.message_id.clone(),
        at,
        ended_at: None,
        told,
        receive_count: delivery.receive_count,
        deferrals: delivery.deferrals,
        first_deferred_at: delivery.first_deferred_at,
        retry_at: delivery.retry_at,
        deferral_id: delivery.deferral_id.clone(),
        attributes: attributes.collect::<BTreeMap<_, _>>(),
        body,
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    if std::env::var_os("ENDS_WITH_STDIN").is_some() {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(9);
        });
    }
    let worker = TestWorker {
        client: reqwest::Client::builder().no_proxy().build()?,
        recorder: std::env::var("RECORDER_URL").context("RECORDER_URL is not set")?,
        provider: std::env::var("PROVIDER_URL").ok(),
    };
    Ok(Worker::from_env(worker).await?.run().await?)
}
