//! The invocation that code runs in: its deadline, and how long a request may wait inside the process.
//!
//! A task-local value, so that a client deep inside a handler knows the time left without being told. It follows a
//! future, not the tasks that it spawns.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;

tokio::task_local! {
    static CURRENT: Scope;
}

/// What is known about the running invocation. The default, also outside of any, is: nothing.
///
/// ```
/// use frigg_core::scope::Scope;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), jiff::Error> {
/// let now = "2026-09-28T12:00:00Z".parse()?;
/// let scope = Scope { deadline: Some("2026-09-28T12:01:00Z".parse()?), ..Scope::default() };
/// let left = scope.run(async { Scope::current().time_left(now) }).await;
/// assert_eq!(left.map(|left| left.as_secs()), Some(60));
/// assert_eq!(Scope::current().time_left(now), None);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scope {
    /// When the invocation ends. `None`: no deadline.
    pub deadline: Option<Timestamp>,
    /// How long one request may wait inside the process. `None`: the requester's own default.
    pub max_in_process_wait: Option<Duration>,
}

impl Scope {
    /// For an HTTP handler, which can put nothing back while somebody waits: a request waits at most 10 s.
    pub fn http_handler(deadline: Timestamp) -> Scope {
        Scope {
            deadline: Some(deadline),
            max_in_process_wait: Some(Duration::from_secs(10)),
        }
    }

    /// Runs a future in this scope. Within another scope it can shorten the deadline and the wait, never lengthen them.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        let outer = Scope::current();
        let scope = Scope {
            deadline: shorter(self.deadline, outer.deadline),
            max_in_process_wait: shorter(self.max_in_process_wait, outer.max_in_process_wait),
        };
        CURRENT.scope(scope, future).await
    }

    /// The scope that this code runs in.
    pub fn current() -> Scope {
        CURRENT.try_get().unwrap_or_default()
    }

    /// Time until the deadline, never negative. `None`: no deadline.
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        let left = self.deadline?.duration_since(now);
        Some(Duration::try_from(left).unwrap_or_default())
    }
}

fn shorter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_inner_scope_only_shortens() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let scope = |second, wait| Scope {
            deadline: Some(at(second)),
            max_in_process_wait: Some(Duration::from_secs(wait)),
        };
        let (outer, longer) = (scope(60, 10), scope(90, 20));
        assert_eq!(outer.run(longer.run(async { Scope::current() })).await, outer);
        assert_eq!(
            outer
                .run(async { longer.run(async { Scope::current() }).await })
                .await,
            outer
        );
        assert_eq!(
            longer
                .run(async { outer.run(async { Scope::current() }).await })
                .await,
            outer
        );
        assert_eq!(
            outer
                .run(async { Scope::default().run(async { Scope::current() }).await })
                .await,
            outer
        );
        assert_eq!(outer.time_left(at(70)), Some(Duration::ZERO));
        assert_eq!(Scope::current(), Scope::default());
    }
}
