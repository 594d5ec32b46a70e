//! [`Backoff`]: how long to wait after a failure that says nothing about time.

use std::time::Duration;

use frigg_core::backoff::Ladder;

/// The most retries with full jitter.
const MAX_JITTERED: u32 = 10;
const STEP_CAP: Duration = Duration::from_secs(60);
const TOTAL_CAP: Duration = Duration::from_secs(120);

/// How long to wait before a retry when the answer gives no time. A time that a provider gives is never shortened by it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backoff {
    /// These steps, then no more. Default: 1, 3, 10, 30, 60, 180 s.
    Ladder(Ladder),
    /// A random time from zero to 1 s, 2 s, 4 s, … at most 60 s; 120 s in all, and at most ten retries.
    FullJitter,
}

impl Backoff {
    /// The wait before retry `n`, counted from 1, when `slept` has been spent on earlier ones. `None`: no retry.
    pub(crate) fn step(&self, n: u32, slept: Duration, random_unit: f64) -> Option<Duration> {
        match self {
            Backoff::Ladder(ladder) => ladder.step(n),
            Backoff::FullJitter if n > MAX_JITTERED => None,
            Backoff::FullJitter => {
                let ceiling = Duration::from_secs(1 << n.saturating_sub(1).min(6)).min(STEP_CAP);
                let step = ceiling.mul_f64(random_unit.clamp(0.0, 1.0));
                (slept + step <= TOTAL_CAP).then_some(step)
            }
        }
    }

    /// Whether there are no retries at all.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Backoff::Ladder(ladder) if ladder.is_empty())
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::Ladder(Ladder::default())
    }
}

impl From<Ladder> for Backoff {
    fn from(ladder: Ladder) -> Self {
        Backoff::Ladder(ladder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_jitter_is_capped_by_step_and_in_all() {
        let steps = |random: f64| {
            let mut slept = Duration::ZERO;
            let mut steps = Vec::new();
            while let Some(step) = Backoff::FullJitter.step(steps.len() as u32 + 1, slept, random) {
                slept += step;
                steps.push(step.as_secs());
            }
            steps
        };
        assert_eq!(steps(1.0), [1, 2, 4, 8, 16, 32]);
        assert_eq!(steps(0.5), [0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(steps(0.0).len(), 10);
    }
}
