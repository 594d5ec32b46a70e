//! The throttling provider: an HTTP server that enforces a rate limit, says when to come back, and remembers who came.
//!
//! It stands for HubSpot and its like. A call belongs to a key (by default the path's first segment, an account); each
//! key has a window of so many calls per time, and may be closed for long, as with a daily limit. A call that does not
//! fit is answered 429 with `Retry-After` in whole seconds, rounded up, and a body like HubSpot's.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use std::time::Duration;
//! use frigg_tests::provider::{ProviderConfig, Rule, ThrottlingProvider, Window};
//!
//! let config = ProviderConfig::default()
//!     .with_rule("burst", Rule::window(Window::rolling(5, Duration::from_secs(10))))
//!     .with_rule("daily-*", Rule::open().closed_on_first_call(Duration::from_secs(72)));
//! let provider = ThrottlingProvider::start(config).await?;
//! let contact = provider.url_of("burst/contacts/1");
//! // … a worker calls it …
//! assert!(provider.calls().iter().all(|call| call.accepted));
//! # let _ = contact; Ok(()) }
//! ```
//!
//! - [`gate`]: one key's limit, a pure state machine.
//! - [`config`]: which key has which limit.
//! - [`record`]: what is remembered.
//! - [`server`]: the HTTP side.

pub mod config;
pub mod gate;
pub mod record;
pub mod server;
mod state;

pub use config::{KeyBy, ProviderConfig, Rule};
pub use gate::{Window, WindowKind};
pub use record::{Call, Canned, Closed};
pub use server::ThrottlingProvider;
