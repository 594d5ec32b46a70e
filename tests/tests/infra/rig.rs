//! The stack with the test worker in it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use frigg_tests::emulator::{Bootstrap, Emulator, Queue, Stack, StackSpec};
use frigg_tests::recorder::{Recorder, Run};
use frigg_tests::wait::{wait_for, wait_until};
use serde_json::{Value, json};

use crate::stack::texts;

/// How late a thing may be that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The test worker as a package. A script, because the program itself is large.
pub(crate) fn worker() -> Result<Bootstrap> {
    script(&format!("exec '{}'", env!("CARGO_BIN_EXE_test-worker")))
}

/// A shell script as a package.
pub(crate) fn script(text: &str) -> Result<Bootstrap> {
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(&script, format!("#!/bin/sh\n{text}\n"))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Bootstrap::package(&script)
}

/// A stack whose worker tells a recorder of every run.
pub(crate) struct Rig<'e> {
    pub(crate) emulator: &'e Emulator,
    pub(crate) stack: Stack,
    pub(crate) queue: Queue,
    pub(crate) recorder: Recorder,
}

impl<'e> Rig<'e> {
    /// Timeouts are short, and a wait of over a minute is no delayed re-send: so each way back can be waited for.
    pub(crate) async fn new(
        emulator: &'e Emulator,
        change: impl FnOnce(StackSpec) -> StackSpec,
    ) -> Result<Self> {
        let recorder = Recorder::start().await?;
        let spec = StackSpec::new(worker()?)
            .with("FunctionTimeout", "10")
            .with("MaxDelaySeconds", "60")
            .with_env("RECORDER_URL", recorder.url());
        let stack = emulator.deploy_stack(&change(spec)).await?;
        let queue = stack.queue()?;
        Ok(Self {
            emulator,
            stack,
            queue,
            recorder,
        })
    }

    /// Sends a message, in this group on a FIFO queue. Returns its id.
    pub(crate) async fn send(&self, body: &Value, group: Option<&str>) -> Result<String> {
        let send = self
            .emulator
            .sqs()
            .send_message()
            .queue_url(&self.queue.url)
            .message_body(body.to_string())
            .set_message_group_id(group.map(str::to_owned));
        let sent = send.send().await.context("failed to send")?;
        sent.message_id.context("a message without an id")
    }

    /// Waits until `id` has run `count` times, and gives its runs: none of them before it was told.
    pub(crate) async fn runs_of(&self, id: &str, count: usize, deadline: Duration) -> Result<Vec<Run>> {
        let what = format!("{id} has run {count} times");
        let waited = wait_for(deadline, &what, async || {
            let runs = self.recorder.runs_of(id);
            Ok((runs.len() >= count).then_some(runs))
        });
        let runs = match waited.await {
            Ok(runs) => runs,
            Err(error) => bail!(
                "{error:#}; the worker complained of {:#?}",
                self.complaints().await
            ),
        };
        for pair in runs.windows(2) {
            let (told, at) = (pair[0].told, pair[1].at);
            assert!(told.is_none_or(|told| at >= told), "told {told:?}, ran {at}");
        }
        Ok(runs)
    }

    /// What the worker complained of.
    async fn complaints(&self) -> Result<Vec<Value>> {
        let function = self.stack.function(self.emulator)?;
        let mut lines: Vec<_> = self.emulator.logs(&function).await?;
        lines.retain(|line| line.text.contains("\"WARN\"") || line.text.contains("\"ERROR\""));
        Ok(lines.iter().filter_map(|line| line.json()).collect())
    }

    /// Waits until the function's log has these metrics in all: counts by name, `Deferred` with its mechanism, and how many
    /// values the times have. Asserts that CloudWatch would take each line.
    pub(crate) async fn metrics_are(&self, want: &[(&str, u64)]) -> Result<()> {
        let function = self.stack.function(self.emulator)?;
        let want: BTreeMap<_, _> = want.iter().map(|&(name, sum)| (name.to_owned(), sum)).collect();
        let mut found = BTreeMap::new();
        let waited = wait_until(SOON, "the metrics are in the log", async || {
            found.clear();
            for line in self
                .emulator
                .logs(&function)
                .await?
                .iter()
                .filter_map(|line| line.json())
            {
                let directives = line["_aws"]["CloudWatchMetrics"].as_array();
                for directive in directives.into_iter().flatten() {
                    assert_eq!(
                        (&directive["Namespace"], &line["FunctionName"]),
                        (&json!("Frigg"), &json!(function.name))
                    );
                    for dimension in directive["Dimensions"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .flat_map(texts)
                    {
                        assert!(line[&dimension].is_string(), "no value for {dimension} in {line}");
                    }
                    for metric in directive["Metrics"].as_array().into_iter().flatten() {
                        let name = metric["Name"].as_str().unwrap_or_default();
                        let value = &line[name];
                        let sum = value
                            .as_u64()
                            .or(value.as_array().map(|values| values.len() as u64));
                        let name = match (name, &line["Mechanism"]) {
                            ("Deferred", Value::String(mechanism)) => format!("Deferred by {mechanism}"),
                            _ => name.to_owned(),
                        };
                        *found.entry(name).or_insert(0) +=
                            sum.with_context(|| format!("no number in {line}"))?;
                    }
                }
            }
            Ok(found == want)
        });
        waited.await.with_context(|| format!("{found:?}, not {want:?}"))
    }

    /// Waits until the queue is empty; asserts that nothing is dead, and that the stack can be deleted.
    pub(crate) async fn ends_empty(self) -> Result<()> {
        self.emulator.wait_until_empty(&self.queue.url, SOON).await?;
        if let Some(dead) = &self.queue.dead_letters {
            let dead = self.emulator.drain(&dead.url).await?;
            assert!(dead.is_empty(), "dead: {dead:?}");
        }
        self.emulator.delete_stack(&self.stack).await
    }
}
