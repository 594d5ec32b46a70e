//! `make verify-aws` on an emulator: the same script that a person runs on an account.

use anyhow::{Context as _, Result, ensure};

use crate::commands::{Commands, fails, succeeds};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The report that a run names, one line a check.
fn report(said: &str) -> Result<Vec<String>> {
    let path = said.lines().find_map(|line| line.strip_prefix("report: "));
    let path = format!("{ROOT}/{}", path.context("no report")?);
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Asserts that nothing of a run is left.
async fn nothing_is_left(commands: &Commands, said: &str) -> Result<()> {
    let run = said.split("frigg-verify-").nth(1).context("no stack is named")?;
    let run = run.split('-').next().unwrap_or_default();
    let mut names = commands.emulator.stack_names().await?;
    names.retain(|name| name.contains(run));
    assert_eq!(names, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn every_way_back_is_verified_and_nothing_is_left() -> Result<()> {
    let commands = Commands::new().await?;
    commands
        .package(&format!("exec '{}'", env!("CARGO_BIN_EXE_limited-until")))
        .await?;
    let said = succeeds(commands.make("verify-aws", "dev")).await?;
    let report = report(&said)?;
    for (check, verdict) in [
        ("delay: runs twice, not early", "ok"),
        ("delay: put back by delay", "ok"),
        ("delay: seen in the queue, delayed", "ok"),
        ("schedule: seen in the group", "ok"),
        ("schedule: at its second, rounded up", "ok"),
        ("schedule: put back by schedule", "ok"),
        (
            "visibility: a reported failure keeps the visibility that the function set",
            "ok",
        ),
        (
            "fifo: a reported failure keeps the visibility that the function set",
            "ok",
        ),
        ("schedules: metrics in the log", "ok"),
        ("everything is deleted", "ok"),
        // Emulators leave it out.
        ("RecursiveLoop", "skipped"),
        ("doctor", "skipped"),
        ("CloudTrail", "skipped"),
    ] {
        let begins = format!("| {check} | {verdict} | ");
        ensure!(
            report.iter().any(|line| line.starts_with(&begins)),
            "no {begins:?} in {report:#?}"
        );
    }
    nothing_is_left(&commands, &said).await
}

#[tokio::test]
async fn a_worker_that_does_nothing_fails_and_nothing_is_left() -> Result<()> {
    let commands = Commands::new().await?;
    let mut verify = commands.make("verify-aws", "dev");
    verify.env("PATIENCE", "0");
    let said = fails(
        verify,
        &[
            "| delay: comes back | FAILED | ",
            "| schedule: comes back | FAILED | ",
            "| schedule: seen in the group | FAILED | ",
            "| schedules: metrics in the log | FAILED | ",
            "| everything is deleted | ok | ",
            "| CloudTrail | skipped | not asked: the run failed before |",
        ],
    )
    .await?;
    nothing_is_left(&commands, &said).await
}
