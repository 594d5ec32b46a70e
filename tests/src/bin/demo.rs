//! The demo: `make demo`; `make demo ARGS=--help` lists its options.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use frigg_tests::demo::{self, DemoOptions};
use tokio::signal::unix::{SignalKind, signal};

/// As a shell reports a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Sends 30 messages through two Lambda functions on local AWS to a provider that limits them, and shows what happens.
///
/// Fails when a message was lost or ran before the time that it was told.
#[derive(Debug, Parser)]
struct Flags {
    /// Where the picture goes
    #[arg(long, default_value = "target/demo.svg")]
    svg: PathBuf,
    /// The worker to deploy; default: $FRIGG_DEMO_BOOTSTRAP, or the ready-made worker, `frigg-worker`
    #[arg(long)]
    bootstrap: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let flags = Flags::parse();
    let bootstrap = flags
        .bootstrap
        .or_else(|| std::env::var_os("FRIGG_DEMO_BOOTSTRAP").map(PathBuf::from));
    let bootstrap = match bootstrap {
        Some(path) => path,
        // Cargo puts the programs of a package into one folder.
        None => std::env::current_exe()
            .context("where am I?")?
            .with_file_name("frigg-worker"),
    };
    ensure!(
        bootstrap.is_file(),
        "{} is not there: `make demo` builds it",
        bootstrap.display()
    );
    let options = DemoOptions {
        bootstrap,
        svg: flags.svg,
    };
    let mut stdout = std::io::stdout();
    let mut terminate = signal(SignalKind::terminate()).context("failed to wait for SIGTERM")?;
    tokio::select! {
        // The signals first: a failure that they cause is none.
        biased;
        _ = tokio::signal::ctrl_c() => Ok(interrupted()),
        _ = terminate.recv() => Ok(interrupted()),
        well = demo::run(&options, &mut stdout) => Ok(if well? { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

/// Everything that the demo started has ended: it ends when its owner, the future that was just dropped, does.
fn interrupted() -> ExitCode {
    eprintln!("\ninterrupted; everything is stopped");
    ExitCode::from(INTERRUPTED)
}
