//! `frigg`, for the people who run a worker.
//!
//! - [`doctor`]: what of a deployed worker would lose messages.
//! - [`aws`]: signed calls to AWS.

mod aws;
mod doctor;

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
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let done = match command {
        Command::Doctor(args) => doctor::run(args).await,
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
