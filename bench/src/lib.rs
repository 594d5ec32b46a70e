//! The work that every program of the comparison does, so that only the way around it differs.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use serde::Deserialize;

/// A message's body.
#[derive(Debug, Deserialize)]
pub struct Task {
    /// Its number.
    pub id: u64,
    /// The provider refuses for so many seconds.
    #[serde(default)]
    pub limited: Option<u32>,
    /// How many milliseconds the work takes, waiting for an answer. Default: none.
    #[serde(default)]
    pub takes_ms: u64,
}

/// The provider said "not now".
#[derive(Debug)]
pub struct Limited {
    /// For how many seconds.
    pub seconds: u32,
}

impl Task {
    /// Does the work.
    ///
    /// # Errors
    /// [`Limited`] when the provider refuses.
    pub async fn run(&self) -> Result<(), Limited> {
        if self.takes_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.takes_ms)).await;
        }
        match self.limited {
            Some(seconds) => Err(Limited { seconds }),
            None => Ok(()),
        }
    }
}

/// The queue that hand-written programs send to. A real one has its URL from its environment too.
///
/// # Errors
/// When the variable is not set.
pub fn queue_url() -> Result<String, std::env::VarError> {
    std::env::var("QUEUE_URL")
}

/// The SQS client of a hand-written program, with the TLS that ours has too.
pub async fn client() -> aws_sdk_sqs::Client {
    let https = Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let loader = aws_config::defaults(BehaviorVersion::latest()).http_client(https);
    aws_sdk_sqs::Client::new(&loader.load().await)
}
