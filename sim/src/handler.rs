//! The handler: does what its message's job says, and tells the ledger.

use std::sync::Arc;
use std::time::Duration;

use std::num::NonZeroU32;
use std::panic::resume_unwind;

use frigg_worker::core::rate_limit::{Reason, Window};
use frigg_worker::{BatchHandler, DecodeError, Handler, HandlerError, Job, Message, RateLimited};
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::ledger::{Run, UNREADABLE};
use crate::scenario::Step;
use crate::world::{MS, Nanos, SECOND, World, job_of, parse_message_id, timestamp};

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

/// What a run came to, before anybody is told.
struct Ended<'w> {
    running: Running<'w>,
    run: Run,
    /// `None`: it panics.
    result: Option<Result<(), HandlerError>>,
}

impl Handler for Simulated {
    type Message = Text;
    type Error = HandlerError;

    async fn handle(&self, job: Job<Text>) -> Result<(), HandlerError> {
        let mut ended = self.work(&job).await;
        ended.running.end(ended.run);
        // Without the panic hook's noise.
        ended
            .result
            .unwrap_or_else(|| resume_unwind(Box::new("told to panic")))
    }

    fn scope_key(&self, message: &Text) -> Option<String> {
        self.key(message)
    }
}

impl BatchHandler for Simulated {
    type Message = Text;
    type Error = HandlerError;

    /// Nothing is done before all is: a batch that panics or is cut off did nothing.
    async fn handle_batch(&self, jobs: Vec<Job<Text>>) -> Vec<Result<(), HandlerError>> {
        let all = join_all(jobs.iter().map(|job| self.work(job))).await;
        if all.iter().any(|ended| ended.result.is_none()) {
            resume_unwind(Box::new("told to panic"));
        }
        let result = |mut ended: Ended<'_>| {
            ended.running.end(ended.run);
            ended.result
        };
        all.into_iter().filter_map(result).collect()
    }

    fn scope_key(&self, message: &Text) -> Option<String> {
        self.key(message)
    }
}

impl Simulated {
    fn key(&self, message: &Text) -> Option<String> {
        let job = job_of(&message.0)?;
        let state = self.world.lock();
        state.jobs.get(job)?.key.map(str::to_owned)
    }

    /// Does what the message's job says.
    async fn work(&self, job: &Job<Text>) -> Ended<'_> {
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
        let running = Running {
            simulated: self,
            entry,
            receive: job.delivery.receive_count.unwrap_or(0),
            ended: false,
        };
        let (run, result) = match step {
            Step::Work(0) => (Run::Done, Some(Ok(()))),
            Step::Work(ms) => {
                sleep(Duration::from_millis(ms)).await;
                (Run::Done, Some(Ok(())))
            }
            Step::Limit(ms) => {
                let told = self.told(ms.cast_signed() * MS);
                (
                    Run::Limited(told),
                    Some(Err(RateLimited::until(timestamp(told)).into())),
                )
            }
            Step::LimitWithoutTime(daily) => {
                let now = self.world.lock().now;
                let reason = if daily { Reason::Daily } else { Reason::Unknown };
                let limit = RateLimited::without_time().with_reason(reason);
                (Run::Limited(now), Some(Err(limit.into())))
            }
            Step::Ask => match self.ask() {
                Some((told, limit)) => (Run::Limited(told), Some(Err(limit.into()))),
                None => (Run::Done, Some(Ok(()))),
            },
            Step::Fail => (Run::Failed, Some(Err("told to fail".into()))),
            Step::Panic => (Run::Failed, None),
            Step::Permanent => {
                let error = HandlerError::permanent("told to fail for good");
                (Run::Permanent, Some(Err(error)))
            }
            Step::Crash => {
                self.world.lock().end_process(self.process);
                return std::future::pending().await;
            }
        };
        Ended { running, run, result }
    }

    /// No provider's time is a whole millisecond.
    fn told(&self, wait: Nanos) -> Nanos {
        let mut state = self.world.lock();
        let odd = state.rng.i64(0..MS);
        state.now + wait + odd
    }

    /// When to come back, and the refusal that says so, if the window is spent.
    fn ask(&self) -> Option<(Nanos, RateLimited)> {
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
        let told = (number + 1) * length;
        let mut limit = RateLimited::until(timestamp(told)).with_reason(Reason::Burst);
        if let Some(calls) = NonZeroU32::new(window.calls).filter(|_| window.is_told) {
            let per = Duration::from_secs(window.seconds);
            limit = limit.with_window(Window { limit: calls, per });
        }
        Some((told, limit))
    }
}
