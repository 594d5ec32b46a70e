//! [`RequesterBuilder`]: how a requester is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use frigg_core::backoff::Ladder;
use frigg_core::rate_limit::{Policy, providers};
use reqwest::Url;
use rustls::crypto::CryptoProvider;

use crate::address::{self, PublicOnly};
use crate::auth::{Auth, Kind};
use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::error::BoxError;
use crate::events::Events;
use crate::notify::Notify;
use crate::pacing::Pacing;
use crate::requester::{Inner, Requester};
use crate::send;

/// The time that a call may take unless it is told otherwise.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Sets a [`Requester`] up.
#[must_use = "nothing exists before `build`"]
pub struct RequesterBuilder {
    base: String,
    provider: Option<String>,
    policy: Option<Policy>,
    module: Option<String>,
    auth: Auth,
    entity: Option<String>,
    credential: Option<String>,
    timeout: Duration,
    backoff: Backoff,
    retries: Option<u32>,
    pacing: Option<bool>,
    notify: Option<Arc<dyn Notify>>,
    idempotency_header: Option<String>,
    user_agent: String,
    public_only: bool,
    no_proxy: bool,
    clock: Clock,
    frigg: bool,
}

impl RequesterBuilder {
    pub(crate) fn new(base: String) -> Self {
        RequesterBuilder {
            base,
            provider: None,
            policy: None,
            module: None,
            auth: Auth::none(),
            entity: None,
            credential: None,
            timeout: DEFAULT_TIMEOUT,
            backoff: Backoff::default(),
            retries: None,
            pacing: None,
            notify: None,
            idempotency_header: None,
            user_agent: concat!("frigg-rs/", env!("CARGO_PKG_VERSION")).to_owned(),
            public_only: false,
            no_proxy: false,
            clock: Clock::system(),
            frigg: false,
        }
    }

    /// The provider, by its name in the [table](providers). A name that is not there is the module's name only. Default:
    /// whoever the table has for the host.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = Some(name.into());
        self
    }

    /// What is known about the provider, in full. Its classify function may panic: that is logged, and the answer read
    /// without it. Default: from the table.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The name in errors, logs and scope keys. Default: the policy's, else the host.
    pub fn module(mut self, name: impl Into<String>) -> Self {
        self.module = Some(name.into());
        self
    }

    /// How calls show who they come from. Default: not at all.
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// The account, portal or company that calls are for, where the limits are those of one. Default: none.
    pub fn entity(mut self, id: impl Into<String>) -> Self {
        self.entity = Some(id.into());
        self
    }

    /// The credential's id, where the limits are those of one. Default: none.
    pub fn credential(mut self, id: impl Into<String>) -> Self {
        self.credential = Some(id.into());
        self
    }

    /// How long a call may take, its body included; never longer than the invocation has left. Default 60 s; zero: not
    /// limited.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The waits after failures that give no time. Default: 1, 3, 10, 30, 60, 180 s.
    pub fn ladder(mut self, ladder: Ladder) -> Self {
        self.backoff = Backoff::Ladder(ladder);
        self
    }

    /// Another way to wait after failures that give no time.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// At most this many retries after failures that give no time; 0: no retries at all, after those that give one
    /// neither. Default: as many as the ladder has steps.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Whether to stay below the provider's known limits by waiting before calls. Windows are counted for each scope
    /// key, by this requester and its clones. Default: on where a policy is known, off for unknown providers.
    pub fn pacing(mut self, on: bool) -> Self {
        self.pacing = Some(on);
        self
    }

    /// Who is told of limits and dead credentials. Default: nobody.
    pub fn notify(mut self, notify: Arc<dyn Notify>) -> Self {
        self.notify = Some(notify);
        self
    }

    /// The header in which the provider takes idempotency keys. Default: `Idempotency-Key`, or the provider's own where it
    /// is known.
    pub fn idempotency_header(mut self, name: impl Into<String>) -> Self {
        self.idempotency_header = Some(name.into());
        self
    }

    /// The `User-Agent`. Default: `frigg-rs/<version>`.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Calls directly, whatever proxies the environment names: for an address on this machine. Default: off.
    pub fn no_proxy(mut self) -> Self {
        self.no_proxy = true;
        self
    }

    /// Refuses private, loopback, link-local and reserved addresses, whatever name leads there and at whichever redirect:
    /// for URLs that come from messages. Proxies of the environment are not used then. Default: off.
    pub fn public_addresses_only(mut self) -> Self {
        self.public_only = true;
        self
    }

    /// Another clock and sleep, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Frigg exactly: its reading of answers, no pacing, every 5xx on the ladder, ladder waits without a budget, every
    /// method repeated, 401s given time.
    pub fn frigg_compat(mut self) -> Self {
        self.frigg = true;
        self
    }

    /// Makes the requester.
    ///
    /// # Errors
    /// For a base URL that is none, or not of http or https, or of an address that is not allowed; a credential, a header
    /// name or a user agent that no header can carry; and when no TLS can be set up.
    pub fn build(self) -> Result<Requester, BuildError> {
        let mut base = Url::parse(&self.base).map_err(|_| BuildError::new("the base URL is no URL"))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(BuildError::new("the base URL is not of http or https"));
        }
        if self.public_only && address::is_private_literal(&base) {
            return Err(BuildError::new(
                "the base URL is of an address that is not public",
            ));
        }
        base.set_fragment(None);
        base.set_query(None);
        if let Kind::Invalid(what) = self.auth.0 {
            return Err(BuildError::new(what));
        }
        let header = self.idempotency_header.as_deref();
        let policy = self.policy.or_else(|| match &self.provider {
            Some(name) => Some(Policy::for_provider(name).unwrap_or_else(|| Policy::new().with_module(name))),
            None => Policy::for_host(base.host_str().unwrap_or_default()),
        });
        let mut policy = policy.unwrap_or_default();
        if let Some(module) = self.module {
            policy = policy.with_module(module);
        } else if policy.module().is_none() {
            policy = policy.with_module(base.host_str().unwrap_or("unknown"));
        }
        if self.frigg {
            policy = policy.frigg_compat();
        }
        let module = policy.module().unwrap_or("unknown").to_owned();
        let events = Events::new(&module);
        let listener = events.clone();
        let policy = policy
            .with_classify_listener(move |signal, panic| listener.classify_failed(signal.status(), panic));

        let is_known = policy.provider().is_some()
            || policy.max_concurrency().is_some()
            || policy.windows().iter().any(|window| window.limit.is_some());
        let paced = !self.frigg && self.pacing.unwrap_or(is_known);

        if CryptoProvider::get_default().is_none() {
            // The program has chosen none. A second caller at the same moment chooses the same.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut client = reqwest::Client::builder()
            // They are followed by `redirect`.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(self.user_agent);
        if self.public_only {
            client = client.dns_resolver(PublicOnly);
        }
        if self.public_only || self.no_proxy {
            client = client.no_proxy();
        }
        let client = client
            .build()
            .map_err(|error| BuildError::with_source("the HTTP client cannot be set up", error))?;
        Ok(Requester(Arc::new(Inner {
            client,
            auth: self.auth,
            idempotency_header: header
                .or_else(|| idempotency_header(policy.provider()))
                .unwrap_or("idempotency-key")
                .parse()
                .map_err(|_| BuildError::new("the idempotency header is not a header's name"))?,
            pacing: paced.then(|| Arc::new(Pacing::new(&policy))),
            module,
            policy,
            base,
            entity: self.entity,
            credential: self.credential,
            timeout: send::on(self.timeout),
            backoff: limited(self.backoff, self.retries),
            notify: self.notify,
            clock: self.clock,
            events,
            frigg: self.frigg,
        })))
    }
}

/// The ladder's first steps.
fn limited(backoff: Backoff, retries: Option<u32>) -> Backoff {
    match (backoff, retries) {
        (_, Some(0)) => Backoff::Ladder(Ladder::new([])),
        (Backoff::Ladder(ladder), Some(retries)) => {
            let steps: Vec<Duration> = (1..=retries).map_while(|n| ladder.step(n)).collect();
            Backoff::Ladder(Ladder::new(steps))
        }
        (backoff, _) => backoff,
    }
}

/// Providers that take idempotency keys in a header of another name than `Idempotency-Key`
/// (draft-ietf-httpapi-idempotency-key-header).
fn idempotency_header(provider: Option<&providers::Provider>) -> Option<&'static str> {
    match provider?.name {
        // https://developer.paypal.com/api/rest/reference/idempotency/
        "paypal" => Some("paypal-request-id"),
        // https://developer.xero.com and https://plaid.com use the draft's name.
        _ => None,
    }
}

impl fmt::Debug for RequesterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequesterBuilder")
            .field("provider", &self.provider)
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}

/// Why a requester cannot be made.
#[derive(Debug)]
pub struct BuildError {
    what: &'static str,
    source: Option<BoxError>,
}

impl BuildError {
    fn new(what: &'static str) -> Self {
        BuildError { what, source: None }
    }

    fn with_source(what: &'static str, source: impl Into<BoxError>) -> Self {
        BuildError {
            what,
            source: Some(source.into()),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
