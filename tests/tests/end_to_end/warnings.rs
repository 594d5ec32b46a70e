//! Frigg's `message` cases: what users are told of a limit, stored in memory and in the table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use frigg_tests::emulator::Emulator;
use frigg_worker::core::rate_limit::Reason;
use frigg_worker::core::time::parse_iso;
use frigg_worker::testing::{Logs, MemoryState};
use frigg_worker::warnings::{Stored, Warning, WarningStore, Warnings};
use frigg_worker::{BoxError, Clock, DynamoState};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{self, Outcome};
use crate::tables::{aws, text};

/// Counts what is asked of a store, and fails reads when told to.
#[derive(Debug)]
struct Counted {
    store: Arc<dyn WarningStore>,
    reads: AtomicU64,
    writes: AtomicU64,
    fault: Option<String>,
}

impl WarningStore for Counted {
    fn read<'a>(&'a self, integration: &'a str) -> BoxFuture<'a, Result<Stored, BoxError>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match self.fault.clone() {
            Some(fault) => Box::pin(async move { Err(fault.into()) }),
            None => self.store.read(integration),
        }
    }

    fn write<'a>(
        &'a self,
        integration: &'a str,
        stored: &'a Stored,
    ) -> BoxFuture<'a, Result<bool, BoxError>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.store.write(integration, stored)
    }
}

/// `None`: no warning can be made of it.
fn warning(payload: &Value) -> Option<Warning> {
    let links = payload["links"].as_array().into_iter().flatten();
    let link = |link: &Value| {
        Some((
            link["label"].as_str()?.to_owned(),
            link["url"].as_str()?.to_owned(),
        ))
    };
    Some(Warning {
        module: payload["module"].as_str()?.to_owned(),
        reason: payload["reason"]
            .as_str()
            .and_then(Reason::from_name)
            .unwrap_or_default(),
        retry_at: payload["retry_at"].as_str().and_then(parse_iso)?,
        links: links.filter_map(link).collect(),
    })
}

async fn run(case: &Value, integration: &str, store: Arc<dyn WarningStore>) -> Result<Outcome, BoxError> {
    match case["op"].as_str() {
        None => {}
        Some("messages_of_type") => {
            let warnings = match &case["stored"]["warnings"] {
                undefined if undefined["undefined"] == true => String::new(),
                value => value.to_string(),
            };
            let expected = match &case["expect"] {
                Value::String(_) => case["stored"]["warnings"].clone(),
                list => list.clone(),
            };
            let list = Stored {
                warnings,
                revision: 1,
            }
            .list();
            return Ok(Outcome::equal(expected, Value::Array(list)));
        }
        Some("module_forward") => return Ok(Outcome::Skipped("the requester's tests hear its notices")),
        Some("end_to_end") => {
            return Ok(Outcome::Skipped(
                "links are the provider table's, and integrations have no status here",
            ));
        }
        Some(other) => {
            return Ok(Outcome::Failed(
                "an op that is known".to_owned(),
                other.to_owned(),
            ));
        }
    }
    if case["id"]
        .as_str()
        .is_some_and(|id| id.starts_with("warn-bad-link"))
    {
        return Ok(Outcome::Skipped("a link without label or URL cannot be made"));
    }
    let now = case["now"]
        .as_str()
        .and_then(parse_iso)
        .ok_or("a case without a time")?;
    if let Some(before) = case["stored_before"].as_array() {
        let before: Vec<Value> = before
            .iter()
            .map(|one| json!({ "code": one["code"], "module": one["module"], "timestamp": one["timestamp_ms"] }))
            .collect();
        let before = Stored {
            warnings: json!(before).to_string(),
            ..store.read(integration).await?
        };
        store.write(integration, &before).await?;
    }
    let fault = case["faults"]["read"].as_str().map(str::to_owned);
    let counted = Counted {
        store,
        reads: AtomicU64::new(0),
        writes: AtomicU64::new(0),
        fault,
    };
    let counted = Arc::new(counted);
    let (logs, guard) = Logs::capture();
    let warnings = Warnings::new(Arc::clone(&counted) as Arc<dyn WarningStore>);
    for warning in case["payloads"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(warning)
    {
        warnings.record(integration, &warning, now).await;
    }
    drop(guard);
    let list = counted.store.read(integration).await?.list();
    let counts = (
        counted.reads.load(Ordering::Relaxed),
        counted.writes.load(Ordering::Relaxed),
    );
    Ok(judge(&case["expect"], &list, counts, &logs, integration))
}

fn judge(
    expect: &Value,
    list: &[Value],
    (reads, writes): (u64, u64),
    logs: &Logs,
    integration: &str,
) -> Outcome {
    let all = json!(list).to_string();
    let of = |name: &str| Value::Array(list.iter().map(|one| one[name].clone()).collect());
    let message = |one: &Value| one["message"].as_str().unwrap_or_default().to_owned();
    for (key, want) in expect.as_object().into_iter().flatten() {
        let right = match key.as_str() {
            "warnings" => {
                want.as_array()
                    .into_iter()
                    .flatten()
                    .zip(list)
                    .all(|(want, got)| {
                        want.as_object()
                            .into_iter()
                            .flatten()
                            .all(|(key, want)| match key.as_str() {
                                "timestamp_ms" => got["timestamp"] == *want,
                                "time_in_text" | "module_in_text" => {
                                    message(got).contains(want.as_str().unwrap_or("?"))
                                }
                                key => got[key] == *want,
                            })
                    })
                    && want.as_array().map_or(0, Vec::len) == list.len()
            }
            "time_in_text" => {
                let times = want.as_array().into_iter().flatten().filter_map(Value::as_str);
                times.clone().count() == list.len()
                    && times.zip(list).all(|(time, one)| message(one).contains(time))
            }
            "actions" => of("actions") == *want,
            "retryAt" => list.iter().all(|one| one["retryAt"] == *want) && !list.is_empty(),
            "never_contains" => !all.contains(want.as_str().unwrap_or("?")),
            "keys" => list.iter().all(|one| {
                let keys: BTreeSet<_> = one.as_object().into_iter().flat_map(|one| one.keys()).collect();
                json!(keys) == *want
            }),
            "stored" => json!(list.len()) == *want,
            "writes" => json!(writes) == *want,
            "reads" => json!(reads) == *want,
            "kind" => want == "warnings",
            // It gives no error that a caller could see.
            "fails" => want == false,
            "logs" => want.as_array().into_iter().flatten().all(|want| {
                let lines = logs.of_event(want["event"].as_str().unwrap_or_default());
                let fields = &want["fields"];
                lines.len() == 1
                    && lines[0]["level"] == want["level"]
                    && lines[0]["integrationId"] == integration
                    && lines[0]["moduleName"] == fields["moduleName"]
                    && lines[0]["error"]["message"] == fields["error"]["message"]
            }),
            _ => false,
        };
        if !right {
            return Outcome::Failed(
                format!("{key}: {want}"),
                format!("{all}, {reads} reads, {writes} writes, {logs:?}"),
            );
        }
    }
    Outcome::Passed
}

#[tokio::test]
async fn cases_message() -> Result<()> {
    let Some(cases) = support::load("frigg/message.jsonl") else {
        return Ok(());
    };
    let emulator = Emulator::shared().await?;
    let table = emulator.create_table("warnings").await?;
    let clock = || Clock::from_fn(|| Timestamp::UNIX_EPOCH);
    for (name, table) in [("message", None), ("message (DynamoDB)", Some(table))] {
        let mut score = support::Score::new(name);
        for (number, case) in cases.iter().enumerate() {
            let store: Arc<dyn WarningStore> = match &table {
                None => Arc::new(MemoryState::new(clock())),
                Some(table) => Arc::new(DynamoState::new(aws(emulator), table, clock())),
            };
            let outcome = run(case, &format!("i-{number}"), store).await.map_err(text)?;
            score.add(case, outcome);
        }
        assert!(score.print(), "cases {name} failed");
    }
    Ok(())
}

#[tokio::test]
async fn the_newest_fifty_are_kept() -> Result<()> {
    let store = Arc::new(MemoryState::new(Clock::from_fn(|| Timestamp::UNIX_EPOCH)));
    let warnings = Warnings::new(Arc::clone(&store) as Arc<dyn WarningStore>);
    for hour in 0..60 {
        let retry_at = Timestamp::from_second(hour * 3600)?;
        let warning = Warning {
            module: "crm".to_owned(),
            reason: Reason::Daily,
            retry_at,
            links: vec![],
        };
        warnings
            .record("i", &warning, Timestamp::from_millisecond(hour)?)
            .await;
    }
    let list = store.read("i").await.map_err(text)?.list();
    let times: Vec<_> = list.iter().map(|one| one["timestamp"].as_i64()).collect();
    assert_eq!(times, (10..60).map(Some).collect::<Vec<_>>());
    Ok(())
}
