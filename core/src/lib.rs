//! What frigg-rs decides, without doing anything: no AWS, no clock, no randomness, no I/O.
//!
//! - [`deferral`]: when does a limited message run again, and how does it get there? Start at [`deferral::plan`].
//! - [`rate_limit`]: what does a provider's answer mean?
//! - [`backoff`]: the ladder of waits for answers that give no time.
//! - [`delivery`]: the facts of one receive.
//! - [`marker`]: how an error tells the worker what it is, through any wrapping.
//! - [`time`]: the forms in which times travel, rounded so that nothing is early.
//!
//! Every function that depends on the time takes `now`; the caller's edge reads the clock.

pub mod backoff;
pub mod deferral;
pub mod delivery;
pub mod marker;
pub mod rate_limit;
pub mod time;
