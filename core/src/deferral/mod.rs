//! When does a limited message run again, and how does it get there?
//!
//! - [`plan`](self::plan()): the decision. Read `plan.rs` first.
//! - [`Body`]: the message's body, the `_frigg` envelope taken out and put back.
//! - [`Options`], [`Limits`]: the settings, from the environment.

mod envelope;
mod options;
mod plan;

pub use envelope::{Body, Counters, Envelope, EnvelopeFault, Reading};
pub use options::{BadValue, Limits, Options, positive_integer};
pub use plan::{
    Burial, Capabilities, Capped, DeadLetters, Decision, Deferral, Failure, MAX_VISIBILITY,
    MIN_SCHEDULE_AHEAD, Refusal, Tier, degrade, plan, plan_arrival, plan_gated, tier, told,
};
