//! [`Rule`]: how one answer of a provider looks, and what it means.

use super::time::Time;
use crate::rate_limit::clock::Clock;
use crate::rate_limit::value::Number;
use crate::rate_limit::{Reason, Signal, Verdict, codes};

/// When all tests hold, the answer means this.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// All of them must hold.
    pub when: &'static [Test],
    /// What it means then.
    pub then: Outcome,
    /// Frigg has no such rule, so its exact reading leaves it out.
    pub past_frigg: bool,
}

/// What an answer means.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Outcome {
    /// No limit: waiting does not clear it.
    NotALimit,
    /// A limit.
    Limit {
        /// Which; `None` leaves it to the response's own words.
        reason: Option<Reason>,
        /// Where the time is.
        time: Time,
        /// The path in the body of the provider's name for the limit.
        policy: Option<&'static str>,
    },
}

/// A fact about a response. Texts are compared in any letter case.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Test {
    /// The status is one of these.
    Status(&'static [u16]),
    /// A header is there.
    Has(&'static str),
    /// A header is exactly one of these.
    Header(&'static str, &'static [&'static str]),
    /// A header contains this text.
    HeaderContains(&'static str, &'static str),
    /// A header's number is below 1.
    Spent(&'static str),
    /// The first header's number is less than the second's.
    Less(&'static str, &'static str),
    /// At this place in two comma-separated lists, the first header's number is at least the second's.
    ListReached(&'static str, &'static str, usize),
    /// A value in the body is one of these; see [`Signal::fields`] for the path.
    Field(&'static str, &'static [&'static str]),
    /// A value in the body contains this text.
    FieldContains(&'static str, &'static str),
    /// The body, JSON or not, contains this text.
    Says(&'static str),
    /// The body has no message.
    Silent,
}

impl Test {
    fn holds(&self, signal: &Signal<'_>) -> bool {
        let number = |name: &str| signal.header(name).and_then(Number::parse);
        match *self {
            Test::Status(list) => list.contains(&signal.status()),
            Test::Has(name) => signal.header(name).is_some(),
            Test::Header(name, list) => signal
                .header(name)
                .is_some_and(|value| list.iter().any(|one| one.eq_ignore_ascii_case(value))),
            Test::HeaderContains(name, text) => {
                signal.header(name).is_some_and(|value| contains(value, text))
            }
            Test::Spent(name) => number(name).is_some_and(|number| number.whole() == 0),
            Test::Less(one, other) => number(one)
                .zip(number(other))
                .is_some_and(|(one, other)| one.seconds() < other.seconds()),
            Test::ListReached(used, limit, index) => {
                let at = |name| Number::parse(signal.header(name)?.split(',').nth(index)?.trim());
                at(used)
                    .zip(at(limit))
                    .is_some_and(|(used, limit)| used.seconds() >= limit.seconds())
            }
            Test::Field(path, list) => signal
                .fields(path)
                .any(|value| list.iter().any(|one| one.eq_ignore_ascii_case(&value))),
            Test::FieldContains(path, text) => signal.fields(path).any(|value| contains(&value, text)),
            Test::Says(text) => contains(signal.text(), text),
            Test::Silent => codes::messages(signal).all(|message| message.trim().is_empty()),
        }
    }
}

fn contains(text: &str, part: &str) -> bool {
    text.as_bytes()
        .windows(part.len())
        .any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

impl Rule {
    /// An answer for which all of these hold is a limit of this kind, with the time as the parsers read it.
    pub const fn limit(reason: Reason, when: &'static [Test]) -> Self {
        Rule {
            when,
            then: Outcome::Limit {
                reason: Some(reason),
                time: Time::Parsed,
                policy: None,
            },
            past_frigg: false,
        }
    }

    /// A limit whose kind the response's own words tell.
    pub const fn some_limit(when: &'static [Test]) -> Self {
        Rule {
            when,
            then: Outcome::Limit {
                reason: None,
                time: Time::Parsed,
                policy: None,
            },
            past_frigg: false,
        }
    }

    /// An answer for which all of these hold is no limit.
    pub const fn not_a_limit(when: &'static [Test]) -> Self {
        Rule {
            when,
            then: Outcome::NotALimit,
            past_frigg: false,
        }
    }

    /// Where the time is.
    pub const fn time(self, time: Time) -> Self {
        let then = match self.then {
            Outcome::NotALimit => Outcome::NotALimit,
            Outcome::Limit { reason, policy, .. } => Outcome::Limit { reason, time, policy },
        };
        Rule { then, ..self }
    }

    /// The path in the body of the provider's name for the limit.
    pub const fn policy(self, path: &'static str) -> Self {
        let then = match self.then {
            Outcome::NotALimit => Outcome::NotALimit,
            Outcome::Limit { reason, time, .. } => Outcome::Limit {
                reason,
                time,
                policy: Some(path),
            },
        };
        Rule { then, ..self }
    }

    /// Leaves the rule out of Frigg's exact reading.
    pub const fn past_frigg(self) -> Self {
        Rule {
            past_frigg: true,
            ..self
        }
    }

    pub(super) fn fits(&self, signal: &Signal<'_>) -> bool {
        self.when.iter().all(|test| test.holds(signal))
    }

    pub(super) fn verdict(&self, signal: &Signal<'_>, clock: Clock<'_>) -> Verdict {
        match self.then {
            Outcome::NotALimit => Verdict::not_a_limit(),
            Outcome::Limit { reason, time, policy } => {
                let policy = policy
                    .and_then(|path| signal.field(path))
                    .map(|name| name.into_owned());
                time.apply(
                    Verdict {
                        reason,
                        policy,
                        ..Verdict::default()
                    },
                    signal,
                    clock,
                )
            }
        }
    }
}
