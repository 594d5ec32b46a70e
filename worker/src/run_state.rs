//! Port: where a process's rate-limit state is kept, for users to see what a run waits for.

use std::fmt;

use frigg_core::rate_limit::Reason;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::error::BoxError;

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

/// Keeps a process's rate-limit state. A fault is logged and changes no outcome.
pub trait RunState: Send + Sync + fmt::Debug {
    /// A limit was met. `body` is the message as it came, with the envelope that it came with.
    fn record<'a>(&'a self, body: &'a str, state: &'a State) -> BoxFuture<'a, Result<(), BoxError>>;

    /// A message that had waited, or came again, is done.
    fn clear<'a>(&'a self, body: &'a str, deferral_id: &'a str) -> BoxFuture<'a, Result<(), BoxError>>;
}
