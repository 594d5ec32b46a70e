//! The table of providers: how each one's limits look, as data.
//!
//! An entry is read like a page of the provider's documentation: its hosts, the page itself, its windows, and rules for the
//! answers that the generic reading would not get right. To add a provider, write one entry and its test rows, both in
//! the file of its field (`ai.rs`, `crm.rs`, …).
//!
//! ```
//! use frigg_core::rate_limit::providers;
//!
//! let github = providers::by_name("GitHub").expect("known");
//! assert_eq!(providers::by_host("api.github.com").map(|provider| provider.name), Some("github"));
//! assert!(github.docs.starts_with("https://"));
//! ```

mod ai;
mod cloud;
mod commerce;
mod crm;
mod data;
mod dev;
mod finance;
mod framework;
mod marketing;
mod rule;
mod social;
#[cfg(test)]
mod testing;
mod time;
mod work;

use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

pub use rule::{Outcome, Rule, Test};
pub use time::{Midnight, Time};

use super::clock::Clock;
use super::window::glob;
use super::{Link, NamedWindow, Parser, Policy, Reason, Scope, Signal, Verdict};

/// One provider. Make one of your own with [`Provider::named`] and struct update.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// Its short name, lower case: `hubspot`.
    pub name: &'static str,
    /// Other names under which it is looked up.
    pub aliases: &'static [&'static str],
    /// Its hosts; `*` stands for any text: `*.salesforce.com`.
    pub hosts: &'static [&'static str],
    /// The page that documents its limits.
    pub docs: &'static str,
    /// Whose limit it is. Default: [`Scope::Entity`].
    pub scope: Scope,
    /// Its documented windows.
    pub windows: &'static [NamedWindow],
    /// The reason of a limit that nothing names more exactly.
    pub reason: Option<Reason>,
    /// Whether the smallest unit of time (minute, hour, day) that holds the wait is the window.
    pub reason_by_wait: bool,
    /// The shortest wait that it asks for.
    pub min_retry_after: Option<Duration>,
    /// Which parsers read its times. Default: [`Parser::DEFAULT`].
    pub parsers: &'static [Parser],
    /// How many calls may run at the same time.
    pub max_concurrency: Option<NonZeroU32>,
    /// Whether it reports limits in 2xx bodies.
    pub reads_success: bool,
    /// How its limits look; the first rule that fits decides.
    pub rules: &'static [Rule],
    /// Pages for people.
    pub links: &'static [Link],
}

impl Provider {
    /// An entry with this name, documented there, and defaults for everything else.
    pub const fn named(name: &'static str, docs: &'static str) -> Self {
        Provider {
            name,
            aliases: &[],
            hosts: &[],
            docs,
            scope: Scope::Entity,
            windows: &[],
            reason: None,
            reason_by_wait: false,
            min_retry_after: None,
            parsers: Parser::DEFAULT,
            max_concurrency: None,
            reads_success: false,
            rules: &[],
            links: &[],
        }
    }

    /// The policy of this provider.
    pub fn policy(&'static self) -> Policy {
        Policy::of(self)
    }

    /// What the provider's rules say about a response, without the parsers. `None`: no rule fits.
    pub fn classify(&self, signal: &Signal<'_>) -> Option<Verdict> {
        self.judge(
            signal,
            Clock::of_response(signal.received_at(), signal.headers()),
            false,
        )
    }

    pub(crate) fn judge(&self, signal: &Signal<'_>, clock: Clock<'_>, frigg: bool) -> Option<Verdict> {
        let mut rules = self.rules.iter().filter(|rule| !(frigg && rule.past_frigg));
        rules
            .find(|rule| rule.fits(signal))
            .map(|rule| rule.verdict(signal, clock))
    }

    pub(crate) fn usual_reason(&self, wait: Option<Duration>) -> Option<Reason> {
        const UNITS: [u64; 4] = [1, 60, 3600, 86_400];
        let by_wait = wait.filter(|_| self.reason_by_wait).and_then(|wait| {
            let unit = UNITS
                .into_iter()
                .map(Duration::from_secs)
                .find(|unit| wait <= *unit)?;
            Some(Reason::of_window(unit))
        });
        by_wait.or(self.reason)
    }
}

/// All entries, by field.
pub fn all() -> impl Iterator<Item = &'static Provider> {
    let files: [&'static [Provider]; 10] = [
        ai::PROVIDERS,
        cloud::PROVIDERS,
        commerce::PROVIDERS,
        crm::PROVIDERS,
        data::PROVIDERS,
        dev::PROVIDERS,
        finance::PROVIDERS,
        framework::PROVIDERS,
        marketing::PROVIDERS,
        social::PROVIDERS,
    ];
    files.into_iter().chain([work::PROVIDERS]).flatten()
}

/// The provider with this name or alias, in any letter case.
pub fn by_name(name: &str) -> Option<&'static Provider> {
    static INDEX: LazyLock<Vec<(&'static str, &'static Provider)>> = LazyLock::new(|| {
        let names = |provider: &'static Provider| {
            [provider.name]
                .into_iter()
                .chain(provider.aliases.iter().copied())
        };
        let mut index: Vec<_> = all()
            .flat_map(|provider| names(provider).map(move |name| (name, provider)))
            .collect();
        index.sort_unstable_by_key(|(name, _)| by_length(name.as_bytes()));
        index
    });
    // On the stack, and lengths before letters: this runs for every response.
    let mut lower_case = [0; 32];
    let lower_case = lower_case.get_mut(..name.len())?;
    lower_case.copy_from_slice(name.as_bytes());
    lower_case.make_ascii_lowercase();
    let found = INDEX.binary_search_by_key(&by_length(lower_case), |(own, _)| by_length(own.as_bytes()));
    found.ok().map(|at| INDEX[at].1)
}

fn by_length(name: &[u8]) -> (usize, &[u8]) {
    (name.len(), name)
}

/// The provider that answers at this host (`acme.my.salesforce.com`), in any letter case. The longest pattern wins.
pub fn by_host(host: &str) -> Option<&'static Provider> {
    let host = host.to_ascii_lowercase();
    let patterns = all().flat_map(|provider| {
        provider
            .hosts
            .iter()
            .map(move |pattern| (pattern.len(), *pattern, provider))
    });
    patterns
        .filter(|(_, pattern, _)| glob(pattern, &host))
        .max_by_key(|(length, ..)| *length)
        .map(|(.., provider)| provider)
}

/// For windows and waits in the entries.
const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
