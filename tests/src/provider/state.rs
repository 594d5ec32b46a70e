//! What all connections share: the gates, the record, the laid-out answers. No I/O.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::config::{KeyBy, ProviderConfig};
use super::gate::{DAILY_POLICY, Gate, Passage};
use super::record::{Call, Canned, Closed};
use crate::clock::Clock;

#[derive(Debug)]
pub(super) struct State {
    config: ProviderConfig,
    clock: Clock,
    changing: Mutex<Changing>,
}

#[derive(Debug, Default)]
struct Changing {
    gates: BTreeMap<String, Gate>,
    canned: BTreeMap<String, VecDeque<Canned>>,
    calls: Vec<Call>,
}

/// What to answer.
#[derive(Debug)]
pub(super) enum Answer {
    Served,
    Refused { retry_after: u64, policy: String },
    Canned(Canned),
}

impl State {
    pub(super) fn new(config: ProviderConfig, clock: Clock) -> Self {
        Self {
            config,
            clock,
            changing: Mutex::default(),
        }
    }

    pub(super) fn key_by(&self) -> &KeyBy {
        self.config.key_by()
    }

    /// Decides about a call and remembers it.
    pub(super) fn call(&self, key: &str, method: &str, path: &str, request_id: Option<&str>) -> Answer {
        let mut changing = self.lock();
        // Read under the lock, so that the record is in the order of time.
        let elapsed = self.clock.elapsed();
        let canned = changing.canned.get_mut(key).and_then(VecDeque::pop_front);
        let answer = match canned {
            Some(canned) => Answer::Canned(canned),
            None => match self.gate(&mut changing, key).call(elapsed) {
                Passage::Open => Answer::Served,
                Passage::Closed { until, policy } => Answer::Refused {
                    retry_after: whole_seconds(until.saturating_sub(elapsed)),
                    policy,
                },
            },
        };
        let (status, retry_after, policy) = match &answer {
            Answer::Served => (200, None, None),
            Answer::Refused { retry_after, policy } => (429, Some(*retry_after), Some(policy.clone())),
            Answer::Canned(canned) => (canned.status, retry_after_of(canned), None),
        };
        changing.calls.push(Call {
            key: key.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            request_id: request_id.map(str::to_owned),
            at: self.clock.at(elapsed),
            since_start: elapsed,
            accepted: status < 400,
            status,
            retry_after,
            retry_at: retry_after.map(|seconds| self.clock.at(elapsed + Duration::from_secs(seconds))),
            policy,
        });
        answer
    }

    pub(super) fn close_until(&self, key: &str, until: Timestamp) {
        let mut changing = self.lock();
        let (now, until) = (self.clock.elapsed(), self.clock.elapsed_at(until));
        self.gate(&mut changing, key).shut(now, until, DAILY_POLICY);
    }

    pub(super) fn answer_next(&self, key: &str, canned: Canned) {
        self.lock()
            .canned
            .entry(key.to_owned())
            .or_default()
            .push_back(canned);
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    pub(super) fn forget_calls(&self) {
        self.lock().calls.clear();
    }

    pub(super) fn closed(&self) -> Vec<Closed> {
        let changing = self.lock();
        let closed = changing.gates.iter().flat_map(|(key, gate)| {
            gate.closures().iter().map(|closure| Closed {
                key: key.clone(),
                from: self.clock.at(closure.from),
                until: self.clock.at(closure.until),
                policy: closure.policy.clone(),
            })
        });
        closed.collect()
    }

    fn gate<'a>(&self, changing: &'a mut Changing, key: &str) -> &'a mut Gate {
        changing
            .gates
            .entry(key.to_owned())
            .or_insert_with(|| self.config.rule(key).gate())
    }

    fn lock(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounded up: an answer that is rounded down sends the caller back too early, and it is refused again.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

fn retry_after_of(canned: &Canned) -> Option<u64> {
    let (_, value) = canned
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    value.parse().ok()
}
