//! Nothing lost, nothing early, by simulation: the real batch pipe, its effects and its poll loop against models of SQS,
//! of EventBridge Scheduler, of Lambda and of a provider, in virtual time. Everything follows from a seed.
//!
//! - [`scenario`]: what a seed stands for: queue, platform, messages, faults.
//! - `world`: time, randomness, the messages in the queue; `aws`: what SQS and the scheduler do with a call.
//! - `ports`: a process's way to AWS, where calls fail, hang, and where the process dies.
//! - `gate`: the store that the workers share, which is down at times.
//! - `handler`: what the messages' handler does.
//! - `ledger`: what must hold, and the check of it.
//! - [`mutation`]: runtimes that break a promise, which the ledger must notice.
//! - [`run`](mod@run): one scenario, or many on all cores.

mod aws;
mod gate;
mod handler;
mod ledger;
pub mod mutation;
mod ports;
pub mod run;
pub mod scenario;
mod world;
