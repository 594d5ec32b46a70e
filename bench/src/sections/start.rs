//! From exec to the first `/next`, and to the answer of a cold function's first event.

use crate::Fault;
use crate::events::event;
use crate::process::{Program, Running};
use crate::sections::{Plan, mb, ms, ratio};
use crate::table::{Table, median, short};

/// The first program is the yardstick.
pub(crate) async fn start(programs: &[&Program], plan: &Plan) -> Result<Table, Fault> {
    let mut times = vec![Vec::new(); programs.len()];
    let mut peaks = vec![0; programs.len()];
    for _ in 0..plan.rounds(25) {
        for (program, (times, peak)) in programs.iter().zip(times.iter_mut().zip(&mut peaks)) {
            let running = Running::function(program, plan.behaviour()).await?;
            times.push(ms(running.start));
            *peak = running.peak_memory()?;
            running.end().await?;
        }
    }
    let mut table = Table::new(
        "Start: exec to the first `/next`",
        &["", "ms", "to the bare function", "memory, MB", "program, MB"],
    );
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    for ((program, time), peak) in programs.iter().zip(&medians).zip(peaks) {
        let ratio = ratio(*time, medians[0]);
        table.row([
            program.label.clone(),
            short(*time),
            ratio,
            mb(peak),
            mb(program.bytes()?),
        ]);
    }
    for (program, time) in programs.iter().zip(&medians).skip(1) {
        table.at_most(format!("start, {}", program.label), time / medians[0], 1.3, "x");
    }
    Ok(table)
}

/// One limited record, in a process that has done nothing yet. The first program is the rival.
pub(crate) async fn first_deferral(programs: &[&Program], plan: &Plan) -> Result<Table, Fault> {
    let event = event(1, 1024, Some(60));
    let mut times = vec![Vec::new(); programs.len()];
    let mut calls = vec![0; programs.len()];
    for _ in 0..plan.rounds(11) {
        for (program, (times, calls)) in programs.iter().zip(times.iter_mut().zip(&mut calls)) {
            let mut running = Running::function(program, plan.behaviour()).await?;
            times.push(ms(running.invoke(&event).await?.took));
            *calls = running.aws.counts().calls;
            running.end().await?;
        }
    }
    let mut table = Table::new(
        format!(
            "A cold function's first record, limited ({} ms a call)",
            plan.latency.as_millis()
        ),
        &["", "ms", "calls"],
    );
    for (index, (program, times)) in programs.iter().zip(&mut times).enumerate() {
        let time = median(times);
        table.row([program.label.clone(), short(time), calls[index].to_string()]);
        if index > 0 {
            table.at_most(
                format!("first deferral of a process, {}", program.label),
                time,
                25.0,
                "ms",
            );
        }
    }
    Ok(table)
}
