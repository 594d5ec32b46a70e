//! A small herd on a gate: `make herd` runs the large one.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use frigg_tests::emulator::Emulator;
use frigg_tests::herd::{Herd, Mode, Outcome, run};

/// Of 80 calls, so many may come past their slots on a busy machine, and be one too many in a window.
const LATE: usize = 4;

/// Four calls a second, in a window long enough that a busy machine's delays do not matter.
async fn small(mode: Mode) -> Result<Outcome> {
    let herd = Herd {
        messages: 80,
        workers: 6,
        calls: 20,
        per: Duration::from_secs(5),
        deadline: Duration::from_secs(120),
    };
    let worker = Path::new(env!("CARGO_BIN_EXE_herd-worker"));
    let outcome = run(Emulator::shared().await?, worker, &herd, mode).await?;
    assert_eq!(
        (outcome.early, outcome.done, outcome.capped),
        (0, 80, 0),
        "{outcome:?}"
    );
    Ok(outcome)
}

#[tokio::test]
async fn a_herd_behind_a_gate_learns_a_limit_once_each_at_most() -> Result<()> {
    let outcome = small(Mode::Gate).await?;
    assert!(
        outcome.refused() <= 6 + LATE,
        "the first call of each worker: {outcome:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_herd_that_reserves_its_calls_is_not_refused() -> Result<()> {
    let outcome = small(Mode::Shared).await?;
    assert!(outcome.refused() <= LATE, "{outcome:?}");
    Ok(())
}
