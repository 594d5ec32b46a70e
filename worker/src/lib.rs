//! AWS Lambda workers on SQS for queue work that calls rate-limited APIs.

mod answer;
mod aws;
mod batch;
mod book;
mod clock;
mod config;
mod dead_letter;
mod door;
mod effects;
mod error;
mod event;
pub mod gate;
mod groups;
mod handler;
pub mod log;
mod metrics;
#[cfg(feature = "requester")]
mod notice;
pub mod ports;
mod queues;
mod rates;
mod record;
mod report;
mod rest;
mod router;
pub mod run_state;
mod runtime;
mod spacing;
mod stores;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
pub mod warnings;
mod worker;

pub use answer::read_limit;
#[cfg(feature = "eventbridge")]
pub use aws::EventBus;
#[cfg(feature = "sns")]
pub use aws::Topic;
pub use aws::{Aws, AwsScheduler, AwsSqs};
#[cfg(feature = "dynamodb")]
pub use aws::{DynamoGate, DynamoState};
pub use batch::OnLimit;
pub use clock::Clock;
pub use config::{Config, Scheduling};
pub use error::{BoxError, Error, HandlerError};
pub use frigg_core as core;
pub use frigg_core::deferral::{Limits, Options};
pub use frigg_core::delivery::Delivery;
pub use frigg_core::rate_limit::RateLimited;
pub use handler::{
    BatchHandler, Consumer, DecodeError, Handler, HandlerFn, Job, Message, PerBatch, Raw, handler_fn,
};
pub use rates::Rates;
pub use router::Router;
pub use worker::Worker;
