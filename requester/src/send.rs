//! One call from its turn to its end: sign, enter, attempt, decide, wait.

use std::sync::Arc;
use std::time::Duration;

use frigg_core::backoff::DEFAULT_MAX_IN_PROCESS_WAIT;
use frigg_core::rate_limit::RateLimited;
use frigg_core::scope::Scope;
use secrecy::{ExposeSecret as _, SecretString};

use crate::attempt::{Failure, Outcome, attempt};
use crate::auth::{self, sensitive};
use crate::error::{FetchError, Kind};
use crate::notify::{Announcement, Notice};
use crate::oauth2::Renewal;
use crate::pacing::Pass;
use crate::request::Call;
use crate::requester::Inner;
use crate::response::Response;
use crate::waiting::{Next, Terms, Waiting};

/// A timeout of zero is none.
pub(crate) fn on(timeout: Duration) -> Option<Duration> {
    (!timeout.is_zero()).then_some(timeout)
}

pub(crate) async fn send(inner: &Arc<Inner>, mut call: Call) -> Result<Response, FetchError> {
    match repeat(inner, &mut call).await {
        Ok((response, timeout, pass)) => Ok(Response::new(response, call, timeout, pass)),
        Err(error) => Err(finish(inner, &call, error).await),
    }
}

/// The answer, the timeout under which its body arrives, and the place that it takes meanwhile.
async fn repeat(
    inner: &Arc<Inner>,
    call: &mut Call,
) -> Result<(reqwest::Response, Option<Duration>, Option<Pass>), FetchError> {
    let mut waiting = Waiting::default();
    let mut retries = 0;
    loop {
        // Renewed before the call has its turn, which nobody else has meanwhile.
        let mut token = token(inner).await?;
        let (pass, waited) = enter(inner, call, &waiting).await?;
        if !waited.is_zero() {
            waiting.waited += waited;
            // It may have ended.
            token = self::token(inner).await?;
        }
        let mut request = sign(call, token.as_ref())?;
        let terms = terms(inner, call);
        let timeout = match inner.frigg {
            true => call.timeout,
            false => call.timeout.into_iter().chain(terms.time_left).min(),
        };
        *request.timeout_mut() = timeout;
        let Failure { fault, error, hint } = match attempt(inner, call, request, timeout, pass).await {
            Outcome::Success(response, pass) => return Ok((response, timeout, pass)),
            Outcome::Redirected(hop) => {
                hop.follow(call);
                continue;
            }
            Outcome::Failed(failure) => *failure,
        };
        // The answer is gone, and with it the connection's hold; time has passed.
        let tried = (waiting.attempt, waiting.waited);
        let sleep = match waiting.next(fault, &self::terms(inner, call)) {
            Next::GiveUp => return Err(error),
            Next::Sleep(wait) => Some(wait),
            Next::SleepHinted(wait) => {
                let status = error.status().map_or(0, |status| status.as_u16());
                let now = inner.clock.now();
                inner
                    .events
                    .rate_limited(status, &hint.unwrap_or_default(), wait, now, tried);
                Some(wait)
            }
            Next::Renew => {
                if let (auth::Kind::OAuth2(oauth2), Some(token)) = (&inner.auth.0, &token)
                    && oauth2.renew(token, inner).await? == Renewal::Adopted
                {
                    waiting.forgive();
                }
                None
            }
        };
        inner.events.retry(&error, sleep.unwrap_or_default(), retries);
        retries += 1;
        if let Some(wait) = sleep {
            inner.clock.sleep(wait).await;
        }
    }
}

fn terms<'a>(inner: &'a Inner, call: &Call) -> Terms<'a> {
    let scope = Scope::current();
    Terms {
        backoff: &inner.backoff,
        frigg: inner.frigg,
        repeatable: call.repeatable,
        cap: scope.max_in_process_wait.unwrap_or(DEFAULT_MAX_IN_PROCESS_WAIT),
        time_left: scope.deadline.and_then(|_| scope.time_left(inner.clock.now())),
        timeout: call.timeout,
        random_unit: inner.clock.random(),
    }
}

/// The token that holds now, where there is one.
async fn token(inner: &Arc<Inner>) -> Result<Option<SecretString>, FetchError> {
    match &inner.auth.0 {
        auth::Kind::OAuth2(oauth2) => oauth2.access(inner).await.map(Some),
        _ => Ok(None),
    }
}

/// A copy of the call, with the token.
fn sign(call: &Call, token: Option<&SecretString>) -> Result<reqwest::Request, FetchError> {
    // Bodies are bytes, which can always be copied.
    let mut request = call.request.try_clone().ok_or_else(|| {
        let (method, url) = call.shown();
        FetchError::new(
            Kind::Invalid("the body cannot be sent twice", Default::default()),
            method,
            url,
        )
    })?;
    if let Some(token) = token
        && let Some(value) = sensitive(&format!("Bearer {}", token.expose_secret()))
    {
        request
            .headers_mut()
            .entry(http::header::AUTHORIZATION)
            .or_insert(value);
    }
    Ok(request)
}

/// Waits for the call's turn below the known limits, and says how long.
async fn enter(
    inner: &Inner,
    call: &Call,
    waiting: &Waiting,
) -> Result<(Option<Pass>, Duration), FetchError> {
    let Some(pacing) = &inner.pacing else {
        return Ok((None, Duration::ZERO));
    };
    let left = waiting.left(&terms(inner, call));
    let key = call.scope_key.as_deref().unwrap_or(&inner.module);
    match pacing
        .enter(key, call.request.url().path(), left, &inner.clock)
        .await
    {
        Ok((pass, waited)) => Ok((Some(pass), waited)),
        Err(held) => {
            let limited = held.into_error(inner.clock.now()).with_module(&inner.module);
            let (method, url) = call.shown();
            Err(FetchError::new(
                Kind::Limited(with_key(limited, call)),
                method,
                url,
            ))
        }
    }
}

fn with_key(limited: RateLimited, call: &Call) -> RateLimited {
    match &call.scope_key {
        Some(key) => limited.with_scope_key(key),
        None => limited,
    }
}

/// Logs a failure, and announces it where a person may have to know.
async fn finish(inner: &Inner, call: &Call, error: FetchError) -> FetchError {
    inner.events.request_failed(&error, call.request.headers());
    let notice = match error.kind() {
        Kind::Limited(limited) => {
            Announcement::of(limited.limit(), &inner.policy, &inner.module).map(Notice::RateLimited)
        }
        Kind::Unauthorized(mark) => Some(Notice::InvalidAuth {
            module: inner.module.clone(),
            status: mark.status.unwrap_or(401),
        }),
        _ => None,
    };
    if let (Some(notice), Some(notify)) = (notice, &inner.notify)
        && let Err(fault) = notify.notify(&notice).await
    {
        inner.events.notify_failed(&*fault);
    }
    error
}
