//! Waiting for something that happens elsewhere.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks `look` every 100 ms until it answers `Some`, and returns that.
///
/// # Errors
///
/// When `deadline` passes first: the error names `what` was waited for. An error of `look` ends the waiting at once.
pub async fn wait_for<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look()
            .await
            .with_context(|| format!("while waiting until {what}"))?
        {
            return Ok(found);
        }
        if start.elapsed() >= deadline {
            bail!("waited {:.0} s until {what}, in vain", deadline.as_secs_f64());
        }
        sleep(PAUSE).await;
    }
}

/// Asks `look` every 100 ms until it answers true.
///
/// # Errors
///
/// As [`wait_for`].
pub async fn wait_until(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    wait_for(deadline, what, async || Ok(look().await?.then_some(()))).await
}
