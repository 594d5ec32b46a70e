//! The schedule tier rests after it failed several times in a row.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::ports::{CallError, CallErrorKind};

/// Failures in a row after which no schedule is tried for a while: a role that cannot be passed, or a spent quota, fails
/// for every message, and each try costs a call and its time.
const FAILURES: u32 = 3;
const REST: Duration = Duration::from_secs(60);

/// How the schedule tier does.
#[derive(Debug, Default)]
pub(crate) struct Rest(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    until: Option<Timestamp>,
}

impl Rest {
    pub(crate) fn is_on(&self, now: Timestamp) -> bool {
        self.with(|state| state.until.is_some_and(|until| now < until))
    }

    /// Takes note of how a creation went.
    pub(crate) fn note<T>(&self, now: Timestamp, result: &Result<T, CallError>) {
        let error = match result {
            Ok(_) => return self.with(|state| *state = State::default()),
            // It is this message's body that does not fit, or its name that is taken.
            Err(error) if error.code.is_none() && error.kind == CallErrorKind::Refused => return,
            Err(error) if error.kind == CallErrorKind::Conflict => return,
            Err(error) => error,
        };
        let begins = self.with(|state| {
            state.failures += 1;
            let begins = state.failures == FAILURES;
            if begins {
                *state = State {
                    failures: 0,
                    until: now.checked_add(REST).ok(),
                };
            }
            begins
        });
        if begins {
            tracing::warn!(
                target: "frigg.worker", eventName = "frigg.worker.schedules_rest", restMs = REST.as_millis() as u64,
                "error.type" = "CallError", "error.message" = %error,
                "creating schedules fails; long waits go by other ways for a minute",
            );
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_are_a_minutes_rest() {
        let (rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        let later = |seconds| now + Duration::from_secs(seconds);
        let broken = || {
            Err::<(), _>(CallError::new(
                CallErrorKind::Refused,
                Some("ValidationException"),
                "a bad role",
            ))
        };
        let large = Err::<(), _>(CallError::new(CallErrorKind::Refused, None, "too large"));
        rest.note(now, &broken());
        rest.note(now, &broken());
        rest.note(now, &Ok(()));
        rest.note(now, &broken());
        rest.note(now, &broken());
        rest.note(now, &large);
        assert!(
            !rest.is_on(now),
            "a success between, and a body that does not fit, do not count"
        );
        rest.note(now, &broken());
        assert!(rest.is_on(now) && rest.is_on(later(59)) && !rest.is_on(later(60)));
    }
}
