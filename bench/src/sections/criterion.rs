//! What Criterion measured, from the files that it leaves.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::Fault;
use crate::table::{Table, short};

/// Reads all results below `folder` (`target/criterion`).
pub(crate) fn criterion(folder: &Path) -> Result<Table, Fault> {
    let mut medians = BTreeMap::new();
    collect(folder, &mut medians)?;
    let mut table = Table::new("Parts (Criterion, medians)", &["", "µs"]);
    for (name, nanos) in &medians {
        table.row([name.clone(), short(nanos / 1000.0)]);
    }
    let us = |name: &str| medians.get(name).map(|nanos| nanos / 1000.0);
    if let (Some(read), Some(plan)) = (us("header-only 429, hubspot's policy"), us("plan")) {
        table.at_most("reading a 429 and planning", read + plan, 2.0, "µs");
    }
    if let (Some(open), Some(stamp), Some(copy)) = (us("open 1 KB"), us("stamp 1 KB"), us("copy 1 KB")) {
        table.at_most("stamping to copying", stamp / copy, 3.0, "x");
        table.at_most("opening to copying", open / copy, 3.0, "x");
    }
    if let Some(ten) = us("10 records of 1 KB, all ok") {
        table.at_most("ten successes in the pipe", ten, 30.0, "µs");
    }
    Ok(table)
}

fn collect(folder: &Path, medians: &mut BTreeMap<String, f64>) -> Result<(), Fault> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.ends_with("new") {
            let read = |file: &str| -> Result<Value, Fault> {
                Ok(serde_json::from_slice(&std::fs::read(path.join(file))?)?)
            };
            let name = read("benchmark.json")?["full_id"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let median = read("estimates.json")?["median"]["point_estimate"].as_f64();
            medians.insert(name, median.unwrap_or(f64::NAN));
        } else if path.is_dir() {
            collect(&path, medians)?;
        }
    }
    Ok(())
}
