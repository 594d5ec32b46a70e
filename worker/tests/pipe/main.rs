//! The batch pipe with fakes of AWS. Tests of the project's scenarios carry the scenario's id as their name.

#![allow(clippy::type_complexity, clippy::unwrap_used)]

mod bad_input;
mod batch;
mod dead_letters;
mod deferral;
mod fifo;
mod gate;
mod groups;
mod herd;
mod lookups;
mod poll;
mod queue_model;
mod schedule;
mod support;
mod visibility;
