//! Records that are all limited: copies go back to the queue.

use crate::Fault;
use crate::aws::Behaviour;
use crate::events::event;
use crate::process::Program;
use crate::sections::{Plan, invoke_in_turn, mb};
use crate::table::{Table, short};

/// The programs that send copies, by how they do it.
pub(crate) struct Senders<'a> {
    pub(crate) one_by_one: &'a Program,
    pub(crate) all_at_once: &'a Program,
    pub(crate) ours: &'a [&'a Program],
}

const COLUMNS: [&str; 8] = [
    "records",
    "",
    "ms",
    "calls a record",
    "connections",
    "CPU, ms",
    "peak memory, MB",
    "reported failed",
];

pub(crate) async fn deferral(senders: &Senders<'_>, plan: &Plan) -> Result<Table, Fault> {
    let title = format!(
        "Deferral: all records limited, {} ms a call",
        plan.latency.as_millis()
    );
    let mut table = Table::new(title, &COLUMNS);
    for (records, bytes, rounds) in [
        (10, 1024, 40),
        (100, 1024, 40),
        (1000, 1024, 10),
        (10_000, 100, 3),
    ] {
        let event = event(records, bytes, Some(60));
        let mut programs = vec![senders.all_at_once];
        programs.extend(senders.ours);
        let mut figures = invoke_in_turn(&programs, plan.behaviour(), &event, plan.rounds(rounds)).await?;
        if records <= 100 {
            programs.push(senders.one_by_one);
            let last = &programs[programs.len() - 1..];
            figures.extend(invoke_in_turn(last, plan.behaviour(), &event, plan.rounds(rounds / 10)).await?);
        }
        let rival = &figures[0];
        for (program, own) in programs.iter().zip(&figures) {
            table.row([
                records.to_string(),
                program.label.clone(),
                short(own.ms),
                short(own.calls / records as f64),
                own.connections.to_string(),
                short(own.cpu_ms),
                mb(own.peak_bytes),
                own.failures.to_string(),
            ]);
        }
        for (program, own) in programs.iter().zip(&figures).skip(1).take(senders.ours.len()) {
            let what = |figure| format!("{figure}, {records} limited, {}", program.label);
            table.at_most(what("calls a record"), own.calls / records as f64, 0.1, "");
            table.at_most(what("records reported failed"), own.failures as f64, 0.0, "");
            if records == 10_000 {
                table.at_most(what("time"), own.ms, 3000.0, "ms");
                table.at_most(what("peak memory"), own.peak_bytes as f64 / 1e6, 100.0, "MB");
            } else {
                table.at_most(what("time to the parallel peer's"), own.ms / rival.ms, 1.0, "x");
            }
        }
    }
    Ok(table)
}

/// The same with an SQS that refuses what comes too fast.
pub(crate) async fn throttled(senders: &Senders<'_>, plan: &Plan) -> Result<Table, Fault> {
    const MOST_PER_SECOND: usize = 300;
    let title = format!(
        "Deferral where more than {MOST_PER_SECOND} calls a second are refused, {} ms a call",
        plan.latency.as_millis()
    );
    let mut table = Table::new(
        title,
        &["records", "", "ms", "calls", "refused", "records reported failed"],
    );
    let behaviour = Behaviour {
        most_per_second: Some(MOST_PER_SECOND),
        ..plan.behaviour()
    };
    for (records, bytes, rounds) in [(100, 1024, 3), (1000, 1024, 3), (10_000, 100, 1)] {
        let event = event(records, bytes, Some(60));
        let mut programs = vec![senders.all_at_once];
        programs.extend(senders.ours);
        let rounds = plan.rounds(rounds);
        let figures = invoke_in_turn(&programs, behaviour, &event, rounds).await?;
        for (program, own) in programs.iter().zip(&figures) {
            table.row([
                records.to_string(),
                program.label.clone(),
                short(own.ms),
                short(own.calls),
                format!("{} in {rounds}", own.refused),
                format!("{} of {}", own.failures, records * rounds),
            ]);
        }
        for (program, own) in programs.iter().zip(&figures).skip(1) {
            let what = format!("failed under throttling, {records} limited, {}", program.label);
            table.at_most(what, own.failures as f64, 0.0, "");
        }
    }
    Ok(table)
}
