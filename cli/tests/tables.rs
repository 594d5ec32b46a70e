//! `frigg gate` and `frigg status` on an emulator's tables.

#![allow(clippy::unwrap_used)]

use anyhow::Result;
use frigg_tests::emulator::Emulator;
use serde_json::{Value, json};
use tokio::process::Command;

/// What it prints, and its exit status.
async fn frigg(emulator: &Emulator, arguments: &[&str]) -> Result<(String, Option<i32>)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frigg"));
    command
        .args(arguments)
        .env_clear()
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(emulator.environment());
    let output = command.output().await?;
    let said = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
    Ok((said.trim_end().to_owned(), output.status.code()))
}

#[tokio::test]
async fn keys_are_closed_listed_and_opened() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let table = emulator.create_table("gate").await?;
    let gate =
        async |arguments: &[&str]| frigg(emulator, &[&["gate", "--table", &table], arguments].concat()).await;
    let key = "hub spot:entity:é\"7";
    assert_eq!(
        gate(&["list"]).await?,
        (
            format!("every key of {table} is open, and nothing waits"),
            Some(0)
        )
    );
    let (said, status) = gate(&["close", key]).await?;
    assert!(
        said.starts_with(&format!("{key} is closed until ")) && status == Some(0),
        "{said}"
    );
    let (line, _) = gate(&["list", "--json"]).await?;
    let line: Value = serde_json::from_str(&line)?;
    assert_eq!(
        (&line["key"], &line["reason"]),
        (&json!(key), &json!("unknown")),
        "{line}"
    );
    assert_eq!(gate(&["open", key]).await?, (format!("{key} is open"), Some(0)));
    assert_eq!(gate(&["list", "--json"]).await?, (String::new(), Some(0)));
    for (arguments, word) in [
        (&["close", "k", "--until", "soon"][..], "not a time"),
        (&["close", "k", "--until", "2020-01-01"], "is over"),
        (&["close", ""], "1 to 2048 bytes"),
        (&["open", &"k".repeat(2049)], "1 to 2048 bytes"),
    ] {
        let (said, status) = gate(arguments).await?;
        assert!(said.contains(word) && status == Some(2), "{said}");
    }
    let (said, status) = frigg(emulator, &["gate", "--table", "missing", "list"]).await?;
    assert!(
        said.contains("there is no table missing in us-east-1") && status == Some(2),
        "{said}"
    );
    let (said, status) = frigg(emulator, &["gate", "list"]).await?;
    assert!(
        said.contains("--stack") && said.contains("FRIGG_GATE_TABLE") && status == Some(2),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_process_shows_what_it_waits_for() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let table = emulator.create_table("state").await?;
    let status = async |more: &[&str]| {
        frigg(
            emulator,
            &[&["status", "--process", "p-1", "--table", &table], more].concat(),
        )
        .await
    };
    assert_eq!(
        status(&[]).await?,
        ("p-1 does not wait for a rate limit".to_owned(), Some(0))
    );
    let item = json!({
        "pk": { "S": "process#p-1" }, "status": { "S": "WAITING" }, "mechanism": { "S": "schedule" },
        "retryAt": { "S": "2026-09-28T23:00:00.000Z" }, "reason": { "S": "daily" }, "module": { "S": "hubspot" },
        "deferrals": { "N": "2" }, "deferralId": { "S": "m-1" }, "updatedAt": { "S": "2026-09-28T12:00:00.000Z" },
    });
    emulator.put_item(&table, &item).await?;
    let want = "p-1 waits until 2026-09-28T23:00:00.000Z for hubspot (daily), by schedule, deferral 2";
    assert_eq!(status(&[]).await?, (want.to_owned(), Some(0)));
    let (line, _) = status(&["--json"]).await?;
    let line: Value = serde_json::from_str(&line)?;
    assert_eq!(
        (&line["status"], &line["deferrals"]),
        (&json!("WAITING"), &json!(2)),
        "{line}"
    );
    Ok(())
}
