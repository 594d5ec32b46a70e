//! [`Requester`]: the client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use frigg_core::rate_limit::{Policy, ScopeIds};
use http::HeaderName;
use reqwest::Url;

use crate::auth::Auth;
use crate::backoff::Backoff;
use crate::builder::RequesterBuilder;
use crate::clock::Clock;
use crate::events::Events;
use crate::notify::Notify;
use crate::pacing::Pacing;
use crate::request::RequestBuilder;

/// Calls one provider. Clones are cheap, and share connections, tokens and pace.
#[derive(Clone)]
pub struct Requester(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) client: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) auth: Auth,
    pub(crate) policy: Policy,
    pub(crate) module: String,
    pub(crate) entity: Option<String>,
    pub(crate) credential: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) pacing: Option<Arc<Pacing>>,
    pub(crate) notify: Option<Arc<dyn Notify>>,
    pub(crate) idempotency_header: HeaderName,
    pub(crate) clock: Clock,
    pub(crate) events: Events,
    pub(crate) frigg: bool,
}

impl Requester {
    /// A client for the API at this base URL: `https://api.hubapi.com`, or with a path, `https://api.example.com/v1`.
    pub fn builder(base_url: impl Into<String>) -> RequesterBuilder {
        RequesterBuilder::new(base_url.into())
    }

    /// A client with the defaults.
    ///
    /// # Errors
    /// Those of [`RequesterBuilder::build`].
    pub fn new(base_url: impl Into<String>) -> Result<Self, crate::BuildError> {
        Self::builder(base_url).build()
    }

    /// GET.
    pub fn get(&self, path: &str) -> RequestBuilder {
        self.request("GET", path)
    }

    /// POST; see [`RequestBuilder::idempotency_key`].
    pub fn post(&self, path: &str) -> RequestBuilder {
        self.request("POST", path)
    }

    /// PUT.
    pub fn put(&self, path: &str) -> RequestBuilder {
        self.request("PUT", path)
    }

    /// PATCH; see [`RequestBuilder::idempotency_key`].
    pub fn patch(&self, path: &str) -> RequestBuilder {
        self.request("PATCH", path)
    }

    /// DELETE.
    pub fn delete(&self, path: &str) -> RequestBuilder {
        self.request("DELETE", path)
    }

    /// Any method, in upper case. `path` is taken under the base URL; a whole URL (a "next page" link) must be of the
    /// same host.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        RequestBuilder::new(self, method, path)
    }

    /// What is known about the provider.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Whose limit a call counts against, as an error names it (`hubspot:entity:7`); `entity` as in
    /// [`RequestBuilder::entity`](crate::RequestBuilder::entity). `None`: the policy has no scope, or an id is missing.
    pub fn scope_key(&self, entity: Option<&str>) -> Option<String> {
        self.0.scope_key(entity)
    }

    /// How long a call may take, its body included. `None`: not limited.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }
}

impl Inner {
    pub(crate) fn scope_key(&self, entity: Option<&str>) -> Option<String> {
        self.policy.scope_key(&ScopeIds {
            entity: entity.or(self.entity.as_deref()),
            credential: self.credential.as_deref(),
        })
    }
}

impl fmt::Debug for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requester")
            .field("base", &crate::RedactedUrl::of(&self.0.base))
            .field("module", &self.0.module)
            .field("auth", &self.0.auth)
            .finish_non_exhaustive()
    }
}
