//! Calls rate-limited APIs politely.
//!
//! A [`Requester`] waits in process only while the wait fits, stays below known limits by pacing itself, and hands every
//! longer wait on as a [`RateLimited`](frigg_core::rate_limit::RateLimited) error: through one `?` in a handler it puts
//! the message back until the provider's time.
//!
//! ```no_run
//! use frigg_requester::{Auth, FetchError, Requester};
//!
//! # #[derive(serde::Deserialize)] struct Contact { id: String }
//! async fn contact(crm: &Requester, id: u64) -> Result<Contact, FetchError> {
//!     crm.get(&format!("/crm/v3/objects/contacts/{id}")).query(&[("archived", false)]).send().await?.json().await
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let crm = Requester::builder("https://api.hubapi.com") // the table of providers knows this host
//!     .auth(Auth::bearer(std::env::var("HUBSPOT_TOKEN")?))
//!     .build()?;
//! # Ok(()) }
//! ```
//!
//! # What becomes of an answer
//!
//! | answer | |
//! |---|---|
//! | 2xx | a [`Response`] |
//! | a limit or a retryable 5xx that says when | sleeps when that fits, else the error is [rate limited](FetchError::is_rate_limited) |
//! | a 429 that does not say when | climbs the ladder (1, 3, 10, 30, 60, 180 s) while that fits, else rate limited without a time |
//! | 408, 500, 502, 503, 504, a connection that breaks | climbs the ladder where the call may be repeated |
//! | a timeout | an error; never repeated |
//! | 401 | with OAuth 2 the token is renewed, up to three times; then [permanent](FetchError::is_permanent) |
//! | another 4xx | permanent |
//! | a redirect | followed within the host, as a call that waits for its turn; 303: with a GET; elsewhere, and 301 and 302 after a POST, PUT, PATCH or DELETE: permanent |
//!
//! A wait **fits** when the caller's cap has room for it, and the invocation time: less a reserve for the call itself, its
//! timeout or half of the time left. Both come from the [`Scope`](frigg_core::scope::Scope) that the code runs in: the cap
//! is zero under a queue worker that can put messages back, 300 s outside of any scope. Zero is about limits; a failure
//! cannot be put back, so it climbs the ladder while there is time.
//!
//! A call **may be repeated** when the provider refused it before doing anything (a limit, a 401), and always for GET,
//! HEAD, OPTIONS, PUT and DELETE; POST and PATCH only with an [idempotency key](RequestBuilder::idempotency_key).
//!
//! # Cookbook
//!
//! ## A payment, once
//!
//! ```no_run
//! # use frigg_requester::{Auth, FetchError, Requester};
//! # #[derive(serde::Serialize)] struct Charge { amount: u64, currency: &'static str }
//! # #[derive(serde::Deserialize)] struct Paid { id: String }
//! async fn charge(stripe: &Requester, message_id: &str, charge: &Charge) -> Result<Paid, FetchError> {
//!     let answer = stripe
//!         .post("/v1/charges")
//!         // From the message, so that its next delivery is the same payment.
//!         .idempotency_key(message_id)
//!         .json(charge)
//!         .send()
//!         .await?;
//!     answer.json().await
//! }
//! ```
//!
//! ## GraphQL: a 200 with an error in it
//!
//! ```
//! use frigg_core::rate_limit::{Policy, Reason, Verdict};
//! use frigg_requester::Requester;
//!
//! # fn main() -> Result<(), frigg_requester::BuildError> {
//! let policy = Policy::new()
//!     .with_module("acme")
//!     .with_success_bodies()
//!     .with_classify(|answer| {
//!         let limited = answer.fields("errors.*.extensions.code").any(|code| code == "THROTTLED");
//!         limited.then(|| Verdict::limit(Reason::Cost))
//!     });
//! let graph = Requester::builder("https://graph.acme.example").policy(policy).build()?;
//! # drop(graph); Ok(()) }
//! ```
//!
//! ## A vendor's SDK that is not reqwest
//!
//! Say yourself what its error means; the worker does the rest.
//!
//! ```
//! use std::time::Duration;
//!
//! use frigg_core::marker::Permanent;
//! use frigg_core::rate_limit::{RateLimited, Reason};
//! # use frigg_requester::BoxError;
//! # #[derive(Debug)] enum VendorError { Throttled { retry_after: u64 }, NotFound, Io }
//! # impl std::fmt::Display for VendorError {
//! #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("vendor") }
//! # }
//! # impl std::error::Error for VendorError {}
//!
//! fn classify(error: VendorError, now: jiff::Timestamp) -> BoxError {
//!     match error {
//!         VendorError::Throttled { retry_after } => RateLimited::after(now, Duration::from_secs(retry_after))
//!             .with_reason(Reason::Burst)
//!             .with_module("vendor")
//!             .into(),
//!         VendorError::NotFound => Permanent { status: Some(404) }.into(),
//!         other => other.into(),
//!     }
//! }
//! # let now = "2026-09-28T12:00:00Z".parse().unwrap();
//! # let error = classify(VendorError::Throttled { retry_after: 12 }, now);
//! # assert_eq!(frigg_core::marker::find_limit(&*error).unwrap().wait, Some(Duration::from_secs(12)));
//! # classify(VendorError::NotFound, now); classify(VendorError::Io, now);
//! ```
//!
//! ## An HTTP handler
//!
//! It cannot put anything back, and somebody waits: enter a scope with a cap of 10 s, and pass a refusal on as a 429 or 503
//! with [`http_answer`]. `examples/http_handler.rs` shows it on `lambda_http`.
//!
//! # Map
//!
//! - [`Requester`], [`RequesterBuilder`], [`RequestBuilder`], [`Response`]: what a handler uses.
//! - [`FetchError`]: what went wrong, and what is to become of the message.
//! - [`Auth`], [`OAuth2`], [`CredentialStore`]: who calls.
//! - [`Notify`]: who is told.
//! - [`Backoff`], [`Clock`]: how it waits.
//!
//! Inside, `send` is the straight line of one call: `attempt` classifies, `waiting` decides, `send` acts; `pacing` says
//! whose turn it is.

mod address;
mod attempt;
mod auth;
mod backoff;
mod builder;
mod clock;
mod credentials;
mod error;
mod events;
mod http_answer;
mod notify;
mod oauth2;
mod pacing;
mod redacted;
mod redirect;
mod replay;
mod request;
mod requester;
mod response;
mod send;
mod waiting;

pub use auth::Auth;
pub use backoff::Backoff;
pub use builder::{BuildError, RequesterBuilder};
pub use clock::Clock;
pub use credentials::{CredentialStore, MemoryStore, Token};
pub use error::{BoxError, FetchError};
pub use http_answer::http_answer;
pub use notify::{Announcement, Notice, Notify};
pub use oauth2::OAuth2;
pub use redacted::RedactedUrl;
pub use request::RequestBuilder;
pub use requester::Requester;
pub use response::Response;
pub use secrecy;
