//! `make sim SCENARIOS=1000000 SEED=7`: many scenarios; or one, with its story.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use frigg_sim::run::{run, run_many};
use frigg_sim::scenario::Scenario;

/// Simulates scenarios until one fails.
#[derive(Parser)]
struct Args {
    /// How many.
    #[arg(long, default_value_t = 100_000)]
    scenarios: u64,
    /// The first one's seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// This one only, and tell its story.
    #[arg(long)]
    trace: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = String::new();
    let failed = if let Some(seed) = args.trace {
        let scenario = Scenario::of(seed);
        let outcome = run(&scenario, None, true);
        let _ = writeln!(
            out,
            "{scenario}\n{}\n{:?}",
            outcome.trace.join("\n"),
            outcome.violation
        );
        outcome.violation.is_some()
    } else {
        let (failure, scenarios, runs) = run_many(args.seed, args.scenarios, None);
        if let Some(failure) = &failure {
            let _ = writeln!(
                out,
                "{}\n{}\nseed {}: {}",
                Scenario::of(failure.seed),
                failure.trace.join("\n"),
                failure.seed,
                failure.violation
            );
        }
        let _ = writeln!(
            out,
            "{scenarios} scenarios from seed {}, {runs} runs of handlers",
            args.seed
        );
        failure.is_some()
    };
    let _ = std::io::stdout().write_all(out.as_bytes());
    ExitCode::from(u8::from(failed))
}
