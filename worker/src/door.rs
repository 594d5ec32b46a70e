//! Between a record and its handler: is its key closed, and whose turn is it? The use that batches make of the gate.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use frigg_core::gate::{self, Passage, SHORT_WAIT};
use frigg_core::rate_limit::{Limit, Window};
use frigg_core::time;
use futures_util::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use crate::clock::Clock;
use crate::error::{BoxError, HandlerError};
use crate::gate::{Closure, Gate, GateStore, Line, MAX_KEY, Pace, Reservation};
use crate::rates::Rates;

/// How long what is known of a closed key, or of one with a line, is good without asking. An open one is asked about in
/// each batch: the limit that another worker has just met is what the gate is for.
const MEMORY: Duration = Duration::from_secs(3);
const MAX_REMEMBERED: usize = 1024;
/// The gate opens when the store takes longer than this.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// A store that failed is left alone for so long.
const REST: Duration = Duration::from_secs(5);
const WARN_EVERY: Duration = Duration::from_secs(60);
/// A slot that begins in less is free now.
const FREE: SignedDuration = SignedDuration::from_micros(1);
/// Of call slots that are missed, one after the other; then the record comes again.
const TURNS: u32 = 4;
/// What a slow store can keep calls waiting.
const MAX_LAG: SignedDuration = SignedDuration::from_millis(500);

/// The gate as a process knows it.
pub(crate) struct Doorkeeper {
    store: Arc<dyn GateStore>,
    rates: Rates,
    pace: Pace,
    memory: Mutex<HashMap<String, Known>>,
    trouble: Mutex<Trouble>,
    /// How long the store takes for a reservation: the longest of the last ones.
    lag: Mutex<SignedDuration>,
}

/// A key's entry, and when it was read.
struct Known {
    gate: Gate,
    at: Instant,
}

#[derive(Default)]
struct Trouble {
    until: Option<Instant>,
    warned: Option<Instant>,
}

/// An answer to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// This one.
    At(Timestamp),
    /// The line has none in time.
    Full,
    /// The store does not answer.
    Unknown,
}

impl Doorkeeper {
    pub(crate) fn new(store: Arc<dyn GateStore>, rates: Rates, pace: Pace) -> Self {
        Doorkeeper {
            store,
            rates,
            pace,
            memory: Mutex::default(),
            trouble: Mutex::default(),
            lag: Mutex::default(),
        }
    }

    /// The rate of a key, where a limit does not name it.
    pub(crate) fn rate(&self, key: &str) -> Option<Window> {
        self.rates.of(key)
    }

    /// Closes a key for everybody.
    pub(crate) async fn close(&self, key: &str, closure: &Closure) {
        let fresh = |known: &&Known| known.at.elapsed() < MEMORY;
        let known = lock(&self.memory)
            .get(key)
            .filter(fresh)
            .and_then(|known| known.gate.closed_until);
        if known >= Some(closure.until) {
            // Another record of this process has just told it.
            return;
        }
        // First here: the batch's next record must not wait for the store to know.
        self.remember(key, |gate| {
            gate.close(closure);
        });
        self.ask(async { self.store.close(key, closure).await }).await;
    }

    /// Takes the next slot of a line.
    pub(crate) async fn slot(&self, key: &str, asked: Reservation) -> Slot {
        let sent = Instant::now();
        let answer = self.ask(async { self.store.reserve(key, &asked).await }).await;
        self.note_lag(sent.elapsed());
        match answer {
            Some(Some(slot)) => {
                self.remember(key, |gate| {
                    // What is known here may be older than what others took meanwhile: the slot itself is certain.
                    gate.reserve(&Reservation {
                        from: slot,
                        before: Timestamp::MAX,
                        ..asked
                    });
                });
                Slot::At(slot)
            }
            Some(None) => Slot::Full,
            None => Slot::Unknown,
        }
    }

    /// In what time a reservation is answered, as far as the last ones tell.
    fn answers_in(&self) -> SignedDuration {
        *lock(&self.lag)
    }

    fn note_lag(&self, took: Duration) {
        let took = SignedDuration::try_from(took).unwrap_or(MAX_LAG).min(MAX_LAG);
        let mut lag = lock(&self.lag);
        *lag = took.max(*lag - *lag / 8);
    }

    /// What is known of a key: remembered where that is enough, else asked for, once in a batch.
    async fn known(&self, key: &str, batch: &Asked, now: Timestamp) -> Gate {
        let fresh = lock(&self.memory)
            .get(key)
            .filter(|known| known.at.elapsed() < MEMORY)
            .map(|known| known.gate.clone());
        if let Some(gate) = fresh.filter(|gate| gate.closed(now).is_some() || gate.has_line(now)) {
            return gate;
        }
        let asked = Arc::clone(lock(&batch.0).entry(key.to_owned()).or_default());
        asked
            .get_or_init(async || {
                if let Some(gate) = self.ask(async { self.store.look(key).await }).await {
                    self.put(key, gate);
                }
            })
            .await;
        lock(&self.memory)
            .get(key)
            .map(|known| known.gate.clone())
            .unwrap_or_default()
    }

    fn put(&self, key: &str, gate: Gate) {
        let mut memory = lock(&self.memory);
        if memory.len() >= MAX_REMEMBERED {
            memory.retain(|_, known| known.at.elapsed() < MEMORY);
        }
        if memory.len() < MAX_REMEMBERED || memory.contains_key(key) {
            memory.insert(
                key.to_owned(),
                Known {
                    gate,
                    at: Instant::now(),
                },
            );
        }
    }

    fn remember(&self, key: &str, change: impl FnOnce(&mut Gate)) {
        let mut gate = lock(&self.memory)
            .get(key)
            .map(|known| known.gate.clone())
            .unwrap_or_default();
        change(&mut gate);
        self.put(key, gate);
    }

    /// Asks the store, within its time; `None` when it does not answer. Its own panic is a fault like another.
    async fn ask<T>(&self, call: impl Future<Output = Result<T, BoxError>>) -> Option<T> {
        let resting = |trouble: &Trouble| trouble.until.is_some_and(|until| Instant::now() < until);
        if resting(&lock(&self.trouble)) {
            return None;
        }
        let answer = timeout(STORE_TIMEOUT, AssertUnwindSafe(call).catch_unwind()).await;
        let error = match answer {
            Ok(Ok(Ok(answer))) => {
                lock(&self.trouble).until = None;
                return Some(answer);
            }
            Ok(Ok(Err(error))) => crate::error::chain(&*error),
            Ok(Err(_)) => "the store panicked".to_owned(),
            Err(_) => format!("no answer within {} s", STORE_TIMEOUT.as_secs()),
        };
        let now = Instant::now();
        let mut trouble = lock(&self.trouble);
        trouble.until = Some(now + REST);
        if trouble
            .warned
            .is_none_or(|at| now.duration_since(at) >= WARN_EVERY)
        {
            trouble.warned = Some(now);
            tracing::warn!(
                target: "frigg.worker", eventName = "frigg.worker.gate_unavailable",
                "error.type" = "Error", "error.message" = crate::report::cut(&error),
                "the table of FRIGG_GATE_TABLE does not answer; until it does, each worker meets limits by itself",
            );
        }
        None
    }
}

impl fmt::Debug for Doorkeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorkeeper")
            .field("store", &self.store)
            .field("rates", &self.rates)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

/// The keys that a batch has asked the store about.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<HashMap<String, Arc<OnceCell<()>>>>);

/// One record's way in. Cloned with its job.
#[derive(Debug)]
pub(crate) struct Door {
    keeper: Arc<Doorkeeper>,
    batch: Arc<Asked>,
    clock: Clock,
    /// The record was put back before, and its time has just come.
    returns: bool,
    key: OnceLock<String>,
}

impl Door {
    pub(crate) fn new(keeper: Arc<Doorkeeper>, batch: Arc<Asked>, clock: Clock, returns: bool) -> Self {
        Door {
            keeper,
            batch,
            clock,
            returns,
            key: OnceLock::new(),
        }
    }

    /// The key that its handler gave.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.get().map(String::as_str)
    }

    /// Lets the record in, after less than a second's wait where calls are paced.
    ///
    /// # Errors
    /// [`Gated`], when it has to go back.
    pub(crate) async fn enter(&self, key: String) -> Result<(), HandlerError> {
        let Some(key) = usable(&key) else { return Ok(()) };
        let key = self.key.get_or_init(|| key.to_owned());
        let known = self.keeper.rate(key);
        let gate = self.keeper.known(key, &self.batch, self.clock.now()).await;
        let now = self.clock.now();
        let gated = |until, window| {
            let mut limit = Limit::default();
            (limit.retry_at, limit.window) = (Some(until), window);
            (limit.reason, limit.module) = (gate.reason, gate.module.clone());
            limit.scope_key = Some(key.clone());
            // One that has had its slot tries again soon: another one, at the line's end, would leave a hole.
            let place = !self.returns || gate.closed(now).is_some();
            Err(HandlerError::gated(Gated {
                limit: Box::new(limit),
                place,
            }))
        };
        let (window, patience) = match gate.pass(now, self.returns, known, self.keeper.pace) {
            Passage::Go => return Ok(()),
            Passage::Closed(until) => return gated(until, gate.window.or(known)),
            Passage::Queue(window) => (window, FREE),
            Passage::Take(window) => (window, SHORT_WAIT),
        };
        let before = now.checked_add(patience).unwrap_or(Timestamp::MAX);
        match self.turn(key, window, patience).await {
            Slot::At(_) => {}
            Slot::Full => return gated(before, Some(window)),
            Slot::Unknown => return Ok(()),
        }
        // While it waited, another record may have met the limit.
        let now = self.clock.now();
        let closed = lock(&self.keeper.memory)
            .get(key)
            .and_then(|known| known.gate.closed(now));
        closed.map_or(Ok(()), |until| gated(until, Some(window)))
    }

    /// Waits for a call slot that begins in less than `patience`. One that is missed, because the store or the machine
    /// took its time, is left: a late call would meet the next ones in one window.
    async fn turn(&self, key: &str, window: Window, patience: SignedDuration) -> Slot {
        for _ in 0..TURNS {
            let now = self.clock.now();
            // The line may be free, and the answer is not here at once.
            let from = after(now, self.keeper.answers_in());
            let asked = Reservation {
                line: Line::Call,
                from,
                before: after(now, patience).max(after(from, FREE)),
                gap: gate::gap(window),
            };
            let slot = self.keeper.slot(key, asked).await;
            let Slot::At(at) = slot else { return slot };
            self.clock.sleep_until(at).await;
            if self.clock.now() <= after(at, gate::leeway(window)) {
                return slot;
            }
        }
        Slot::Full
    }
}

fn after(at: Timestamp, wait: SignedDuration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// A key that a store can keep. An empty one is none.
pub(crate) fn usable(key: &str) -> Option<&str> {
    if key.len() > MAX_KEY {
        tracing::warn!(
            target: "frigg.worker", eventName = "frigg.worker.scope_key_too_long", bytes = key.len(),
            "a scope key of more than {MAX_KEY} bytes counts as none; make it shorter, by a hash of its parts say",
        );
    }
    (!key.is_empty() && key.len() <= MAX_KEY).then_some(key)
}

/// Why a record goes back without its handler's having run.
#[derive(Debug, Clone)]
pub(crate) struct Gated {
    pub(crate) limit: Box<Limit>,
    /// Whether it gets a place in the line.
    pub(crate) place: bool,
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.limit.scope_key.as_deref().unwrap_or_default();
        match self.limit.retry_at {
            Some(at) => write!(f, "{key:?} has no place before {}", time::iso(at)),
            None => write!(f, "{key:?} has no place"),
        }
    }
}

impl std::error::Error for Gated {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
