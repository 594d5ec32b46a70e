//! Calls rate-limited APIs politely.

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
