//! The ladder of waits for a refusal that gives no time.

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
