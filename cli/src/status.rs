//! `frigg status`: what a process waits for.

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::table::{Table, TableArgs};

/// The command line.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The process: `data.processId` of its messages
    #[arg(long)]
    process: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableArgs,
}

/// Reads and prints. Exit status: 0, whether it waits or not.
///
/// # Errors
///
/// When the table cannot be found or read.
pub(crate) async fn run(args: StatusArgs) -> Result<u8> {
    let table = Table::find(args.table, "FRIGG_STATE_TABLE").await?;
    let key = json!({ "pk": { "S": format!("process#{}", args.process) } });
    let found = table
        .call("GetItem", json!({ "Key": key, "ConsistentRead": true }))
        .await?;
    let state = state(&found["Item"]);
    crate::print(&if args.json {
        Value::from(state).to_string()
    } else {
        text(&args.process, &state)
    });
    Ok(0)
}

/// Frigg's `context.rateLimit`; empty when the process does not wait.
fn state(item: &Value) -> Map<String, Value> {
    let names = [
        "status",
        "mechanism",
        "retryAt",
        "reason",
        "module",
        "deferrals",
        "deferralId",
        "updatedAt",
    ];
    let value = |name: &str| {
        let attribute = &item[name];
        let number = || attribute["N"].as_str()?.parse::<u64>().ok().map(Value::from);
        attribute["S"].as_str().map(Value::from).or_else(number)
    };
    if !item["status"]["S"].is_string() {
        return Map::new();
    }
    names
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), value(name)?)))
        .collect()
}

fn text(process: &str, state: &Map<String, Value>) -> String {
    let of = |name: &str| {
        state
            .get(name)
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let say = |name: &str| of(name).unwrap_or_else(|| "unknown".to_owned());
    match of("status").as_deref() {
        None => format!("{process} does not wait for a rate limit"),
        Some("EXHAUSTED") => format!(
            "{process} gave up after {} deferrals: {} ({}) still refused until {}",
            say("deferrals"),
            say("module"),
            say("reason"),
            say("retryAt")
        ),
        Some(_) => format!(
            "{process} waits until {} for {} ({}), by {}, deferral {}",
            say("retryAt"),
            say("module"),
            say("reason"),
            say("mechanism"),
            say("deferrals")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_in_a_sentence() {
        let item = |status: &str| {
            json!({
                "status": { "S": status }, "mechanism": { "S": "delay" }, "retryAt": { "S": "2026-09-28T12:20:00.000Z" },
                "reason": { "S": "burst" }, "module": { "S": "hubspot" }, "deferrals": { "N": "3" },
            })
        };
        for (item, want) in [
            (
                item("WAITING"),
                "p-1 waits until 2026-09-28T12:20:00.000Z for hubspot (burst), by delay, deferral 3",
            ),
            (
                item("EXHAUSTED"),
                "p-1 gave up after 3 deferrals: hubspot (burst) still refused until 2026-09-28T12:20:00.000Z",
            ),
            (Value::Null, "p-1 does not wait for a rate limit"),
            (
                json!({ "updatedAt": { "S": "x" } }),
                "p-1 does not wait for a rate limit",
            ),
            (
                json!({ "status": { "N": "1" } }),
                "p-1 does not wait for a rate limit",
            ),
            (
                json!({ "status": { "S": "WAITING" } }),
                "p-1 waits until unknown for unknown (unknown), by unknown, deferral unknown",
            ),
        ] {
            assert_eq!(text("p-1", &state(&item)), want, "{item}");
        }
    }
}
