//! A program under measurement, with a Runtime API and an AWS of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use axum::body::Bytes;
use tokio::io::{copy, sink};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::Fault;
use crate::aws::{Aws, Behaviour};
use crate::runtime_api::{Answer, RuntimeApi};

/// How long anything may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is run.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) label: String,
    pub(crate) path: PathBuf,
}

impl Program {
    /// A copy, written in one go as a function's archive is unpacked. As the linker left it, in bits and pieces, a program
    /// of some megabytes takes longer to be mapped, which is no property of the program.
    pub(crate) fn deploy(label: &str, from: &Path, folder: &Path) -> Result<Program, Fault> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(label.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        // A file that is written over would keep its pages.
        let _ = std::fs::remove_file(&path);
        std::fs::copy(from, &path).map_err(|error| format!("{}: {error}", from.display()))?;
        Ok(Program {
            label: label.to_owned(),
            path,
        })
    }

    pub(crate) fn bytes(&self) -> Result<u64, Fault> {
        Ok(std::fs::metadata(&self.path)?.len())
    }
}

/// Where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Lambda,
    Polling { concurrency: usize },
}

pub(crate) struct Running {
    pub(crate) aws: Aws,
    pub(crate) api: RuntimeApi,
    /// From exec to the first `/next`.
    pub(crate) start: Duration,
    process: Child,
}

impl Running {
    /// Starts a program as a function and waits until it asks for its first event.
    pub(crate) async fn function(program: &Program, behaviour: Behaviour) -> Result<Running, Fault> {
        let mut running = Running::spawn(program, behaviour, Place::Lambda).await?;
        let began = Instant::now() - running.start;
        let Running { api, process, .. } = &mut running;
        let asked = tokio::select! {
            asked = timeout(PATIENCE, api.first_next()) => asked,
            ended = process.wait() => return Err(format!("{} ended: {}", program.label, ended?).into()),
        };
        running.start = asked?? - began;
        Ok(running)
    }

    pub(crate) async fn spawn(
        program: &Program,
        behaviour: Behaviour,
        place: Place,
    ) -> Result<Running, Fault> {
        let (aws, api) = (Aws::start(behaviour).await?, RuntimeApi::start().await?);
        let mut command = Command::new(&program.path);
        command
            .env_clear()
            .envs([
                ("AWS_REGION", "eu-west-1"),
                ("AWS_ACCESS_KEY_ID", "test"),
                ("AWS_SECRET_ACCESS_KEY", "test"),
                ("AWS_SESSION_TOKEN", "test"),
                ("AWS_LAMBDA_FUNCTION_NAME", "jobs"),
                ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
                ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
                ("SCHEDULER_ROLE_ARN", "arn:aws:iam::111111111111:role/scheduler"),
                ("FRIGG_HTTP_ALLOWED_HOSTS", "api.example.com"),
            ])
            .env("AWS_ENDPOINT_URL", &aws.url)
            // For the hand-written programs, and for ours.
            .env("QUEUE_URL", aws.queue_url())
            .env("FRIGG_QUEUE_URL", aws.queue_url())
            .env("FRIGG_QUEUE_RETENTION_SECONDS", "345600");
        match place {
            Place::Lambda => command.env("AWS_LAMBDA_RUNTIME_API", &api.address),
            Place::Polling { concurrency } => command.env("FRIGG_CONCURRENCY", concurrency.to_string()),
        };
        let began = Instant::now();
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.path.display()))?;
        // As in Lambda somebody reads the log.
        if let Some(mut log) = process.stdout.take() {
            tokio::spawn(async move { copy(&mut log, &mut sink()).await });
        }
        let start = began.elapsed();
        Ok(Running {
            aws,
            api,
            start,
            process,
        })
    }

    pub(crate) async fn invoke(&mut self, event: &Bytes) -> Result<Answer, Fault> {
        timeout(PATIENCE, self.api.invoke(event.clone())).await?
    }

    /// The time that its threads have spent on processors. Those that have ended are not counted: none do.
    pub(crate) fn cpu(&self) -> Result<Duration, Fault> {
        let mut sum = Duration::ZERO;
        for task in std::fs::read_dir(self.proc("task")?)? {
            let figures = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let on_cpu = figures.split(' ').next().unwrap_or_default();
            sum += Duration::from_nanos(on_cpu.parse()?);
        }
        Ok(sum)
    }

    /// The most memory that it ever had, in bytes (`VmHWM`).
    pub(crate) fn peak_memory(&self) -> Result<u64, Fault> {
        let status = std::fs::read_to_string(self.proc("status")?)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line
            .and_then(|line| line.split_whitespace().next())
            .ok_or("no VmHWM")?;
        Ok(kib.parse::<u64>()? * 1024)
    }

    fn proc(&self, file: &str) -> Result<PathBuf, Fault> {
        let id = self.process.id().ok_or("the program has ended")?;
        Ok(Path::new("/proc").join(id.to_string()).join(file))
    }

    pub(crate) async fn end(mut self) -> Result<(), Fault> {
        Ok(self.process.kill().await?)
    }
}
