//! A worker that needs no provider: each message says until when it is limited. `make verify-aws` deploys it.
//!
//! `{"id":"a","until":"2030-01-01T23:00:00Z"}` is put back until 23:00, and is done when it runs then.

use frigg_worker::{Handler, HandlerError, Job, RateLimited, Worker};
use jiff::Timestamp;
use serde::Deserialize;

struct LimitedUntil;

#[derive(Deserialize)]
struct Limited {
    id: String,
    until: Timestamp,
}

impl Handler for LimitedUntil {
    type Message = Limited;
    type Error = HandlerError;

    async fn handle(&self, job: Job<Limited>) -> Result<(), HandlerError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "it stands in for a provider, which has a clock"
        )]
        let now = Timestamp::now();
        let Limited { id, until } = job.message;
        // Its message's id and receive count are on the line as well: those are on every line of a record.
        tracing::info!(id, %until, at = %now, "runs");
        if now < until {
            return Err(RateLimited::until(until).into());
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(Worker::from_env(LimitedUntil).await?.run().await?)
}
