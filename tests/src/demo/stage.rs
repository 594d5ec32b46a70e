//! What the demo is played on: an emulator of its own, the provider, and the stack that users deploy, twice.

use std::path::Path;

use anyhow::Result;

use super::cast::{self, Worker};
use crate::emulator::{Bootstrap, Emulator, EmulatorOptions, Flavour, Function, Queue, StackSpec};
use crate::provider::ThrottlingProvider;

/// The shortest that the template takes: waits above it leave the delay tier, so a demo need not last a quarter of an hour.
const MAX_DELAY_SECONDS: &str = "60";

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
        let spec = |scheduler: &str| {
            StackSpec::new(bootstrap.clone())
                .with("Scheduler", scheduler)
                .with("MaxDelaySeconds", MAX_DELAY_SECONDS)
                // The provider is on this machine.
                .with_env("FRIGG_HTTP_ALLOWED_HOSTS", "127.0.0.1")
                .with_env("FRIGG_HTTP_ALLOW_PRIVATE", "1")
        };
        let scheduling = desk(&emulator, &spec("yes")).await?;
        let plain = desk(&emulator, &spec("no")).await?;
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

async fn desk(emulator: &Emulator, spec: &StackSpec) -> Result<Desk> {
    let stack = emulator.deploy_stack(spec).await?;
    Ok(Desk {
        queue: stack.queue()?,
        function: stack.function(emulator)?,
    })
}
