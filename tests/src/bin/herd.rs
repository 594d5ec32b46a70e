//! `make herd`: twenty workers, six hundred messages, ten calls a second, under each rule for coming back.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use frigg_tests::emulator::Emulator;
use frigg_tests::herd::{Herd, Mode, picture, run};

/// Runs a herd of workers against a provider that refuses beyond its rate, in five modes, and prints what became of it.
#[derive(Debug, Parser)]
struct Flags {
    /// Messages in the queue
    #[arg(long, default_value_t = 600)]
    messages: u64,
    /// Worker processes, each with one record at a time
    #[arg(long, default_value_t = 20)]
    workers: usize,
    /// Calls that pass in a window
    #[arg(long, default_value_t = 10)]
    calls: u32,
    /// The rolling window's length in milliseconds
    #[arg(long, default_value_t = 1000)]
    per: u64,
    /// Only these modes, counted from 1
    #[arg(long, value_delimiter = ',')]
    modes: Vec<usize>,
    /// Where to draw the picture
    #[arg(long)]
    svg: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let per = Duration::from_millis(flags.per);
    let herd = Herd {
        messages: flags.messages,
        workers: flags.workers,
        calls: flags.calls,
        per,
        deadline: Duration::from_secs(900),
    };
    let worker = std::env::current_exe()?.with_file_name("herd-worker");
    let emulator = Emulator::start().await?;
    let mut outcomes = Vec::new();
    for (number, mode) in (1..).zip(Mode::ALL) {
        if !flags.modes.is_empty() && !flags.modes.contains(&number) {
            continue;
        }
        let outcome = run(&emulator, &worker, &herd, mode).await?;
        eprintln!(
            "{}: {} calls, {} refused, {} done, {} capped, {:.1} s, {} early",
            mode.name(),
            outcome.calls.len(),
            outcome.refused(),
            outcome.done,
            outcome.capped,
            outcome.took().as_secs_f64(),
            outcome.early
        );
        outcomes.push(outcome);
    }
    let rate = f64::from(flags.calls) / per.as_secs_f64();
    let ideal = Duration::from_secs_f64(flags.messages as f64 / rate);
    print!("{}", picture::table(&outcomes, ideal));
    if let Some(path) = flags.svg {
        std::fs::write(&path, picture::draw(&outcomes, rate))
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}
