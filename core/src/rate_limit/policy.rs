//! [`Policy`]: what is known about a provider's limits before any response comes.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::providers::{self, Provider};
use super::window::glob;
use super::{Link, NamedWindow, Parser, Reason, Signal, Verdict, Window};

type Classify = Arc<dyn Fn(&Signal<'_>) -> Option<Verdict> + Send + Sync>;
type Listener = Arc<dyn Fn(&Signal<'_>, &str) + Send + Sync>;
type CustomScope = Arc<dyn Fn(&ScopeIds<'_>) -> Option<String> + Send + Sync>;

/// A provider's facts: whose limit it is, its windows, how its answers are read. It says nothing about how long a caller
/// wants to sleep; that is the caller's own budget ([`backoff`](crate::backoff)).
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use frigg_core::rate_limit::{NamedWindow, Policy, Reason, Scope, Verdict};
///
/// // A provider that the table knows:
/// let hubspot = Policy::for_provider("hubspot").expect("known");
/// assert_eq!(hubspot.max_concurrency(), NonZeroU32::new(10));
///
/// // One that it does not know:
/// let policy = Policy::new()
///     .with_module("acme")
///     .with_scope(Scope::Credential)
///     .with_window(NamedWindow::new(Reason::Burst, 10, Duration::from_secs(1)))
///     .with_min_retry_after(Duration::from_secs(5))
///     .with_classify(|signal| {
///         let code = signal.field("error.code")?;
///         (signal.status() == 403 && code == "CALLS_EXCEEDED").then(|| Verdict::limit(Reason::Daily))
///     });
/// assert_eq!(policy.scope_key(&Default::default()), None);
/// ```
#[derive(Clone)]
pub struct Policy {
    pub(crate) provider: Option<&'static Provider>,
    pub(crate) module: Option<Cow<'static, str>>,
    pub(crate) classify: Option<Classify>,
    pub(crate) listener: Option<Listener>,
    pub(crate) parsers: Cow<'static, [Parser]>,
    pub(crate) min_retry_after: Option<Duration>,
    pub(crate) reads_success: bool,
    pub(crate) frigg: bool,
    windows: Cow<'static, [NamedWindow]>,
    scope: Scope,
    custom_scope: Option<CustomScope>,
    max_concurrency: Option<NonZeroU32>,
    links: Cow<'static, [Link]>,
}

impl Policy {
    /// A provider about which nothing is known: statuses, headers and bodies are read by what they have in common.
    pub const fn new() -> Self {
        Policy {
            provider: None,
            module: None,
            classify: None,
            listener: None,
            parsers: Cow::Borrowed(Parser::DEFAULT),
            min_retry_after: None,
            reads_success: false,
            frigg: false,
            windows: Cow::Borrowed(&[]),
            scope: Scope::Entity,
            custom_scope: None,
            max_concurrency: None,
            links: Cow::Borrowed(&[]),
        }
    }

    /// Frigg's reading of a provider about which nothing is known; see [`frigg_compat`](Self::frigg_compat).
    pub fn frigg() -> Self {
        Policy::new().frigg_compat()
    }

    /// The policy of a provider in the [table](providers), by its name or an alias, in any letter case. `None` when the
    /// table does not know it.
    pub fn for_provider(name: &str) -> Option<Self> {
        providers::by_name(name).map(Provider::policy)
    }

    /// The policy of the provider that answers at this host.
    pub fn for_host(host: &str) -> Option<Self> {
        providers::by_host(host).map(Provider::policy)
    }

    pub(crate) fn of(provider: &'static Provider) -> Self {
        Policy {
            provider: Some(provider),
            module: Some(Cow::Borrowed(provider.name)),
            parsers: Cow::Borrowed(provider.parsers),
            min_retry_after: provider.min_retry_after,
            reads_success: provider.reads_success,
            windows: Cow::Borrowed(provider.windows),
            scope: provider.scope,
            max_concurrency: provider.max_concurrency,
            links: Cow::Borrowed(provider.links),
            ..Policy::new()
        }
    }

    /// The short name that appears in errors, logs and scope keys. Default: the provider's name in the table, else none.
    #[must_use]
    pub fn with_module(mut self, module: impl Into<String>) -> Self {
        self.module = Some(Cow::Owned(module.into()));
        self
    }

    /// Whose limit it is. Default: [`Scope::Entity`].
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self.custom_scope = None;
        self
    }

    /// A scope of your own: the value becomes `<module>:custom:<value>`; `None` or an empty text is no scope.
    #[must_use]
    pub fn with_custom_scope(
        mut self,
        scope: impl Fn(&ScopeIds<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.custom_scope = Some(Arc::new(scope));
        self
    }

    /// Adds a documented window. A limit without a time waits as long as the first window of its reason; windows that
    /// name the route that was called come first. Default: none.
    #[must_use]
    pub fn with_window(mut self, window: NamedWindow) -> Self {
        self.windows.to_mut().push(window);
        self
    }

    /// No wait is shorter than this, and a limit without a time waits this long. Default: none.
    #[must_use]
    pub fn with_min_retry_after(mut self, wait: Duration) -> Self {
        self.min_retry_after = Some(wait);
        self
    }

    /// Which parsers read the time, in which order; the first that finds one decides. A list without any is allowed:
    /// then only classify and the windows give a time. Default: [`Parser::DEFAULT`].
    #[must_use]
    pub fn with_parsers(mut self, parsers: impl Into<Vec<Parser>>) -> Self {
        self.parsers = Cow::Owned(parsers.into());
        self
    }

    /// A function that knows what this provider's answers mean. It is asked first, for every status from 400 up other
    /// than 401, and for 2xx with [`with_success_bodies`](Self::with_success_bodies). `None` leaves the answer to the
    /// provider's rules in the table and to the generic reading.
    ///
    /// **Beware of calling too much a limit.** A final error that the function takes for a limit (a 404, say) is deferred
    /// until the cap is reached: 30 runs over 26 hours instead of one failure. Match the status *and* the error code.
    #[must_use]
    pub fn with_classify(
        mut self,
        classify: impl Fn(&Signal<'_>) -> Option<Verdict> + Send + Sync + 'static,
    ) -> Self {
        self.classify = Some(Arc::new(classify));
        self
    }

    /// Catches a panic of the classify function: the listener gets the response and the panic's message, and the response
    /// is read as if there were no such function. Default: no listener, and the panic comes out of the reader.
    #[must_use]
    pub fn with_classify_listener(
        mut self,
        listener: impl Fn(&Signal<'_>, &str) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// How many calls may run at the same time. Default: not known.
    #[must_use]
    pub fn with_max_concurrency(mut self, calls: NonZeroU32) -> Self {
        self.max_concurrency = Some(calls);
        self
    }

    /// Adds a page that a warning about this kind of limit should point people to.
    #[must_use]
    pub fn with_link(mut self, link: Link) -> Self {
        self.links.to_mut().push(link);
        self
    }

    /// Reads 2xx bodies too, for APIs that report a limit there (GraphQL, some JSON APIs). Without the provider's error
    /// code a 2xx stays a success, whatever its headers say. Default: off, unless the table says otherwise.
    #[must_use]
    pub fn with_success_bodies(mut self) -> Self {
        self.reads_success = true;
        self
    }

    /// Exactly Frigg's reading: its three parsers, no limit but a 429 or what a rule names, 2xx bodies never read, no
    /// unavailable answers, the `Date` header ignored, no reason inferred.
    #[must_use]
    pub fn frigg_compat(mut self) -> Self {
        self.frigg = true;
        self.reads_success = false;
        if !self.parsers.iter().all(|parser| parser.is_frigg()) {
            self.parsers = Cow::Borrowed(Parser::FRIGG);
        }
        self
    }

    /// The short name in errors and logs.
    pub fn module(&self) -> Option<&str> {
        self.module.as_deref()
    }

    /// The entry of the table that this policy started from.
    pub fn provider(&self) -> Option<&'static Provider> {
        self.provider
    }

    /// Whose limit it is.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The documented windows.
    pub fn windows(&self) -> &[NamedWindow] {
        &self.windows
    }

    /// The parsers, in their order.
    pub fn parsers(&self) -> &[Parser] {
        &self.parsers
    }

    /// The shortest wait.
    pub fn min_retry_after(&self) -> Option<Duration> {
        self.min_retry_after
    }

    /// How many calls may run at the same time.
    pub fn max_concurrency(&self) -> Option<NonZeroU32> {
        self.max_concurrency
    }

    /// Pages for people, each for one kind of limit.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Whether 2xx bodies are read. When not, a caller need not read them either.
    pub fn reads_success_bodies(&self) -> bool {
        self.reads_success
    }

    /// Whether a body can change the answer. When not, a caller that has not read it yet need not.
    pub fn needs_body(&self, status: u16) -> bool {
        match status {
            200..300 => self.reads_success,
            401 => false,
            400.. if self.frigg => {
                self.classify.is_some() || self.provider.is_some_and(|provider| !provider.rules.is_empty())
            }
            400.. => true,
            _ => false,
        }
    }

    /// The rate at which messages come back after a limit of this reason: that of its window, else of the shortest one.
    /// After a daily or monthly limit all of the quota is there again, so there the shortest one is what counts.
    pub fn rate(&self, reason: Reason, route: Option<&str>) -> Option<Window> {
        let is_long = |reason| matches!(reason, Reason::Daily | Reason::Monthly);
        let own = self
            .window(reason, route)
            .filter(|window| !is_long(window.reason));
        own.and_then(NamedWindow::rate).or_else(|| {
            let counts = |window: &&NamedWindow| {
                !is_long(window.reason)
                    && (window.route.is_none() || route.is_some_and(|path| window.covers(path)))
            };
            let rates = self.windows.iter().filter(counts).filter_map(NamedWindow::rate);
            rates.min_by_key(|rate| rate.per)
        })
    }

    /// The first window for this reason: one that names the route, else one without a route.
    pub fn window(&self, reason: Reason, route: Option<&str>) -> Option<&NamedWindow> {
        let fits = |window: &&NamedWindow| window.reason == reason;
        let routed = |window: &&NamedWindow| {
            window
                .route
                .zip(route)
                .is_some_and(|(pattern, route)| glob(pattern, route))
        };
        let windows = || self.windows.iter().filter(fits);
        windows()
            .find(routed)
            .or_else(|| windows().find(|window| window.route.is_none()))
    }

    /// The key under which workers share what they know about this limit: `hubspot:entity:7`, `hubspot:credential:3`,
    /// `hubspot:app`, `hubspot:custom:<value>`. `None` when the id is missing. Without a module it starts with `unknown`.
    pub fn scope_key(&self, ids: &ScopeIds<'_>) -> Option<String> {
        let module = self.module().unwrap_or("unknown");
        if let Some(custom) = &self.custom_scope {
            return custom(ids)
                .filter(|value| !value.is_empty())
                .map(|value| format!("{module}:custom:{value}"));
        }
        match self.scope {
            Scope::Entity => ids.entity.map(|id| format!("{module}:entity:{id}")),
            Scope::Credential => ids.credential.map(|id| format!("{module}:credential:{id}")),
            Scope::App => Some(format!("{module}:app")),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::new()
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("module", &self.module)
            .field("scope", &self.scope)
            .field("windows", &self.windows)
            .field("parsers", &self.parsers)
            .field("min_retry_after", &self.min_retry_after)
            .field("max_concurrency", &self.max_concurrency)
            .field("classify", &self.classify.is_some())
            .field("reads_success", &self.reads_success)
            .field("frigg", &self.frigg)
            .finish_non_exhaustive()
    }
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Scope {
    /// Each account, portal or company.
    #[default]
    Entity,
    /// Each credential.
    Credential,
    /// The application as a whole.
    App,
}

/// The ids from which a scope key is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScopeIds<'a> {
    /// The account, portal or company that is called for.
    pub entity: Option<&'a str>,
    /// The credential that is used.
    pub credential: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_keys() {
        let policy = Policy::new().with_module("acme");
        let ids = ScopeIds {
            entity: Some("7"),
            credential: Some("c"),
        };
        let key = |policy: &Policy, ids| policy.scope_key(&ids);
        assert_eq!(key(&policy, ids).as_deref(), Some("acme:entity:7"));
        assert_eq!(key(&policy, ScopeIds::default()), None);
        assert_eq!(
            key(&policy.clone().with_scope(Scope::Credential), ids).as_deref(),
            Some("acme:credential:c")
        );
        assert_eq!(
            key(&policy.clone().with_scope(Scope::App), ScopeIds::default()).as_deref(),
            Some("acme:app")
        );
        let custom = policy.with_custom_scope(|ids| ids.entity.map(|id| format!("x{id}")));
        assert_eq!(key(&custom, ids).as_deref(), Some("acme:custom:x7"));
        assert_eq!(key(&custom, ScopeIds::default()), None);
        assert_eq!(
            key(&Policy::new().with_custom_scope(|_| Some(String::new())), ids),
            None
        );
        assert_eq!(
            key(&Policy::new().with_scope(Scope::App), ids).as_deref(),
            Some("unknown:app")
        );
    }

    #[test]
    fn a_body_is_needed_only_where_it_can_change_the_answer() {
        let (ours, frigg) = (Policy::new(), Policy::frigg());
        assert!(ours.needs_body(429) && ours.needs_body(403));
        assert!(!ours.needs_body(200) && !ours.needs_body(401) && !ours.needs_body(301));
        assert!(Policy::for_provider("shopify").unwrap().needs_body(200));
        assert!(!frigg.needs_body(429) && frigg.with_classify(|_| None).needs_body(429));
        assert!(
            Policy::for_provider("hubspot")
                .unwrap()
                .frigg_compat()
                .needs_body(429)
        );
        assert!(
            !Policy::for_provider("shopify")
                .unwrap()
                .frigg_compat()
                .needs_body(200)
        );
    }

    #[test]
    fn frigg_keeps_the_parsers_that_are_frigg_s() {
        assert_eq!(
            Policy::for_provider("hubspot").unwrap().frigg_compat().parsers(),
            [Parser::RetryAfter, Parser::ResetHeaders]
        );
        assert_eq!(
            Policy::for_provider("github").unwrap().frigg_compat().parsers(),
            Parser::FRIGG
        );
    }

    #[test]
    fn debug_shows_no_closure_and_no_secret() {
        let text = format!("{:?}", Policy::for_provider("hubspot").unwrap());
        assert!(text.contains("hubspot") && text.contains("110"), "{text}");
    }

    #[test]
    fn messages_come_back_at_the_rate_of_the_window_that_bounds_them() {
        let seconds = Duration::from_secs;
        let policy = Policy::new()
            .with_window(NamedWindow::new(Reason::Daily, 10_000, seconds(86_400)))
            .with_window(NamedWindow::new(Reason::Hourly, 900, seconds(3_600)))
            .with_window(NamedWindow::without_limit(Reason::Burst, seconds(1)))
            .with_window(NamedWindow::new(Reason::Minute, 100, seconds(60)))
            .with_window(NamedWindow::new(Reason::Burst, 4, seconds(2)).on("/search/*"));
        let limit = |reason, route| policy.rate(reason, route).map(|rate| rate.limit.get());
        for (reason, route, want) in [
            (Reason::Hourly, None, Some(900)),
            (Reason::Daily, None, Some(100)),
            (Reason::Monthly, Some("/users"), Some(100)),
            (Reason::Unknown, None, Some(100)),
            (Reason::Burst, None, Some(100)),
            (Reason::Daily, Some("/search/code"), Some(4)),
        ] {
            assert_eq!(limit(reason, route), want, "{reason} {route:?}");
        }
        let daily = Policy::new().with_window(NamedWindow::new(Reason::Daily, 10_000, seconds(86_400)));
        assert_eq!(
            daily.rate(Reason::Daily, None),
            None,
            "no rate that a backlog could keep to"
        );
    }
}
