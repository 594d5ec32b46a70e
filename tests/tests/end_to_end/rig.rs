//! A queue, a worker for it, and what the tests want to know of both.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_sdk_sqs::types::{Message, SendMessageBatchRequestEntry};
use frigg_tests::emulator::{Bootstrap, Emulator, Function, FunctionSpec, Mapping, Queue, QueueSpec};
use frigg_tests::judge;
use frigg_tests::proxy::Proxy;
use frigg_tests::recorder::{Recorder, Run};
use frigg_tests::secrets;
use frigg_tests::wait::{wait_for, wait_until};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How late a thing may be that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(60);

const WORKER: &str = env!("CARGO_BIN_EXE_test-worker");

/// One test's queue and worker. What the worker asked of AWS is judged when the test is over.
pub(crate) struct Rig {
    pub(crate) emulator: &'static Emulator,
    pub(crate) queue: Queue,
    pub(crate) recorder: Recorder,
    /// In front of the emulator, for the worker.
    pub(crate) proxy: Proxy,
    variables: Vec<(String, String)>,
    function_timeout: u32,
    started: Option<Started>,
}

enum Started {
    Function(Function, Mapping),
    Poller(Poller),
}

impl Rig {
    /// A queue with this visibility timeout, which is the function's timeout too.
    pub(crate) async fn new(queue: QueueSpec, visibility_seconds: u32) -> Result<Self> {
        let emulator = Emulator::shared().await?;
        let queue = emulator
            .create_queue(&queue.with_visibility(visibility_seconds))
            .await?;
        let recorder = Recorder::start().await?;
        let proxy = Proxy::start(emulator.endpoint()).await?;
        let mut rig = Self {
            emulator,
            queue,
            recorder,
            proxy,
            variables: Vec::new(),
            function_timeout: visibility_seconds,
            started: None,
        };
        // The emulator sets AWS_ENDPOINT_URL of its functions to itself; Frigg's variable comes before it.
        rig.set("AWS_ENDPOINT", rig.proxy.url());
        rig.set("RECORDER_URL", rig.recorder.url().to_owned());
        rig.set("RUST_LOG", "debug,hyper_util=info");
        for (name, secret) in secrets::variables() {
            rig.set(name, secret);
        }
        Ok(rig)
    }

    /// A variable of the worker's environment.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// Starts a worker: as a function behind the queue where the emulator can, else polling.
    pub(crate) async fn start(&mut self) -> Result<()> {
        self.started = Some(if self.emulator.runs_lambda() {
            let (function, mapping) = self.deploy().await?;
            Started::Function(function, mapping)
        } else {
            Started::Poller(self.poll()?)
        });
        Ok(())
    }

    /// The test worker as a function behind the queue.
    pub(crate) async fn deploy(&self) -> Result<(Function, Mapping)> {
        // A script, because the program itself is large and would be copied for each function.
        let script = tempfile::NamedTempFile::new()?;
        std::fs::write(&script, format!("#!/bin/sh\nexec '{WORKER}'\n"))?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
        let mut spec =
            FunctionSpec::new("worker", Bootstrap::package(&script)?).with_timeout(self.function_timeout);
        for (name, value) in &self.variables {
            spec = spec.with_env(name, value);
        }
        let function = self.emulator.deploy(&spec).await?;
        let mapping = self.emulator.map_queue(&function, &self.queue, 10).await?;
        Ok((function, mapping))
    }

    /// The test worker as a process that polls the queue.
    pub(crate) fn poll(&self) -> Result<Poller> {
        self.poll_with(WORKER)
    }

    /// Another program as a process that polls the queue.
    pub(crate) fn poll_with(&self, program: &str) -> Result<Poller> {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.emulator.environment())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("FRIGG_QUEUE_URL", &self.queue.url)
            .env("ENDS_WITH_STDIN", "1")
            .envs(self.variables.iter().cloned());
        Poller::spawn(command)
    }

    /// Sends a message with a secret in it. Returns its id.
    pub(crate) async fn send(&self, body: &Value) -> Result<String> {
        self.send_text(&secrets::planted(body).to_string()).await
    }

    pub(crate) async fn send_text(&self, body: &str) -> Result<String> {
        let send = self
            .emulator
            .sqs()
            .send_message()
            .queue_url(&self.queue.url)
            .message_body(body);
        let sent = send.send().await.context("failed to send")?;
        sent.message_id.context("a message without an id")
    }

    /// Sends up to ten messages at once.
    pub(crate) async fn send_batch(&self, bodies: &[String]) -> Result<()> {
        let entries = bodies.iter().enumerate().map(|(index, body)| {
            SendMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .message_body(body)
                .build()
        });
        let send = self
            .emulator
            .sqs()
            .send_message_batch()
            .queue_url(&self.queue.url)
            .set_entries(Some(entries.collect::<Result<_, _>>()?));
        let sent = send.send().await.context("failed to send")?;
        ensure!(sent.failed.is_empty(), "not all were sent: {:?}", sent.failed);
        Ok(())
    }

    /// Waits until `id` has run `count` times, and gives its runs.
    pub(crate) async fn runs_of(&self, id: &str, count: usize, deadline: Duration) -> Result<Vec<Run>> {
        let what = format!("{id} has run {count} times");
        wait_for(deadline, &what, async || {
            let runs = self.recorder.runs_of(id);
            Ok((runs.len() >= count).then_some(runs))
        })
        .await
    }

    /// Waits until the queue holds nothing.
    pub(crate) async fn is_empty(&self) -> Result<()> {
        self.emulator.wait_until_empty(&self.queue.url, SOON).await
    }

    /// What is in the dead-letter queue, once it is `count` messages.
    pub(crate) async fn dead(&self, count: usize) -> Result<Vec<Message>> {
        let dead = &self.queue.dead_letters()?.url;
        let mut found = Vec::new();
        wait_until(SOON, &format!("{count} messages are dead"), async || {
            found.extend(self.emulator.drain(dead).await?);
            Ok(found.len() >= count)
        })
        .await?;
        let attributes = found
            .iter()
            .flat_map(|message| message.message_attributes.iter().flatten());
        secrets::none_shown(attributes.filter_map(|(_, value)| value.string_value()))?;
        Ok(found)
    }

    /// Waits until all is done, and asserts that nothing is dead. Ends the worker that [`start`](Self::start) started.
    pub(crate) async fn ends_empty(&mut self) -> Result<()> {
        self.is_empty().await?;
        let dead = self.dead(0).await?;
        ensure!(dead.is_empty(), "dead: {dead:?}");
        self.end().await
    }

    /// Ends the worker that [`start`](Self::start) started.
    pub(crate) async fn end(&mut self) -> Result<()> {
        match self.started.take() {
            Some(Started::Function(function, mapping)) => {
                self.emulator.delete_mapping(&mapping).await?;
                self.emulator.delete_function(&function).await
            }
            Some(Started::Poller(mut poller)) => poller.kill().await,
            None => Ok(()),
        }
    }

    /// What the worker logged under an event name. A function's lines are there after its invocation.
    pub(crate) async fn events(&self, name: &str) -> Result<Vec<Value>> {
        match &self.started {
            Some(Started::Function(function, _)) => self.emulator.events(function, name).await,
            Some(Started::Poller(poller)) => Ok(poller.events(name)),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let calls = self.proxy.asked();
        // The test's own runtime stands still here.
        let judged = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.context("no runtime")?.block_on(judge::refused(&calls))
        });
        // A test that has failed already says enough.
        if let Ok(judged) = judged.join()
            && !std::thread::panicking()
        {
            let refused = judged.expect("the judge answers");
            assert!(
                refused.is_empty(),
                "AWS would refuse {} calls:\n{}",
                refused.len(),
                refused.join("\n")
            );
        }
    }
}

/// A worker process that polls. Dropping it kills it.
pub(crate) struct Poller {
    child: Child,
    /// Kept open: the worker ends with it.
    _input: ChildStdin,
    lines: Arc<Mutex<Vec<Value>>>,
    reading: JoinHandle<()>,
}

impl Poller {
    fn spawn(mut command: Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().context("failed to start the worker")?;
        let input = child.stdin.take().context("the worker has no input")?;
        let output = child.stdout.take().context("the worker has no output")?;
        let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&lines);
        let reading = tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                kept.lock().expect("no panic while it is held").push(line);
            }
        });
        Ok(Self {
            child,
            _input: input,
            lines,
            reading,
        })
    }

    /// That none of its lines shows a planted secret.
    pub(crate) fn shows_no_secret(&self) -> Result<()> {
        let lines: Vec<String> = self.lines().iter().map(Value::to_string).collect();
        secrets::none_shown(lines.iter().map(String::as_str))
    }

    /// Every line that it wrote, as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.lines.lock().expect("no panic while it is held").clone()
    }

    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let mut lines = self.lines();
        lines.retain(|line| line["eventName"] == name);
        lines
    }

    /// Its lines of level WARN and ERROR.
    pub(crate) fn troubles(&self) -> Vec<Value> {
        let mut lines = self.lines();
        lines.retain(|line| line["level"] == "WARN" || line["level"] == "ERROR");
        lines
    }

    /// Sends it `TERM`, `INT` or another signal.
    pub(crate) async fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().context("the worker has ended already")?;
        let kill = Command::new("kill")
            .args([&format!("-{signal}"), &id.to_string()])
            .status();
        ensure!(kill.await?.success(), "failed to send {signal}");
        Ok(())
    }

    /// Waits until it has ended by itself, and has said all that it had to say.
    pub(crate) async fn ended(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let status = timeout(deadline, self.child.wait())
            .await
            .context("the worker does not end")??;
        let _ = (&mut self.reading).await;
        self.shows_no_secret()?;
        Ok(status)
    }

    /// Kills it at once.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("failed to kill the worker")?;
        self.shows_no_secret()
    }
}

/// Asserts that each of a message's runs came no earlier than the one before it was told.
pub(crate) fn assert_none_early(runs: &[Run]) {
    for pair in runs.windows(2) {
        let (told, at) = (pair[0].told, pair[1].at);
        assert!(told.is_none_or(|told| at >= told), "told {told:?}, ran {at}");
    }
    for run in runs {
        assert!(
            run.retry_at.is_none_or(|at| run.at >= at),
            "before its envelope's time: {run:?}"
        );
    }
}
