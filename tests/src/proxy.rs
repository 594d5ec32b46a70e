//! An HTTP proxy in front of an emulator: sees a program's AWS calls, holds one in the middle, cuts the line.
//!
//! ```no_run
//! # async fn example(endpoint: &str) -> anyhow::Result<()> {
//! use std::time::Duration;
//! use frigg_tests::proxy::{Moment, Proxy};
//!
//! let proxy = Proxy::start(endpoint).await?;
//! let mut held = proxy.hold("SendMessageBatch", Moment::After);
//! // … a worker with AWS_ENDPOINT_URL = proxy.url() sends …
//! held.reached(Duration::from_secs(20)).await?;
//! // The message is in the queue, and the worker does not know it. Kill it now, or let it go on:
//! held.release();
//! # Ok(()) }
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::clock;

/// A call, as it was answered.
#[derive(Clone, Debug)]
pub struct Call {
    /// `SendMessageBatch`; `POST /schedules/name` for a service without `X-Amz-Target`.
    pub operation: String,
    /// The request's `X-Amzn-Trace-Id`.
    pub trace: Option<String>,
    /// When the answer came.
    pub at: Timestamp,
    /// The answer's status.
    pub status: u16,
    /// What was asked; null when it is not JSON.
    pub request: Value,
    /// What was answered; null when it is not JSON.
    pub response: Value,
}

/// Where a call is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the emulator has seen it.
    Before,
    /// After it took effect, before its answer is passed back.
    After,
}

/// A call that is held, or will be. Dropping it cuts the caller's connection: the caller never gets an answer.
#[derive(Debug)]
pub struct Held {
    reached: Option<oneshot::Receiver<()>>,
    release: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the call is there, and is held.
    ///
    /// # Errors
    ///
    /// When that does not happen within `deadline`.
    pub async fn reached(&mut self, deadline: Duration) -> Result<()> {
        let Some(reached) = self.reached.take() else {
            return Ok(());
        };
        let reached = timeout(deadline, reached)
            .await
            .context("the call to hold did not come")?;
        reached.context("the proxy ended")
    }

    /// Lets the call go on.
    pub fn release(self) {
        let _ = self.release.send(());
    }
}

#[derive(Debug)]
struct Hold {
    operation: String,
    moment: Moment,
    reached: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

/// What can go wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection ends before the emulator has seen it.
    Drop,
    /// It took effect, and the connection ends before the answer.
    Reset,
    /// It comes late.
    Delay,
    /// 500, without an effect.
    Error,
    /// 503 though it took effect.
    ErrorAfter,
    /// It is throttled.
    Throttle,
}

impl Fault {
    /// Every one.
    pub const ALL: [Fault; 6] = [
        Fault::Drop,
        Fault::Reset,
        Fault::Delay,
        Fault::Error,
        Fault::ErrorAfter,
        Fault::Throttle,
    ];
}

/// Which call shall go wrong, and how; asked for every call, by its operation.
type Weather = Box<dyn Fn(&str) -> Option<Fault> + Send>;

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// Those that the emulator never saw.
    lost: Vec<Call>,
    holds: Vec<Hold>,
    refused: usize,
    weather: Option<Weather>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("calls", &self.calls.len())
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

const DELAY: Duration = Duration::from_millis(1500);

#[derive(Debug)]
struct Shared {
    upstream: String,
    client: reqwest::Client,
    state: Mutex<State>,
    open: watch::Sender<bool>,
}

/// A running proxy. Dropping it ends it and every connection through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// The connection ends without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

impl Proxy {
    /// Starts on a free port of 127.0.0.1, in front of `upstream`, an emulator's endpoint.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub async fn start(upstream: &str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("failed to listen")?;
        let address = listener
            .local_addr()
            .context("failed to learn the proxy's port")?;
        let client = reqwest::Client::builder()
            .no_proxy()
            .build()
            .context("failed to build an HTTP client")?;
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            client,
            state: Mutex::default(),
            open: watch::Sender::new(true),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            serving,
        })
    }

    /// The value for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every call so far, in the order of the answers.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state().calls.clone()
    }

    /// Every call that was asked for, also those that were refused or dropped here: without an answer, status 0.
    #[must_use]
    pub fn asked(&self) -> Vec<Call> {
        let state = self.shared.state();
        let mut asked = [state.calls.as_slice(), &state.lost].concat();
        asked.sort_by_key(|call| call.at);
        asked
    }

    /// The calls of one operation.
    #[must_use]
    pub fn calls_of(&self, operation: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.operation == operation);
        calls
    }

    /// Holds the next call of this operation.
    #[must_use = "dropped, it cuts the caller's connection"]
    pub fn hold(&self, operation: &str, moment: Moment) -> Held {
        let (reached, on_reached) = oneshot::channel();
        let (release, released) = oneshot::channel();
        self.shared.state().holds.push(Hold {
            operation: operation.to_owned(),
            moment,
            reached,
            released,
        });
        Held {
            reached: Some(on_reached),
            release,
        }
    }

    /// Lets calls go wrong: `weather` is asked for each, by its operation.
    pub fn disturb(&self, weather: impl Fn(&str) -> Option<Fault> + Send + 'static) {
        self.shared.state().weather = Some(Box::new(weather));
    }

    /// Cuts every connection, and each new one, until [`mend`](Self::mend).
    pub fn cut(&self) {
        self.shared.open.send_replace(false);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.shared.open.send_replace(true);
    }

    /// How many connections came while the line was cut.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.shared.state().refused
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        if *shared.open.borrow() {
            connections.spawn(connection(stream, Arc::clone(&shared)));
        } else {
            shared.state().refused += 1;
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until one of its ends closes it or the line is cut.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let mut open = shared.open.subscribe();
    let service = service_fn(|request| shared.pass(request));
    tokio::select! {
        _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service) => {}
        _ = open.wait_for(|open| !open) => {}
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(Body::new(body), usize::MAX)
            .await
            .map_err(|_| Cut)?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let target = head
            .headers
            .get("x-amz-target")
            .and_then(|target| target.to_str().ok());
        let operation = match target.and_then(|target| target.rsplit('.').next()) {
            Some(operation) => operation.to_owned(),
            None => format!("{} {}", head.method, head.uri.path()),
        };
        let trace = head.headers.get("x-amzn-trace-id");
        let trace = trace.and_then(|trace| trace.to_str().ok()).map(str::to_owned);
        let (mut hold, fault) = {
            let mut state = self.state();
            let place = state.holds.iter().position(|hold| hold.operation == operation);
            let fault = state.weather.as_ref().and_then(|weather| weather(&operation));
            (place.map(|place| state.holds.remove(place)), fault)
        };
        let call = |status, response: &Bytes| Call {
            operation: operation.clone(),
            trace: trace.clone(),
            at: clock::now(),
            status,
            request: json(&body),
            response: json(response),
        };
        if matches!(fault, Some(Fault::Drop | Fault::Error | Fault::Throttle)) {
            let lost = call(0, &Bytes::new());
            self.state().lost.push(lost);
        }
        match fault {
            Some(Fault::Drop) => return Err(Cut),
            Some(Fault::Delay) => tokio::time::sleep(DELAY).await,
            Some(Fault::Error) => {
                return Ok(refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalFailure"));
            }
            Some(Fault::Throttle) => {
                return Ok(refuse(StatusCode::TOO_MANY_REQUESTS, "ThrottlingException"));
            }
            Some(Fault::Reset | Fault::ErrorAfter) | None => {}
        }

        if hold.as_ref().is_some_and(|hold| hold.moment == Moment::Before)
            && let Some(hold) = hold.take()
        {
            hold.wait().await?;
        }
        let asked = self
            .client
            .request(head.method, format!("{}{path}", self.upstream));
        let asked = asked.headers(end_to_end(&head.headers)).body(body.clone());
        let answer = asked.send().await.map_err(|_| Cut)?;
        let (status, headers) = (answer.status(), end_to_end(answer.headers()));
        let answered = answer.bytes().await.map_err(|_| Cut)?;
        let answered_call = call(status.as_u16(), &answered);
        self.state().calls.push(answered_call);
        if let Some(hold) = hold {
            hold.wait().await?;
        }
        match fault {
            Some(Fault::Reset) => return Err(Cut),
            Some(Fault::ErrorAfter) => {
                return Ok(refuse(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"));
            }
            _ => {}
        }
        Ok(respond(status, headers, answered))
    }
}

impl Hold {
    async fn wait(self) -> Result<(), Cut> {
        let _ = self.reached.send(());
        self.released.await.map_err(|_| Cut)
    }
}

/// An error as AWS's JSON services spell it.
fn refuse(status: StatusCode, code: &'static str) -> Response<Body> {
    let mut headers = HeaderMap::new();
    headers.insert("x-amzn-errortype", HeaderValue::from_static(code));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-amz-json-1.0"),
    );
    let body = format!(r#"{{"__type":"{code}","message":"the proxy's own"}}"#);
    respond(status, headers, Bytes::from(body))
}

fn respond(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The headers that are not about one connection. The host stays as it was: it is signed.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    const OF_A_CONNECTION: [HeaderName; 4] = [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::EXPECT,
    ];
    let mut headers = headers.clone();
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
    headers
}

fn json(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}
