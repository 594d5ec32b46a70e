//! What a requester tells, as a warning for an integration's users.

use std::sync::Arc;

use frigg_requester::{Announcement, Notice, Notify};
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::clock::Clock;
use crate::error::BoxError;
use crate::warnings::{Warning, Warnings, is_news};

impl Warnings {
    /// Hears of limits from a requester that works for this integration, for callers that no worker answers for: a web
    /// request, a job. Waits of up to a minute are no news. (A worker records the limits of its messages itself; what
    /// both tell is stored once.)
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use frigg_worker::{Clock, testing::MemoryState, warnings::Warnings};
    /// # let warnings = Warnings::new(Arc::new(MemoryState::new(Clock::system())));
    /// let crm = frigg_requester::Requester::builder("crm").notify(warnings.of_integration("7"));
    /// ```
    pub fn of_integration(&self, integration: impl Into<String>) -> Arc<dyn Notify> {
        Arc::new(OfIntegration {
            warnings: self.clone(),
            integration: integration.into(),
            clock: Clock::system(),
        })
    }
}

struct OfIntegration {
    warnings: Warnings,
    integration: String,
    clock: Clock,
}

impl OfIntegration {
    async fn hear(&self, announcement: &Announcement, now: Timestamp) {
        if !is_news(now, announcement.retry_at) {
            return;
        }
        let links = announcement.links.iter();
        let warning = Warning {
            module: announcement.module.clone(),
            reason: announcement.reason,
            retry_at: announcement.retry_at,
            links: links
                .map(|link| (link.label.to_owned(), link.url.to_owned()))
                .collect(),
        };
        self.warnings.record(&self.integration, &warning, now).await;
    }
}

impl Notify for OfIntegration {
    fn notify<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            if let Notice::RateLimited(announcement) = notice {
                self.hear(announcement, self.clock.now()).await;
            }
            Ok(())
        })
    }
}
