//! Reading a provider's answer that arrived just now.

use frigg_core::rate_limit::{self, Answer};
use http::HeaderMap;

use crate::clock::Clock;

/// Reads an answer of any HTTP client: does the provider say "not now", and until when?
///
/// `provider` is a name of the table in [`rate_limit::providers`], which knows the peculiarities of many; without one
/// the answer is read by the standards alone. [`Answer::check`] makes the error that puts the message back:
///
/// ```
/// use frigg_worker::{HandlerError, read_limit};
///
/// # fn example(status: u16, headers: http::HeaderMap, body: &[u8]) -> Result<(), HandlerError> {
/// read_limit(status, &headers, body, Some("hubspot")).check()?;
/// # Ok(()) }
/// ```
pub fn read_limit(status: u16, headers: &HeaderMap, body: &[u8], provider: Option<&str>) -> Answer {
    rate_limit::read(status, headers, body, Clock::system().now(), provider)
}
