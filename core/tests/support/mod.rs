//! Reads the case files and keeps the score.

// Each test binary uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::print_stdout, missing_docs)]

use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// What a case came to.
pub enum Outcome {
    Passed,
    /// What was expected, and what came.
    Failed(String, String),
    /// It has no counterpart here, for this reason.
    Skipped(&'static str),
}

impl Outcome {
    /// Passed when both are equal.
    pub fn equal<T: PartialEq + std::fmt::Debug>(expected: T, got: T) -> Outcome {
        if expected == got {
            Outcome::Passed
        } else {
            Outcome::Failed(format!("{expected:?}"), format!("{got:?}"))
        }
    }
}

fn folder() -> PathBuf {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    match std::env::var_os("CASES_DIR") {
        // An absolute path replaces the root.
        Some(given) => root.join(given),
        None => root.join("tests/cases"),
    }
}

/// The cases of a file; `None`, and a word about it, when the folder has no such file.
pub fn load(file: &str) -> Option<Vec<Value>> {
    let path = folder().join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("cases: {} is missing, passed over", path.display());
        return None;
    };
    let line =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}: {error}: {line}"));
    Some(
        text.lines()
            .filter(|text| !text.trim().is_empty())
            .map(line)
            .collect(),
    )
}

/// Prints the score line and what failed.
pub struct Score {
    name: String,
    passed: usize,
    skipped: usize,
    failures: Vec<String>,
}

impl Score {
    pub fn new(name: &str) -> Self {
        Score {
            name: name.to_owned(),
            passed: 0,
            skipped: 0,
            failures: Vec::new(),
        }
    }

    pub fn add(&mut self, case: &Value, outcome: Outcome) {
        let id = case["id"].as_str().unwrap_or("?");
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(_reason) => self.skipped += 1,
            Outcome::Failed(expected, got) => {
                self.failures
                    .push(format!("  {id}\n    expected {expected}\n    got      {got}"));
            }
        }
    }

    /// Prints the line, then each failure. Returns whether all were right.
    pub fn print(self) -> bool {
        let failed = self.failures.len();
        println!(
            "cases {}: {} passed, {failed} failed, {} skipped",
            self.name, self.passed, self.skipped
        );
        for failure in &self.failures {
            println!("{failure}");
        }
        failed == 0
    }
}

/// Runs every case of a file; panics when one fails.
pub fn run(file: &str, name: &str, check: impl Fn(&Value) -> Outcome) {
    let Some(cases) = load(file) else { return };
    let mut score = Score::new(name);
    for case in &cases {
        score.add(case, check(case));
    }
    assert!(score.print(), "cases {name} failed");
}

/// Headers from a list of pairs, or from an object whose values are texts or lists of texts.
pub fn headers(value: &Value) -> HeaderMap {
    let mut map = HeaderMap::new();
    let mut add = |name: &str, value: &Value| {
        let values = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        for text in values.iter().filter_map(Value::as_str) {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            map.append(
                name,
                HeaderValue::from_bytes(text.as_bytes()).expect("a header value"),
            );
        }
    };
    match value {
        Value::Array(pairs) => pairs
            .iter()
            .for_each(|pair| add(pair[0].as_str().expect("a name"), &pair[1])),
        Value::Object(entries) => entries.iter().for_each(|(name, value)| add(name, value)),
        _ => {}
    }
    map
}

/// A body: text as it is, anything else as JSON, null as none.
pub fn body(value: &Value) -> Vec<u8> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => text.clone().into_bytes(),
        json => json.to_string().into_bytes(),
    }
}

/// Whether `got` has what is expected: everything when `exact` (absent keys count as null), else the expected keys.
pub fn matches(expected: &Value, got: &Value, exact: bool) -> Outcome {
    let equal = match (expected.as_object(), got.as_object()) {
        (Some(expected), Some(got)) => {
            let here =
                |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
            let extra = exact.then(|| got.keys()).into_iter().flatten();
            expected
                .keys()
                .chain(extra)
                .all(|key| same(&here(expected, key), &here(got, key)))
        }
        _ => same(expected, got),
    };
    if equal {
        Outcome::Passed
    } else {
        Outcome::Failed(expected.to_string(), got.to_string())
    }
}

/// Equal, numbers by value: 5000 is 5000.0.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}
