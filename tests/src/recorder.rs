//! Remembers every run of the test worker's handler: what it was given, when it began, whether it came to its end.
//!
//! The worker tells it over HTTP before it does anything else, so that a run of a worker that is killed counts too.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use axum::Json;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{post, put};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One run of a handler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The body's `id`.
    pub id: String,
    /// The SQS message id.
    pub message_id: String,
    /// When the handler began, by the wall clock.
    pub at: Timestamp,
    /// When it came to its end, by the wall clock; none when it was cancelled, or killed with its process.
    pub ended_at: Option<Timestamp>,
    /// The time before which it asked not to run again.
    pub told: Option<Timestamp>,
    /// How often the message was received.
    pub receive_count: Option<u32>,
    /// How often it was put back.
    pub deferrals: u32,
    /// When it was first put back.
    pub first_deferred_at: Option<Timestamp>,
    /// The envelope's time.
    pub retry_at: Option<Timestamp>,
    /// The envelope's id.
    pub deferral_id: Option<String>,
    /// The sender's attributes; bytes as text.
    pub attributes: BTreeMap<String, String>,
    /// The body as the handler saw it.
    pub body: Map<String, Value>,
}

type Runs = Arc<Mutex<Vec<Run>>>;

/// A running recorder. Dropping it stops it.
#[derive(Debug)]
pub struct Recorder {
    url: String,
    runs: Runs,
    serving: JoinHandle<()>,
}

impl Recorder {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("failed to listen")?;
        let address = listener
            .local_addr()
            .context("failed to learn the recorder's port")?;
        let runs = Runs::default();
        let router = Router::new()
            .route("/runs", post(began))
            .route("/runs/{index}/end", put(ended))
            .with_state(Arc::clone(&runs));
        let serving = tokio::spawn(async move {
            // It ends with the task only.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            url: format!("http://{address}"),
            runs,
            serving,
        })
    }

    /// The value for the test worker's `RECORDER_URL`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Every run so far, in the order in which they began.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        lock(&self.runs).clone()
    }

    /// The runs of one body's `id`.
    #[must_use]
    pub fn runs_of(&self, id: &str) -> Vec<Run> {
        let mut runs = self.runs();
        runs.retain(|run| run.id == id);
        runs
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn began(State(runs): State<Runs>, Json(run): Json<Run>) -> Json<usize> {
    let mut runs = lock(&runs);
    runs.push(run);
    Json(runs.len() - 1)
}

async fn ended(State(runs): State<Runs>, Path(index): Path<usize>, Json(at): Json<Timestamp>) {
    if let Some(run) = lock(&runs).get_mut(index) {
        run.ended_at = Some(at);
    }
}

fn lock(runs: &Runs) -> MutexGuard<'_, Vec<Run>> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}
