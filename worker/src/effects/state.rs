//! What others are told of a wait: the run state and the warning to users.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use frigg_core::deferral::Capped;
use frigg_core::rate_limit::Limit;
use frigg_core::time;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use tokio::time::timeout;
use tracing::Level;

use crate::effects::Effects;
use crate::error::BoxError;
use crate::record::Record;
use crate::report::Line;
use crate::run_state::{Mechanism, State, Status, integration_id};
use crate::warnings::{Warning, is_news, links};

/// What is told is of use to people; no batch waits long for it.
const STATE_TIMEOUT: Duration = Duration::from_secs(2);

impl Effects {
    /// State and figures of a record past a cap.
    pub(crate) async fn capped(&self, record: &Record, limit: &Limit, line: Line, capped: &Capped) -> Line {
        let (counters, retry_at) = (&capped.counters, capped.retry_at);
        let (status, mechanism) = (Status::Exhausted, Mechanism::None);
        self.record_state(record, limit, retry_at, counters.deferrals, status, mechanism)
            .await;
        let deferred = time::wait(counters.first_deferred_at, retry_at);
        line.with_time(self.clock.now(), retry_at, counters)
            .with_caps(&self.options.limits, deferred)
    }

    pub(crate) async fn record_state(
        &self,
        record: &Record,
        limit: &Limit,
        retry_at: Timestamp,
        deferrals: u32,
        status: Status,
        mechanism: Mechanism,
    ) {
        if status == Status::Waiting {
            self.warn_user(record, limit, retry_at).await;
        }
        let Some(run_state) = &self.run_state else { return };
        let state = State {
            status,
            mechanism,
            retry_at,
            reason: limit.reason,
            module: limit.module.clone(),
            deferrals,
            deferral_id: record.delivery.stable_id().to_owned(),
        };
        let call = async { run_state.record(record.body.raw(), &state).await };
        log_state_fault(record, "record", caught(call).await);
    }

    /// Tells the users of the message's integration of a long wait.
    async fn warn_user(&self, record: &Record, limit: &Limit, retry_at: Timestamp) {
        let now = self.clock.now();
        let Some((warnings, module)) = self.warnings.as_ref().zip(limit.module.clone()) else {
            return;
        };
        let integration = integration_id(record.body.raw()).filter(|_| is_news(now, retry_at));
        if let Some(integration) = integration {
            let warning = Warning {
                links: links(&module, limit.reason),
                module,
                reason: limit.reason,
                retry_at,
            };
            // What it has to say of a fault it says itself.
            let _ = timeout(STATE_TIMEOUT, warnings.record(&integration, &warning, now)).await;
        }
    }

    pub(crate) async fn clear_state(&self, record: &Record) {
        let Some(run_state) = &self.run_state else { return };
        let call = async {
            run_state
                .clear(record.body.raw(), record.delivery.stable_id())
                .await
        };
        log_state_fault(record, "clear", caught(call).await);
    }
}

/// The application's own code: its panic is a fault like another, and so is its silence.
async fn caught(call: impl Future<Output = Result<(), BoxError>>) -> Result<(), BoxError> {
    match timeout(STATE_TIMEOUT, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err("the run-state hook panicked".into()),
        Err(_) => Err(format!("no answer within {} s", STATE_TIMEOUT.as_secs()).into()),
    }
}

fn log_state_fault(record: &Record, operation: &'static str, result: Result<(), BoxError>) {
    if let Err(error) = result {
        let line = Line::of_state_fault(operation, &error.to_string());
        record
            .span
            .in_scope(|| line.write(Level::WARN, "rate_limit_state_failed"));
    }
}
