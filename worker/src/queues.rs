//! Queue URLs, found from ARNs and remembered.

use std::collections::HashMap;
use std::sync::Arc;

use frigg_core::delivery::QueueArn;
use tokio::sync::Mutex;

use crate::ports::{CallError, Sqs};

/// Remembers each queue's URL; a look-up that failed is not remembered.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Whether `QueueOwnerAWSAccountId` is passed. Frigg does not.
    owner: bool,
    // Held during a look-up, so that a batch asks once.
    urls: Mutex<HashMap<QueueArn, Arc<str>>>,
}

impl Queues {
    pub(crate) fn new(owner: bool) -> Self {
        Queues {
            owner,
            urls: Mutex::default(),
        }
    }

    pub(crate) async fn url(&self, sqs: &dyn Sqs, queue: &QueueArn) -> Result<Arc<str>, CallError> {
        let mut urls = self.urls.lock().await;
        if let Some(url) = urls.get(queue) {
            return Ok(Arc::clone(url));
        }
        let url: Arc<str> = sqs.queue_url(queue, self.owner).await?.into();
        urls.insert(queue.clone(), Arc::clone(&url));
        Ok(url)
    }

    /// The URL is known from the environment.
    pub(crate) async fn remember(&self, queue: QueueArn, url: &str) {
        self.urls.lock().await.insert(queue, url.into());
    }
}
