//! Staying below a provider's known limits: whose turn is it?
//!
//! One [`Bucket`] for each scope key (`hubspot:entity:7`) holds the policy's windows, how many calls run, and until when
//! the provider is closed. All of it is decided in [`Bucket::turn`], without waiting; [`Pacing::enter`] does the waiting.
//! A call looks its bucket up once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use frigg_core::backoff::MIN_HINTED_WAIT;
use frigg_core::pacing::{self, Pace};
use frigg_core::rate_limit::{
    Clock as ResponseClock, Hint, NamedWindow, Parser, Policy, RateLimited, Reason, Signal, Window,
};
use futures_util::future::{Either, select};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::clock::Clock;

/// Buckets that are kept; beyond that those without calls are dropped.
const MAX_BUCKETS: usize = 1024;
/// With less than this part of the limit left, calls are spread over the time until the reset.
const SLOW_BELOW: u64 = 10;
const MAX_GAP: Duration = Duration::from_secs(60);

/// The pace of one requester and its clones.
#[derive(Debug)]
pub(crate) struct Pacing {
    windows: Vec<NamedWindow>,
    max_concurrency: Option<u32>,
    /// Which headers say what is left.
    parsers: Arc<[Parser]>,
    buckets: Mutex<HashMap<String, Arc<Shared>>>,
}

/// A bucket, for all the calls of its key.
#[derive(Debug)]
struct Shared {
    parsers: Arc<[Parser]>,
    bucket: Mutex<Bucket>,
    /// A call of this key has ended, or found the door open.
    moved: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Bucket> {
        // Nothing panics while it is held.
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is closed: a route, by its place in [`Bucket::paces`], or everything.
type Door = Option<usize>;

/// One scope key's state.
#[derive(Debug, Default)]
struct Bucket {
    /// One for each of the policy's windows whose limit is known.
    paces: Vec<(NamedWindow, Pace)>,
    running: u32,
    /// By window of a route; `None`: for every call.
    closed: HashMap<Door, Closed>,
    gap: Option<Gap>,
}

/// The provider is closed until a moment. Then one call at a time probes; the others follow when one was let in.
#[derive(Debug, Clone, Copy)]
struct Closed {
    until: Timestamp,
    reason: Reason,
    probing: bool,
}

/// Few calls are left: one at a time, this far apart, until the reset.
#[derive(Debug, Clone, Copy)]
struct Gap {
    next: Timestamp,
    apart: Duration,
    until: Timestamp,
}

#[derive(Debug)]
enum Turn {
    Go {
        probes: Vec<Door>,
    },
    /// Not before this moment.
    At(Timestamp, Option<NamedWindow>, Reason),
    /// When another call has ended.
    Behind(Reason),
}

/// A call that does not fit: until when, and why.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) until: Timestamp,
    pub(crate) reason: Reason,
    pub(crate) window: Option<Window>,
}

impl Held {
    pub(crate) fn into_error(self, now: Timestamp) -> RateLimited {
        let wait = Duration::try_from(self.until.duration_since(now)).unwrap_or_default();
        let error = RateLimited::after(now, wait).with_reason(self.reason);
        match self.window {
            Some(window) => error.with_window(window),
            None => error,
        }
    }
}

impl Pacing {
    pub(crate) fn new(policy: &Policy) -> Self {
        let own = policy.parsers();
        let windows: Vec<NamedWindow> = policy
            .windows()
            .iter()
            .filter(|window| window.limit.is_some())
            .copied()
            .collect();
        let parsers: &[Parser] = match own.contains(&Parser::Buckets) && windows.is_empty() {
            // Without a known limit it only matters when nothing is left, and this one knows every spelling of that.
            true => &[Parser::Buckets],
            false => &[Parser::Buckets, Parser::ResetHeaders, Parser::Ietf],
        };
        Pacing {
            windows,
            max_concurrency: policy.max_concurrency().map(|calls| calls.get()),
            // Those that the policy believes; ours for all spellings believes every one.
            parsers: parsers
                .iter()
                .copied()
                .filter(|parser| own.contains(parser) || own.contains(&Parser::Buckets))
                .collect(),
            buckets: Mutex::default(),
        }
    }

    /// Waits for this call's turn, at most for `left`.
    pub(crate) async fn enter(
        &self,
        key: &str,
        route: &str,
        left: Duration,
        clock: &Clock,
    ) -> Result<(Pass, Duration), Held> {
        let start = clock.now();
        let mut now = start;
        loop {
            // Looked up again after a wait: an idle bucket is dropped in favour of others.
            let shared = self.bucket(key, now);
            let moved = shared.moved.notified();
            let waited = Duration::try_from(now.duration_since(start)).unwrap_or_default();
            let left = left.saturating_sub(waited);
            let turn = shared.lock().turn(now, route, self.max_concurrency);
            match turn {
                Turn::Go { probes } => {
                    let pass = Pass {
                        shared: Arc::clone(&shared),
                        probes,
                    };
                    return Ok((pass, waited));
                }
                Turn::At(until, window, reason) => {
                    let wait = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                    if wait > left {
                        let window = window.and_then(|window| window.rate());
                        return Err(Held {
                            until,
                            reason,
                            window,
                        });
                    }
                    clock.sleep(wait).await;
                }
                Turn::Behind(reason) => {
                    let until = now.checked_add(MIN_HINTED_WAIT).unwrap_or(now);
                    let held = Held {
                        until,
                        reason,
                        window: None,
                    };
                    if left.is_zero() {
                        return Err(held);
                    }
                    if let Either::Right(_) = select(std::pin::pin!(moved), clock.sleep(left)).await {
                        return Err(held);
                    }
                }
            }
            now = clock.now();
        }
    }

    fn bucket(&self, key: &str, now: Timestamp) -> Arc<Shared> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = buckets.get(key) {
            return Arc::clone(shared);
        }
        if buckets.len() >= MAX_BUCKETS {
            // One that somebody holds is about to run a call.
            buckets.retain(|_, shared| Arc::strong_count(shared) > 1 || !shared.lock().is_idle(now));
        }
        let shared = Arc::new(Shared {
            parsers: Arc::clone(&self.parsers),
            bucket: Mutex::new(Bucket::new(&self.windows)),
            moved: Notify::new(),
        });
        buckets.insert(key.to_owned(), Arc::clone(&shared));
        shared
    }
}

impl Bucket {
    fn new(windows: &[NamedWindow]) -> Self {
        let pace = |window: &NamedWindow| Some((*window, Pace::new(window.rate()?).with_margin()));
        Bucket {
            paces: windows.iter().filter_map(pace).collect(),
            ..Bucket::default()
        }
    }

    /// A slot in every window, a free place and an open door, or none of them.
    fn turn(&mut self, now: Timestamp, route: &str, max_concurrency: Option<u32>) -> Turn {
        let mut probes = Vec::new();
        for (door, closed) in &self.closed {
            if !door.is_none_or(|at| self.paces[at].0.covers(route)) {
                continue;
            }
            if closed.until > now {
                return Turn::At(closed.until, None, closed.reason);
            }
            if closed.probing {
                return Turn::Behind(closed.reason);
            }
            probes.push(*door);
        }
        if let Some(gap) = self.gap.filter(|gap| gap.until > now && gap.next > now) {
            return Turn::At(gap.next, None, Reason::Unknown);
        }
        if max_concurrency.is_some_and(|most| self.running >= most) {
            return Turn::Behind(Reason::Concurrency);
        }
        let mut last: Option<(Timestamp, NamedWindow)> = None;
        let mut paces = Vec::with_capacity(self.paces.len());
        for (window, pace) in &mut self.paces {
            if window.covers(route) {
                let slot = pace.next_slot(now);
                if last.is_none_or(|(at, _)| slot > at) {
                    last = Some((slot, *window));
                }
                paces.push(pace);
            }
        }
        if let (Err(at), Some((_, window))) = (pacing::take(&mut paces, now), last) {
            return Turn::At(at, Some(window), window.reason);
        }
        for door in &probes {
            if let Some(closed) = self.closed.get_mut(door) {
                closed.probing = true;
            }
        }
        if let Some(gap) = &mut self.gap {
            gap.next = now.checked_add(gap.apart).unwrap_or(now);
        }
        self.running += 1;
        Turn::Go { probes }
    }

    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.running == 0
            && self.closed.values().all(|closed| closed.until <= now)
            && self.paces.iter_mut().all(|(_, pace)| pace.is_idle(now))
    }

    fn close(&mut self, route: &str, until: Timestamp, reason: Reason) {
        // What a route's own window says does not close the others.
        let door = self
            .paces
            .iter()
            .position(|(window, _)| window.route.is_some() && window.covers(route));
        let closed = self.closed.entry(door).or_insert(Closed {
            until,
            reason,
            probing: false,
        });
        if until >= closed.until {
            (closed.until, closed.reason) = (until, reason);
        }
    }

    fn probed(&mut self, probes: &[Door]) {
        for door in probes {
            if let Some(closed) = self.closed.get_mut(door) {
                closed.probing = false;
            }
        }
    }

    fn slow_down(&mut self, now: Timestamp, hint: &Hint) {
        let largest = self.paces.iter().filter_map(|(window, _)| window.limit).max();
        let few =
            |remaining: u64| largest.is_some_and(|limit| remaining < u64::from(limit.get()) / SLOW_BELOW);
        self.gap = match (hint.remaining, hint.wait, hint.retry_at) {
            (Some(remaining @ 1..), Some(wait), Some(until)) if few(remaining) => {
                let apart = u32::try_from(remaining)
                    .map_or(Duration::ZERO, |calls| wait / calls)
                    .min(MAX_GAP);
                let next = now.checked_add(apart).unwrap_or(now);
                Some(Gap { next, apart, until })
            }
            _ => None,
        };
    }
}

/// A call that runs, its answer's body included. Dropping it makes place.
#[derive(Debug)]
pub(crate) struct Pass {
    shared: Arc<Shared>,
    probes: Vec<Door>,
}

impl Pass {
    /// The provider refused until then: the others need not ask.
    pub(crate) fn refused(&self, route: &str, until: Timestamp, reason: Reason) {
        self.shared.lock().close(route, until, reason);
    }

    /// The provider has not said until when it refuses. `let_in`: it does not refuse. Its headers may say that this call
    /// was the last one for now.
    pub(crate) fn answered(&mut self, signal: &Signal<'_>, let_in: bool) {
        let now = signal.received_at();
        let clock = ResponseClock::of_response(now, signal.headers());
        let mut hints = self
            .shared
            .parsers
            .iter()
            .filter_map(|parser| parser.read(signal, clock));
        let hint = hints.find(|hint| hint.remaining.is_some());
        let mut bucket = self.shared.lock();
        if let_in && !self.probes.is_empty() {
            bucket.probed(&self.probes);
            // A refusal that came meanwhile has closed it again.
            let probes = std::mem::take(&mut self.probes);
            bucket
                .closed
                .retain(|door, closed| closed.until > now || !probes.contains(door));
            self.shared.moved.notify_waiters();
        }
        match (&hint, hint.as_ref().and_then(|hint| hint.retry_at)) {
            (Some(hint), Some(until)) if hint.remaining == Some(0) => {
                bucket.close(signal.route().unwrap_or_default(), until, hint.reason);
            }
            (Some(hint), _) => bucket.slow_down(now, hint),
            (None, _) => {}
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut bucket = self.shared.lock();
        bucket.running = bucket.running.saturating_sub(1);
        // A probe that was not let in: the next one tries, alone as well.
        bucket.probed(&self.probes);
        drop(bucket);
        self.shared.moved.notify_waiters();
    }
}
