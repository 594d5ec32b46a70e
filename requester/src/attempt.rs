//! One exchange with the provider, and what it means: the only place that reads answers.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use frigg_core::marker::Permanent;
use frigg_core::rate_limit::{Answer, Hint, LimitKind, Refusal, Signal};
use http::{HeaderMap, StatusCode};

use crate::address::PrivateAddress;
use crate::error::{FetchError, Kind};
use crate::pacing::Pass;
use crate::redirect::Hop;
use crate::request::Call;
use crate::requester::Inner;
use crate::response::transport;
use crate::waiting::Fault;

/// The most of an error's body that is read: 1 MiB. The connection is closed on the rest.
const MAX_ERROR_BODY: usize = 1 << 20;

/// What a call came to.
pub(crate) enum Outcome {
    /// The pass counts until the body was read.
    Success(reqwest::Response, Option<Pass>),
    Redirected(Hop),
    Failed(Box<Failure>),
}

/// Why it is no success, what that means for waiting, and the error to return when nothing is waited for.
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) error: FetchError,
    /// What the provider said about time.
    pub(crate) hint: Option<Hint>,
}

impl Failure {
    fn outcome(fault: Fault, error: FetchError) -> Outcome {
        Outcome::Failed(Box::new(Failure {
            fault,
            error,
            hint: None,
        }))
    }
}

pub(crate) async fn attempt(
    inner: &Inner,
    call: &Call,
    request: reqwest::Request,
    timeout: Option<Duration>,
    pass: Option<Pass>,
) -> Outcome {
    match inner.client.execute(request).await {
        Ok(response) => answered(inner, call, response, timeout, pass).await,
        Err(error) => lost(error, call, timeout),
    }
}

/// There is no answer.
fn lost(error: reqwest::Error, call: &Call, timeout: Option<Duration>) -> Outcome {
    if sources(&error).any(|error| error.is::<PrivateAddress>()) {
        let (method, url) = call.shown();
        let kind = Kind::Invalid(
            "the host's name leads to an address that is not public",
            Permanent::default(),
        );
        return Failure::outcome(Fault::Final, FetchError::new(kind, method, url));
    }
    let fault = match !error.is_timeout() && is_reset(&error) {
        true => Fault::Transient,
        false => Fault::Final,
    };
    Failure::outcome(fault, transport(error, call.shown(), timeout))
}

async fn answered(
    inner: &Inner,
    call: &Call,
    response: reqwest::Response,
    timeout: Option<Duration>,
    mut pass: Option<Pass>,
) -> Outcome {
    let received_at = inner.clock.now();
    let status = response.status();
    let route = call.request.url().path();
    let signal = |headers, body| Signal::new(status.as_u16(), headers, body, received_at).with_route(route);
    if status.is_success() && !inner.policy.reads_success_bodies() {
        if let Some(pass) = &mut pass {
            pass.answered(&signal(response.headers(), &[]), true);
        }
        return Outcome::Success(response, pass);
    }

    let headers = response.headers().clone();
    let body = match status.is_success() {
        true => match response.bytes().await {
            Ok(body) => body,
            Err(error) => return lost(error, call, timeout),
        },
        false => start_of(response).await,
    };
    let signal = signal(&headers, &body);
    let answer = inner.policy.read(&signal);
    if let Some(pass) = &mut pass {
        match answer
            .refusal()
            .and_then(|refusal| Some((refusal, refusal.base_wait()?)))
        {
            Some((refusal, wait)) => {
                let until = received_at.checked_add(wait).unwrap_or(received_at);
                pass.refused(route, until, refusal.hint.reason);
            }
            None => pass.answered(&signal, answer.refusal().is_none() && !status.is_server_error()),
        }
    }
    drop(pass);
    if status.is_success() && !answer.is_limited() {
        return Outcome::Success(whole(status, headers, body), None);
    }
    match Hop::of(call, status, &headers) {
        Some(Ok(hop)) => Outcome::Redirected(hop),
        Some(Err(refused)) => {
            let (method, url) = call.shown();
            let error = FetchError::new(Kind::Redirect(refused), method, url);
            Failure::outcome(Fault::Final, error.with_answer(status, &body))
        }
        None => judge(inner, call, status, answer, &body),
    }
}

/// What an answer that is no success means.
fn judge(inner: &Inner, call: &Call, status: StatusCode, answer: Answer, body: &Bytes) -> Outcome {
    let (method, url) = call.shown();
    let error = |kind| FetchError::new(kind, method, url).with_answer(status, body);
    match answer {
        Answer::Limited(refusal) => refused(inner, call, refusal, LimitKind::RateLimit, error),
        Answer::Unavailable(refusal) => refused(inner, call, refusal, LimitKind::Unavailable, error),
        _ => {
            let code = status.as_u16();
            let mark = Permanent { status: Some(code) };
            match code {
                401 => {
                    let renewable = matches!(inner.auth.0, crate::auth::Kind::OAuth2(_));
                    Failure::outcome(Fault::Unauthorized { renewable }, error(Kind::Unauthorized(mark)))
                }
                // No limit that clears: the quota is used up for good.
                429 => Failure::outcome(Fault::Final, error(Kind::Status(Some(mark)))),
                _ if is_transient(code, inner.frigg) => {
                    Failure::outcome(Fault::Transient, error(Kind::Status(None)))
                }
                _ => Failure::outcome(Fault::Final, error(Kind::Status(Permanent::of_status(code)))),
            }
        }
    }
}

fn refused(
    inner: &Inner,
    call: &Call,
    refusal: Refusal,
    kind: LimitKind,
    error: impl FnOnce(Kind) -> FetchError,
) -> Outcome {
    let fault = match refusal.hint.wait {
        Some(wait) => Fault::Hinted {
            wait,
            minimum: refusal.min_retry_after,
            done: kind == LimitKind::Unavailable,
        },
        None if refusal.status == 429 => Fault::Bare,
        None => Fault::Final,
    };
    let hint = refusal.hint.clone();
    let answer = match kind {
        LimitKind::Unavailable => Answer::Unavailable(refusal),
        _ => Answer::Limited(refusal),
    };
    let kind = match answer.into_error() {
        // Frigg does not flag it.
        Some(_) if inner.frigg && fault == Fault::Bare => Kind::Status(None),
        Some(limited) => Kind::Limited(match &call.scope_key {
            Some(key) => limited.with_scope_key(key),
            None => limited,
        }),
        None => Kind::Status(None),
    };
    Outcome::Failed(Box::new(Failure {
        fault,
        error: error(kind),
        hint: Some(hint),
    }))
}

/// RFC 9110, sections 15.5.9 and 15.6: those that say "try again".
fn is_transient(status: u16, frigg: bool) -> bool {
    match frigg {
        true => status >= 500,
        false => matches!(status, 408 | 500 | 502 | 503 | 504),
    }
}

fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source())
}

/// Whether the connection broke off (Node's `ECONNRESET`, which is also what it calls a connection closed too early).
fn is_reset(error: &reqwest::Error) -> bool {
    sources(error).any(|error| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let broken = matches!(
            kind,
            Some(
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            )
        );
        broken
            || error
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_incomplete_message)
    })
}

/// The start of an error's body. What does not arrive, or does not unpack, is not there.
async fn start_of(mut response: reqwest::Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BODY - body.len())]);
        if body.len() == MAX_ERROR_BODY {
            break;
        }
    }
    body.freeze()
}

/// A success whose body was read already.
fn whole(status: StatusCode, headers: HeaderMap, body: Bytes) -> reqwest::Response {
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.into()
}
