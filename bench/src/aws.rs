//! SQS and EventBridge Scheduler as far as a worker calls them: answers after a set latency, counts, and refuses what
//! comes too fast.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::Fault;

/// How the stub behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    /// From a call's arrival to its answer.
    pub(crate) latency: Duration,
    /// Calls that are accepted within any second.
    pub(crate) most_per_second: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) calls: usize,
    pub(crate) refused: usize,
    pub(crate) connections: usize,
    /// Copies that were sent, by whatever call.
    pub(crate) sent: usize,
    /// Different messages that were deleted.
    pub(crate) deleted: usize,
}

pub(crate) struct Aws {
    pub(crate) url: String,
    state: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    behaviour: Behaviour,
    url: String,
    connections: Arc<AtomicUsize>,
    state: Mutex<Stubbed>,
}

#[derive(Default)]
struct Stubbed {
    counts: Counts,
    accepted: VecDeque<Instant>,
    /// Bodies that wait to be received.
    waiting: VecDeque<(usize, String)>,
    deleted: HashSet<String>,
    first_receive: Option<Instant>,
    last_delete: Option<Instant>,
}

impl Aws {
    pub(crate) async fn start(behaviour: Behaviour) -> Result<Aws, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let connections = Arc::new(AtomicUsize::new(0));
        let state = Arc::new(Shared {
            behaviour,
            url: url.clone(),
            connections: Arc::clone(&connections),
            state: Mutex::default(),
        });
        let app = Router::new()
            .fallback(call)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&state));
        let listener = listener.tap_io(move |io| {
            connections.fetch_add(1, Ordering::Relaxed);
            drop(io.set_nodelay(true));
        });
        let server = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(Aws { url, state, server })
    }

    pub(crate) fn queue_url(&self) -> String {
        queue_url(&self.url)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = lock(&self.state.state).counts;
        counts.connections = self.state.connections.load(Ordering::Relaxed);
        counts
    }

    pub(crate) fn fill(&self, bodies: impl Iterator<Item = String>) {
        lock(&self.state.state).waiting.extend(bodies.enumerate());
    }

    /// From the first receive that brought something to the last new delete.
    pub(crate) fn emptied_in(&self) -> Option<Duration> {
        let state = lock(&self.state.state);
        Some(state.last_delete? - state.first_receive?)
    }
}

impl Drop for Aws {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn queue_url(endpoint: &str) -> String {
    format!("{endpoint}/111111111111/jobs")
}

async fn call(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, (StatusCode, Json<Value>)> {
    let arrived = Instant::now();
    let refused = {
        let mut state = lock(&shared.state);
        state.counts.calls += 1;
        let refused = shared
            .behaviour
            .most_per_second
            .is_some_and(|most| !state.accept(arrived, most));
        state.counts.refused += usize::from(refused);
        refused
    };
    sleep(shared.behaviour.latency).await;
    if refused {
        let error = json!({ "__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow down" });
        return Err((StatusCode::BAD_REQUEST, Json(error)));
    }
    if uri.path().starts_with("/schedules/") {
        return Ok(Json(
            json!({ "ScheduleArn": "arn:aws:scheduler:eu-west-1:111111111111:schedule/g/n" }),
        ));
    }
    let action = headers
        .get("x-amz-target")
        .and_then(|target| target.to_str().ok())
        .unwrap_or_default();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = shared
        .answer(action.trim_start_matches("AmazonSQS."), &request)
        .await;
    answer.map(Json).ok_or_else(|| {
        let error = json!({ "__type": "com.amazonaws.sqs#UnsupportedOperation", "message": action });
        (StatusCode::BAD_REQUEST, Json(error))
    })
}

impl Shared {
    async fn answer(&self, action: &str, request: &Value) -> Option<Value> {
        let entries = request["Entries"].as_array();
        let ids = |extra: Value| -> Value {
            let result = |entry: &Value| {
                let mut result = extra.clone();
                result["Id"] = entry["Id"].clone();
                result
            };
            let done: Vec<Value> = entries.into_iter().flatten().map(result).collect();
            json!({ "Successful": done, "Failed": [] })
        };
        let sent = json!({ "MessageId": "5fea7756-0ea4-451a-a703-a558b933e274", "MD5OfMessageBody": "0" });
        Some(match action {
            "GetQueueUrl" => json!({ "QueueUrl": queue_url(&self.url) }),
            "GetQueueAttributes" => json!({ "Attributes": {
                "QueueArn": "arn:aws:sqs:eu-west-1:111111111111:jobs",
                "VisibilityTimeout": "300",
                "MessageRetentionPeriod": "345600",
            } }),
            "SendMessage" => {
                lock(&self.state).counts.sent += 1;
                sent
            }
            "SendMessageBatch" => {
                lock(&self.state).counts.sent += entries.map_or(0, Vec::len);
                ids(sent)
            }
            "ChangeMessageVisibilityBatch" => ids(json!({})),
            "ReceiveMessage" => {
                self.receive(request["MaxNumberOfMessages"].as_u64().unwrap_or(1))
                    .await
            }
            "DeleteMessage" => {
                lock(&self.state).delete(std::iter::once(request));
                json!({})
            }
            "DeleteMessageBatch" => {
                lock(&self.state).delete(entries.into_iter().flatten());
                ids(json!({}))
            }
            _ => return None,
        })
    }

    async fn receive(&self, most: u64) -> Value {
        let taken: Vec<_> = {
            let mut state = lock(&self.state);
            let most = state.waiting.len().min(usize::try_from(most).unwrap_or(10));
            if most > 0 {
                state.first_receive.get_or_insert_with(Instant::now);
            }
            state.waiting.drain(..most).collect()
        };
        if taken.is_empty() {
            sleep(Duration::from_millis(200)).await;
        }
        let message = |(number, body): (usize, String)| {
            json!({
                "MessageId": format!("{number:08x}-0ea4-451a-a703-a558b933e274"), "ReceiptHandle": format!("r{number}"),
                "Body": body, "MD5OfBody": "0",
                "Attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": "1790596800000" },
            })
        };
        json!({ "Messages": taken.into_iter().map(message).collect::<Vec<_>>() })
    }
}

impl Stubbed {
    fn accept(&mut self, now: Instant, most: usize) -> bool {
        while self
            .accepted
            .front()
            .is_some_and(|at| now - *at >= Duration::from_secs(1))
        {
            self.accepted.pop_front();
        }
        let accept = self.accepted.len() < most;
        if accept {
            self.accepted.push_back(now);
        }
        accept
    }

    fn delete<'a>(&mut self, entries: impl Iterator<Item = &'a Value>) {
        for handle in entries.filter_map(|entry| entry["ReceiptHandle"].as_str()) {
            if self.deleted.insert(handle.to_owned()) {
                self.last_delete = Some(Instant::now());
            }
        }
        self.counts.deleted = self.deleted.len();
    }
}

fn lock(state: &Mutex<Stubbed>) -> MutexGuard<'_, Stubbed> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
