//! What the pipe itself costs: handlers and AWS take no time here.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use frigg_core::delivery::QueueArn;
use frigg_worker::ports::{BatchResult, CallError, QueueAttributes, SendRequest, Sqs, VisibilityRequest};
use frigg_worker::testing::{event, message};
use frigg_worker::{Clock, Config, Handler, HandlerError, Job, RateLimited, Raw, Worker, handler_fn};
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;
use tokio::time::Instant;

/// An SQS that takes everything and remembers nothing.
#[derive(Debug)]
struct Void;

impl Sqs for Void {
    fn queue_url<'a>(&'a self, _: &'a QueueArn, _: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok("url".to_owned())))
    }
    fn queue_attributes<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        Box::pin(ready(Ok(QueueAttributes::default())))
    }
    fn send<'a>(&'a self, _: &'a str, _: &'a SendRequest) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok("id".to_owned())))
    }
    fn send_batch<'a>(&'a self, _: &'a str, messages: &'a [SendRequest]) -> BoxFuture<'a, BatchResult> {
        Box::pin(ready(Ok(vec![Ok(()); messages.len()])))
    }
    fn change_visibility_batch<'a>(
        &'a self,
        _: &'a str,
        changes: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult> {
        Box::pin(ready(Ok(vec![Ok(()); changes.len()])))
    }
    fn receive<'a>(
        &'a self,
        _: &'a str,
        _: u32,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        Box::pin(ready(Ok(vec![])))
    }
    fn delete_batch<'a>(&'a self, _: &'a str, handles: &'a [String]) -> BoxFuture<'a, BatchResult> {
        Box::pin(ready(Ok(vec![Ok(()); handles.len()])))
    }
}

fn worker<H: Handler>(handler: H) -> Worker<H> {
    Worker::new(handler, Config::default())
        .with_sqs(Arc::new(Void))
        .with_clock(Clock::from_fn(|| Timestamp::UNIX_EPOCH))
}

/// Bodies of a kilobyte.
fn batch(records: usize) -> Vec<SqsMessage> {
    let body = format!(r#"{{"id":1,"text":"{}"}}"#, "x".repeat(1000));
    (0..records)
        .map(|i| message(&format!("m{i}"), body.clone()))
        .collect()
}

fn measure<H: Handler>(c: &mut Criterion, name: &str, records: usize, worker: &Worker<H>) {
    #[expect(clippy::expect_used, reason = "without a runtime there is nothing to measure")]
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    c.bench_function(name, |b| {
        let run = |messages| {
            let handled = worker.handle(event(messages), Instant::now() + Duration::from_secs(900));
            black_box(runtime.block_on(handled))
        };
        let setup = || {
            let _inside = runtime.enter();
            batch(records)
        };
        b.iter_batched(setup, run, BatchSize::SmallInput);
    });
}

fn pipe(c: &mut Criterion) {
    let ok = worker(handler_fn(|job: Job<Raw>| async move {
        black_box(job);
        Ok::<(), HandlerError>(())
    }));
    measure(c, "10 records of 1 KB, all ok", 10, &ok);
    measure(c, "10,000 records of 1 KB, all ok", 10_000, &ok);
    let limited = worker(handler_fn(|_: Job<Raw>| async {
        Err::<(), _>(RateLimited::after(Timestamp::UNIX_EPOCH, Duration::from_secs(30)))
    }));
    measure(c, "10 records of 1 KB, all limited", 10, &limited);
}

criterion_group!(benches, pipe);
criterion_main!(benches);
