//! SQS and the scheduler as one process reaches them: slow at times, failing, silent; and where the process can die.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use frigg_core::delivery::QueueArn;
use frigg_worker::ports::{
    BatchResult, CallError, CallErrorKind, QueueAttributes, ScheduleRequest, Scheduler, SendRequest, Sqs,
    VisibilityRequest,
};
use futures_util::future::BoxFuture;
use tokio::time::sleep;

use crate::aws;
use crate::ledger::{Receive, Run};
use crate::world::{State, World, job_of, parse_handle};

const DELETE: &str = "DeleteMessageBatch";
const RECEIVE: &str = "ReceiveMessage";
const HIDE: &str = "ChangeMessageVisibilityBatch";

/// One process's way to AWS.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) world: Arc<World>,
    pub(crate) process: usize,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    Crash,
    Fail,
    Hang,
}

/// A call that had its effect, and whose caller does not know it yet. Dropped, it never will.
struct Unheard<'p> {
    port: &'p Port,
    jobs: &'p [usize],
    heard: bool,
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if !self.heard {
            self.port.spoil(self.jobs, true);
        }
    }
}

impl Port {
    /// The jobs were touched by a fault; one that `doubles` may have left two of them.
    fn spoil(&self, jobs: &[usize], doubles: bool) {
        if jobs.is_empty() {
            return self.excuse_all();
        }
        let mut state = self.world.lock();
        state.excuse_jobs(self.process, jobs);
        if doubles {
            for job in jobs {
                state.jobs[*job].faults += 1;
            }
        }
    }

    /// One call, with all that can become of it.
    async fn call<T>(
        &self,
        name: &str,
        jobs: &[usize],
        effect: impl FnOnce(&mut State) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let (fate, early, before, after) = {
            let mut state = self.world.lock();
            let weather = state.scenario.weather;
            let fate = if state.fault(weather.crash) {
                Fate::Crash
            } else if state.fault(weather.hang) {
                Fate::Hang
            } else if state.fault(weather.fail) {
                Fate::Fail
            } else {
                Fate::Fine
            };
            let mut pause = || {
                let ms = match state.fault(weather.slow) {
                    true => state.rng.u64(100..20_000),
                    false => pick(&mut state.rng),
                };
                Duration::from_millis(ms)
            };
            let (before, mut after) = (pause(), pause());
            if name == RECEIVE {
                // What it brings has to be kept hidden from then on.
                after = after.min(Duration::from_millis(40));
            }
            (fate, state.rng.bool(), before, after)
        };
        // One that keeps a message hidden came too late then.
        if before + after > Duration::from_millis(500) {
            self.spoil(jobs, matches!(name, HIDE | DELETE));
        }
        pause(before).await;
        if early && fate != Fate::Fine {
            self.note(|| format!("{name}: {fate:?} before its effect"));
            self.spoil(jobs, matches!(name, HIDE | DELETE));
            return self.meet(fate, early).await;
        }
        let result = {
            let mut state = self.world.lock();
            state.processes[self.process].alive.then(|| effect(&mut state))
        };
        let Some(result) = result else {
            return std::future::pending().await;
        };
        self.world.wake.notify_waiters();
        let mut unheard = Unheard {
            port: self,
            jobs,
            heard: false,
        };
        if fate != Fate::Fine {
            self.note(|| format!("{name}: {fate:?} after its effect"));
            drop(unheard);
            if name == RECEIVE {
                self.excuse_unhandled();
            }
            return self.meet(fate, early).await;
        }
        pause(after).await;
        unheard.heard = true;
        if let Err(error) = &result {
            self.note(|| format!("{name}: {error}"));
        }
        result
    }

    /// A fault touched all that the process holds.
    fn excuse_all(&self) {
        let mut state = self.world.lock();
        let held = state.receives.iter().filter(|r| r.process == self.process);
        let entries: Vec<u64> = held.map(|r| r.entry).collect();
        entries.into_iter().for_each(|entry| state.excuse(entry));
    }

    /// What was received and never arrived.
    fn excuse_unhandled(&self) {
        let mut state = self.world.lock();
        let now = state.now;
        let unhandled =
            |r: &&Receive| r.process == self.process && r.received_at == now && r.run == Run::None;
        let entries: Vec<u64> = state.receives.iter().filter(unhandled).map(|r| r.entry).collect();
        entries.into_iter().for_each(|entry| state.excuse(entry));
    }

    async fn meet<T>(&self, fate: Fate, early: bool) -> Result<T, CallError> {
        if fate == Fate::Hang {
            // Three attempts, each with its timeout.
            sleep(Duration::from_secs(90)).await;
        }
        if fate != Fate::Crash {
            let mut state = self.world.lock();
            // Only what had no effect is refused.
            return Err(if !early || fate == Fate::Hang || state.rng.bool() {
                CallError::new(
                    CallErrorKind::Unavailable,
                    Some("ServiceUnavailable"),
                    "try again",
                )
            } else {
                CallError::new(
                    CallErrorKind::Refused,
                    Some("ValidationException"),
                    "not this way",
                )
            });
        }
        self.world.lock().end_process(self.process);
        std::future::pending().await
    }

    fn note(&self, text: impl FnOnce() -> String) {
        let process = self.process;
        self.world
            .lock()
            .note(|| format!("process {process}: {}", text()));
    }

    fn jobs_of_handles<'h>(&self, handles: impl Iterator<Item = &'h str>) -> Vec<usize> {
        let state = self.world.lock();
        let job = |handle: &str| {
            let (id, _) = parse_handle(handle)?;
            state.receives.iter().find(|r| r.entry == id).map(|r| r.job)
        };
        handles.filter_map(job).collect()
    }

    /// Some entries of a batch fail on their own.
    fn entries<R>(
        &self,
        state: &mut State,
        requests: &[R],
        mut effect: impl FnMut(&mut State, &R) -> Result<(), CallError>,
        job: impl Fn(&State, &R) -> Option<usize>,
    ) -> Vec<Result<(), CallError>> {
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            let rate = state.scenario.weather.fail;
            results.push(if state.fault(rate) {
                let jobs: Vec<_> = job(state, request).into_iter().collect();
                state.excuse_jobs(self.process, &jobs);
                // It may have been one that keeps it hidden.
                jobs.iter().for_each(|job| state.jobs[*job].faults += 1);
                Err(CallError::new(
                    CallErrorKind::Unavailable,
                    Some("InternalError"),
                    "this one failed",
                ))
            } else {
                effect(state, request)
            });
        }
        results
    }
}

/// Milliseconds of a call on a good day; at once, more often than not.
fn pick(rng: &mut fastrand::Rng) -> u64 {
    if rng.bool() { 0 } else { rng.u64(1..40) }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

fn jobs_of(messages: &[SendRequest]) -> Vec<usize> {
    messages
        .iter()
        .filter_map(|message| job_of(&message.body))
        .collect()
}

impl Sqs for Port {
    fn queue_url<'a>(&'a self, queue: &'a QueueArn, _: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let found = self
                .call("GetQueueUrl", &[], |_| Ok(queue.name().to_owned()))
                .await;
            self.blind_if(&found);
            found
        })
    }

    fn queue_attributes<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        Box::pin(async move {
            let told = self
                .call("GetQueueAttributes", &[], |state| Ok(aws::attributes(state, url)))
                .await;
            self.blind_if(&told);
            told
        })
    }

    fn send<'a>(
        &'a self,
        url: &'a str,
        message: &'a SendRequest,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let jobs = jobs_of(std::slice::from_ref(message));
            self.call("SendMessage", &jobs, |state| {
                aws::send(state, self.process, url, message).map(|()| "sent".to_owned())
            })
            .await
        })
    }

    fn send_batch<'a>(&'a self, url: &'a str, messages: &'a [SendRequest]) -> BoxFuture<'a, BatchResult> {
        Box::pin(async move {
            self.call("SendMessageBatch", &jobs_of(messages), |state| {
                aws::check_batch(state, messages)?;
                let send =
                    |state: &mut State, message: &SendRequest| aws::send(state, self.process, url, message);
                Ok(self.entries(state, messages, send, |_, message| job_of(&message.body)))
            })
            .await
        })
    }

    fn change_visibility_batch<'a>(
        &'a self,
        _: &'a str,
        changes: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult> {
        Box::pin(async move {
            let jobs = self.jobs_of_handles(changes.iter().map(|change| change.receipt_handle.as_str()));
            self.call(HIDE, &jobs, |state| {
                aws::check_count(state, changes.len());
                let hide =
                    |state: &mut State, change: &VisibilityRequest| aws::hide(state, self.process, change);
                Ok(self.entries(state, changes, hide, |state, change| {
                    aws::job_of_handle(state, &change.receipt_handle)
                }))
            })
            .await
        })
    }

    fn receive<'a>(
        &'a self,
        _: &'a str,
        max_messages: u32,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        Box::pin(async move {
            // A receive that brings nothing is followed by the next one: both are one here, but for a few.
            let empty = self.world.lock().rng.u32(0..10) == 0;
            loop {
                let next = {
                    let state = self.world.lock();
                    let idle = state.takeable().is_empty() && !empty;
                    idle.then(|| state.next_event())
                };
                if let Some(next) = next {
                    self.world.change(next).await;
                    continue;
                }
                if empty {
                    sleep(wait).await;
                }
                let received = self
                    .call(RECEIVE, &[], |state| {
                        Ok(state.take(self.process, max_messages.min(10) as usize))
                    })
                    .await;
                if received.as_ref().is_ok_and(Vec::is_empty) && !empty {
                    // Somebody else was quicker.
                    continue;
                }
                return received;
            }
        })
    }

    fn delete_batch<'a>(&'a self, _: &'a str, receipt_handles: &'a [String]) -> BoxFuture<'a, BatchResult> {
        Box::pin(async move {
            let jobs = self.jobs_of_handles(receipt_handles.iter().map(String::as_str));
            self.call(DELETE, &jobs, |state| {
                aws::check_count(state, receipt_handles.len());
                let delete = |state: &mut State, handle: &String| aws::delete(state, self.process, handle);
                Ok(self.entries(state, receipt_handles, delete, |state, handle| {
                    aws::job_of_handle(state, handle)
                }))
            })
            .await
        })
    }
}

impl Port {
    /// A process that could not ask does not know its last receive, for a minute: all that it holds is excused, and so
    /// is what it gets.
    fn blind_if<T>(&self, asked: &Result<T, CallError>) {
        if asked.is_err() {
            let mut state = self.world.lock();
            state.processes[self.process].blind = true;
            drop(state);
            self.excuse_all();
        }
    }
}

impl Scheduler for Port {
    fn create<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let jobs: Vec<_> = job_of(&request.input).into_iter().collect();
            self.call("CreateSchedule", &jobs, |state| {
                aws::create(state, self.process, request)
            })
            .await
        })
    }

    fn is_same<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<bool, CallError>> {
        Box::pin(async move {
            let jobs: Vec<_> = job_of(&request.input).into_iter().collect();
            self.call("GetSchedule", &jobs, |state| {
                aws::is_same(state, self.process, request)
            })
            .await
        })
    }
}
