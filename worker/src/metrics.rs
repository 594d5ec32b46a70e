//! Figures for CloudWatch, in its embedded metric format: an invocation writes one line, which CloudWatch Logs turns into
//! metrics. <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>
//!
//! Namespace `Frigg`; dimensions `FunctionName`, and with it `Mechanism` and `Module`. A line has one value for each
//! dimension, so an invocation whose records were put back in several ways, or limited by several modules, writes a line
//! for each. Outside an invocation nothing is collected.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The most values of one metric that a line may have.
const MAX_VALUES: usize = 100;
/// Stands in for a mechanism or a module that there is none of.
const NONE: &str = "none";

/// What is counted, by name.
const COUNTS: [&str; 6] = ["Deferred", "Capped", "Halted", "Failed", "Succeeded", "Gated"];

tokio::task_local! {
    static COLLECTED: Mutex<Figures>;
}

#[derive(Debug, Default)]
struct Figures {
    /// Counts by mechanism, then by module.
    counts: BTreeMap<String, BTreeMap<String, [u32; COUNTS.len()]>>,
    handler_ms: Vec<u64>,
    lateness_ms: Vec<u64>,
}

/// Runs an invocation and gives its output, with the lines to write.
pub(crate) async fn collect<F: Future>(
    function: &str,
    request_id: &str,
    now: Timestamp,
    invocation: F,
) -> (F::Output, Vec<String>) {
    let scope = COLLECTED.scope(Mutex::default(), async move {
        let output = invocation.await;
        let figures = COLLECTED.with(|figures| std::mem::take(&mut *lock(figures)));
        (output, figures)
    });
    let (output, figures) = scope.await;
    (output, lines(function, request_id, now, &figures))
}

/// Counts a record's outcome by the event that tells of it. `capped` when the caps were what ended it.
pub(crate) fn count(event: &str, mechanism: Option<&str>, module: Option<&str>, capped: bool) {
    let counted = match event {
        "record_deferred" | "record_visibility_extended" | "record_held" => 0,
        "record_deferral_capped" => 1,
        "record_lost_rate_limited" if capped => 1,
        "record_halted" | "record_dead_lettered" => 2,
        "record_failed" | "record_lost_rate_limited" => 3,
        "record_succeeded" => 4,
        "record_gated" => 5,
        _ => return,
    };
    let (mechanism, module) = (mechanism.unwrap_or(NONE), module.unwrap_or(NONE));
    with(|figures| {
        // Almost always there is one already, and no text to be copied.
        let known = figures
            .counts
            .get_mut(mechanism)
            .and_then(|modules| modules.get_mut(module));
        match known {
            Some(counts) => counts[counted] += 1,
            None => {
                let modules = figures.counts.entry(mechanism.to_owned()).or_default();
                modules.entry(module.to_owned()).or_default()[counted] += 1;
            }
        }
    });
}

/// Notes how long a handler ran.
pub(crate) fn handled(took: Duration) {
    with(|figures| keep(&mut figures.handler_ms, took));
}

/// Notes how long after its time a message that was put back began to run.
pub(crate) fn late(by: Duration) {
    with(|figures| keep(&mut figures.lateness_ms, by));
}

fn keep(values: &mut Vec<u64>, value: Duration) {
    if values.len() < MAX_VALUES {
        values.push(u64::try_from(value.as_millis()).unwrap_or(u64::MAX));
    }
}

fn with(f: impl FnOnce(&mut Figures)) {
    // An error means that nothing is collected here: polling, or a test.
    let _ = COLLECTED.try_with(|figures| f(&mut lock(figures)));
}

fn lock(figures: &Mutex<Figures>) -> std::sync::MutexGuard<'_, Figures> {
    // Nothing panics while it is held.
    figures.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lines(function: &str, request_id: &str, now: Timestamp, figures: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    let mut times = [
        ("HandlerMs", &figures.handler_ms),
        ("DeferralLatenessMs", &figures.lateness_ms),
    ]
    .into_iter()
    .filter(|(_, values)| !values.is_empty())
    .collect::<Vec<_>>();
    let all = figures.counts.iter();
    let all = all.flat_map(|(mechanism, modules)| {
        modules
            .iter()
            .map(move |(module, counts)| (mechanism, module, counts))
    });
    for (mechanism, module, counts) in all {
        let mut metrics = Vec::new();
        let mut line = Map::new();
        for (name, count) in COUNTS.iter().zip(counts).filter(|(_, count)| **count > 0) {
            metrics.push(json!({ "Name": name, "Unit": "Count" }));
            line.insert((*name).to_owned(), json!(count));
        }
        // They belong to the invocation; its first line has them.
        for (name, values) in times.drain(..) {
            metrics.push(json!({ "Name": name, "Unit": "Milliseconds" }));
            line.insert(name.to_owned(), json!(values));
        }
        line.insert("requestId".to_owned(), json!(request_id));
        line.insert("FunctionName".to_owned(), json!(function));
        line.insert("Mechanism".to_owned(), json!(mechanism));
        line.insert("Module".to_owned(), json!(module));
        line.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": now.as_millisecond(),
                "CloudWatchMetrics": [{
                    "Namespace": "Frigg",
                    "Dimensions": [["FunctionName"], ["FunctionName", "Mechanism", "Module"]],
                    "Metrics": metrics,
                }],
            }),
        );
        lines.push(Value::Object(line).to_string());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collected(f: impl FnOnce()) -> Vec<Value> {
        let now = Timestamp::from_millisecond(1_790_000_000_000).unwrap();
        let ((), lines) = collect("jobs", "r-1", now, async { f() }).await;
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn an_invocation_writes_one_line() {
        let lines = collected(|| {
            for _ in 0..3 {
                count("record_deferred", Some("delay"), Some("crm"), false);
                handled(Duration::from_millis(20));
            }
            late(Duration::from_millis(150));
        })
        .await;
        let metric = |name: &str, unit: &str| json!({ "Name": name, "Unit": unit });
        assert_eq!(
            lines,
            [json!({
                "Deferred": 3,
                "HandlerMs": [20, 20, 20],
                "DeferralLatenessMs": [150],
                "requestId": "r-1",
                "FunctionName": "jobs",
                "Mechanism": "delay",
                "Module": "crm",
                "_aws": {
                    "Timestamp": 1_790_000_000_000_i64,
                    "CloudWatchMetrics": [{
                        "Namespace": "Frigg",
                        "Dimensions": [["FunctionName"], ["FunctionName", "Mechanism", "Module"]],
                        "Metrics": [
                            metric("Deferred", "Count"),
                            metric("HandlerMs", "Milliseconds"),
                            metric("DeferralLatenessMs", "Milliseconds"),
                        ],
                    }],
                },
            })]
        );
    }

    #[tokio::test]
    async fn every_outcome_has_its_name() {
        for (event, capped, name) in [
            ("record_deferred", false, "Deferred"),
            ("record_visibility_extended", false, "Deferred"),
            ("record_held", false, "Deferred"),
            ("record_deferral_capped", true, "Capped"),
            ("record_lost_rate_limited", true, "Capped"),
            ("record_lost_rate_limited", false, "Failed"),
            ("record_failed", false, "Failed"),
            ("record_halted", false, "Halted"),
            ("record_dead_lettered", false, "Halted"),
            ("record_succeeded", false, "Succeeded"),
            ("record_gated", false, "Gated"),
        ] {
            let lines = collected(|| count(event, None, None, capped)).await;
            assert_eq!(lines.len(), 1, "{event}");
            assert_eq!(
                (&lines[0][name], &lines[0]["Mechanism"]),
                (&json!(1), &json!("none")),
                "{event}"
            );
        }
        assert!(
            collected(|| count("record_early", None, None, false))
                .await
                .is_empty()
        );
    }

    #[tokio::test]
    async fn each_way_and_module_has_a_line_and_the_times_are_told_once() {
        let lines = collected(|| {
            count("record_deferred", Some("delay"), Some("crm"), false);
            count("record_deferred", Some("schedule"), Some("crm"), false);
            count("record_succeeded", None, None, false);
            (0..150).for_each(|_| handled(Duration::from_millis(1)));
        })
        .await;
        assert_eq!(lines.len(), 3);
        let times: Vec<_> = lines
            .iter()
            .filter_map(|line| line["HandlerMs"].as_array())
            .collect();
        assert_eq!(times.len(), 1);
        assert_eq!(times[0].len(), MAX_VALUES, "CloudWatch takes no more");
    }

    #[test]
    fn outside_an_invocation_nothing_is_collected() {
        count("record_failed", None, None, false);
        handled(Duration::ZERO);
    }
}
