//! Runs workers beside what one would write by hand, in turn on one machine, and prints medians and ratios.

mod aws;
mod events;
mod process;
mod runtime_api;
mod sections;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;

use crate::process::Program;
use crate::sections::deferral::Senders;
use crate::sections::{Plan, criterion, deferral, polling, start, success};
use crate::table::{Table, targets};

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Measures whole workers beside hand-written ones, and writes what it found.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Only these tables: start, first, success, deferral, throttled, polling, criterion. Default: all
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// More programs to measure like our own, as LABEL=PATH: other builds of a worker, say
    #[arg(long = "with", value_parser = labelled)]
    others: Vec<(String, PathBuf)>,
    /// Rounds are multiplied by this; 0.1 is a quick look
    #[arg(long, default_value_t = 1.0)]
    effort: f64,
    /// How long the stub takes for a call
    #[arg(long, default_value_t = 8)]
    latency_ms: u64,
    /// Write the tables here too
    #[arg(long)]
    write: Option<PathBuf>,
}

fn labelled(text: &str) -> Result<(String, PathBuf), String> {
    let (label, path) = text.split_once('=').ok_or("it is LABEL=PATH")?;
    Ok((label.to_owned(), path.into()))
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let arguments = Arguments::parse();
    let tables = measure(&arguments).await?;
    let summary = targets(tables.iter().flat_map(|table| &table.targets)).to_string();
    print(&summary);
    if let Some(file) = &arguments.write {
        let tables: String = tables.iter().map(|table| format!("\n{table}")).collect();
        std::fs::write(file, format!("{}\n{summary}{tables}", heading()))?;
    }
    Ok(())
}

async fn measure(arguments: &Arguments) -> Result<Vec<Table>, Fault> {
    // The programs are built beside this one.
    let here = std::env::current_exe()?;
    let folder = here.parent().ok_or("this program lies in no folder")?;
    let deployed = folder.join("deployed");
    let program = |label: &str, file: &str| Program::deploy(label, &folder.join(file), &deployed);
    let bare = program("bare function", "bare-function")?;
    let one_by_one = program("re-sends one by one", "resend-one-by-one")?;
    let all_at_once = program("re-sends all at once", "resend-all-at-once")?;
    let plain_loop = program("straightforward loop", "poll-loop")?;
    let library = program("frigg, library", "frigg-function")?;
    let ready_made = program("frigg-worker", "frigg-worker")?;
    let others = arguments.others.iter();
    let others = others.map(|(label, path)| Program::deploy(label, path, &deployed));
    let others = others.collect::<Result<Vec<_>, _>>()?;

    let ours: Vec<&Program> = std::iter::once(&library).chain(&others).collect();
    let beside_bare: Vec<&Program> = std::iter::once(&bare).chain(ours.iter().copied()).collect();
    let started: Vec<&Program> = beside_bare.iter().copied().chain([&ready_made]).collect();
    let cold: Vec<&Program> = std::iter::once(&all_at_once)
        .chain(ours.iter().copied())
        .collect();
    let senders = Senders {
        one_by_one: &one_by_one,
        all_at_once: &all_at_once,
        ours: &ours,
    };
    let plan = Plan {
        effort: arguments.effort,
        latency: Duration::from_millis(arguments.latency_ms),
    };

    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let mut tables = Vec::new();
    let mut done = |table: Table| {
        print(&table.to_string());
        tables.push(table);
    };
    if wanted("start") {
        done(start::start(&started, &plan).await?);
    }
    if wanted("first") {
        done(start::first_deferral(&cold, &plan).await?);
    }
    if wanted("success") {
        done(success::success(&beside_bare, &plan).await?);
    }
    if wanted("deferral") {
        done(deferral::deferral(&senders, &plan).await?);
    }
    if wanted("throttled") {
        done(deferral::throttled(&senders, &plan).await?);
    }
    if wanted("polling") {
        done(polling::polling(&plain_loop, &ours, &plan).await?);
    }
    if wanted("criterion") {
        done(criterion::criterion(&folder.join("../criterion"))?);
    }
    Ok(tables)
}

#[expect(clippy::print_stdout, reason = "it is what the program is for")]
fn print(text: &str) {
    println!("{text}");
}

fn heading() -> String {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let date = frigg_worker::Clock::system()
        .now()
        .strftime("%Y-%m-%d")
        .to_string();
    format!(
        "# Measured\n\nWritten by `make bench` on {date}: {cores} cores, {}, Linux {}. Medians of interleaved runs on one \
         machine; ratios carry over to others, times do not.\n",
        model.trim_start_matches([' ', '\t', ':']),
        read("/proc/sys/kernel/osrelease").trim(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_event_is_what_lambda_takes() {
        let event = events::event(10_000, 100, Some(60));
        assert!((5 << 20..6 << 20).contains(&event.len()), "{}", event.len());
        assert_eq!(events::body(1, 100, Some(60), 0).len(), 100);
    }
}
