//! The one place of this crate that reads the clock, and a clock that tests move by hand.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The wall clock's time.
#[must_use]
pub fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the edge: everything else takes a time or a `Clock`"
    )]
    Timestamp::now()
}

/// Time since a start, and the wall time that belongs to it.
///
/// Both come from one monotonic reading, so a step of the wall clock in the middle of a run cannot make a call look
/// early. Clones share the time.
#[derive(Clone, Debug)]
pub struct Clock {
    started_at: Timestamp,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System(Instant),
    Manual(Arc<Mutex<Duration>>),
}

impl Clock {
    /// Runs with the system's clock, and starts now.
    #[must_use]
    pub fn system() -> Self {
        Self {
            started_at: now(),
            source: Source::System(Instant::now()),
        }
    }

    /// Stands still at `started_at` until [`advance`](Self::advance) moves it.
    #[must_use]
    pub fn manual(started_at: Timestamp) -> Self {
        Self {
            started_at,
            source: Source::Manual(Arc::default()),
        }
    }

    /// Time since the clock was made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        match &self.source {
            Source::System(start) => start.elapsed(),
            Source::Manual(elapsed) => *elapsed.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The wall time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.at(self.elapsed())
    }

    /// The wall time at `elapsed` since the clock was made.
    ///
    /// # Panics
    ///
    /// When that is past the year 9999.
    #[must_use]
    pub fn at(&self, elapsed: Duration) -> Timestamp {
        self.started_at
            .checked_add(elapsed)
            .expect("a time before the year 9999")
    }

    /// Time since the clock was made at the wall time `at`; zero when that is before.
    #[must_use]
    pub fn elapsed_at(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.started_at)).unwrap_or_default()
    }

    /// Moves a manual clock.
    ///
    /// # Panics
    ///
    /// On a system clock.
    pub fn advance(&self, by: Duration) {
        match &self.source {
            Source::System(_) => panic!("the system's clock cannot be moved"),
            Source::Manual(elapsed) => *elapsed.lock().unwrap_or_else(PoisonError::into_inner) += by,
        }
    }
}
