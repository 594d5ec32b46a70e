//! For the tables of the parsers.

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

/// The headers of a row.
pub(super) type Pairs = &'static [(&'static str, &'static str)];

/// When every response of the tables is received; as an epoch 1796040000.
pub(super) fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

pub(super) fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    // Several fields of one name stay several.
    pairs.iter().map(pair).collect()
}
