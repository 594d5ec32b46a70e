//! Reading a provider's "not now".
//!
//! For one response (status, headers, body, time received): is this a rate limit that waiting clears? When may we call
//! again? Why? Where did we learn it? No HTTP client, no clock, no I/O, and for a plain success no allocation.
//!
//! ```
//! use frigg_core::rate_limit::{Answer, Policy, Reason, Signal};
//! use http::HeaderMap;
//!
//! let headers = HeaderMap::new();
//! let body = br#"[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]"#;
//! let signal = Signal::new(403, &headers, body, "2026-09-28T12:00:00Z".parse()?);
//!
//! let policy = Policy::for_provider("salesforce").expect("in the table");
//! let Answer::Limited(refusal) = policy.read(&signal) else { panic!("a limit") };
//! assert_eq!(refusal.hint.reason, Reason::Daily);
//! # Ok::<(), jiff::Error>(())
//! ```
//!
//! - [`read()`]: one call for a handler; [`Policy::read`] is the same with a policy. The order of everything is there.
//! - [`Signal`]: the response. [`Answer`]: limited, unavailable until a time, or neither. [`Hint`]: when, why, from where.
//! - [`Policy`]: what is known about a provider; [`Verdict`]: what its classify function says.
//! - [`providers`]: the table of providers, as data.
//! - [`parsers`]: one pure function for each way to write a time.
//! - [`RateLimited`]: the error that puts a message back; a handler returns it through `?`.

mod answer;
mod clock;
mod codes;
mod date;
mod error;
mod explain;
mod hint;
mod json;
pub mod parsers;
mod policy;
pub mod providers;
mod read;
mod signal;
mod value;
mod verdict;
mod window;
mod words;

pub use answer::{Answer, Refusal};
pub use clock::{Clock, MAX_WAIT, When};
pub use error::{Limit, LimitKind, RateLimited, Reason, Source, Window};
pub use hint::{Hint, Place};
pub use parsers::Parser;
pub use policy::{Policy, Scope, ScopeIds};
pub use read::read;
pub use signal::Signal;
pub use value::Unit;
pub use verdict::Verdict;
pub use window::{Link, NamedWindow};
