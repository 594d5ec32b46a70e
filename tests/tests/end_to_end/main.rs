//! The runtime on a real queue: messages go in, a real worker process handles them, and what became of each is asserted
//! with the wall clock.
//!
//! The tests named `tier_…` run on every emulator that `FRIGG_TEST_FLAVOUR` can name. Where it runs no functions, the
//! worker polls; where it fires no schedules, the test delivers their input. The others need what only ministack has,
//! or ask nothing of it that the `tier_…` tests do not.
//!
//! Never early is asserted to the millisecond. Late is asserted with wide bounds: machines are slow and shared.

mod announcements;
mod crash;
mod examples;
mod faults;
mod herd;
mod http_worker;
mod judge;
mod mixed;
mod poll;
mod rig;
mod tables;
mod tiers;
mod unreachable;
mod warnings;

#[path = "../../../core/tests/support/mod.rs"]
mod support;
