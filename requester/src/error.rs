//! [`FetchError`]: why a call did not give a 2xx.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use frigg_core::marker::Permanent;
use frigg_core::rate_limit::RateLimited;
use http::{Method, StatusCode};

use crate::redacted::RedactedUrl;
use crate::redirect::Refused;

/// Any error, boxed.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The most of a body that an error keeps: 4 KiB.
pub(crate) const EXCERPT: usize = 4096;

/// Why a call did not give a 2xx.
///
/// Neither `Debug` nor `Display` nor the sources show a header, a body or the value of a query. Through `?` in a handler
/// it says by itself what is to become of the message:
///
/// | error | source | message |
/// |---|---|---|
/// | [`is_rate_limited`](Self::is_rate_limited): the wait does not fit in process | [`RateLimited`] | comes back when told |
/// | [`is_permanent`](Self::is_permanent): a 4xx other than 408 and 429, a redirect that is not followed, an impossible request | [`Permanent`] | never tried again |
/// | anything else | | delivered again by the queue |
#[derive(Clone)]
pub struct FetchError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    method: Method,
    url: RedactedUrl,
    status: Option<StatusCode>,
    excerpt: Bytes,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Limited(RateLimited),
    /// An answer other than 2xx.
    Status(Option<Permanent>),
    /// A redirect that is not followed.
    Redirect(Refused),
    /// The credential is not accepted, and could not be renewed.
    Unauthorized(Permanent),
    Timeout(Duration),
    /// Without its URL, which would show the query.
    Transport(Arc<reqwest::Error>),
    /// The token endpoint could not be asked; says nothing about the credential.
    Token(Option<Arc<reqwest::Error>>),
    /// The call cannot be made as it stands.
    Invalid(&'static str, Permanent),
    /// The body is not what was asked for: line and column, never its text.
    Body(String),
}

impl FetchError {
    pub(crate) fn new(kind: Kind, method: Method, url: RedactedUrl) -> Self {
        let status = None;
        let excerpt = Bytes::new();
        FetchError(Box::new(Inner {
            kind,
            method,
            url,
            status,
            excerpt,
        }))
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = Some(status);
        self
    }

    pub(crate) fn with_answer(mut self, status: StatusCode, body: &Bytes) -> Self {
        self.0.status = Some(status);
        // A copy, so that the rest is freed.
        self.0.excerpt = Bytes::copy_from_slice(&body[..body.len().min(EXCERPT)]);
        self
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Whether the provider refuses for now, and waiting in process is not worth it.
    pub fn is_rate_limited(&self) -> bool {
        self.rate_limited().is_some()
    }

    /// The refusal: until when, why, whose limit.
    pub fn rate_limited(&self) -> Option<&RateLimited> {
        match &self.0.kind {
            Kind::Limited(limited) => Some(limited),
            _ => None,
        }
    }

    /// Whether there was no complete answer in time.
    pub fn is_timeout(&self) -> bool {
        self.timeout().is_some()
    }

    /// The time that an answer was given.
    pub fn timeout(&self) -> Option<Duration> {
        match self.0.kind {
            Kind::Timeout(timeout) => Some(timeout),
            _ => None,
        }
    }

    /// Whether trying again is in vain.
    pub fn is_permanent(&self) -> bool {
        match &self.0.kind {
            Kind::Status(mark) => mark.is_some(),
            Kind::Redirect(_) | Kind::Unauthorized(_) | Kind::Invalid(..) => true,
            _ => false,
        }
    }

    /// Whether the provider does not accept the credential (401), or its token endpoint does not (400, 401).
    pub fn is_unauthorized(&self) -> bool {
        matches!(self.0.kind, Kind::Unauthorized(_))
    }

    /// The status of the answer. `None`: there was none, or the call was not made.
    pub fn status(&self) -> Option<StatusCode> {
        self.0.status
    }

    /// The method of the call.
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Where it went.
    pub fn url(&self) -> &RedactedUrl {
        &self.0.url
    }

    /// The start of the answer's body, at most 4 KiB. It may hold anything: do not log it.
    pub fn body_excerpt(&self) -> &[u8] {
        &self.0.excerpt
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            method,
            url,
            status,
            ..
        } = &*self.0;
        write!(f, "{method} {url}: ")?;
        let status = |f: &mut fmt::Formatter<'_>| match status {
            Some(status) => write!(f, "status {}", status.as_u16()),
            None => f.write_str("no answer"),
        };
        match kind {
            Kind::Limited(limited) => limited.fmt(f),
            Kind::Status(_) => status(f),
            Kind::Redirect(Refused { to, why, .. }) => {
                status(f)?;
                write!(f, ", a redirect to {to} that is not followed: {why}")
            }
            Kind::Unauthorized(_) => {
                status(f)?;
                f.write_str(", the credential is not accepted")
            }
            Kind::Timeout(timeout) => write!(f, "no complete answer within {timeout:?}"),
            Kind::Transport(_) => f.write_str("failed to get an answer"),
            Kind::Token(_) => {
                f.write_str("failed to renew the token: ")?;
                status(f)
            }
            Kind::Invalid(what, _) => write!(f, "not sent: {what}"),
            Kind::Body(what) => f.write_str(what),
        }
    }
}

impl fmt::Debug for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchError")
            .field("kind", &self.0.kind)
            .field("method", &self.0.method)
            .field("url", &self.0.url)
            .field("status", &self.0.status)
            .field("body_bytes", &self.0.excerpt.len())
            .finish()
    }
}

impl Error for FetchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.kind {
            Kind::Limited(limited) => Some(limited),
            Kind::Status(mark) => mark.as_ref().map(|mark| mark as _),
            Kind::Redirect(Refused { mark, .. }) | Kind::Unauthorized(mark) | Kind::Invalid(_, mark) => {
                Some(mark)
            }
            Kind::Transport(error) | Kind::Token(Some(error)) => Some(&**error),
            Kind::Token(None) | Kind::Timeout(_) | Kind::Body(_) => None,
        }
    }
}
