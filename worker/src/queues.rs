//! What is known of queues: their URLs, and what they say of themselves. Asked once, when first needed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use frigg_core::deferral::Options;
use frigg_core::delivery::QueueArn;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::ports::{CallError, QueueAttributes, Sqs};

/// A queue that did not tell its attributes is asked again after this.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// How old a queue's depth may be.
const BACKLOG_AGE: Duration = Duration::from_secs(5);

/// Each hold of a FIFO group spends a receive, so the queue must allow more of them than there can be deferrals.
pub(crate) fn too_few_receives(
    queue: &QueueArn,
    told: &QueueAttributes,
    options: &Options,
) -> Option<String> {
    let needed = options.limits.max_deferrals.saturating_add(3);
    let allowed = told
        .max_receive_count
        .filter(|_| queue.is_fifo() && !options.is_frigg())?;
    (allowed < needed).then(|| {
        format!(
            "the FIFO queue {} has maxReceiveCount {allowed}, and a message that is limited up to {} times needs \
             {needed} receives: raise maxReceiveCount to {needed}, or lower FRIGG_QUEUE_MAX_DEFERRALS",
            queue.name(),
            options.limits.max_deferrals,
        )
    })
}

/// Whether a URL is this queue's: it ends in account and name, and AWS's hosts name the region.
fn is_url_of(url: &str, queue: &QueueArn) -> bool {
    let Some((host, path)) = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')) else {
        return false;
    };
    let mut ends = path.rsplit('/');
    let is_named = ends.next() == Some(queue.name()) && ends.next() == Some(queue.account());
    is_named && (!host.contains(".amazonaws.") || host.split('.').any(|label| label == queue.region()))
}

/// Remembers each queue's URL and attributes. A URL look-up that failed is not remembered.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Whether `QueueOwnerAWSAccountId` is passed. Frigg does not.
    owner: bool,
    /// The URL of one of them, from the environment: nobody needs to ask for it.
    told: Option<String>,
    // Both are held during a look-up, so that a batch asks once.
    urls: Mutex<HashMap<QueueArn, Arc<str>>>,
    attributes: Mutex<HashMap<QueueArn, Answer>>,
    backlogs: Mutex<HashMap<QueueArn, (Instant, Option<u64>)>>,
}

#[derive(Debug)]
enum Answer {
    Told(Arc<QueueAttributes>),
    Failed(Instant),
}

impl Queues {
    pub(crate) fn new(owner: bool, told: Option<String>) -> Self {
        Queues {
            owner,
            told,
            ..Queues::default()
        }
    }

    pub(crate) async fn url(&self, sqs: &dyn Sqs, queue: &QueueArn) -> Result<Arc<str>, CallError> {
        let mut urls = self.urls.lock().await;
        if let Some(url) = urls.get(queue) {
            return Ok(Arc::clone(url));
        }
        let url: Arc<str> = match self.told.as_deref().filter(|url| is_url_of(url, queue)) {
            Some(url) => url.into(),
            None => sqs.queue_url(queue, self.owner).await?.into(),
        };
        urls.insert(queue.clone(), Arc::clone(&url));
        Ok(url)
    }

    /// The URL is known from the environment.
    pub(crate) async fn remember(&self, queue: QueueArn, url: &str) {
        self.urls.lock().await.insert(queue, url.into());
    }

    /// How many messages wait in the queue, as it said in the last seconds; `None` when it does not say.
    pub(crate) async fn backlog(&self, sqs: &dyn Sqs, queue: &QueueArn) -> Option<u64> {
        let mut all = self.backlogs.lock().await;
        if let Some((_, backlog)) = all.get(queue).filter(|(at, _)| at.elapsed() < BACKLOG_AGE) {
            return *backlog;
        }
        let asked = async { sqs.queue_attributes(&self.url(sqs, queue).await?).await };
        let backlog = asked.await.ok().and_then(|told| told.backlog);
        all.insert(queue.clone(), (Instant::now(), backlog));
        backlog
    }

    /// What the queue says of itself; `None` when it does not say.
    pub(crate) async fn attributes(
        &self,
        sqs: &dyn Sqs,
        queue: &QueueArn,
        options: &Options,
    ) -> Option<Arc<QueueAttributes>> {
        let mut all = self.attributes.lock().await;
        match all.get(queue) {
            Some(Answer::Told(attributes)) => return Some(Arc::clone(attributes)),
            Some(Answer::Failed(at)) if at.elapsed() < ASK_AGAIN_AFTER => return None,
            _ => {}
        }
        let asked = async { sqs.queue_attributes(&self.url(sqs, queue).await?).await };
        match asked.await {
            Ok(told) => {
                if let Some(fault) = too_few_receives(queue, &told, options) {
                    tracing::error!(target: "frigg.worker", eventName = "frigg.worker.too_few_receives", "{fault}");
                }
                let told = Arc::new(told);
                all.insert(queue.clone(), Answer::Told(Arc::clone(&told)));
                Some(told)
            }
            Err(error) => {
                all.insert(queue.clone(), Answer::Failed(Instant::now()));
                tracing::warn!(
                    target: "frigg.worker", eventName = "frigg.worker.queue_attributes_failed",
                    queue = queue.name(), "error.type" = "CallError", "error.message" = %error,
                    "the queue's dead-letter rule and retention are not known",
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_known_as_the_queues_own() {
        let queue = QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs").unwrap();
        for (url, want) in [
            ("https://sqs.eu-west-1.amazonaws.com/111111111111/jobs", true),
            ("https://eu-west-1.queue.amazonaws.com/111111111111/jobs", true),
            ("https://sqs.eu-west-1.api.aws/111111111111/jobs", true),
            ("http://localhost:4566/111111111111/jobs", true),
            ("http://localhost:4566/queue/eu-west-1/111111111111/jobs", true),
            ("https://sqs.us-east-1.amazonaws.com/111111111111/jobs", false),
            ("https://sqs.eu-west-1.amazonaws.com/222222222222/jobs", false),
            (
                "https://sqs.eu-west-1.amazonaws.com/111111111111/jobs.fifo",
                false,
            ),
            (
                "https://sqs.eu-west-1.amazonaws.com/111111111111/more-jobs",
                false,
            ),
            ("jobs", false),
            ("", false),
        ] {
            assert_eq!(is_url_of(url, &queue), want, "{url}");
        }
    }
}
