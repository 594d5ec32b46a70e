//! Port: where a process's rate-limit state is kept, for users to see what a run waits for.

use std::fmt;

use frigg_core::rate_limit::Reason;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::error::BoxError;

/// A message that is done clears a wait that ends within this time, whoever recorded it.
pub const CLEARS_WITHIN: SignedDuration = SignedDuration::from_secs(5);

/// Whether the message is coming back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It waits.
    Waiting,
    /// It will not be deferred again.
    Exhausted,
}

impl Status {
    /// `WAITING` or `EXHAUSTED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Waiting => "WAITING",
            Status::Exhausted => "EXHAUSTED",
        }
    }

    /// The reverse of [`as_str`](Self::as_str).
    pub fn from_name(name: &str) -> Option<Status> {
        [Status::Waiting, Status::Exhausted]
            .into_iter()
            .find(|status| status.as_str() == name)
    }
}

/// By what a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// A delayed re-send.
    Delay,
    /// A one-time schedule.
    Schedule,
    /// A visibility extension.
    Visibility,
    /// It does not wait.
    None,
}

impl Mechanism {
    /// `delay`, `schedule`, `visibility` or `none`.
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::Delay => "delay",
            Mechanism::Schedule => "schedule",
            Mechanism::Visibility => "visibility",
            Mechanism::None => "none",
        }
    }

    /// The reverse of [`as_str`](Self::as_str).
    pub fn from_name(name: &str) -> Option<Mechanism> {
        let all = [
            Mechanism::Delay,
            Mechanism::Schedule,
            Mechanism::Visibility,
            Mechanism::None,
        ];
        all.into_iter().find(|mechanism| mechanism.as_str() == name)
    }
}

/// Frigg's `context.rateLimit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Whether the message is coming back.
    pub status: Status,
    /// By what it waits.
    pub mechanism: Mechanism,
    /// Until when.
    pub retry_at: Timestamp,
    /// Which limit.
    pub reason: Reason,
    /// Whose limit.
    pub module: Option<String>,
    /// How often it was put back.
    pub deferrals: u32,
    /// Its id through all deferrals; a message without an envelope has its own.
    pub deferral_id: String,
}

impl State {
    /// Whether it is written over what is stored: a wait does not replace a strictly later one, nor the end of all
    /// waiting, which always shows.
    pub fn replaces(&self, stored: &State) -> bool {
        self.status == Status::Exhausted
            || (stored.status == Status::Waiting && stored.retry_at <= self.retry_at)
    }

    /// Whether the message of this deferral id, done, takes it away: its own wait at once, another's only when that is
    /// over, or nearly.
    pub fn is_cleared_by(&self, deferral_id: &str, now: Timestamp) -> bool {
        let over = || {
            now.checked_add(CLEARS_WITHIN)
                .is_ok_and(|soon| self.retry_at <= soon)
        };
        self.status == Status::Waiting && (self.deferral_id == deferral_id || over())
    }
}

/// The process that a message works for: `data.processId`, text or number. Messages without one have no state.
pub fn process_id(body: &str) -> Option<String> {
    data(body)?.process_id.and_then(Id::text)
}

/// Whose integration a message belongs to: `data.integrationId`.
pub(crate) fn integration_id(body: &str) -> Option<String> {
    data(body)?.integration_id.and_then(Id::text)
}

fn data(body: &str) -> Option<Data> {
    #[derive(Deserialize)]
    struct Body {
        data: Data,
    }
    serde_json::from_str::<Body>(body).ok().map(|body| body.data)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    process_id: Option<Id>,
    integration_id: Option<Id>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(serde_json::Number),
    Other(serde::de::IgnoredAny),
}

impl Id {
    fn text(self) -> Option<String> {
        match self {
            Id::Text(text) => Some(text).filter(|text| !text.is_empty()),
            Id::Number(number) => Some(number.to_string()),
            Id::Other(_) => None,
        }
    }
}

/// Keeps a process's rate-limit state. A fault is logged and changes no outcome.
pub trait RunState: Send + Sync + fmt::Debug {
    /// A limit was met. `body` is the message as it came, with the envelope that it came with.
    fn record<'a>(&'a self, body: &'a str, state: &'a State) -> BoxFuture<'a, Result<(), BoxError>>;

    /// A message that had waited, or came again, is done.
    fn clear<'a>(&'a self, body: &'a str, deferral_id: &'a str) -> BoxFuture<'a, Result<(), BoxError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_text_or_number() {
        for (body, want) in [
            (r#"{"event":"X","data":{"processId":"p-1","n":1}}"#, Some("p-1")),
            (r#"{"data":{"processId":7}}"#, Some("7")),
            (r#"{"data":{"processId":""}}"#, None),
            (r#"{"data":{"processId":null}}"#, None),
            (r#"{"data":{"processId":{"a":1},"integrationId":"i"}}"#, None),
            (r#"{"data":[]}"#, None),
            (r#"{"processId":"p-1"}"#, None),
            ("not JSON", None),
        ] {
            assert_eq!(process_id(body).as_deref(), want, "{body}");
        }
        assert_eq!(
            integration_id(r#"{"data":{"integrationId":"i"}}"#).as_deref(),
            Some("i")
        );
    }
}
