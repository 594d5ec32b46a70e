//! Lambda's Runtime API, for one bootstrap: hands out events and times the answers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use frigg_worker::Clock;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Fault;

/// Every invocation's deadline, from its beginning.
const DEADLINE: Duration = Duration::from_secs(300);

pub(crate) struct RuntimeApi {
    pub(crate) address: String,
    events: mpsc::Sender<Bytes>,
    answers: mpsc::Receiver<Result<Answered, Fault>>,
    first_next: watch::Receiver<Option<Instant>>,
    server: JoinHandle<()>,
}

/// An invocation's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// From the event's going out to the answer's last byte.
    pub(crate) took: Duration,
    /// How many records it reports failed.
    pub(crate) failures: usize,
}

struct Answered {
    at: Instant,
    body: Bytes,
    sent_at: Instant,
}

struct Shared {
    events: Mutex<mpsc::Receiver<Bytes>>,
    answers: mpsc::Sender<Result<Answered, Fault>>,
    first_next: watch::Sender<Option<Instant>>,
    sent_at: Mutex<Instant>,
}

impl RuntimeApi {
    pub(crate) async fn start() -> Result<RuntimeApi, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (events, receiver) = mpsc::channel(1);
        let (sender, answers) = mpsc::channel(1);
        let (first, first_next) = watch::channel(None);
        let shared = Arc::new(Shared {
            events: Mutex::new(receiver),
            answers: sender,
            first_next: first,
            sent_at: Mutex::new(Instant::now()),
        });
        let invocation = "/2018-06-01/runtime/invocation";
        let app = Router::new()
            .route(&format!("{invocation}/next"), get(next))
            .route(&format!("{invocation}/{{id}}/response"), post(response))
            .route(&format!("{invocation}/{{id}}/error"), post(error))
            .route("/2018-06-01/runtime/init/error", post(init_error))
            .layer(DefaultBodyLimit::disable())
            .with_state(shared);
        let listener = listener.tap_io(|io| drop(io.set_nodelay(true)));
        let server = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(RuntimeApi {
            address,
            events,
            answers,
            first_next,
            server,
        })
    }

    /// When the bootstrap first asked for an event.
    pub(crate) async fn first_next(&mut self) -> Result<Instant, Fault> {
        let asked = self.first_next.wait_for(Option::is_some).await?;
        asked.ok_or_else(|| "the bootstrap never asked for an event".into())
    }

    pub(crate) async fn invoke(&mut self, event: Bytes) -> Result<Answer, Fault> {
        self.events.send(event).await?;
        let answer = self.answers.recv().await.ok_or("the Runtime API ended")??;
        let body: Value = serde_json::from_slice(&answer.body)?;
        Ok(Answer {
            took: answer.at - answer.sent_at,
            failures: body["batchItemFailures"].as_array().map_or(0, Vec::len),
        })
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn next(State(shared): State<Arc<Shared>>) -> Result<Response<Body>, String> {
    shared.first_next.send_if_modified(|first| {
        let unset = first.is_none();
        first.get_or_insert_with(Instant::now);
        unset
    });
    let event = shared.events.lock().await.recv().await.ok_or("no more events")?;
    let deadline = Clock::system().now() + DEADLINE;
    let response = Response::builder()
        .header("content-type", "application/json")
        .header(
            "lambda-runtime-aws-request-id",
            "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
        )
        .header("lambda-runtime-deadline-ms", deadline.as_millisecond())
        .header(
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:eu-west-1:111111111111:function:jobs",
        )
        .header(
            "lambda-runtime-trace-id",
            "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0",
        );
    let response = response
        .body(Body::from(event))
        .map_err(|error| error.to_string())?;
    *shared.sent_at.lock().await = Instant::now();
    Ok(response)
}

async fn response(State(shared): State<Arc<Shared>>, Path(_): Path<String>, body: Bytes) -> &'static str {
    let at = Instant::now();
    let sent_at = *shared.sent_at.lock().await;
    let _ = shared.answers.send(Ok(Answered { at, body, sent_at })).await;
    "{}"
}

async fn error(State(shared): State<Arc<Shared>>, Path(_): Path<String>, body: String) -> &'static str {
    let _ = shared
        .answers
        .send(Err(format!("the invocation failed: {body}").into()))
        .await;
    "{}"
}

async fn init_error(State(shared): State<Arc<Shared>>, body: String) -> &'static str {
    let _ = shared
        .answers
        .send(Err(format!("the bootstrap failed: {body}").into()))
        .await;
    "{}"
}
