//! A worker on the library: schedules on when the environment has them, no HTTP client.

use std::time::Duration;

use frigg_bench::Task;
use frigg_worker::{Clock, HandlerError, Job, RateLimited, Worker, handler_fn};

async fn handle(job: Job<Task>) -> Result<(), HandlerError> {
    let refused = |wait: u32| RateLimited::after(Clock::system().now(), Duration::from_secs(wait.into()));
    Ok(job
        .message
        .run()
        .await
        .map_err(|limited| refused(limited.seconds))?)
}

#[tokio::main]
async fn main() -> Result<(), frigg_worker::Error> {
    Worker::from_env(handler_fn(handle)).await?.run().await
}
