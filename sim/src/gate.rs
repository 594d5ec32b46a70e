//! The store of the gate as one process reaches it. What goes wrong with it excuses nothing: it costs refused calls,
//! never a message.

use std::time::Duration;

use frigg_worker::BoxError;
use frigg_worker::gate::{Closure, Gate, GateStore, Reservation};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

use crate::mutation::Mutation;
use crate::ports::Port;
use crate::world::{Closed, SECOND, State, nanos_of};

impl Port {
    async fn ask<T>(&self, effect: impl FnOnce(&mut State) -> T) -> Result<T, BoxError> {
        let (fails, crashes, worked, silent, takes) = {
            let mut state = self.world.lock();
            let (weather, now) = (state.scenario.weather, state.now);
            let gate = state.scenario.gate;
            let down = gate.and_then(|gate| gate.down);
            let down = down.is_some_and(|(from, until)| {
                (from.cast_signed() * SECOND..until.cast_signed() * SECOND).contains(&now)
            });
            let silent = down && gate.is_some_and(|gate| gate.silent) || state.fault(weather.hang);
            let fails = down || silent || state.fault(weather.fail);
            let crashes = !fails && state.fault(weather.crash);
            let slow = state.fault(weather.slow);
            let takes = Duration::from_millis(state.rng.u64(0..if slow { 4_000 } else { 30 }));
            if fails || slow {
                state.processes[self.process].gate_failed_at = Some(now + 2 * SECOND);
            }
            // Of those that go wrong, some have their effect.
            (fails, crashes, !down && state.rng.bool(), silent, takes)
        };
        sleep(takes).await;
        let (alive, answer) = {
            let mut state = self.world.lock();
            let alive = state.processes[self.process].alive;
            let happens = alive && (worked || !(fails || crashes));
            (alive, happens.then(|| effect(&mut state)))
        };
        if crashes {
            self.world.lock().end_process(self.process);
        }
        if !alive || crashes || silent {
            return std::future::pending().await;
        }
        answer
            .filter(|_| !fails)
            .ok_or_else(|| "the store is down".into())
    }
}

impl GateStore for Port {
    fn look<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Gate, BoxError>> {
        Box::pin(self.ask(move |state| {
            let mut gate = state.gates.get(key).cloned().unwrap_or_default();
            if state.mutation == Some(Mutation::OpenGate) {
                gate.closed_until = None;
            }
            gate
        }))
    }

    fn close<'a>(&'a self, key: &'a str, closure: &'a Closure) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(self.ask(move |state| {
            let (until, since) = (nanos_of(closure.until), state.now);
            let closed = state.closures.entry(key.to_owned()).or_default();
            closed.push(Closed { until, since });
            let mut closure = closure.clone();
            if state.mutation == Some(Mutation::ShortClosure) {
                closure.until = closure
                    .until
                    .checked_sub(SignedDuration::from_secs(20))
                    .unwrap_or(closure.until);
            }
            state.gates.entry(key.to_owned()).or_default().close(&closure);
            state.note(|| format!("{key:?} is closed until {:.3} s", until as f64 / SECOND as f64));
        }))
    }

    fn reserve<'a>(
        &'a self,
        key: &'a str,
        asked: &'a Reservation,
    ) -> BoxFuture<'a, Result<Option<Timestamp>, BoxError>> {
        Box::pin(self.ask(move |state| {
            let slot = state.gates.entry(key.to_owned()).or_default().reserve(asked);
            state.note(|| format!("{key:?} has the slot {slot:?} for {:?}", asked.line));
            slot
        }))
    }
}
