//! The handler: does what its message's job says, and tells the ledger.

use std::sync::Arc;
use std::time::Duration;

use frigg_worker::core::rate_limit::Reason;
use frigg_worker::{DecodeError, Handler, HandlerError, Job, Message, RateLimited};
use tokio::time::sleep;

use crate::ledger::{Run, UNREADABLE};
use crate::scenario::Step;
use crate::world::{MS, Nanos, SECOND, World, parse_message_id, timestamp};

/// A process's handler.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) world: Arc<World>,
    pub(crate) process: usize,
}

/// A body; some cannot be decoded.
#[derive(Debug)]
pub(crate) struct Text(String);

impl Message for Text {
    fn decode(body: &str) -> Result<Self, DecodeError> {
        if body.contains(UNREADABLE) {
            return Err(DecodeError::new("it says that it is unreadable"));
        }
        Ok(Text(body.to_owned()))
    }
}

/// A run that ends when it is dropped, if not before.
struct Running<'w> {
    simulated: &'w Simulated,
    entry: u64,
    receive: u32,
    ended: bool,
}

impl Running<'_> {
    fn end(&mut self, run: Run) {
        if !self.ended {
            self.ended = true;
            let mut state = self.simulated.world.lock();
            state.end(self.simulated.process, self.entry, self.receive, run);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.end(Run::Failed);
    }
}

impl Handler for Simulated {
    type Message = Text;
    type Error = HandlerError;

    async fn handle(&self, job: Job<Text>) -> Result<(), HandlerError> {
        let begun = {
            let mut state = self.world.lock();
            let begun = state.processes[self.process]
                .alive
                .then(|| state.begin(self.process, &job.message.0, &job.delivery));
            begun.flatten()
        };
        let (Some(step), Some(entry)) = (begun, parse_message_id(&job.delivery.message_id)) else {
            return std::future::pending().await;
        };
        let mut running = Running {
            simulated: self,
            entry,
            receive: job.delivery.receive_count.unwrap_or(0),
            ended: false,
        };
        match step {
            Step::Work(0) => {}
            Step::Work(ms) => sleep(Duration::from_millis(ms)).await,
            Step::Limit(ms) => {
                let told = self.told(ms.cast_signed() * MS);
                running.end(Run::Limited(told));
                return Err(RateLimited::until(timestamp(told)).into());
            }
            Step::LimitWithoutTime(daily) => {
                let now = self.world.lock().now;
                running.end(Run::Limited(now));
                let reason = if daily { Reason::Daily } else { Reason::Unknown };
                return Err(RateLimited::without_time().with_reason(reason).into());
            }
            Step::Ask => {
                if let Some(told) = self.ask() {
                    running.end(Run::Limited(told));
                    return Err(RateLimited::until(timestamp(told)).into());
                }
            }
            Step::Fail => {
                running.end(Run::Failed);
                return Err("told to fail".into());
            }
            // Without the panic hook's noise.
            Step::Panic => {
                running.end(Run::Failed);
                std::panic::resume_unwind(Box::new("told to panic"));
            }
            Step::Permanent => {
                running.end(Run::Permanent);
                return Err(HandlerError::permanent("told to fail for good"));
            }
            Step::Crash => {
                self.world.lock().end_process(self.process);
                return std::future::pending().await;
            }
        }
        running.end(Run::Done);
        Ok(())
    }
}

impl Simulated {
    /// No provider's time is a whole millisecond.
    fn told(&self, wait: Nanos) -> Nanos {
        let mut state = self.world.lock();
        let odd = state.rng.i64(0..MS);
        state.now + wait + odd
    }

    /// When to come back, if the window is spent.
    fn ask(&self) -> Option<Nanos> {
        let mut state = self.world.lock();
        let (window, length) = (
            state.scenario.window,
            state.scenario.window.seconds.cast_signed() * SECOND,
        );
        let number = state.now / length;
        if state.window.0 != number {
            state.window = (number, 0);
        }
        if state.window.1 < window.calls {
            state.window.1 += 1;
            return None;
        }
        Some((number + 1) * length)
    }
}
