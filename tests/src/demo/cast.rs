//! Who sends what to whom: three accounts, each meant to show one tier.

use std::time::Duration;

use crate::provider::{ProviderConfig, Rule, Window};

/// Longer than the functions' `max_delay`, so that the delay tier cannot serve it.
const DAILY_CLOSED: Duration = Duration::from_secs(72);
const BURST: Window = Window::rolling(4, Duration::from_secs(10));

/// Which of the two functions serves an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// It has the scheduler's role.
    Scheduling,
    /// It has not: a wait that is too long for a delay hides the message instead.
    Plain,
}

/// An account of the CRM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name: the first segment of the provider's paths.
    pub name: &'static str,
    /// What it shows, for people.
    pub caption: &'static str,
    /// Who works for it.
    pub worker: Worker,
    /// How many messages it sends.
    pub messages: u32,
}

/// All accounts, in the order of their message numbers.
pub const ACCOUNTS: [Account; 3] = [
    Account {
        name: "burst",
        caption: "4 calls in 10 s: sent again with a delay",
        worker: Worker::Scheduling,
        messages: 14,
    },
    Account {
        name: "daily",
        caption: "closed for 72 s: a schedule sends it again",
        worker: Worker::Scheduling,
        messages: 8,
    },
    Account {
        name: "daily-plain",
        caption: "closed for 72 s, no scheduler: hidden in the queue",
        worker: Worker::Plain,
        messages: 8,
    },
];

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 1; no two messages have the same.
    pub id: u32,
    /// Whose it is.
    pub account: Account,
}

/// All messages.
#[must_use]
pub fn parts() -> Vec<Part> {
    let accounts = ACCOUNTS
        .iter()
        .flat_map(|account| (0..account.messages).map(|_| *account));
    (1..)
        .zip(accounts)
        .map(|(id, account)| Part { id, account })
        .collect()
}

/// The path of a message's call to the provider.
#[must_use]
pub fn path(account: &str, id: u32) -> String {
    format!("/{account}/contacts/{id}")
}

pub(super) fn provider() -> ProviderConfig {
    ProviderConfig::default()
        .with_rule("burst", Rule::window(BURST))
        .with_rule("daily*", Rule::open().closed_on_first_call(DAILY_CLOSED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_thirty_and_each_has_its_number() {
        let ids: Vec<_> = parts().iter().map(|part| part.id).collect();
        assert_eq!(ids, (1..=30).collect::<Vec<_>>());
    }
}
