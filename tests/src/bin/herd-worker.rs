//! A worker of the herd: each message is one call to a provider that refuses beyond its rate.
//!
//! `PROVIDER_URL` is what it calls. With `PROVIDER_WINDOW` (`10/1000`: calls, milliseconds) it knows the provider's rate.

use std::io::Read as _;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, Result};
use frigg_tests::clock;
use frigg_tests::herd::KEY;
use frigg_worker::core::rate_limit::{Reason, Window};
use frigg_worker::{Handler, HandlerError, Job, RateLimited, Worker};
use serde::Deserialize;

#[derive(Deserialize)]
struct Task {
    id: String,
}

struct Herd {
    client: reqwest::Client,
    url: String,
    window: Option<Window>,
}

impl Handler for Herd {
    type Message = Task;
    type Error = HandlerError;

    async fn handle(&self, job: Job<Task>) -> Result<(), HandlerError> {
        let call = self.client.get(&self.url).header("x-request-id", job.message.id);
        let answer = call.send().await?;
        if answer.status() != 429 {
            answer.error_for_status()?;
            return Ok(());
        }
        let header = answer.headers().get("retry-after").context("no Retry-After")?;
        let seconds = header.to_str()?.parse().context("Retry-After in seconds")?;
        let limited = RateLimited::after(clock::now(), Duration::from_secs(seconds))
            .with_reason(Reason::Burst)
            .with_module("herd")
            .with_scope_key(KEY)
            .with_status(429);
        Err(match self.window {
            Some(window) => limited.with_window(window),
            None => limited,
        }
        .into())
    }

    fn scope_key(&self, _: &Task) -> Option<String> {
        Some(KEY.to_owned())
    }
}

fn window(text: &str) -> Result<Window> {
    let (calls, ms) = text.split_once('/').context("PROVIDER_WINDOW is not CALLS/MS")?;
    let limit: NonZeroU32 = calls.parse().context("PROVIDER_WINDOW is not CALLS/MS")?;
    let per = Duration::from_millis(ms.parse().context("PROVIDER_WINDOW is not CALLS/MS")?);
    Ok(Window { limit, per })
}

#[tokio::main]
async fn main() -> Result<()> {
    // It never outlives what started it.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
    let worker = Herd {
        client: reqwest::Client::builder().no_proxy().build()?,
        url: std::env::var("PROVIDER_URL").context("PROVIDER_URL is not set")?,
        window: std::env::var("PROVIDER_WINDOW")
            .ok()
            .as_deref()
            .map(window)
            .transpose()?,
    };
    Ok(Worker::from_env(worker).await?.run().await?)
}
