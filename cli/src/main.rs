//! `frigg`, for the people who run a worker.
//!
//! - [`doctor`]: what of a deployed worker would lose messages.
//! - [`gate`], [`status`]: what workers share: closed keys, and what a process waits for.
//! - [`aws`]: signed calls to AWS.

mod aws;
mod doctor;
mod gate;
mod status;
mod table;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(
    name = "frigg",
    version,
    about = "Looks after frigg workers on AWS",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find what of a deployed worker would lose messages, and the commands that mend it
    ///
    /// It only reads. Exit status: 0 nothing to mend, 1 something to mend, 2 it could not look (at all, or at something).
    Doctor(doctor::DoctorArgs),
    /// Show what a process waits for
    Status(status::StatusArgs),
    /// Show, open or close the keys of limits, for all workers at once
    Gate(gate::GateArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let done = match command {
        Command::Doctor(args) => doctor::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Gate(args) => gate::run(args).await,
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("frigg: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Prints a text and a line feed. A reader that has gone away is no error.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
