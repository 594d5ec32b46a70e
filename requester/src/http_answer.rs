//! A refusal as the answer of an HTTP handler.

use frigg_core::rate_limit::{Limit, LimitKind};
use frigg_core::time;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;

/// Passes a provider's refusal on to the caller of an HTTP handler: 429, or 503 when the provider is unavailable, with
/// `Retry-After` in whole seconds, rounded up, at least 1 (RFC 9110, section 10.2.3; RFC 6585, section 4). Without a time
/// there is no such header.
///
/// The body is empty: put your own there with [`Response::map`].
///
/// ```
/// use frigg_core::rate_limit::RateLimited;
///
/// let now = "2026-09-28T12:00:00Z".parse()?;
/// let limited = RateLimited::until("2026-09-28T12:00:12.5Z".parse()?);
/// let answer = frigg_requester::http_answer(limited.limit(), now);
/// assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (429, &"13".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn http_answer(limit: &Limit, now: Timestamp) -> Response<()> {
    let mut answer = Response::new(());
    *answer.status_mut() = match limit.kind {
        LimitKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    if let Some(retry_at) = limit.retry_at {
        let seconds = time::ceil_seconds(time::wait(now, retry_at)).max(1);
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}
