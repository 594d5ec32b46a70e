//! What the demo is played on: an emulator of its own, the provider, and the worker deployed twice.

use std::path::Path;

use anyhow::{Context, Result};

use super::cast::{self, Worker};
use crate::emulator::{
    Bootstrap, Emulator, EmulatorOptions, Flavour, Function, FunctionSpec, Queue, QueueSpec,
};
use crate::provider::ThrottlingProvider;

const TIMEOUT_SECONDS: u32 = 20;
/// The shortest that the worker takes: waits above it leave the delay tier, so a demo need not last a quarter of an hour.
const MAX_DELAY_SECONDS: &str = "60";
const MAX_RECEIVES: u32 = 3;

/// A function and the queue that feeds it.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) queue: Queue,
    pub(super) function: Function,
}

/// Everything that runs.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) emulator: Emulator,
    pub(super) provider: ThrottlingProvider,
    scheduling: Desk,
    plain: Desk,
}

impl Stage {
    /// Brings everything up.
    pub(super) async fn set(bootstrap: &Path) -> Result<Self> {
        let bootstrap = Bootstrap::package(bootstrap)?;
        // The one that fires schedules and runs functions, whatever the tests are told to use.
        let emulator =
            Emulator::start_with(EmulatorOptions::default().with_flavour(Flavour::Ministack)).await?;
        let provider = ThrottlingProvider::start(cast::provider()).await?;
        let role = emulator.create_scheduler_role("frigg-scheduler").await?;
        let group = emulator.create_schedule_group("frigg-demo").await?;
        let spec = |name: &str| {
            FunctionSpec::new(name, bootstrap.clone())
                .with_timeout(TIMEOUT_SECONDS)
                // The provider is on this machine.
                .with_env("FRIGG_HTTP_ALLOWED_HOSTS", "127.0.0.1")
                .with_env("FRIGG_HTTP_ALLOW_PRIVATE", "1")
                .with_env("FRIGG_MAX_DELAY_SECONDS", MAX_DELAY_SECONDS)
                .with_env("FRIGG_QUEUE_MAX_RECEIVE_COUNT", MAX_RECEIVES.to_string())
        };
        let queue = queue(&emulator, "contacts").await?;
        let with_scheduler = spec("contact-sync")
            .with_env("SCHEDULER_ROLE_ARN", role)
            .with_env("SCHEDULE_GROUP_NAME", group)
            .with_env("FRIGG_SCHEDULE_DLQ_ARN", &queue.dead_letters()?.arn);
        let scheduling = desk(&emulator, queue, &with_scheduler).await?;
        let plain = desk(
            &emulator,
            self::queue(&emulator, "contacts-plain").await?,
            &spec("contact-sync-plain"),
        )
        .await?;
        Ok(Self {
            emulator,
            provider,
            scheduling,
            plain,
        })
    }

    pub(super) fn desk(&self, worker: Worker) -> &Desk {
        match worker {
            Worker::Scheduling => &self.scheduling,
            Worker::Plain => &self.plain,
        }
    }

    pub(super) fn desks(&self) -> [&Desk; 2] {
        [&self.scheduling, &self.plain]
    }

    /// Ends everything.
    pub(super) async fn clear(self) -> Result<()> {
        self.emulator.stop().await
    }
}

async fn queue(emulator: &Emulator, name: &str) -> Result<Queue> {
    let spec = QueueSpec::standard(name)
        .with_visibility(TIMEOUT_SECONDS)
        .with_max_receives(MAX_RECEIVES);
    emulator.create_queue(&spec).await
}

async fn desk(emulator: &Emulator, queue: Queue, spec: &FunctionSpec) -> Result<Desk> {
    let function = emulator.deploy(spec).await?;
    emulator
        .map_queue(&function, &queue, 10)
        .await
        .context("failed to feed the function")?;
    Ok(Desk { queue, function })
}
