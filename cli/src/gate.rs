//! `frigg gate`: the keys of limits, as all workers see them.

use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use frigg_worker::core::time::{iso, parse_iso};
use frigg_worker::gate::MAX_KEY;
use serde_json::{Value, json};

use crate::table::{Table, TableArgs};

/// The longest closure, as for a provider's answer.
const LONGEST_DAYS: i64 = 366;

/// The command line.
#[derive(Debug, Args)]
pub(crate) struct GateArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the keys that are closed, or for which messages wait
    List {
        /// Print JSON lines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Let calls for a key through again; messages that wait keep their slots
    Open {
        /// The key: hubspot:entity:7
        key: String,
    },
    /// Call nothing for a key until a time; until it is opened or a day has passed, when none is given
    Close {
        /// The key: hubspot:entity:7
        key: String,
        /// ISO 8601: 2026-09-28T23:00:00Z
        #[arg(long)]
        until: Option<String>,
    },
}

/// One key that is not simply open.
#[derive(Debug, PartialEq)]
struct Entry {
    key: String,
    closed_until: Option<i64>,
    line_until: Option<i64>,
    reason: Option<String>,
}

/// Does it. Exit status 0.
///
/// # Errors
///
/// When the table cannot be found, read or written, or an argument makes no sense.
pub(crate) async fn run(args: GateArgs) -> Result<u8> {
    let now = now();
    // What is wrong with an argument is said before anything is asked.
    let until = match &args.command {
        Command::Close { until, .. } => Some(end(until.as_deref(), now)?),
        _ => None,
    };
    if let Command::Open { key } | Command::Close { key, .. } = &args.command
        && (key.is_empty() || key.len() > MAX_KEY)
    {
        bail!("a key has 1 to {MAX_KEY} bytes");
    }
    let table = Table::find(args.table, "FRIGG_GATE_TABLE").await?;
    match args.command {
        Command::List { json } => list(&table, now, json).await?,
        Command::Open { key } => {
            let request = json!({ "Key": { "pk": { "S": key } }, "UpdateExpression": "REMOVE closedUntil" });
            table.call("UpdateItem", request).await?;
            crate::print(&format!("{key} is open"));
        }
        Command::Close { key, .. } => {
            let until = until.unwrap_or_default();
            let request = json!({
                "Key": { "pk": { "S": key } },
                // By hand it may be shortened, too.
                "UpdateExpression": "SET closedUntil = :until, reason = :reason, #ttl = :ttl",
                "ExpressionAttributeNames": { "#ttl": "ttl" },
                "ExpressionAttributeValues": {
                    ":until": { "N": until.to_string() },
                    ":reason": { "S": "unknown" },
                    ":ttl": { "N": (until / 1_000_000 + 8 * 86_400).to_string() },
                },
            });
            table.call("UpdateItem", request).await?;
            crate::print(&format!("{key} is closed until {}", time(until)));
        }
    }
    Ok(0)
}

async fn list(table: &Table, now: i64, json: bool) -> Result<()> {
    let mut start = Value::Null;
    let mut any = false;
    loop {
        let mut request = json!({});
        if !start.is_null() {
            request["ExclusiveStartKey"] = start;
        }
        let mut page = table.call("Scan", request).await?;
        let items = page["Items"].as_array().into_iter().flatten();
        for entry in items.filter_map(|item| entry(item, now)) {
            any = true;
            crate::print(&if json {
                entry.json().to_string()
            } else {
                entry.text()
            });
        }
        start = page["LastEvaluatedKey"].take();
        if start.as_object().is_none_or(serde_json::Map::is_empty) {
            break;
        }
    }
    if !any && !json {
        crate::print(&format!("every key of {} is open, and nothing waits", table.name));
    }
    Ok(())
}

fn entry(item: &Value, now: i64) -> Option<Entry> {
    let ahead = |name: &str| item[name]["N"].as_str()?.parse().ok().filter(|at| *at > now);
    let entry = Entry {
        key: item["pk"]["S"].as_str()?.to_owned(),
        closed_until: ahead("closedUntil"),
        line_until: ahead("nextReturn"),
        reason: item["reason"]["S"].as_str().map(str::to_owned),
    };
    (entry.closed_until.is_some() || entry.line_until.is_some()).then_some(entry)
}

impl Entry {
    fn text(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("unknown");
        let closed = self
            .closed_until
            .map(|at| format!("closed until {} ({reason})", time(at)));
        let line = self
            .line_until
            .map(|at| format!("messages wait until {}", time(at)));
        let parts: Vec<String> = [closed, line].into_iter().flatten().collect();
        // A key can have any characters; those that move the cursor are not printed as they are.
        format!("{}  {}", self.key.escape_debug(), parts.join(", "))
    }

    fn json(&self) -> Value {
        json!({
            "key": self.key, "closedUntil": self.closed_until.map(time), "linedUpUntil": self.line_until.map(time),
            "reason": self.reason,
        })
    }
}

/// Microseconds since 1970 of a closure's end.
fn end(until: Option<&str>, now: i64) -> Result<i64> {
    let day = 86_400_000_000;
    let Some(text) = until else { return Ok(now + day) };
    let at = parse_iso(text)
        .with_context(|| format!("--until {text}: not a time such as 2026-09-28T23:00:00Z"))?;
    let at = at.as_microsecond();
    if at <= now {
        bail!("--until {text} is over: to open a key, use `frigg gate open`");
    }
    if at > now + LONGEST_DAYS * day {
        bail!("--until {text} is more than {LONGEST_DAYS} days ahead");
    }
    Ok(at)
}

fn time(micros: i64) -> String {
    jiff::Timestamp::from_microsecond(micros).map_or_else(|_| "the end of time".to_owned(), iso)
}

#[expect(clippy::disallowed_methods, reason = "a command of people's is given now")]
fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_596_800_000_000;

    #[test]
    fn an_end_lies_ahead_and_within_a_year() {
        assert_eq!(end(None, NOW).unwrap(), NOW + 86_400_000_000);
        assert_eq!(
            end(Some("2026-09-28T13:00:00+00:00"), NOW).unwrap(),
            NOW + 3_600_000_000
        );
        for (bad, word) in [
            ("soon", "not a time"),
            ("2026-09-28T12:00:00Z", "is over"),
            ("2027-09-30T12:00:00Z", "366 days"),
        ] {
            assert!(
                end(Some(bad), NOW).unwrap_err().to_string().contains(word),
                "{bad}"
            );
        }
    }

    #[test]
    fn only_what_is_not_simply_open_is_listed() {
        let item = |closed: &str, line: &str| json!({ "pk": { "S": "a\u{1b}[2J" }, "closedUntil": { "N": closed }, "nextReturn": { "N": line }, "reason": { "S": "daily" } });
        let (past, ahead) = ((NOW - 1).to_string(), (NOW + 1_000_000).to_string());
        let text = |item: &Value| entry(item, NOW).map(|entry| entry.text());
        let at = "2026-09-28T12:00:01.000Z";
        let key = "a\\u{1b}[2J";
        assert_eq!(text(&item(&past, &past)), None);
        assert_eq!(
            text(&item(&ahead, &past)),
            Some(format!("{key}  closed until {at} (daily)"))
        );
        assert_eq!(
            text(&item(&past, &ahead)),
            Some(format!("{key}  messages wait until {at}"))
        );
        assert_eq!(
            text(&json!({ "pk": { "S": "a" }, "closedUntil": { "S": "later" } })),
            None
        );
        assert_eq!(text(&json!({ "pk": { "N": "1" } })), None);
    }
}
