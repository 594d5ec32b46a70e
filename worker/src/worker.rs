//! [`Worker`]: a handler with all that its batches need, and the two ways to run it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use frigg_core::delivery::Delivery;
use frigg_core::rate_limit::Limit;
use tokio::sync::Semaphore;
use tokio::time::Instant;

#[cfg(feature = "dynamodb")]
use crate::aws::DynamoGate;
use crate::aws::{Aws, AwsScheduler, AwsSqs};
use crate::batch::{OnLimit, Pipe};
use crate::book::Book;
use crate::clock::Clock;
use crate::config::Config;
use crate::door::Doorkeeper;
use crate::effects::Effects;
use crate::error::Error;
use crate::gate::GateStore;
use crate::handler::Consumer;
use crate::log;
use crate::ports::{Scheduler, Sqs};
use crate::queues::Queues;
use crate::rest::Rest;
use crate::run_state::RunState;
use crate::runtime;
use crate::stores;
use crate::warnings::Warnings;

/// A handler, ready to run.
///
/// ```no_run
/// use frigg_worker::{HandlerError, Job, Worker, handler_fn};
///
/// # async fn main_() -> Result<(), frigg_worker::Error> {
/// let handler = handler_fn(|job: Job<serde_json::Value>| async move { Ok::<(), HandlerError>(()) });
/// Worker::from_env(handler).await?.run().await
/// # }
/// ```
pub struct Worker<C> {
    config: Config,
    pipe: Pipe<C>,
}

impl<C: Consumer> Worker<C> {
    /// A worker for a [`Handler`](crate::Handler), or for a [`BatchHandler`](crate::BatchHandler) in
    /// [`PerBatch`](crate::PerBatch), set by the environment. Turns on JSON logs, unless the program has logs of its
    /// own. Calls nothing.
    ///
    /// # Errors
    /// When a necessary variable is missing, or one needs a feature that was not built; the text names it.
    pub async fn from_env(consumer: C) -> Result<Self, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        log::init(variable);
        let (config, bad) = Config::from_variables(variable);
        bad.iter().for_each(log::bad_setting);
        stores::check(&config)?;
        if !runtime::under_lambda() && config.queue_url.is_none() {
            return Err(Error::new(
                "FRIGG_QUEUE_URL is not set: outside Lambda it names the queue to poll, for example \
                 https://sqs.eu-west-1.amazonaws.com/123456789012/jobs",
            ));
        }
        Ok(Self::new(consumer, config))
    }

    /// A worker with these settings. The AWS clients are those of the environment, built when first needed.
    pub fn new(consumer: C, config: Config) -> Self {
        let aws = Aws::from_env();
        let tables = aws.clone();
        let calls_at_once = config.calls_at_once.get().min(Semaphore::MAX_PERMITS);
        let effects = Effects {
            clock: Clock::system(),
            sqs: Arc::new(AwsSqs::new(aws.clone())),
            scheduler: Arc::new(AwsScheduler::new(aws)),
            scheduling: config.scheduling.clone(),
            queues: Queues::new(!config.options.is_frigg(), config.queue_url.clone()),
            rest: Rest::default(),
            run_state: None,
            keeper: None,
            calls_at_once,
            calls: Semaphore::new(calls_at_once),
            warnings: None,
            options: config.options.clone(),
        };
        let pipe = Pipe {
            consumer,
            effects,
            concurrency: config.concurrency.get(),
            on_limit: None,
        };
        let worker = Worker { config, pipe };
        worker.with_tables(&tables)
    }

    #[cfg(feature = "dynamodb")]
    fn with_tables(mut self, aws: &Aws) -> Self {
        if let Some(table) = &self.config.gate_table {
            let store = DynamoGate::new(aws.clone(), table.clone());
            self = self.with_gate(Arc::new(store));
        }
        if let Some((store, warnings)) = stores::tables::state(&self.config, aws) {
            self = self.with_run_state(store).with_warnings(warnings);
        }
        self
    }

    #[cfg(not(feature = "dynamodb"))]
    fn with_tables(self, _: &Aws) -> Self {
        let set = [
            ("FRIGG_GATE_TABLE", &self.config.gate_table),
            ("FRIGG_STATE_TABLE", &self.config.state_table),
        ];
        for (variable, _) in set.into_iter().filter(|(_, table)| table.is_some()) {
            tracing::warn!(
                target: "frigg.worker", eventName = "frigg.worker.bad_setting", variable,
                "{variable} is set, and this program was built without the feature `dynamodb` of frigg-worker",
            );
        }
        self
    }

    /// Asks `f` at each limit what to do with it. Default: [`OnLimit::Defer`].
    #[must_use]
    pub fn on_limit(mut self, f: impl Fn(&Limit, &Delivery) -> OnLimit + Send + Sync + 'static) -> Self {
        self.pipe.on_limit = Some(Arc::new(f));
        self
    }

    /// Keeps each process's rate-limit state in `run_state`. Default: in the table of `FRIGG_STATE_TABLE`, else nowhere.
    #[must_use]
    pub fn with_run_state(mut self, run_state: Arc<dyn RunState>) -> Self {
        self.pipe.effects.run_state = Some(run_state);
        self
    }

    /// Tells the users of a message's integration (`data.integrationId`) of waits over a minute. Default: in the table of
    /// `FRIGG_STATE_TABLE`, announced to `FRIGG_WARNINGS_TOPIC` and `FRIGG_WARNINGS_BUS`; without a table, nowhere.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Warnings) -> Self {
        self.pipe.effects.warnings = Some(warnings);
        self
    }

    /// Shares what is known of limits by `store`. Default: the table of `FRIGG_GATE_TABLE`, else nothing is shared. Not
    /// under [`Options::frigg`](crate::Options::frigg).
    #[must_use]
    pub fn with_gate(mut self, store: Arc<dyn GateStore>) -> Self {
        let (rates, pace) = (self.config.rates.clone(), self.config.pace);
        let keeper = Doorkeeper::new(store, rates, pace);
        self.pipe.effects.keeper = (!self.config.options.is_frigg()).then(|| Arc::new(keeper));
        self
    }

    /// Calls this SQS. Default: AWS's, as the environment says.
    #[must_use]
    pub fn with_sqs(mut self, sqs: Arc<dyn Sqs>) -> Self {
        self.pipe.effects.sqs = sqs;
        self
    }

    /// Calls this scheduler. Default: AWS's, as the environment says.
    #[must_use]
    pub fn with_scheduler(mut self, scheduler: Arc<dyn Scheduler>) -> Self {
        self.pipe.effects.scheduler = scheduler;
        self
    }

    /// Goes by this clock. Default: the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.pipe.effects.clock = clock;
        self
    }

    /// Handles one batch and answers for each record, before `deadline`. For tests, and for runtimes of one's own.
    ///
    /// # Errors
    /// When a record has no message id: then the whole batch has to be reported failed.
    pub async fn handle(&self, event: SqsEvent, deadline: Instant) -> Result<SqsBatchResponse, Error> {
        let book = Book::new(event.records.len());
        self.pipe.process(event.records, deadline, &book).await
    }

    /// Runs until the platform ends it: on Lambda's Runtime API under Lambda, elsewhere by polling `FRIGG_QUEUE_URL`
    /// until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// When it cannot start. Under Lambda also when the Runtime API fails.
    pub async fn run(self) -> Result<(), Error> {
        if runtime::under_lambda() {
            runtime::lambda::run(self.pipe).await
        } else {
            self.poll_until(runtime::stop_signal()).await
        }
    }

    /// Polls `FRIGG_QUEUE_URL` until `stop` is ready: then receives no more, and ends what is running.
    ///
    /// # Errors
    /// When there is no queue to poll, or it tells no ARN.
    pub async fn poll_until(self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let Some(url) = self.config.queue_url.clone() else {
            return Err(Error::new("no queue URL is set: there is nothing to poll"));
        };
        runtime::poll::run(self.pipe, &self.config, &url, stop).await
    }
}

impl<C> fmt::Debug for Worker<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
