//! The process `localstack/local-aws run`, which stands in front of a private emulator.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::flavour::Flavour;

/// A running supervisor. It ends the emulator when its standard input closes, which the kernel does for us even when
/// this process is killed.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    facts: Facts,
}

/// The line that it prints when the emulator is ready.
#[derive(Debug, Deserialize)]
struct Facts {
    endpoint: String,
}

impl Process {
    /// Blocks until the emulator is ready: a second, but for the first time, which installs it.
    pub(super) fn start(flavour: Flavour, variables: &[(String, String)]) -> Result<Self> {
        let script = script();
        let mut command = Command::new(&script);
        command.args([
            "run",
            "--until-stdin-closes",
            "--no-provision",
            "--flavour",
            flavour.name(),
        ]);
        for (name, value) in variables {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        // Its own group: a Ctrl-C on the terminal reaches this process only, which then lets go of it in order.
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to run {}", script.display()))?;
        let mut line = String::new();
        let output = child
            .stdout
            .take()
            .context("the emulator's supervisor has no output")?;
        BufReader::new(output)
            .read_line(&mut line)
            .context("failed to read from the emulator's supervisor")?;
        if line.is_empty() {
            let status = child
                .wait()
                .context("failed to wait for the emulator's supervisor")?;
            bail!("{flavour} did not start ({status}); its supervisor said why on stderr");
        }
        let facts =
            serde_json::from_str(&line).with_context(|| format!("not what a supervisor says: {line}"))?;
        Ok(Self { child, facts })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.facts.endpoint
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Nothing can be done about a failure here, and the supervisor ends by itself.
        let _ = self.child.wait();
    }
}

fn script() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../localstack/local-aws"))
}
