//! [`Response`]: a 2xx.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde::de::DeserializeOwned;

use crate::error::{FetchError, Kind};
use crate::pacing::Pass;
use crate::redacted::RedactedUrl;
use crate::request::Call;

/// An answer with a 2xx status. Its body has not been read yet; the call's timeout covers that too, and among the calls that
/// the provider allows at a time it counts until its body was read, or it is dropped.
pub struct Response {
    inner: reqwest::Response,
    /// What an error would show of it is written when there is one.
    call: Call,
    timeout: Option<Duration>,
    pass: Option<Pass>,
}

impl Response {
    pub(crate) fn new(
        inner: reqwest::Response,
        call: Call,
        timeout: Option<Duration>,
        pass: Option<Pass>,
    ) -> Self {
        Response {
            inner,
            call,
            timeout,
            pass,
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// The whole body.
    ///
    /// # Errors
    /// When it does not arrive, in time or at all, or is not compressed as it says.
    pub async fn bytes(self) -> Result<Bytes, FetchError> {
        let Response {
            inner,
            call,
            timeout,
            // Until the end of the function.
            pass: _pass,
        } = self;
        inner
            .bytes()
            .await
            .map_err(|error| transport(error, call.shown(), timeout))
    }

    /// The whole body as text; what is no UTF-8 is replaced.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes).
    pub async fn text(self) -> Result<String, FetchError> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// The body, decoded.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes); and when the body is no JSON or has another form. The error says where, never
    /// what stood there.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, FetchError> {
        let status = self.status();
        let Response {
            inner,
            call,
            timeout,
            pass: _pass,
        } = self;
        let body = inner.bytes().await;
        let body = body.map_err(|error| transport(error, call.shown(), timeout))?;
        serde_json::from_slice(&body).map_err(|error| {
            let what = format!(
                "the body does not have the form that was asked for (line {}, column {})",
                error.line(),
                error.column()
            );
            let (method, url) = call.shown();
            FetchError::new(Kind::Body(what), method, url).with_answer(status, &body)
        })
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes).
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        let chunk = self.inner.chunk().await;
        if !matches!(chunk, Ok(Some(_))) {
            self.pass = None;
        }
        chunk.map_err(|error| transport(error, self.call.shown(), self.timeout))
    }
}

/// Shows no header values: they may hold secrets.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, url) = self.call.shown();
        f.debug_struct("Response")
            .field("status", &self.status())
            .field("method", &method)
            .field("url", &url)
            .finish_non_exhaustive()
    }
}

/// No answer, or not all of it.
pub(crate) fn transport(
    error: reqwest::Error,
    (method, url): (Method, RedactedUrl),
    timeout: Option<Duration>,
) -> FetchError {
    let kind = match timeout.filter(|_| error.is_timeout()) {
        Some(timeout) => Kind::Timeout(timeout),
        None => Kind::Transport(Arc::new(error.without_url())),
    };
    FetchError::new(kind, method, url)
}
