//! What the tests stand on: a real HTTP server, a clock that only moves when everybody sleeps, captured logs, planted
//! secrets.

// Each test binary uses a part of it.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]

pub mod call;
pub mod clock;
pub mod logs;
pub mod notices;
pub mod secrets;
pub mod server;

pub use call::{Setup, error, send};
pub use clock::VirtualClock;
pub use logs::Logs;
pub use notices::Notices;
pub use server::{Reply, Server};

/// 2026-09-28T12:00:00Z, where scenarios begin.
pub fn noon() -> jiff::Timestamp {
    "2026-09-28T12:00:00Z".parse().expect("a time")
}
