//! What users are told of a limit: Frigg's `RATE_LIMITED` warning, stored with their integration.

use std::fmt;
use std::sync::Arc;

use frigg_core::rate_limit::{Policy, Reason};
use frigg_core::time;
use futures_util::future::{BoxFuture, join_all};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::error::BoxError;

/// Warnings that are kept for an integration, the newest.
const KEPT: usize = 50;
/// A warning of the same module this near to a stored one says nothing new. And a wait no longer than this is no news.
const NEAR: SignedDuration = SignedDuration::from_secs(60);
/// Another worker wrote at the same time: read and write again.
const ATTEMPTS: u32 = 5;
const CODE: &str = "RATE_LIMITED";

/// A limit that a user may want to know about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Whose limit: `hubspot`.
    pub module: String,
    /// Which limit.
    pub reason: Reason,
    /// Not before this moment.
    pub retry_at: Timestamp,
    /// Pages that explain it: label and URL.
    pub links: Vec<(String, String)>,
}

impl Warning {
    /// The warning as Frigg stores it.
    pub fn to_json(&self, now: Timestamp) -> Value {
        let mut actions = vec![json!({ "type": "RETRY_WHEN_READY" })];
        let links = self.links.iter();
        actions.extend(links.map(|(label, url)| json!({ "type": "LINK", "label": label, "url": url })));
        json!({
            "title": "Rate limit reached",
            "message": format!(
                "{} accepts no more calls for now; the work goes on by itself at {} UTC.",
                self.module,
                minute(self.retry_at).strftime("%Y-%m-%d %H:%M")
            ),
            "timestamp": now.as_millisecond(),
            "code": CODE,
            "module": self.module,
            "reason": self.reason.frigg_name(),
            "retryAt": time::iso(self.retry_at),
            "actions": actions,
        })
    }

    /// Whether a stored warning says the same: it decides, whatever else it is.
    fn is_told_by(&self, stored: &Value) -> bool {
        let at = stored["retryAt"].as_str().and_then(time::parse_iso);
        stored["code"] == CODE
            && stored["module"] == self.module.as_str()
            && at.is_some_and(|at| at.duration_since(self.retry_at).abs() <= NEAR)
    }
}

/// The first whole minute that is not before `at`.
fn minute(at: Timestamp) -> Timestamp {
    let seconds = time::ceil_to_second(at).as_second();
    let up = seconds.saturating_add(59).div_euclid(60).saturating_mul(60);
    Timestamp::from_second(up).unwrap_or(at)
}

/// An integration's warnings as they are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// A JSON array, oldest first; empty where there are none.
    pub warnings: String,
    /// How often they were written.
    pub revision: u64,
}

impl Stored {
    /// The warnings; none where the text is no array.
    pub fn list(&self) -> Vec<Value> {
        serde_json::from_str(&self.warnings).unwrap_or_default()
    }
}

/// Keeps the warnings of integrations.
pub trait WarningStore: Send + Sync + fmt::Debug {
    /// The integration's warnings.
    fn read<'a>(&'a self, integration: &'a str) -> BoxFuture<'a, Result<Stored, BoxError>>;

    /// Writes `stored.warnings` if the revision is still `stored.revision`, and raises that. Whether it was.
    fn write<'a>(&'a self, integration: &'a str, stored: &'a Stored)
    -> BoxFuture<'a, Result<bool, BoxError>>;
}

/// Hears of a warning that is new, beside its being stored: a topic, an event bus.
pub trait Announce: Send + Sync + fmt::Debug {
    /// Tells it. `warning` is what was stored.
    fn announce<'a>(
        &'a self,
        integration: &'a str,
        warning: &'a Value,
    ) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// Stores warnings, and announces those that are new.
#[derive(Debug, Clone)]
pub struct Warnings {
    store: Arc<dyn WarningStore>,
    announce: Vec<Arc<dyn Announce>>,
}

impl Warnings {
    /// In this store.
    pub fn new(store: Arc<dyn WarningStore>) -> Self {
        Warnings {
            store,
            announce: Vec::new(),
        }
    }

    /// Announces what is new here too. It is told once: where that fails, the warning is stored nonetheless.
    #[must_use]
    pub fn with_announce(mut self, announce: Arc<dyn Announce>) -> Self {
        self.announce.push(announce);
        self
    }

    /// Stores a warning, unless a stored one says the same. A fault is one WARN, and changes nothing else.
    pub async fn record(&self, integration: &str, warning: &Warning, now: Timestamp) {
        if warning.module.is_empty() {
            return;
        }
        if let Err(error) = self.try_record(integration, warning, now).await {
            tracing::warn!(
                target: "frigg.worker", eventName = "frigg.integrations.rate_limit_message_record_failed",
                integrationId = integration, moduleName = warning.module,
                "error.type" = "Error", "error.message" = crate::report::cut(&crate::error::chain(&*error)),
            );
        }
    }

    async fn try_record(&self, integration: &str, warning: &Warning, now: Timestamp) -> Result<(), BoxError> {
        for _ in 0..ATTEMPTS {
            let mut stored = self.store.read(integration).await?;
            let mut list = stored.list();
            if list.iter().any(|other| warning.is_told_by(other)) {
                return Ok(());
            }
            let new = warning.to_json(now);
            list.push(new.clone());
            list.drain(..list.len().saturating_sub(KEPT));
            stored.warnings = Value::Array(list).to_string();
            if self.store.write(integration, &stored).await? {
                let told = self.announce.iter().map(|one| one.announce(integration, &new));
                return join_all(told).await.into_iter().collect();
            }
        }
        Err("too many workers write warnings of this integration at once".into())
    }
}

/// Whether a wait is worth a warning.
pub(crate) fn is_news(now: Timestamp, retry_at: Timestamp) -> bool {
    retry_at.duration_since(now) > NEAR
}

/// The pages that a provider has on this kind of limit.
pub(crate) fn links(module: &str, reason: Reason) -> Vec<(String, String)> {
    let policy = Policy::for_provider(module);
    let links = policy
        .iter()
        .flat_map(Policy::links)
        .filter(|link| link.reason == reason);
    links
        .map(|link| (link.label.to_owned(), link.url.to_owned()))
        .collect()
}
