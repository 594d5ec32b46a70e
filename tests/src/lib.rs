//! What the end-to-end tests of frigg-rs stand on, and the demo.
//!
//! - [`emulator`]: a private AWS emulator for one test process, and the AWS calls that a test needs.
//! - [`provider`]: an HTTP server with a real rate limit, which remembers every call.
//! - [`proxy`]: stands between a program and the emulator: sees the calls, holds one in the middle, cuts the line.
//! - [`judge`]: asks the strictest emulator whether what the proxy saw was valid.
//! - [`recorder`]: remembers every run of the test worker's handler.
//! - [`secrets`]: what is planted in every worker, and must show in no log line.
//! - [`wait`]: waiting for something with a deadline and a clear error.
//! - [`clock`]: the one place that reads the clock.
//! - [`herd`]: many workers on one limit, under each rule for coming back.
//! - [`demo`]: thirty messages through two Lambda functions, a table and a picture of what happened.
//!
//! Everything here returns [`anyhow::Result`]: a failing test should say what it was doing.

pub mod clock;
pub mod demo;
pub mod emulator;
pub mod herd;
pub mod judge;
pub mod provider;
pub mod proxy;
pub mod recorder;
pub mod secrets;
pub mod wait;
