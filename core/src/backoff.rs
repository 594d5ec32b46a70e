//! Waiting inside a process: the ladder for a refusal that gives no time, and the arithmetic for one that does.
//!
//! A hinted wait is a minimum: it is lengthened by a little jitter and never cut short. When it does not fit the
//! [`Budget`], nothing is slept and the refusal travels on.

use std::time::Duration;

/// Waits of growing length: Frigg's 1, 3, 10, 30, 60, 180 s by default.
///
/// ```
/// use std::time::Duration;
/// use frigg_core::backoff::Ladder;
///
/// let ladder = Ladder::default();
/// assert_eq!(ladder.step(2), Some(Duration::from_secs(3)));
/// assert_eq!(ladder.step(7), None);
/// assert_eq!(ladder.saturating_step(7), Duration::from_secs(180));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder(Vec<Duration>);

impl Ladder {
    /// A ladder of these steps. Without any step, nothing is waited for and nothing retried.
    pub fn new(steps: impl Into<Vec<Duration>>) -> Self {
        Ladder(steps.into())
    }

    /// The n-th step, counted from 1; `None` past the end (and for 0).
    pub fn step(&self, n: u32) -> Option<Duration> {
        let index = usize::try_from(n.checked_sub(1)?).ok()?;
        self.0.get(index).copied()
    }

    /// The n-th step, counted from 1; the last one past the end. Zero for a ladder without steps.
    pub fn saturating_step(&self, n: u32) -> Duration {
        self.step(n.max(1)).or(self.0.last().copied()).unwrap_or_default()
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no step at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Ladder {
    fn default() -> Self {
        Ladder([1, 3, 10, 30, 60, 180].map(Duration::from_secs).to_vec())
    }
}

/// No hinted wait is shorter than this.
pub const MIN_HINTED_WAIT: Duration = Duration::from_secs(1);

/// The most that jitter adds to a hinted wait.
pub const MAX_JITTER: Duration = Duration::from_secs(1);

/// How long one request may wait inside the process unless its caller says otherwise: 300 s.
pub const DEFAULT_MAX_IN_PROCESS_WAIT: Duration = Duration::from_secs(300);

/// What to do with a hinted wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InProcess {
    /// It fits: sleep this long, jitter included, then call again.
    Sleep(Duration),
    /// It does not fit: hand the refusal on with this wait, without jitter.
    HandOn(Duration),
}

/// Whether a hinted wait fits `budget`, and how long it is: at least the hint, the policy's `minimum` and
/// [`MIN_HINTED_WAIT`]; then up to a tenth of it, at most [`MAX_JITTER`], as jitter, never past the budget.
///
/// `random_unit` is a random number from 0 to 1; outside of that it counts as the nearer end.
///
/// ```
/// use std::time::Duration;
/// use frigg_core::backoff::{InProcess, hinted_wait};
///
/// let [hint, enough, short] = [5, 300, 4].map(Duration::from_secs);
/// assert_eq!(hinted_wait(hint, None, enough, 0.5), InProcess::Sleep(Duration::from_millis(5250)));
/// assert_eq!(hinted_wait(hint, None, short, 0.5), InProcess::HandOn(hint));
/// ```
pub fn hinted_wait(
    hint: Duration,
    minimum: Option<Duration>,
    budget: Duration,
    random_unit: f64,
) -> InProcess {
    let base = hint.max(minimum.unwrap_or_default()).max(MIN_HINTED_WAIT);
    if base > budget {
        return InProcess::HandOn(base);
    }
    let most = MAX_JITTER.min(base / 10);
    // Whole milliseconds, rounded down, as Frigg does.
    let jitter = (random_unit.clamp(0.0, 1.0) * most.as_secs_f64() * 1000.0).floor();
    InProcess::Sleep((base + Duration::from_millis(jitter as u64)).min(budget))
}

/// How long one request may still wait inside the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The caller's cap for the whole request. Default: [`DEFAULT_MAX_IN_PROCESS_WAIT`].
    pub cap: Duration,
    /// What this request has already waited.
    pub waited: Duration,
    /// Time left until the invocation's deadline. `None`: no deadline.
    pub time_left: Option<Duration>,
    /// How long the call after the wait may take. `None`: not limited.
    pub request_timeout: Option<Duration>,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            cap: DEFAULT_MAX_IN_PROCESS_WAIT,
            waited: Duration::ZERO,
            time_left: None,
            request_timeout: None,
        }
    }
}

impl Budget {
    /// The cap less what was waited, and never more than the time left less a reserve for the call itself: its timeout,
    /// at most half of the time left. Without a timeout the reserve is that half.
    pub fn left(&self) -> Duration {
        self.less_reserve(self.request_timeout.unwrap_or(Duration::MAX))
    }

    /// As Frigg counts: without a timeout there is no reserve.
    pub fn left_frigg(&self) -> Duration {
        self.less_reserve(self.request_timeout.unwrap_or_default())
    }

    fn less_reserve(&self, timeout: Duration) -> Duration {
        let of_cap = self.cap.saturating_sub(self.waited);
        self.time_left
            .map_or(of_cap, |left| of_cap.min(left - timeout.min(left / 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_hint_is_a_minimum() {
        let wait = |hint, minimum, random| hinted_wait(hint, minimum, 100 * SECOND, random);
        assert_eq!(wait(Duration::ZERO, None, 0.0), InProcess::Sleep(SECOND));
        assert_eq!(wait(SECOND, Some(5 * SECOND), 0.0), InProcess::Sleep(5 * SECOND));
        assert_eq!(wait(50 * SECOND, None, 1.0), InProcess::Sleep(51 * SECOND));
        assert_eq!(wait(100 * SECOND, None, 1.0), InProcess::Sleep(100 * SECOND));
        assert_eq!(wait(101 * SECOND, None, 1.0), InProcess::HandOn(101 * SECOND));
        // A random number out of range is no way to come early or late.
        for odd in [-5.0, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(wait(50 * SECOND, None, odd), InProcess::Sleep(50 * SECOND));
        }
        assert_eq!(
            wait(50 * SECOND, None, f64::INFINITY),
            InProcess::Sleep(51 * SECOND)
        );
    }

    #[test]
    fn the_reserve_is_the_timeout_and_at_most_half() {
        let budget = |time_left, request_timeout| Budget {
            time_left,
            request_timeout,
            ..Budget::default()
        };
        assert_eq!(budget(None, None).left(), 300 * SECOND);
        assert_eq!(budget(Some(100 * SECOND), Some(30 * SECOND)).left(), 70 * SECOND);
        assert_eq!(budget(Some(100 * SECOND), Some(90 * SECOND)).left(), 50 * SECOND);
        assert_eq!(budget(Some(100 * SECOND), None).left(), 50 * SECOND);
        assert_eq!(budget(Some(100 * SECOND), None).left_frigg(), 100 * SECOND);
        assert_eq!(budget(Some(Duration::ZERO), None).left(), Duration::ZERO);
        let spent = Budget {
            waited: 400 * SECOND,
            ..Budget::default()
        };
        assert_eq!(spent.left(), Duration::ZERO);
    }
}
