//! A clock that stands still while anybody works, and goes on to the next due sleep when everybody sleeps.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use frigg_requester::Clock;
use jiff::Timestamp;

#[derive(Clone)]
pub struct VirtualClock(Arc<Mutex<State>>);

struct State {
    now: Timestamp,
    /// How many tasks there are; time goes on when as many sleep.
    tasks: usize,
    sleepers: Vec<(u64, Timestamp, Waker)>,
    next_id: u64,
    sleeps: Vec<Duration>,
}

impl VirtualClock {
    pub fn new(now: Timestamp) -> Self {
        Self::with_tasks(now, 1)
    }

    pub fn with_tasks(now: Timestamp, tasks: usize) -> Self {
        VirtualClock(Arc::new(Mutex::new(State {
            now,
            tasks,
            sleepers: Vec::new(),
            next_id: 0,
            sleeps: Vec::new(),
        })))
    }

    /// Lets time go on for several tasks of a runtime with one thread, until all are done: when all sleep, and nobody of
    /// them has been woken by something else.
    pub async fn drive(self) {
        while self.lock().tasks > 0 {
            // Whoever can go on does so meanwhile.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            self.lock().go_on();
        }
    }

    /// For a requester, with this random number.
    pub fn clock(&self, random: f64) -> Clock {
        let (now, sleep) = (self.clone(), self.clone());
        Clock::from_fn(move || now.now(), move |wait| Box::pin(sleep.sleep(wait))).with_random(move || random)
    }

    pub fn now(&self) -> Timestamp {
        self.lock().now
    }

    pub fn advance(&self, by: Duration) {
        self.lock().now += by;
    }

    /// The sleeps that were asked for, in milliseconds.
    pub fn sleeps_ms(&self) -> Vec<u64> {
        self.lock()
            .sleeps
            .iter()
            .map(|sleep| sleep.as_millis() as u64)
            .collect()
    }

    /// A task has ended.
    pub fn done(&self) {
        self.lock().tasks -= 1;
    }

    pub fn sleep(&self, wait: Duration) -> Sleep {
        let mut state = self.lock();
        state.sleeps.push(wait);
        state.next_id += 1;
        Sleep {
            clock: self.clone(),
            id: state.next_id,
            due: state.now + wait,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("the clock")
    }
}

impl State {
    fn go_on(&mut self) {
        if self.tasks == 0 || self.sleepers.len() < self.tasks {
            return;
        }
        let Some(due) = self.sleepers.iter().map(|(_, due, _)| *due).min() else {
            return;
        };
        self.now = self.now.max(due);
        let now = self.now;
        self.sleepers.retain(|(_, due, waker)| {
            let sleeps_on = *due > now;
            if !sleeps_on {
                waker.wake_by_ref();
            }
            sleeps_on
        });
    }
}

pub struct Sleep {
    clock: VirtualClock,
    id: u64,
    due: Timestamp,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.lock();
        state.sleepers.retain(|(id, ..)| *id != self.id);
        if state.now >= self.due {
            return Poll::Ready(());
        }
        state.sleepers.push((self.id, self.due, context.waker().clone()));
        if state.tasks == 1 {
            state.go_on();
        }
        match state.now >= self.due {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.lock().sleepers.retain(|(id, ..)| *id != self.id);
    }
}
