//! How an error tells the worker what it means, whatever it is wrapped in.
//!
//! A handler's error reaches the worker as `dyn Error`, inside `anyhow::Error`, `Box<dyn Error>`, `Arc`, or an enum
//! with `#[error(transparent)]`. Down-casting each link of the `source()` chain misses two of these: a transparent
//! wrapper forwards `source()` and hides the error itself, and a bare `anyhow::Error` hides its root. So an error that
//! means something has a marker as its own *source*, which every wrapper lets through: [`Limit`] under a
//! [`RateLimited`](crate::rate_limit::RateLimited), [`Permanent`] under an error that trying again cannot mend.

use std::error::Error;
use std::fmt;

use crate::rate_limit::Limit;

/// The limit in `error` or in one of its sources.
pub fn find_limit<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Limit> {
    find(error)
}

/// The mark of a permanent failure in `error` or in one of its sources.
pub fn find_permanent<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Permanent> {
    find(error)
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |e| (*e).source()).find_map(|e| e.downcast_ref())
}

/// Trying again cannot help (an HTTP 404, an invalid request). The last source of an error that is permanent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permanent {
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
}

impl Permanent {
    /// The mark for an HTTP status that does not clear by itself: any 4xx but 408 and 429. A limit that a provider
    /// answers with another 4xx is a limit, not this.
    pub fn of_status(status: u16) -> Option<Permanent> {
        let permanent = (400..500).contains(&status) && status != 408 && status != 429;
        permanent.then_some(Permanent { status: Some(status) })
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "status {status} does not clear by itself"),
            None => f.write_str("trying again cannot help"),
        }
    }
}

impl Error for Permanent {}
