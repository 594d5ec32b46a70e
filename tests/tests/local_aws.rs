//! `localstack/local-aws` as people use it: up, up again, env, a killed one, down.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use frigg_tests::emulator::{Emulator, EmulatorOptions, Flavour};
use frigg_tests::wait::wait_until;
use serde_json::Value;
use tempfile::TempDir;

/// A `.local` folder of its own, so that the test meets no local AWS that somebody has up.
struct LocalAws(TempDir);

impl LocalAws {
    async fn new() -> Result<Self> {
        // Installs what is missing into the project's own folder, whose virtual environments are then used.
        Emulator::start_with(EmulatorOptions::default().with_flavour(Flavour::Ministack))
            .await?
            .stop()
            .await?;
        let folder = tempfile::tempdir()?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("the project has a root")?;
        let shared = std::env::var_os("FRIGG_LOCAL_DIR").map_or_else(|| root.join(".local"), Into::into);
        for entry in std::fs::read_dir(shared)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("venv-ministack-") {
                symlink(entry.path(), folder.path().join(entry.file_name()))?;
            }
        }
        Ok(Self(folder))
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../localstack/local-aws");
        let mut command = Command::new(script);
        command.args(arguments).env("FRIGG_LOCAL_DIR", self.0.path());
        command.output().context("failed to run local-aws")
    }

    fn lines(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    fn state(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&std::fs::read(
            self.0.path().join("state.json"),
        )?)?)
    }
}

impl Drop for LocalAws {
    fn drop(&mut self) {
        // Also after a failure.
        let _ = self.run(&["down"]);
    }
}

fn exported(lines: &str, name: &str) -> Option<String> {
    let line = lines
        .lines()
        .find_map(|line| line.strip_prefix(&format!("export {name}=")))?;
    Some(line.to_owned())
}

#[tokio::test]
async fn up_is_repeatable_survives_a_kill_and_down_ends_it() -> Result<()> {
    let local = LocalAws::new().await?;
    let up = ["up", "--flavour", "ministack"];
    let first = local.lines(&up)?;
    let endpoint = exported(&first, "AWS_ENDPOINT_URL").context("no endpoint")?;
    let emulator = Emulator::attach(Flavour::Ministack, endpoint.clone()).await?;
    let queue = exported(&first, "FRIGG_QUEUE_URL").context("no queue")?;
    assert!(emulator.attributes(&queue).await?.len() > 1, "the queue is there");
    let group = exported(&first, "SCHEDULE_GROUP_NAME").context("no group")?;
    assert!(emulator.schedule_names(&group).await?.is_empty());
    assert_eq!(local.lines(&up)?, first, "again: the same");
    assert_eq!(local.lines(&["env"])?, first);
    assert!(
        !local.run(&["up", "--flavour", "moto"])?.status.success(),
        "another one is up"
    );

    let supervisor = local.state()?["pid"].to_string();
    Command::new("kill").args(["-9", &supervisor]).status()?;
    let soon = Duration::from_secs(10);
    wait_until(soon, "the emulator has followed its supervisor", async || {
        Ok(Emulator::attach(Flavour::Ministack, endpoint.clone())
            .await
            .is_err())
    })
    .await?;
    assert!(
        !local.run(&["env"])?.status.success(),
        "a stale state counts as none"
    );

    let again = exported(&local.lines(&up)?, "AWS_ENDPOINT_URL").context("no endpoint")?;
    local.lines(&["down"])?;
    assert!(
        Emulator::attach(Flavour::Ministack, again).await.is_err(),
        "it is gone when `down` returns"
    );
    local.lines(&["down"]).map(drop)
}

#[tokio::test]
async fn a_taken_port_is_said() -> Result<()> {
    let local = LocalAws::new().await?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let output = local.run(&["up", "--flavour", "ministack", "--port", &port])?;
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(
        said.trim(),
        format!("local-aws: port {port} of 127.0.0.1 is taken")
    );
    Ok(())
}
