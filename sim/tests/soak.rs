//! A hundred thousand messages through the poll loop, one of a hundred of which its handler fails or panics over; and
//! the memory stays flat. Against a queue in this process, in virtual time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use frigg_core::delivery::QueueArn;
use frigg_worker::ports::{BatchResult, CallError, QueueAttributes, SendRequest, Sqs, VisibilityRequest};
use frigg_worker::{Config, HandlerError, Job, Raw, Worker, handler_fn};
use futures_util::future::{BoxFuture, ready};
use tokio::sync::Notify;

const MESSAGES: u32 = 100_000;
/// Every so many-th message's first run ends badly: half of them in a panic.
const BAD: u32 = 100;
const MAX_RSS_KB: u64 = 80 * 1024;

/// Makes messages when they are asked for, and those that are not deleted come again.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    gone: Notify,
}

#[derive(Debug, Default)]
struct State {
    made: u32,
    again: VecDeque<u32>,
    held: u32,
    deleted: u32,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn message(number: u32, receives: u32) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = Some(format!("m-{number}"));
    message.receipt_handle = Some(number.to_string());
    message.body = Some(format!(r#"{{"number":{number},"pad":"{}"}}"#, "x".repeat(1_000)));
    message
        .attributes
        .insert("ApproximateReceiveCount".to_owned(), receives.to_string());
    message
}

impl Sqs for Queue {
    fn queue_url<'a>(&'a self, _: &'a QueueArn, _: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok("jobs".to_owned())))
    }

    fn queue_attributes<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        let told = QueueAttributes {
            arn: QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs"),
            visibility_timeout: Some(Duration::from_secs(30)),
            ..QueueAttributes::default()
        };
        Box::pin(ready(Ok(told)))
    }

    fn send<'a>(&'a self, _: &'a str, _: &'a SendRequest) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok("sent".to_owned())))
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
        max_messages: u32,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        Box::pin(async move {
            // As a call does: not at once.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let messages: Vec<_> = {
                let mut state = self.state();
                // One that ends badly does not come again in the same batch.
                let mut ready = state.again.len();
                let next = |_| match state.again.pop_front_if(|_| ready > 0) {
                    Some(number) => {
                        ready -= 1;
                        Some(message(number, 2))
                    }
                    None if state.made < MESSAGES => {
                        state.made += 1;
                        if state.made.is_multiple_of(BAD) {
                            let number = state.made;
                            state.again.push_back(number);
                        }
                        Some(message(state.made, 1))
                    }
                    None => None,
                };
                (0..max_messages.min(10)).map_while(next).collect()
            };
            if messages.is_empty() {
                std::future::pending::<()>().await;
            }
            self.state().held += messages.len() as u32;
            Ok(messages)
        })
    }

    fn delete_batch<'a>(&'a self, _: &'a str, handles: &'a [String]) -> BoxFuture<'a, BatchResult> {
        self.state().deleted += handles.len() as u32;
        self.gone.notify_one();
        Box::pin(ready(Ok(vec![Ok(()); handles.len()])))
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_messages_leave_the_memory_flat() {
    let queue = Arc::new(Queue::default());
    let bad = Arc::new(AtomicU32::new(0));
    let ends_badly = Arc::clone(&bad);
    let handler = handler_fn(move |job: Job<Raw>| {
        let number: u32 = job
            .delivery
            .message_id
            .trim_start_matches("m-")
            .parse()
            .unwrap_or_default();
        let ends_badly = (number.is_multiple_of(BAD) && job.delivery.receive_count == Some(1))
            .then(|| ends_badly.fetch_add(1, Ordering::Relaxed));
        async move {
            match ends_badly {
                None => Ok::<(), HandlerError>(()),
                Some(n) if n.is_multiple_of(2) => Err("told to fail".into()),
                // Without the panic hook's noise.
                Some(_) => std::panic::resume_unwind(Box::new("told to panic")),
            }
        }
    });
    let mut config = Config::default();
    config.queue_url = Some("jobs".to_owned());
    let all_gone = {
        let queue = Arc::clone(&queue);
        async move {
            while queue.state().deleted < MESSAGES {
                queue.gone.notified().await;
            }
        }
    };
    let early = peak_rss_kb();
    let worker = Worker::new(handler, config).with_sqs(queue.clone());
    worker.poll_until(all_gone).await.expect("it polls");

    let state = queue.state();
    assert_eq!(state.deleted, MESSAGES, "each is done once");
    assert_eq!(bad.load(Ordering::Relaxed), MESSAGES / BAD);
    assert_eq!(
        state.held,
        MESSAGES + MESSAGES / BAD,
        "what ended badly came again"
    );
    let peak = peak_rss_kb();
    assert!(peak < MAX_RSS_KB, "{peak} KB at most, {early} KB at the start");
}

/// The most memory that this process ever held. Where the system does not tell, there is nothing to assert.
fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or_default()
}
