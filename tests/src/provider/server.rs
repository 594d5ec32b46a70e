//! The HTTP side: every path is a call, but for those below `/_admin`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as FromState};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::config::{KeyBy, ProviderConfig};
use super::record::{Call, Canned, Closed};
use super::state::{Answer, State};
use crate::clock::Clock;

/// A running provider. Dropping it stops it.
#[derive(Debug)]
pub struct ThrottlingProvider {
    address: SocketAddr,
    state: Arc<State>,
    clock: Clock,
    serving: JoinHandle<()>,
}

impl ThrottlingProvider {
    /// Starts on a free port of 127.0.0.1, with the system's clock.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub async fn start(config: ProviderConfig) -> Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), config, Clock::system()).await
    }

    /// Starts on this address, with this clock.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub async fn start_on(address: SocketAddr, config: ProviderConfig, clock: Clock) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("failed to listen on {address}"))?;
        let address = listener
            .local_addr()
            .context("failed to learn the provider's port")?;
        let state = Arc::new(State::new(config, clock.clone()));
        let router = router(Arc::clone(&state));
        let serving = tokio::spawn(async move {
            // It ends with the task only.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            state,
            clock,
            serving,
        })
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The URL of a path, `acme/contacts/1` say.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        format!("{}/{}", self.url(), path.trim_start_matches('/'))
    }

    /// The clock that its records are taken with.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Every call so far, in the order in which they came.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.calls()
    }

    /// One key's calls.
    #[must_use]
    pub fn calls_of(&self, key: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.key == key);
        calls
    }

    /// Forgets the calls so far. The limits stay as they are.
    pub fn forget_calls(&self) {
        self.state.forget_calls();
    }

    /// When which key's calls were refused.
    #[must_use]
    pub fn closed(&self) -> Vec<Closed> {
        self.state.closed()
    }

    /// Refuses a key's calls until `until`, as a daily limit does.
    pub fn close_until(&self, key: &str, until: Timestamp) {
        self.state.close_until(key, until);
    }

    /// Refuses a key's calls for `length` from now on.
    pub fn close_for(&self, key: &str, length: Duration) {
        self.close_until(key, self.clock.at(self.clock.elapsed() + length));
    }

    /// Answers a key's next call like this. Several are given in the order in which they were laid out.
    pub fn answer_next(&self, key: &str, canned: Canned) {
        self.state.answer_next(key, canned);
    }

    /// Serves until the task is cancelled.
    pub async fn serve(mut self) {
        let _ = (&mut self.serving).await;
    }
}

impl Drop for ThrottlingProvider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/_admin/calls", get(admin_calls).delete(admin_forget))
        .route("/_admin/closed", get(admin_closed))
        .route("/_admin/close", post(admin_close))
        .fallback(call)
        .with_state(state)
}

async fn call(FromState(state): FromState<Arc<State>>, request: Request) -> axum::response::Response {
    let path = request.uri().path();
    let key = match state.key_by() {
        KeyBy::FirstSegment => path.trim_start_matches('/').split('/').next().unwrap_or_default(),
        KeyBy::Path => path,
        KeyBy::Header(name) => request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default(),
    };
    let request_id = request
        .headers()
        .get("x-request-id")
        .and_then(|value| value.to_str().ok());
    match state.call(key, request.method().as_str(), path, request_id) {
        Answer::Served => Json(json!({ "path": path })).into_response(),
        Answer::Refused { retry_after, policy } => {
            let body = json!({
                "status": "error",
                "message": format!("You have reached your {} limit.", policy.to_lowercase()),
                "errorType": "RATE_LIMIT",
                "policyName": policy,
            });
            (
                StatusCode::TOO_MANY_REQUESTS,
                [("retry-after", retry_after.to_string())],
                Json(body),
            )
                .into_response()
        }
        Answer::Canned(canned) => {
            tokio::time::sleep(canned.after).await;
            canned_response(canned)
        }
    }
}

fn canned_response(canned: Canned) -> axum::response::Response {
    let mut response = Response::builder().status(canned.status);
    for (name, value) in canned.headers {
        response = response.header(name, value);
    }
    match response.body(Body::from(canned.body)) {
        Ok(response) => response,
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("bad canned answer: {error}"),
        )
            .into_response(),
    }
}

async fn admin_calls(FromState(state): FromState<Arc<State>>) -> Json<Vec<Call>> {
    Json(state.calls())
}

async fn admin_forget(FromState(state): FromState<Arc<State>>) -> StatusCode {
    state.forget_calls();
    StatusCode::NO_CONTENT
}

async fn admin_closed(FromState(state): FromState<Arc<State>>) -> Json<Vec<Closed>> {
    Json(state.closed())
}

#[derive(Deserialize)]
struct Close {
    key: String,
    until: Timestamp,
}

async fn admin_close(FromState(state): FromState<Arc<State>>, Json(close): Json<Close>) -> StatusCode {
    state.close_until(&close.key, close.until);
    StatusCode::NO_CONTENT
}
