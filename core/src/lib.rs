//! What frigg-rs decides, without doing anything: no AWS, no clock, no randomness, no I/O.
//!
//! - [`deferral`]: when does a limited message run again, and how does it get there? Start at [`deferral::plan`].
//! - [`rate_limit`]: what does a provider's answer mean?
//! - [`backoff`]: waiting inside a process: the ladder for answers that give no time, and the budget for those that do.
//! - `scope` (a feature of that name): the deadline of the running invocation.
//! - [`pacing`]: when may the next call go out, so that no window holds more than its limit?
//! - [`gate`]: what the workers on one limit tell each other: closed until when, and whose slot is next.
//! - [`delivery`]: the facts of one receive.
//! - [`marker`]: how an error tells the worker what it is, through any wrapping.
//! - [`time`]: the forms in which times travel, rounded so that nothing is early.
//!
//! Every function that depends on the time takes `now`; the caller's edge reads the clock.

pub mod backoff;
pub mod deferral;
pub mod delivery;
pub mod gate;
pub mod marker;
pub mod pacing;
pub mod rate_limit;
#[cfg(feature = "scope")]
pub mod scope;
pub mod time;
