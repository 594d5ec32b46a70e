//! Loop detection, which no emulator has: a Lambda that follows a message's chain of calls and stops it after 16 rounds,
//! unless the function allows recursion.
//! <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>
//!
//! It runs the stack's function, with the stack's variables, on the stack's queue. As in AWS, the chain travels in the
//! trace header: Lambda gives it to the invocation, the SDK sends it with each call, and SQS hands it on with the message.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use frigg_tests::clock;
use frigg_tests::emulator::{Emulator, Mapping, Queue, Stack};
use frigg_tests::proxy::Proxy;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::rig::{Rig, SOON};

/// Lambda's.
const ROUNDS: u32 = 16;
const DEFERRALS: u32 = 20;

/// An invocation: its trace header and its event.
type Invocation = (String, Value);

struct Runtime {
    next: Mutex<mpsc::Receiver<Invocation>>,
    answers: mpsc::Sender<Value>,
}

/// A function's process behind a Runtime API of our own.
struct Function {
    invocations: mpsc::Sender<Invocation>,
    answers: mpsc::Receiver<Value>,
    _process: Child,
    serving: JoinHandle<()>,
}

impl Function {
    async fn start(name: &str, variables: &Value) -> Result<Self> {
        let (invocations, next) = mpsc::channel(1);
        let (answers, answered) = mpsc::channel(1);
        let runtime = Arc::new(Runtime {
            next: Mutex::new(next),
            answers,
        });
        let api = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next_invocation))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .with_state(runtime);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(async move {
            // It ends with the task only.
            let _ = axum::serve(listener, api).await;
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_test-worker"));
        command.env_clear().stdout(Stdio::null()).kill_on_drop(true);
        for (variable, value) in variables.as_object().context("no variables")? {
            command.env(variable, value.as_str().unwrap_or_default());
        }
        let process = command
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "/")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "/")
            .spawn()
            .context("failed to start the function")?;
        Ok(Self {
            invocations,
            answers: answered,
            _process: process,
            serving,
        })
    }

    async fn invoke(&mut self, trace: String, event: Value) -> Result<Value> {
        self.invocations.send((trace, event)).await?;
        let answer = tokio::time::timeout(SOON, self.answers.recv()).await;
        answer
            .context("the function does not answer")?
            .context("it ended")
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn next_invocation(State(runtime): State<Arc<Runtime>>) -> Response {
    let Some((trace, event)) = runtime.next.lock().await.recv().await else {
        return StatusCode::GONE.into_response();
    };
    let deadline = clock::now() + Duration::from_secs(10);
    let headers = [
        (
            "lambda-runtime-aws-request-id",
            "00000000-0000-0000-0000-000000000001".to_owned(),
        ),
        (
            "lambda-runtime-deadline-ms",
            deadline.as_millisecond().to_string(),
        ),
        (
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:us-east-1:000000000000:function:f".to_owned(),
        ),
        ("lambda-runtime-trace-id", trace),
    ];
    (headers, Json(event)).into_response()
}

async fn response(State(runtime): State<Arc<Runtime>>, Path(_): Path<String>, answer: String) -> StatusCode {
    let answer = serde_json::from_str(&answer).unwrap_or_default();
    let _ = runtime.answers.send(answer).await;
    StatusCode::ACCEPTED
}

/// The rounds that a trace header tells of: `…;Lineage=1:0123abcd:7`.
fn rounds(trace: &str) -> u32 {
    let lineage = trace.split(';').find_map(|part| part.strip_prefix("Lineage="));
    let count = lineage.and_then(|lineage| lineage.rsplit(':').next());
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// Runs the queue's messages until none is left, as an event source mapping does; stops a chain after [`ROUNDS`] rounds
/// where recursion is not allowed.
async fn serve(
    emulator: &Emulator,
    queue: &Queue,
    proxy: &Proxy,
    function: &mut Function,
    allowed: bool,
) -> Result<()> {
    let sqs = emulator.sqs();
    // Which trace header a message was sent with: the emulator does not keep it.
    let mut traces: HashMap<String, String> = HashMap::new();
    loop {
        let received = sqs
            .receive_message()
            .queue_url(&queue.url)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .wait_time_seconds(1)
            .send()
            .await?;
        for message in received.messages.unwrap_or_default() {
            let id = message.message_id.clone().context("no id")?;
            let trace = traces.get(&id).cloned().unwrap_or_default();
            let body = message.body.clone().unwrap_or_default();
            let stopped = rounds(&trace) >= ROUNDS && !allowed;
            let failed = if stopped {
                let dead = &queue.dead_letters()?.url;
                sqs.send_message()
                    .queue_url(dead)
                    .message_body(body)
                    .send()
                    .await?;
                false
            } else {
                let header = format!(
                    "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0;Lineage=1:0123abcd:{}",
                    rounds(&trace) + 1
                );
                let answer = function.invoke(header, event(&message, queue)?).await?;
                answer["batchItemFailures"]
                    .as_array()
                    .is_some_and(|failures| !failures.is_empty())
            };
            if !failed {
                let handle = message.receipt_handle.context("no receipt handle")?;
                sqs.delete_message()
                    .queue_url(&queue.url)
                    .receipt_handle(handle)
                    .send()
                    .await?;
            }
            for call in proxy.calls_of("SendMessageBatch") {
                for sent in call.response["Successful"].as_array().into_iter().flatten() {
                    let id = sent["MessageId"].as_str().unwrap_or_default().to_owned();
                    traces.insert(id, call.trace.clone().unwrap_or_default());
                }
            }
        }
        if emulator.depth(&queue.url).await?.total() == 0 {
            return Ok(());
        }
    }
}

fn event(message: &Message, queue: &Queue) -> Result<Value> {
    let attributes: HashMap<_, _> = message
        .attributes
        .iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    Ok(json!({ "Records": [{
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": queue.arn,
        "awsRegion": "us-east-1",
    }] }))
}

/// Takes the queue from the emulator's own Lambda, which stops nothing.
async fn unmap(emulator: &Emulator, stack: &Stack) -> Result<()> {
    let path = format!(
        "/2015-03-31/event-source-mappings/?FunctionName={}",
        stack.output("FunctionName")?
    );
    let list = emulator.lambda(Method::GET, &path, None, "list mappings").await?;
    let uuid = list["EventSourceMappings"][0]["UUID"]
        .as_str()
        .context("no mapping")?;
    emulator
        .delete_mapping(&Mapping {
            uuid: uuid.to_owned(),
        })
        .await
}

/// Sends a message that is limited [`DEFERRALS`] times. Returns how often it ran, and what is dead.
async fn loops(change: Option<&str>) -> Result<(usize, usize)> {
    let emulator = Emulator::shared().await?;
    let proxy = Proxy::start(emulator.endpoint()).await?;
    let url = proxy.url();
    // Frigg's own pace: the runtime's would make the wait before the twentieth deferral hours long.
    let rig = Rig::new(emulator, |spec| {
        spec.with("FriggCompat", "yes").with("Scheduler", "no")
    })
    .await?;
    unmap(emulator, &rig.stack).await?;
    let name = rig.stack.output("FunctionName")?;
    let path = format!("/2024-08-31/functions/{name}/recursion-config");
    if let Some(value) = change {
        let body = json!({ "RecursiveLoop": value }).to_string();
        emulator
            .lambda(Method::PUT, &path, Some(body), "set recursion")
            .await?;
    }
    let allowed = emulator
        .lambda(Method::GET, &path, None, "read recursion")
        .await?["RecursiveLoop"]
        == "Allow";
    let path = format!("/2015-03-31/functions/{name}/configuration");
    let configuration = emulator
        .lambda(Method::GET, &path, None, "read the function")
        .await?;
    let mut variables = configuration["Environment"]["Variables"].clone();
    for (name, value) in emulator.environment() {
        variables[name] = json!(value);
    }
    variables["AWS_ENDPOINT_URL"] = json!(url);
    let mut function = Function::start(name, &variables).await?;

    rig.send(
        &json!({ "id": "round", "do": "limit", "seconds": 1, "times": DEFERRALS }),
        None,
    )
    .await?;
    serve(emulator, &rig.queue, &proxy, &mut function, allowed).await?;
    let dead = emulator.drain(&rig.queue.dead_letters()?.url).await?.len();
    let runs = rig.recorder.runs_of("round");
    for (index, run) in (0..).zip(&runs) {
        ensure!(
            run.deferrals == index,
            "run {index} was put back {} times",
            run.deferrals
        );
    }
    emulator.delete_stack(&rig.stack).await?;
    Ok((runs.len(), dead))
}

#[tokio::test]
async fn infra_03_with_the_template_a_message_survives_twenty_deferrals() -> Result<()> {
    assert_eq!(loops(None).await?, (DEFERRALS as usize + 1, 0));
    Ok(())
}

#[tokio::test]
async fn infra_03_without_its_setting_the_loop_is_stopped() -> Result<()> {
    assert_eq!(loops(Some("Terminate")).await?, (ROUNDS as usize, 1));
    Ok(())
}
