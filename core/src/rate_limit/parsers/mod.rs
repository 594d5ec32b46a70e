//! The parsers: pure functions from a response's headers or body to a [`Hint`].
//!
//! Frigg's three, under Frigg's names and with Frigg's reading, which a queue shared with JavaScript workers relies on:
//! [`retry_after()`], [`reset_headers()`], [`ietf()`]. And three that read what providers send besides:
//! [`retry_headers()`] (every spelling of Retry-After), [`buckets()`] (every spelling of remaining and reset, several
//! buckets at once, the IETF fields), [`body()`] (times in a JSON or text body).
//!
//! A value that cannot be read is no hint, never a hint of zero.

mod body;
mod buckets;
mod ietf;
mod reset_headers;
mod retry_after;
mod retry_headers;
#[cfg(test)]
mod testing;

pub use body::body;
pub use buckets::buckets;
pub(crate) use buckets::{exhausted_reason, stated_window};
pub use ietf::ietf;
pub use reset_headers::reset_headers;
pub use retry_after::retry_after;
pub use retry_headers::retry_headers;

use http::HeaderMap;

use super::clock::{Clock, When};
use super::value::{Number, Unit};
use super::{Hint, Signal, date};

/// A parser by name, for [`Policy::with_parsers`](super::Policy::with_parsers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parser {
    /// [`retry_after()`], Frigg's `retryAfter`.
    RetryAfter,
    /// [`reset_headers()`], Frigg's `resetHeaders`.
    ResetHeaders,
    /// [`ietf()`], Frigg's `ietf`.
    Ietf,
    /// [`retry_headers()`].
    RetryHeaders,
    /// [`buckets()`].
    Buckets,
    /// [`body()`].
    Body,
}

impl Parser {
    /// The order in which a response is read by default.
    pub const DEFAULT: &'static [Parser] = &[Parser::RetryHeaders, Parser::Buckets, Parser::Body];

    /// Frigg's default order.
    pub const FRIGG: &'static [Parser] = &[Parser::RetryAfter, Parser::ResetHeaders, Parser::Ietf];

    /// Whether it is one of Frigg's three.
    pub fn is_frigg(self) -> bool {
        Parser::FRIGG.contains(&self)
    }

    /// Frigg's name for it (`retryAfter`), or ours in the same style.
    pub fn as_str(self) -> &'static str {
        match self {
            Parser::RetryAfter => "retryAfter",
            Parser::ResetHeaders => "resetHeaders",
            Parser::Ietf => "ietf",
            Parser::RetryHeaders => "retryHeaders",
            Parser::Buckets => "buckets",
            Parser::Body => "body",
        }
    }

    /// The reverse of [`as_str`](Self::as_str).
    pub fn from_name(name: &str) -> Option<Parser> {
        use Parser::*;
        [RetryAfter, ResetHeaders, Ietf, RetryHeaders, Buckets, Body]
            .into_iter()
            .find(|parser| parser.as_str() == name)
    }

    /// What this parser reads in a response.
    pub fn read(self, signal: &Signal<'_>, clock: Clock<'_>) -> Option<Hint> {
        match self {
            Parser::RetryAfter => retry_after(signal.headers(), clock),
            Parser::ResetHeaders => reset_headers(signal.headers(), clock),
            Parser::Ietf => ietf(signal.headers(), clock),
            Parser::RetryHeaders => retry_headers(signal.headers(), clock),
            Parser::Buckets => buckets(signal.headers(), clock),
            Parser::Body => body(signal, clock),
        }
    }
}

/// The first value of a header in any letter case, trimmed; `None` when it is absent, blank or no text.
pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get(name)?
        .to_str()
        .ok()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// A number in this unit or, when the text has a letter, a date: Frigg's reading of a header value.
fn number_or_date(text: &str, unit: Unit) -> Option<When> {
    match Number::parse(text) {
        Some(number) => number.when(unit),
        None if text.contains(|c: char| c.is_ascii_alphabetic()) => date::any(text).map(When::At),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for parser in Parser::DEFAULT.iter().chain(Parser::FRIGG) {
            assert_eq!(Parser::from_name(parser.as_str()), Some(*parser));
        }
        assert_eq!(Parser::from_name("magic"), None);
        assert!(Parser::FRIGG.iter().all(|parser| parser.is_frigg()));
        assert!(!Parser::DEFAULT.iter().any(|parser| parser.is_frigg()));
    }
}
