//! The wall clock, randomness and sleep, here and nowhere else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// Tells the time, draws random numbers and sleeps for a requester. Tests inject their own.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<dyn Fn() -> f64 + Send + Sync>,
    sleep: Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Clock {
    /// The system's clock, and tokio's sleep.
    pub fn system() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where the wall clock is read"
        )]
        Clock {
            now: Arc::new(Timestamp::now),
            random: Arc::new(fastrand::f64),
            sleep: Arc::new(|wait| Box::pin(tokio::time::sleep(wait))),
        }
    }

    /// A clock that answers what `now` says and sleeps as `sleep` does. Its random numbers are all 0.
    pub fn from_fn(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        sleep: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Clock {
            now: Arc::new(now),
            random: Arc::new(|| 0.0),
            sleep: Arc::new(sleep),
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

    pub(crate) fn random(&self) -> f64 {
        (self.random)()
    }

    pub(crate) fn sleep(&self, wait: Duration) -> BoxFuture<'static, ()> {
        (self.sleep)(wait)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
