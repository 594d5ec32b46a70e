//! Port: what workers on one limit tell each other, by scope key. AWS's adapter is a DynamoDB table, the fake a map.
//!
//! What an entry means and how it changes is [`frigg_core::gate`]; a store only has to make each change in one step that
//! no other worker can come between. `examples/redis_gate.rs` is another store, in one file.

use std::fmt;

pub use frigg_core::gate::{Closure, Gate, Line, Pace, Reservation};
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::error::BoxError;

/// The longest key, in bytes: what DynamoDB takes. A longer one counts as none.
pub const MAX_KEY: usize = 2048;

/// Keeps the entries. A fault opens the gate: it costs refused calls, never a message.
pub trait GateStore: Send + Sync + fmt::Debug {
    /// The key's entry; the default one where there is none, or one that cannot be read.
    fn look<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Gate, BoxError>>;

    /// [`Gate::close`] in one step.
    fn close<'a>(&'a self, key: &'a str, closure: &'a Closure) -> BoxFuture<'a, Result<(), BoxError>>;

    /// [`Gate::reserve`] in one step; `None` when the line is full.
    fn reserve<'a>(
        &'a self,
        key: &'a str,
        asked: &'a Reservation,
    ) -> BoxFuture<'a, Result<Option<Timestamp>, BoxError>>;
}
