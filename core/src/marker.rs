//! How an error tells the worker what it means, whatever it is wrapped in.
//!
//! A handler's error reaches the worker as `dyn Error`, inside `anyhow::Error`, `Box<dyn Error>`, `Arc`, or an enum
//! with `#[error(transparent)]`. Down-casting each link of the `source()` chain misses two of these: a transparent
//! wrapper forwards `source()` and hides the error itself, and a bare `anyhow::Error` hides its root. So the errors
//! that mean something have a [`Marker`] as their own *source*: every wrapper lets that through.

use std::error::Error;
use std::fmt;

use crate::rate_limit::Limit;

/// What an error means to the worker. Put it at the end of an error's `source()` chain.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Marker {
    /// The provider said "not now": waiting clears it.
    Limited(Limit),
    /// Trying again cannot help (an HTTP 404, an invalid request).
    Permanent {
        /// The HTTP status, where there was one.
        status: Option<u16>,
    },
}

impl Marker {
    /// Searches `error` and its sources for a marker.
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Marker> {
        std::iter::successors(Some(error), |e| e.source()).find_map(|e| e.downcast_ref::<Marker>())
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Marker::Limited(limit) => limit.fmt(f),
            Marker::Permanent { status: Some(status) } => write!(f, "status {status} does not clear by itself"),
            Marker::Permanent { status: None } => f.write_str("trying again cannot help"),
        }
    }
}

impl Error for Marker {}
