//! The wall clock and randomness, read here and nowhere else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// Tells the time and draws random numbers for the batch code. Tests inject their own.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where the wall clock is read"
        )]
        Clock {
            now: Arc::new(Timestamp::now),
            random: Arc::new(fastrand::f64),
        }
    }

    /// A clock that answers what `now` says. Its random numbers are all 0.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock {
            now: Arc::new(now),
            random: Arc::new(|| 0.0),
        }
    }

    /// Draws random numbers (uniform in `0.0..1.0`) from `random`.
    #[must_use]
    pub fn with_random(self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Clock {
            random: Arc::new(random),
            ..self
        }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Waits until it says `at`, never less: timers and the wall clock need not agree.
    pub(crate) async fn sleep_until(&self, at: Timestamp) {
        loop {
            let wait = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// A random number in `0.0..1.0`.
    pub(crate) fn random(&self) -> f64 {
        (self.random)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
