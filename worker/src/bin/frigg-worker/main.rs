//! The ready-made worker: performs HTTP calls that messages describe. Deploy it, and write no code.
//!
//! ```json
//! {"event":"HTTP_CALL","data":{"method":"POST","url":"https://api.example.com/contacts","headers":{"authorization":"Bearer ${CRM_TOKEN}"},"json":{"name":"Ada"},"idempotencyKey":"contact-7"}}
//! ```
//!
//! | variable | |
//! |---|---|
//! | `FRIGG_HTTP_ALLOWED_HOSTS` | necessary: hosts that may be called, `api.example.com, *.example.org` |
//! | `FRIGG_HTTP_CREDENTIALS` | what `${…}` in a header may name: `CRM_TOKEN`, `ssm:/prod/crm`, `secret:prod/crm`, each with `@host` behind it where it is for that host only |
//! | `FRIGG_HTTP_ALLOW_PRIVATE` | 1: private addresses and plain http too, for a local provider |
//!
//! And those of every worker.

mod call;
mod credentials;
mod hosts;

use frigg_worker::{Router, Worker};

use crate::call::HttpCalls;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    frigg_worker::log::init(|name| std::env::var(name).ok());
    let calls = HttpCalls::from_variables(|name| std::env::var(name).ok())?;
    Worker::from_env(Router::new().on("HTTP_CALL", calls))
        .await?
        .run()
        .await?;
    Ok(())
}
