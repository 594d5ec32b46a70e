//! Under Lambda: one batch per invocation.

use std::io::Write as _;
use std::sync::Arc;
use std::task;
use std::time::Duration;

use aws_lambda_events::sqs::SqsBatchResponse;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lambda_runtime::tower::layer::layer_fn;
use lambda_runtime::{Context, LambdaEvent, LambdaInvocation, Runtime, Service, service_fn};
use tokio::task::futures::TaskLocalFuture;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::batch::Pipe;
use crate::book::Book;
use crate::error::{BoxError, Error};
use crate::event::Event;
use crate::handler::Consumer;
use crate::metrics;

/// Serves invocations; several at once where `AWS_LAMBDA_MAX_CONCURRENCY` says so.
pub(crate) async fn run<C: Consumer>(pipe: Pipe<C>) -> Result<(), Error> {
    let pipe = Arc::new(pipe);
    let service = service_fn(move |event: LambdaEvent<()>| {
        let pipe = Arc::clone(&pipe);
        async move { invoke(&pipe, &event.context).await }
    });
    let runtime = Runtime::new(service).layer(layer_fn(Unread));
    let served = runtime.run_concurrent().await;
    served.map_err(|error| Error::with_source("the Lambda Runtime API failed", error))
}

tokio::task_local! {
    /// The event of the invocation that this task serves.
    static TEXT: Bytes;
}

/// Keeps an event's text from the Lambda runtime, which notes the path to every value that it reads, for its error
/// text. That costs as much as the reading.
#[derive(Clone)]
struct Unread<S>(S);

impl<S: Service<LambdaInvocation>> Service<LambdaInvocation> for Unread<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = TaskLocalFuture<Bytes, S::Future>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let text = std::mem::replace(&mut invocation.body, Bytes::from_static(b"null"));
        TEXT.scope(text, self.0.call(invocation))
    }
}

async fn invoke<C: Consumer>(pipe: &Pipe<C>, context: &Context) -> Result<SqsBatchResponse, BoxError> {
    let deadline = Instant::now() + time_left(pipe.effects.clock.now(), context.deadline);
    let span = tracing::error_span!(target: "frigg.worker", "invocation", requestId = context.request_id);
    let Event(messages) = TEXT.with(|text| Event::read(text))?;
    let book = Book::new(messages.len());
    let batch = pipe.process(messages, deadline, &book).instrument(span);
    let function = &context.env_config.function_name;
    let request = &context.request_id;
    let (answer, lines) = metrics::collect(function, request, pipe.effects.clock.now(), batch).await;
    for line in lines {
        // Nothing can be done about a closed standard output.
        let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
    }
    answer.map_err(Into::into)
}

/// Lambda tells its deadline in milliseconds since 1970. One that cannot be read is Lambda's longest, 15 minutes.
fn time_left(now: Timestamp, deadline_ms: u64) -> Duration {
    let deadline = i64::try_from(deadline_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let left = deadline.map_or(SignedDuration::from_mins(15), |deadline| {
        deadline.duration_since(now)
    });
    Duration::try_from(left).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_lambdas_own() {
        let now = Timestamp::from_millisecond(1_000).unwrap();
        assert_eq!(time_left(now, 31_000), Duration::from_secs(30));
        assert_eq!(time_left(now, 1), Duration::ZERO);
        assert_eq!(time_left(now, u64::MAX), Duration::from_secs(900));
    }
}
