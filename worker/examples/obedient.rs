//! A worker that does what a message says. The tests run it as the bootstrap of a function.

use std::sync::Arc;
use std::time::Duration;

use frigg_worker::testing::FakeSqs;
use frigg_worker::{Clock, Error, HandlerError, Job, RateLimited, Worker, handler_fn};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    #[expect(dead_code, reason = "a body without it does not decode")]
    id: u64,
    #[serde(default)]
    after_ms: u64,
    #[serde(default)]
    what: What,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum What {
    #[default]
    Ok,
    Error,
    Panic,
    Limited,
}

async fn obey(job: Job<Order>) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(job.message.after_ms)).await;
    match job.message.what {
        What::Ok => Ok(()),
        What::Error => Err("told to fail".into()),
        What::Panic => panic!("told to panic"),
        What::Limited => Err(RateLimited::after(Clock::system().now(), Duration::from_secs(30)).into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let worker = Worker::from_env(handler_fn(obey)).await?;
    worker.with_sqs(Arc::new(FakeSqs::default())).run().await
}
