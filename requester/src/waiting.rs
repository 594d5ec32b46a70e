//! The decision: wait in process and call again, or give up?
//!
//! Pure: what was waited so far is in [`Waiting`], everything else is an argument.

use std::time::Duration;

use frigg_core::backoff::{Budget, DEFAULT_MAX_IN_PROCESS_WAIT, InProcess, hinted_wait};

use crate::backoff::Backoff;

/// The most retries of one request after an answer that gave a time.
const MAX_HINTED: u32 = 10;
/// The most retries of one request after a 401.
const MAX_UNAUTHORIZED: u32 = 3;

/// What went wrong, as far as waiting is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The provider says when to come back.
    Hinted {
        wait: Duration,
        minimum: Option<Duration>,
        /// It may have done what was asked all the same (a 5xx).
        done: bool,
    },
    /// A limit, and nothing about its end.
    Bare,
    /// A failure that may be over soon; the provider may have done what was asked.
    Transient,
    /// A 401.
    Unauthorized { renewable: bool },
    /// Anything else.
    Final,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    GiveUp,
    Sleep(Duration),
    /// Sleep as long as the provider asked.
    SleepHinted(Duration),
    /// Renew the credential, then call again at once.
    Renew,
}

/// What holds for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) backoff: &'a Backoff,
    /// Frigg exactly.
    pub(crate) frigg: bool,
    /// It may be repeated even if the provider has done it.
    pub(crate) repeatable: bool,
    /// The caller's cap. Zero says that limits are put back; a failure cannot be.
    pub(crate) cap: Duration,
    pub(crate) time_left: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) random_unit: f64,
}

/// What one request has waited and tried.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// Steps of the backoff taken; a hinted retry takes none.
    pub(crate) attempt: u32,
    /// What counts against the caller's cap.
    pub(crate) waited: Duration,
    slept_by_backoff: Duration,
    hinted: u32,
    unauthorized: u32,
}

impl Waiting {
    /// How long the request may still wait for a limit.
    pub(crate) fn left(&self, terms: &Terms<'_>) -> Duration {
        self.left_under(terms.cap, terms)
    }

    fn left_under(&self, cap: Duration, terms: &Terms<'_>) -> Duration {
        let budget = Budget {
            cap,
            waited: self.waited,
            time_left: terms.time_left,
            request_timeout: terms.timeout,
        };
        match terms.frigg {
            true => budget.left_frigg(),
            false => budget.left(),
        }
    }

    pub(crate) fn next(&mut self, fault: Fault, terms: &Terms<'_>) -> Next {
        match fault {
            Fault::Hinted { done, .. } if done && !terms.repeatable => Next::GiveUp,
            Fault::Hinted { wait, minimum, .. } => self.hinted(wait, minimum, terms),
            Fault::Bare => self.step(terms.cap, terms),
            Fault::Transient if !terms.repeatable => Next::GiveUp,
            Fault::Transient => {
                let cap = match terms.cap {
                    Duration::ZERO => DEFAULT_MAX_IN_PROCESS_WAIT,
                    cap => cap,
                };
                self.step(cap, terms)
            }
            Fault::Unauthorized { renewable } => self.unauthorized(renewable, terms),
            Fault::Final => Next::GiveUp,
        }
    }

    fn hinted(&mut self, wait: Duration, minimum: Option<Duration>, terms: &Terms<'_>) -> Next {
        if self.hinted == MAX_HINTED || terms.backoff.is_empty() {
            return Next::GiveUp;
        }
        match hinted_wait(wait, minimum, self.left(terms), terms.random_unit) {
            InProcess::HandOn(_) => Next::GiveUp,
            InProcess::Sleep(wait) => {
                self.hinted += 1;
                self.waited += wait;
                Next::SleepHinted(wait)
            }
        }
    }

    /// The backoff's next step, if it fits; Frigg asks for no room.
    fn step(&mut self, cap: Duration, terms: &Terms<'_>) -> Next {
        let step = terms
            .backoff
            .step(self.attempt + 1, self.slept_by_backoff, terms.random_unit);
        match step {
            Some(step) if terms.frigg || step <= self.left_under(cap, terms) => {
                self.attempt += 1;
                self.slept_by_backoff += step;
                if !terms.frigg {
                    self.waited += step;
                }
                Next::Sleep(step)
            }
            _ => Next::GiveUp,
        }
    }

    /// A credential that can be renewed is. Frigg gives another some time to be accepted; we take its word.
    fn unauthorized(&mut self, renewable: bool, terms: &Terms<'_>) -> Next {
        if self.unauthorized == MAX_UNAUTHORIZED || !(renewable || terms.frigg) {
            return Next::GiveUp;
        }
        self.unauthorized += 1;
        if renewable {
            self.attempt += 1;
            return Next::Renew;
        }
        match terms
            .backoff
            .step(self.unauthorized, self.slept_by_backoff, terms.random_unit)
        {
            Some(step) => {
                self.attempt += 1;
                Next::Sleep(step)
            }
            None => Next::GiveUp,
        }
    }

    /// The 401 was for a token that was replaced meanwhile: it does not count.
    pub(crate) fn forgive(&mut self) {
        self.unauthorized -= 1;
        self.attempt -= 1;
    }
}
