//! Outside Lambda: a queue that is emptied.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Fault;
use crate::events::body;
use crate::process::{Place, Program, Running};
use crate::sections::{Plan, ms, ratio};
use crate::table::{Table, median, short};

/// How long a handler takes.
const HANDLER_MS: u64 = 1;
const CONCURRENCY: usize = 10;
const GIVE_UP: Duration = Duration::from_secs(60);

/// The loop is the yardstick.
pub(crate) async fn polling(plain: &Program, ours: &[&Program], plan: &Plan) -> Result<Table, Fault> {
    let programs: Vec<_> = std::iter::once((plain, 500))
        .chain(ours.iter().map(|program| (*program, 3_000)))
        .collect();
    let mut rates = vec![Vec::new(); programs.len()];
    let (mut lost, mut cpu, mut calls) = (
        vec![0; programs.len()],
        vec![0.0; programs.len()],
        vec![0.0; programs.len()],
    );
    for _ in 0..plan.rounds(3) {
        for (index, (program, messages)) in programs.iter().enumerate() {
            let concurrency = CONCURRENCY;
            let running = Running::spawn(program, plan.behaviour(), Place::Polling { concurrency }).await?;
            running
                .aws
                .fill((0..*messages).map(|id| body(id, 1024, None, HANDLER_MS)));
            let deadline = Instant::now() + GIVE_UP;
            while running.aws.counts().deleted < *messages && Instant::now() < deadline {
                sleep(Duration::from_millis(50)).await;
            }
            let counts = running.aws.counts();
            let took = running
                .aws
                .emptied_in()
                .ok_or_else(|| format!("{} deleted nothing", program.label))?;
            rates[index].push(counts.deleted as f64 / took.as_secs_f64());
            lost[index] += messages - counts.deleted;
            cpu[index] = ms(running.cpu()?) / *messages as f64;
            calls[index] = counts.calls as f64 / *messages as f64;
            running.end().await?;
        }
    }
    let title = format!(
        "Polling: a handler of {HANDLER_MS} ms, FRIGG_CONCURRENCY={CONCURRENCY}, {} ms a call",
        plan.latency.as_millis()
    );
    let mut table = Table::new(
        title,
        &[
            "",
            "records a second",
            "to the loop",
            "calls a record",
            "CPU a record, ms",
            "not deleted",
        ],
    );
    let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    for (index, (program, _)) in programs.iter().enumerate() {
        let rate = medians[index];
        table.row([
            program.label.clone(),
            short(rate),
            ratio(rate, medians[0]),
            short(calls[index]),
            short(cpu[index]),
            lost[index].to_string(),
        ]);
        if index > 0 {
            table.at_least(format!("polling, {}", program.label), rate / medians[0], 3.0, "x");
            table.at_most(
                format!("messages not deleted, {}", program.label),
                lost[index] as f64,
                0.0,
                "",
            );
        }
    }
    Ok(table)
}
