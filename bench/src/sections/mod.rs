//! What is measured, one table each. Programs take turns, so that a change of the machine's mood meets all of them.

pub(crate) mod criterion;
pub(crate) mod deferral;
pub(crate) mod polling;
pub(crate) mod start;
pub(crate) mod success;

use std::time::Duration;

use axum::body::Bytes;

use crate::Fault;
use crate::aws::{Behaviour, Counts};
use crate::process::{Program, Running};
use crate::table::{median, short};

/// What all sections are told.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Rounds are multiplied by this.
    pub(crate) effort: f64,
    pub(crate) latency: Duration,
}

impl Plan {
    fn rounds(&self, rounds: usize) -> usize {
        ((rounds as f64 * self.effort).round() as usize).max(1)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour {
            latency: self.latency,
            most_per_second: None,
        }
    }
}

/// Medians of one program's invocations.
struct Figures {
    ms: f64,
    cpu_ms: f64,
    calls: f64,
    connections: usize,
    peak_bytes: u64,
    failures: usize,
    refused: usize,
}

/// Runs the same event through functions in turn. The first invocation warms up and is not counted.
async fn invoke_in_turn(
    programs: &[&Program],
    behaviour: Behaviour,
    event: &Bytes,
    rounds: usize,
) -> Result<Vec<Figures>, Fault> {
    let mut all = Vec::new();
    for program in programs {
        let mut running = Running::function(program, behaviour).await?;
        running.invoke(event).await?;
        all.push((running, Samples::default()));
    }
    for _ in 0..rounds {
        for (running, samples) in &mut all {
            let (cpu, counts) = (running.cpu()?, running.aws.counts());
            let answer = running.invoke(event).await?;
            samples.ms.push(ms(answer.took));
            samples.cpu_ms.push(ms(running.cpu()?.saturating_sub(cpu)));
            samples.add(running.aws.counts(), counts, answer.failures);
        }
    }
    let mut figures = Vec::new();
    for (running, samples) in all {
        figures.push(samples.figures(&running)?);
        running.end().await?;
    }
    Ok(figures)
}

#[derive(Default)]
struct Samples {
    ms: Vec<f64>,
    cpu_ms: Vec<f64>,
    calls: Vec<f64>,
    failures: usize,
    refused: usize,
}

impl Samples {
    fn add(&mut self, now: Counts, before: Counts, failures: usize) {
        self.calls.push((now.calls - before.calls) as f64);
        self.refused += now.refused - before.refused;
        self.failures += failures;
    }

    fn figures(mut self, running: &Running) -> Result<Figures, Fault> {
        Ok(Figures {
            ms: median(&mut self.ms),
            cpu_ms: median(&mut self.cpu_ms),
            calls: median(&mut self.calls),
            connections: running.aws.counts().connections,
            peak_bytes: running.peak_memory()?,
            failures: self.failures,
            refused: self.refused,
        })
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn mb(bytes: u64) -> String {
    short(bytes as f64 / 1e6)
}

/// `1.25 x`
fn ratio(figure: f64, to: f64) -> String {
    format!("{} x", short(figure / to))
}
