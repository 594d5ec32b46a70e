//! Records that all succeed: what the runtime costs where it has nothing to do.

use crate::Fault;
use crate::events::event;
use crate::process::Program;
use crate::sections::{Plan, invoke_in_turn, mb, ratio};
use crate::table::{Table, short};

/// The first program is the yardstick.
pub(crate) async fn success(programs: &[&Program], plan: &Plan) -> Result<Table, Fault> {
    let mut table = Table::new(
        "Success: records of 1 KB, handlers that do nothing",
        &[
            "records",
            "",
            "ms",
            "to the bare function",
            "CPU, ms",
            "peak memory, MB",
            "to the bare function",
        ],
    );
    for (records, rounds, most) in [(10, 400, 1.25), (1000, 60, 1.1)] {
        let event = event(records, 1024, None);
        let figures = invoke_in_turn(programs, plan.behaviour(), &event, plan.rounds(rounds)).await?;
        let bare = &figures[0];
        for (program, own) in programs.iter().zip(&figures) {
            let memory = own.peak_bytes as f64 / bare.peak_bytes as f64;
            table.row([
                records.to_string(),
                program.label.clone(),
                short(own.ms),
                ratio(own.ms, bare.ms),
                short(own.cpu_ms),
                mb(own.peak_bytes),
                format!("{} x", short(memory)),
            ]);
            if own.failures > 0 {
                return Err(format!("{}: {} records failed", program.label, own.failures).into());
            }
            if !std::ptr::eq(own, bare) {
                let what = |figure| format!("{figure}, {records} successes, {}", program.label);
                table.at_most(what("time"), own.ms / bare.ms, most, "x");
                if records == 10 {
                    table.at_most(what("memory"), memory, 2.0, "x");
                }
            }
        }
    }
    Ok(table)
}
