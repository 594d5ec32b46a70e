//! One key's limit: may this call pass, and if not, when may the next? Times are since the provider's start.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

/// At most `calls` in `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many calls pass.
    pub calls: NonZeroU32,
    /// In which time.
    pub per: Duration,
    /// How the time is counted.
    pub kind: WindowKind,
}

/// How a window's time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WindowKind {
    /// In any stretch of that length: a call frees its place that long after it was made.
    #[default]
    Rolling,
    /// From one multiple of the length since the provider's start to the next: all places are free at once then.
    Fixed,
}

impl Window {
    /// `calls` in any stretch of `per`.
    ///
    /// # Panics
    ///
    /// When `calls` or `per` is zero.
    #[must_use]
    pub const fn rolling(calls: u32, per: Duration) -> Self {
        Self::new(calls, per, WindowKind::Rolling)
    }

    /// `calls` from one multiple of `per` to the next.
    ///
    /// # Panics
    ///
    /// When `calls` or `per` is zero.
    #[must_use]
    pub const fn fixed(calls: u32, per: Duration) -> Self {
        Self::new(calls, per, WindowKind::Fixed)
    }

    const fn new(calls: u32, per: Duration, kind: WindowKind) -> Self {
        assert!(!per.is_zero(), "a window has a length");
        Self {
            calls: NonZeroU32::new(calls).expect("a window lets at least one call pass"),
            per,
            kind,
        }
    }

    /// When a call made at `at` no longer counts.
    fn expiry(&self, at: Duration) -> Duration {
        match self.kind {
            WindowKind::Rolling => at + self.per,
            WindowKind::Fixed => {
                let per = self.per.as_nanos();
                let next = (at.as_nanos() / per + 1) * per;
                Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
            }
        }
    }
}

/// What a gate says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It passes.
    Open,
    /// It does not, and none does before `until`.
    Closed {
        /// Since the provider's start.
        until: Duration,
        /// The limit's name.
        policy: String,
    },
}

/// A stretch in which no call passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closure {
    /// Its first moment.
    pub from: Duration,
    /// The first moment after it.
    pub until: Duration,
    /// The limit's name.
    pub policy: String,
}

/// The name of a window's limit, as HubSpot spells it.
pub const WINDOW_POLICY: &str = "TEN_SECONDLY_ROLLING";
/// The name of a long limit, as HubSpot spells it.
pub const DAILY_POLICY: &str = "DAILY";

/// One key's state.
#[derive(Debug, Default)]
pub struct Gate {
    window: Option<Window>,
    close_on_first_call: Option<Duration>,
    /// When the accepted calls that still count were made, oldest first.
    counted: VecDeque<Duration>,
    /// The long closure that was announced last.
    shut: Option<Closure>,
    history: Vec<Closure>,
}

impl Gate {
    /// A gate with a window (without one everything passes), which shuts itself for `close_on_first_call` when the first
    /// call comes: as an account whose daily limit is spent.
    #[must_use]
    pub fn new(window: Option<Window>, close_on_first_call: Option<Duration>) -> Self {
        Self {
            window,
            close_on_first_call,
            ..Self::default()
        }
    }

    /// Shuts the gate from `now` until `until`, whatever its window says.
    pub fn shut(&mut self, now: Duration, until: Duration, policy: impl Into<String>) {
        let closure = Closure {
            from: now,
            until,
            policy: policy.into(),
        };
        self.history.push(closure.clone());
        self.shut = Some(closure);
    }

    /// A call comes.
    pub fn call(&mut self, now: Duration) -> Passage {
        if let Some(length) = self.close_on_first_call.take() {
            self.shut(now, now + length, DAILY_POLICY);
        }
        if let Some(shut) = self.shut.as_ref().filter(|shut| now < shut.until) {
            return Passage::Closed {
                until: shut.until,
                policy: shut.policy.clone(),
            };
        }
        let Some(window) = self.window else {
            return Passage::Open;
        };
        while self
            .counted
            .front()
            .is_some_and(|&oldest| window.expiry(oldest) <= now)
        {
            self.counted.pop_front();
        }
        let places = usize::try_from(window.calls.get()).unwrap_or(usize::MAX);
        if let (true, Some(&oldest)) = (self.counted.len() >= places, self.counted.front()) {
            return Passage::Closed {
                until: window.expiry(oldest),
                policy: WINDOW_POLICY.to_owned(),
            };
        }
        self.counted.push_back(now);
        if let (true, Some(&oldest)) = (self.counted.len() == places, self.counted.front()) {
            // This one took the last place.
            let until = window.expiry(oldest);
            self.history.push(Closure {
                from: now,
                until,
                policy: WINDOW_POLICY.to_owned(),
            });
        }
        Passage::Open
    }

    /// Every stretch so far in which no call passed, by its beginning. The last may end in the future.
    #[must_use]
    pub fn closures(&self) -> &[Closure] {
        &self.history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn until(passage: Passage) -> Option<Duration> {
        match passage {
            Passage::Open => None,
            Passage::Closed { until, .. } => Some(until),
        }
    }

    #[test]
    fn a_rolling_window_frees_each_place_by_itself() {
        let mut gate = Gate::new(Some(Window::rolling(2, s(10))), None);
        assert_eq!(gate.call(s(0)), Passage::Open);
        assert_eq!(gate.call(s(4)), Passage::Open);
        assert_eq!(until(gate.call(s(5))), Some(s(10)));
        assert_eq!(until(gate.call(s(10) - Duration::from_nanos(1))), Some(s(10)));
        assert_eq!(
            gate.call(s(10)),
            Passage::Open,
            "open at the very moment that was told"
        );
        assert_eq!(until(gate.call(s(10))), Some(s(14)));
        assert_eq!(gate.call(s(14)), Passage::Open);
    }

    #[test]
    fn a_fixed_window_frees_all_places_at_once() {
        let mut gate = Gate::new(Some(Window::fixed(2, s(10))), None);
        assert_eq!(gate.call(s(8)), Passage::Open);
        assert_eq!(gate.call(s(9)), Passage::Open);
        assert_eq!(until(gate.call(s(9))), Some(s(10)));
        assert_eq!(gate.call(s(10)), Passage::Open);
        assert_eq!(gate.call(s(10)), Passage::Open);
        assert_eq!(until(gate.call(s(10))), Some(s(20)));
    }

    #[test]
    fn no_stretch_of_the_length_ever_holds_more_than_the_limit() {
        let mut gate = Gate::new(Some(Window::rolling(3, s(10))), None);
        let accepted: Vec<_> = (0..400)
            .map(|i| Duration::from_millis(i * 170))
            .filter(|&at| gate.call(at) == Passage::Open)
            .collect();
        assert!(accepted.len() > 15, "{accepted:?}");
        for pair in accepted.windows(4) {
            assert!(pair[3] - pair[0] >= s(10), "{pair:?}");
        }
    }

    #[test]
    fn the_first_call_finds_the_daily_limit_spent() {
        let mut gate = Gate::new(None, Some(s(72)));
        assert_eq!(
            gate.call(s(5)),
            Passage::Closed {
                until: s(77),
                policy: DAILY_POLICY.to_owned()
            }
        );
        assert_eq!(until(gate.call(s(76))), Some(s(77)));
        assert_eq!(gate.call(s(77)), Passage::Open, "and it is not spent again");
        assert_eq!(
            gate.closures(),
            [Closure {
                from: s(5),
                until: s(77),
                policy: DAILY_POLICY.to_owned()
            }]
        );
    }

    #[test]
    fn a_shut_gate_counts_no_refused_call() {
        let mut gate = Gate::new(Some(Window::rolling(1, s(10))), None);
        gate.shut(s(0), s(30), DAILY_POLICY);
        assert_eq!(until(gate.call(s(29))), Some(s(30)));
        assert_eq!(gate.call(s(30)), Passage::Open);
    }

    #[test]
    fn a_full_window_is_remembered_as_closed_from_its_last_call_to_its_first_free_place() {
        let mut gate = Gate::new(Some(Window::rolling(2, s(10))), None);
        for at in [0, 4, 10] {
            gate.call(s(at));
        }
        let closures: Vec<_> = gate
            .closures()
            .iter()
            .map(|closure| (closure.from, closure.until))
            .collect();
        assert_eq!(closures, [(s(4), s(10)), (s(10), s(14))]);
    }
}
