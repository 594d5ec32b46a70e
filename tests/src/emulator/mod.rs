//! A private AWS emulator, and the AWS calls that a test needs.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use frigg_tests::emulator::{Bootstrap, Emulator, FunctionSpec, QueueSpec};
//!
//! let emulator = Emulator::shared().await?;
//! let queue = emulator.create_queue(&QueueSpec::standard("contacts").with_visibility(6)).await?;
//! let bootstrap = Bootstrap::package("target/debug/contact_sync")?;
//! let function = emulator.deploy(&FunctionSpec::new("sync", bootstrap).with_timeout(6)).await?;
//! emulator.map_queue(&function, &queue, 10).await?;
//! emulator.sqs().send_message().queue_url(&queue.url).message_body("{}").send().await?;
//! emulator.wait_until_empty(&queue.url, std::time::Duration::from_secs(10)).await?;
//! # Ok(()) }
//! ```
//!
//! The emulator is started by `localstack/local-aws run`, on a port and in a temporary folder of its own, and ends with
//! the test process however that ends. Names given to the helpers are made unique, so tests share one without meeting.
//!
//! - [`flavour`]: which emulator, and what it can do.
//! - [`queues`], [`functions`], [`schedules`], [`logs`]: the calls, by service.
//! - [`tables`]: for the worker's gate and state.
//! - [`stacks`]: the template that users deploy.

mod announcements;
mod api;
mod bootstrap;
pub mod flavour;
pub mod functions;
pub mod logs;
mod process;
pub mod queues;
pub mod schedules;
pub mod stacks;
pub mod tables;

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use tokio::sync::OnceCell;

pub use bootstrap::Bootstrap;
pub use flavour::Flavour;
pub use functions::{Function, FunctionSpec, Mapping};
pub use queues::{Depth, Queue, QueueSpec};
pub use stacks::{Stack, StackSpec};

use api::Api;
use process::Process;

/// The region of every emulator.
pub const REGION: &str = "us-east-1";
/// The account of every emulator.
pub const ACCOUNT: &str = "000000000000";

/// Names the flavour that tests run against: `ministack` (the default), `localstack` or `moto`. With `AWS_ENDPOINT_URL`
/// set too, the emulator there is used and none is started.
pub const FLAVOUR_VARIABLE: &str = "FRIGG_TEST_FLAVOUR";

/// What a private emulator is started with.
#[derive(Clone, Debug, Default)]
pub struct EmulatorOptions {
    flavour: Option<Flavour>,
    variables: Vec<(String, String)>,
}

impl EmulatorOptions {
    /// Which emulator. Default: the one that [`FLAVOUR_VARIABLE`] names.
    #[must_use]
    pub fn with_flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = Some(flavour);
        self
    }

    /// A variable of the emulator's environment, which its functions inherit: `AUTH=true` makes ministack enforce
    /// policies, `AWS_ENDPOINT_URL` leads its functions through a proxy.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }
}

/// An emulator that answers. Dropping a private one ends it and every function in it.
#[derive(Debug)]
pub struct Emulator {
    flavour: Flavour,
    endpoint: String,
    process: Option<Process>,
}

static SHARED: OnceCell<Emulator> = OnceCell::const_new();
static NAMES: AtomicU32 = AtomicU32::new(0);

impl Emulator {
    /// The emulator that all tests of this process share, started by the first of them.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn shared() -> Result<&'static Self> {
        SHARED.get_or_try_init(Self::start).await
    }

    /// A private emulator, or the one that the environment names (see [`FLAVOUR_VARIABLE`]).
    ///
    /// # Errors
    ///
    /// When it does not start, or when what answers at `AWS_ENDPOINT_URL` is another flavour than was named.
    pub async fn start() -> Result<Self> {
        let named = std::env::var(FLAVOUR_VARIABLE)
            .ok()
            .filter(|name| !name.is_empty());
        match (named, std::env::var("AWS_ENDPOINT_URL")) {
            (Some(flavour), Ok(endpoint)) => Self::attach(flavour.parse()?, endpoint).await,
            _ => Self::start_with(EmulatorOptions::default()).await,
        }
    }

    /// A private emulator, whatever the environment says about endpoints.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn start_with(options: EmulatorOptions) -> Result<Self> {
        let flavour = match options.flavour {
            Some(flavour) => flavour,
            None => Flavour::from_environment()?,
        };
        let variables = options.variables;
        let process = tokio::task::spawn_blocking(move || Process::start(flavour, &variables))
            .await
            .context("the start of the emulator was cancelled")??;
        Ok(Self {
            flavour,
            endpoint: process.endpoint().to_owned(),
            process: Some(process),
        })
    }

    /// The emulator that somebody else started at `endpoint`. It is left running.
    ///
    /// # Errors
    ///
    /// When it does not answer as `flavour`.
    pub async fn attach(flavour: Flavour, endpoint: String) -> Result<Self> {
        let emulator = Self {
            flavour,
            endpoint,
            process: None,
        };
        if !emulator.api().answers(flavour.own_path()).await {
            bail!("what is at {} does not answer as {flavour}", emulator.endpoint);
        }
        Ok(emulator)
    }

    /// Which emulator it is.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The value for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Whether a schedule's target gets its input when the time comes.
    #[must_use]
    pub fn fires_schedules(&self) -> bool {
        self.flavour.fires_schedules()
    }

    /// Whether it runs functions behind event source mappings.
    #[must_use]
    pub fn runs_lambda(&self) -> bool {
        self.flavour.runs_lambda()
    }

    /// What a process needs to find this emulator.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ]
    }

    /// A client for SQS. A new one each time: a client's connections belong to the runtime of the test that made it.
    #[must_use]
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.endpoint)
            .region(Region::new(REGION))
            .credentials_provider(credentials())
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        aws_sdk_sqs::Client::from_conf(config.build())
    }

    /// A client for the scheduler, a new one each time.
    #[must_use]
    pub fn scheduler(&self) -> aws_sdk_scheduler::Client {
        let config = aws_sdk_scheduler::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.endpoint)
            .region(Region::new(REGION))
            .credentials_provider(credentials())
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        aws_sdk_scheduler::Client::from_conf(config.build())
    }

    /// `name` with a suffix that nothing else in this process, and no other process, uses.
    #[must_use]
    pub fn unique(&self, name: &str) -> String {
        format!(
            "{name}-{}-{}",
            std::process::id(),
            NAMES.fetch_add(1, Ordering::Relaxed)
        )
    }

    /// Ends a private emulator and waits until it is gone. (Dropping it does the same, but blocks the thread.)
    ///
    /// # Errors
    ///
    /// When it cannot be waited for.
    pub async fn stop(mut self) -> Result<()> {
        let process = self.process.take();
        tokio::task::spawn_blocking(move || drop(process))
            .await
            .context("failed to end the emulator")
    }

    fn api(&self) -> Api<'_> {
        Api::new(&self.endpoint)
    }
}

fn credentials() -> Credentials {
    Credentials::new("test", "test", None, None, "frigg-tests")
}
