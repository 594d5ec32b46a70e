//! The herd: many worker processes on one provider's limit, and what their calls look like under each rule for coming back.
//!
//! - [`run`]: one mode, on an emulator, with real processes.
//! - [`picture`]: calls and refusals per second, drawn.

pub mod picture;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use jiff::Timestamp;
use serde_json::json;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::sleep;

use crate::emulator::{Emulator, Queue, QueueSpec};
use crate::provider::{Call, ProviderConfig, Rule, ThrottlingProvider, Window};
use crate::wait::wait_until;

/// The scope key of all of the herd's calls.
pub const KEY: &str = "herd:entity:1";

/// A rule for coming back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Frigg's: exactly when told.
    Frigg,
    /// A random spread from the third deferral on.
    Spread,
    /// The rate is known: a random moment of the time that the backlog takes.
    Backlog,
    /// The rate is known and a gate is shared: a slot each.
    Gate,
    /// And every call takes a slot before it goes out.
    Shared,
}

impl Mode {
    /// All of them, from the simplest on.
    pub const ALL: [Mode; 5] = [Mode::Frigg, Mode::Spread, Mode::Backlog, Mode::Gate, Mode::Shared];

    /// What it is called in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Frigg => "as Frigg: when told",
            Mode::Spread => "spread of repeated deferrals",
            Mode::Backlog => "spread over the backlog",
            Mode::Gate => "gate and slots",
            Mode::Shared => "a slot before each call",
        }
    }

    fn knows_rate(self) -> bool {
        matches!(self, Mode::Backlog | Mode::Gate | Mode::Shared)
    }

    fn has_gate(self) -> bool {
        matches!(self, Mode::Gate | Mode::Shared)
    }
}

/// How large the herd is, and how narrow the way.
#[derive(Clone, Copy, Debug)]
pub struct Herd {
    /// Messages in the queue.
    pub messages: u64,
    /// Worker processes, each with one record at a time.
    pub workers: usize,
    /// Calls that pass in a window.
    pub calls: u32,
    /// The window's length; it rolls.
    pub per: Duration,
    /// How long a mode may take.
    pub deadline: Duration,
}

/// What became of a herd.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Under which rule.
    pub mode: Mode,
    /// Every call that came.
    pub calls: Vec<Call>,
    /// Messages that were done.
    pub done: u64,
    /// Messages that reached a cap and are dead letters.
    pub capped: u64,
    /// Calls before the time that their message was told last.
    pub early: usize,
}

impl Outcome {
    /// Calls that were refused.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.calls.iter().filter(|call| !call.accepted).count()
    }

    /// From the first call to the last one that was served.
    #[must_use]
    pub fn took(&self) -> Duration {
        let last = self
            .calls
            .iter()
            .filter(|call| call.accepted)
            .map(|call| call.since_start)
            .max();
        let first = self.calls.iter().map(|call| call.since_start).min();
        last.unwrap_or_default().saturating_sub(first.unwrap_or_default())
    }
}

/// Runs a herd under a mode. `worker` is the program `herd-worker`.
///
/// # Errors
///
/// When the emulator or a worker fails, or when it takes too long.
pub async fn run(emulator: &Emulator, worker: &Path, herd: &Herd, mode: Mode) -> Result<Outcome> {
    let window = Window::rolling(herd.calls, herd.per);
    let provider =
        ThrottlingProvider::start(ProviderConfig::default().with_default(Rule::window(window))).await?;
    // A message past a cap is a dead letter at its next receive.
    let queue = emulator
        .create_queue(&QueueSpec::standard("herd").with_max_receives(1))
        .await?;
    let mut variables = vec![
        ("PROVIDER_URL", provider.url_of("herd")),
        ("FRIGG_QUEUE_URL", queue.url.clone()),
        ("FRIGG_CONCURRENCY", "1".to_owned()),
        ("RUST_LOG", "error".to_owned()),
    ];
    if mode == Mode::Frigg {
        variables.push(("FRIGG_COMPAT", "1".to_owned()));
    }
    if mode.knows_rate() {
        let window = format!("{}/{}", herd.calls, herd.per.as_millis());
        variables.push(("PROVIDER_WINDOW", window));
    }
    if mode.has_gate() {
        variables.push(("FRIGG_GATE_TABLE", emulator.create_table("gate").await?));
    }
    if mode == Mode::Shared {
        variables.push(("FRIGG_PACE", "shared".to_owned()));
        variables.push((
            "FRIGG_RATES",
            format!("herd:*={}/{}ms", herd.calls, herd.per.as_millis()),
        ));
    }
    fill(emulator, &queue, herd.messages).await?;
    let mut workers = Vec::new();
    for _ in 0..herd.workers {
        workers.push(start(emulator, worker, &variables)?);
    }

    let dead = &queue.dead_letters()?.url;
    let done = || {
        let calls = provider.calls();
        let done: HashSet<_> = calls
            .iter()
            .filter(|call| call.accepted)
            .map(|call| call.request_id.clone())
            .collect();
        done.len() as u64
    };
    let what = format!("{} messages are done or dead under {mode:?}", herd.messages);
    wait_until(herd.deadline, &what, async || {
        for (child, _) in &mut workers {
            let ended = child.try_wait().context("a worker cannot be looked at")?;
            ensure!(ended.is_none(), "a worker ended: {ended:?}");
        }
        sleep(Duration::from_millis(400)).await;
        Ok(done() + emulator.depth(dead).await?.total() >= herd.messages)
    })
    .await?;
    let capped = emulator.depth(dead).await?.total();
    for (mut child, _) in workers {
        child.kill().await.context("failed to end a worker")?;
    }
    let calls = provider.calls();
    Ok(Outcome {
        mode,
        early: early(&calls),
        done: done(),
        capped,
        calls,
    })
}

/// Calls before the time that the same message's last refusal told.
fn early(calls: &[Call]) -> usize {
    let mut told: HashMap<&str, Timestamp> = HashMap::new();
    let mut early = 0;
    for call in calls {
        let Some(id) = call.request_id.as_deref() else {
            continue;
        };
        early += usize::from(told.get(id).is_some_and(|at| call.at < *at));
        if let Some(at) = call.retry_at {
            told.insert(id, at);
        }
    }
    early
}

fn start(emulator: &Emulator, worker: &Path, variables: &[(&str, String)]) -> Result<(Child, ChildStdin)> {
    let mut child = Command::new(worker)
        .env_clear()
        .envs(emulator.environment())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(variables.iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("failed to start {}", worker.display()))?;
    let input = child.stdin.take().context("the worker has no input")?;
    Ok((child, input))
}

async fn fill(emulator: &Emulator, queue: &Queue, messages: u64) -> Result<()> {
    let sqs = emulator.sqs();
    let ids: Vec<u64> = (0..messages).collect();
    for chunk in ids.chunks(10) {
        let entries = chunk.iter().map(|id| {
            let body = json!({ "id": id.to_string() }).to_string();
            SendMessageBatchRequestEntry::builder()
                .id(id.to_string())
                .message_body(body)
                .build()
        });
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let sent = sqs
            .send_message_batch()
            .queue_url(&queue.url)
            .set_entries(Some(entries))
            .send()
            .await;
        ensure!(
            sent.context("failed to send")?.failed.is_empty(),
            "not all were sent"
        );
    }
    Ok(())
}
