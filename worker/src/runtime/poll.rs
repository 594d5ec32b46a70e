//! Outside Lambda: long polling with the same batch code.
//!
//! It holds no more messages than it has free slots ([`Hand`]), so that none waits in memory while its visibility timeout
//! runs down; and it keeps them hidden until each has its verdict, those that are done until they are deleted.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use frigg_core::delivery::QueueArn;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::batch::Pipe;
use crate::book::{Book, Verdict};
use crate::config::Config;
use crate::error::Error;
use crate::handler::Consumer;
use crate::ports::{CallError, CallErrorKind, Sqs, VisibilityRequest};
use crate::queues::too_few_receives;
use crate::runtime::hand::{BATCH, Hand};

/// SQS's longest wait for a message.
const RECEIVE_WAIT: Duration = Duration::from_secs(20);
/// A receive that is under way when the worker stops may still bring messages: it is awaited this much longer.
const LAST_RECEIVE_GRACE: Duration = Duration::from_secs(5);
/// For deleting what is done, when a batch is broken off.
const LAST_DELETES: Duration = Duration::from_secs(5);
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(60);
const WARN_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_VISIBILITY: Duration = Duration::from_secs(30);
/// SQS hides no message for longer.
const LONGEST_BATCH: Duration = Duration::from_secs(12 * 3600);

/// Polls until `stop` is ready, then ends what is running.
pub(crate) async fn run<C: Consumer>(
    pipe: Pipe<C>,
    config: &Config,
    url: &str,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let (stopper, stopping) = watch::channel(false);
    let mut polling = pin!(poll(pipe, config, url, stopping));
    tokio::select! {
        biased;
        result = &mut polling => return result,
        () = stop => {}
    }
    let _ = stopper.send(true);
    polling.await
}

async fn poll<C: Consumer>(
    pipe: Pipe<C>,
    config: &Config,
    url: &str,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), Error> {
    let sqs = Arc::clone(&pipe.effects.sqs);
    let mut trouble = Trouble::default();
    let Some(queue) = find_queue(&pipe, &*sqs, url, &mut stopping, &mut trouble).await? else {
        return Ok(());
    };
    let slots = config.concurrency.get().min(Semaphore::MAX_PERMITS);
    let (through, mut ends) = mpsc::unbounded_channel();
    let (drained, at_once) = watch::channel(false);
    let shared = Arc::new(Shared {
        pipe,
        queue,
        batch_time: config.batch_time,
        slots: Semaphore::new(slots),
        through,
        at_once,
    });
    let mut hand = Hand::new(slots);
    let mut receives = FuturesUnordered::new();
    let mut pause_ends = None;
    let mut batches = JoinSet::new();
    tracing::info!(target: "frigg.worker", eventName = "frigg.worker.polling", queue = shared.queue.arn.name());

    let receive = async |wanted: usize| {
        let began = Instant::now();
        let received = sqs
            .receive(url, u32::try_from(wanted).unwrap_or(1), RECEIVE_WAIT)
            .await;
        (wanted, received, began.elapsed())
    };
    while !*stopping.borrow() {
        while pause_ends.is_none()
            && let Some(wanted) = hand.ask()
        {
            receives.push(receive(wanted));
        }
        tokio::select! {
            biased;
            Some((wanted, received, took)) = receives.next() => match received {
                Ok(messages) => {
                    trouble.over();
                    hand.received(wanted, messages.len(), took);
                    start(&mut batches, &shared, messages);
                }
                Err(error) => {
                    hand.received(wanted, 0, took);
                    pause_ends = Some(Instant::now() + trouble.pause("receive_failed", &error));
                }
            },
            Some((count, took)) = ends.recv() => hand.through(count, took),
            () = sleep_until(pause_ends.unwrap_or_else(Instant::now)), if pause_ends.is_some() => pause_ends = None,
            _ = stopping.wait_for(|stop| *stop) => {}
        }
        while batches.try_join_next().is_some() {}
    }
    // SQS may give messages to these calls even now; dropped, they would stay hidden for their whole timeout.
    let last = async {
        while let Some((_, received, _)) = receives.next().await {
            start(&mut batches, &shared, received.unwrap_or_default());
        }
    };
    let _ = timeout(RECEIVE_WAIT + LAST_RECEIVE_GRACE, last).await;
    drain(batches, config.drain_time, &drained).await;
    Ok(())
}

fn start<C: Consumer>(batches: &mut JoinSet<()>, shared: &Arc<Shared<C>>, messages: Vec<SqsMessage>) {
    if !messages.is_empty() {
        let shared = Arc::clone(shared);
        batches.spawn(async move { shared.work(messages).await });
    }
}

/// `None` when the worker has to stop first.
async fn until_stop<T>(stopping: &mut watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        _ = stopping.wait_for(|stop| *stop) => None,
    }
}

/// Lets running batches end, within a bound; then what is done is deleted, and the rest left.
async fn drain(mut batches: JoinSet<()>, bound: Duration, drained: &watch::Sender<bool>) {
    let all = async |batches: &mut JoinSet<()>| while batches.join_next().await.is_some() {};
    if timeout(bound, all(&mut batches)).await.is_err() {
        tracing::warn!(
            target: "frigg.worker", eventName = "frigg.worker.drain_ended", batches = batches.len(),
            "handlers were still running when the time to stop was over; their messages come back by themselves",
        );
        let _ = drained.send(true);
        let _ = timeout(LAST_DELETES, all(&mut batches)).await;
    }
}

/// Asks the queue for its ARN and its visibility timeout; `None` when the worker has to stop first.
async fn find_queue<C>(
    pipe: &Pipe<C>,
    sqs: &dyn Sqs,
    url: &str,
    stopping: &mut watch::Receiver<bool>,
    trouble: &mut Trouble,
) -> Result<Option<Queue>, Error> {
    loop {
        let Some(answer) = until_stop(stopping, sqs.queue_attributes(url)).await else {
            return Ok(None);
        };
        match answer {
            Ok(attributes) => {
                let Some(arn) = attributes.arn.clone() else {
                    return Err(Error::new(
                        "the queue of FRIGG_QUEUE_URL tells no ARN; is the URL a queue's?",
                    ));
                };
                if let Some(fault) = too_few_receives(&arn, &attributes, &pipe.effects.options) {
                    return Err(Error::new(fault));
                }
                trouble.over();
                pipe.effects.queues.remember(arn.clone(), url).await;
                let visibility = attributes.visibility_timeout.unwrap_or(DEFAULT_VISIBILITY);
                return Ok(Some(Queue {
                    arn,
                    url: url.to_owned(),
                    visibility,
                }));
            }
            Err(error) => {
                let pause = trouble.pause("queue_unreachable", &error);
                if until_stop(stopping, sleep(pause)).await.is_none() {
                    return Ok(None);
                }
            }
        }
    }
}

/// Growing pauses, and one WARN a minute instead of a flood.
#[derive(Default)]
struct Trouble {
    pause: Option<Duration>,
    warned_at: Option<Instant>,
}

impl Trouble {
    fn over(&mut self) {
        self.pause = None;
    }

    fn pause(&mut self, event: &'static str, error: &CallError) -> Duration {
        let pause = self
            .pause
            .map_or(FIRST_BACKOFF, |last| (last * 2).min(LAST_BACKOFF));
        self.pause = Some(pause);
        if self.warned_at.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            self.warned_at = Some(Instant::now());
            tracing::warn!(
                target: "frigg.worker",
                eventName = tracing::field::display(format_args!("frigg.worker.{event}")),
                "error.type" = "CallError", "error.message" = %error,
                "the queue does not answer; trying again until it does",
            );
        }
        pause
    }
}

struct Queue {
    arn: QueueArn,
    url: String,
    visibility: Duration,
}

struct Shared<C> {
    pipe: Pipe<C>,
    queue: Queue,
    batch_time: Duration,
    /// For handlers. Only messages that were fetched ahead have to wait for them.
    slots: Semaphore,
    /// Told of each batch when its handlers are through: how many messages, how long it took.
    through: mpsc::UnboundedSender<(usize, Duration)>,
    /// True when a batch has to end as it stands.
    at_once: watch::Receiver<bool>,
}

/// Says so when it is dropped, be it by a panic: a place in hand that is never given back would be lost.
struct Through<'a> {
    to: &'a mpsc::UnboundedSender<(usize, Duration)>,
    messages: usize,
    began: Instant,
}

impl Drop for Through<'_> {
    fn drop(&mut self) {
        // Nobody listens any more once the worker stops.
        let _ = self.to.send((self.messages, self.began.elapsed()));
    }
}

impl<C: Consumer> Shared<C> {
    async fn work(&self, mut messages: Vec<SqsMessage>) {
        for message in &mut messages {
            message.event_source_arn = Some(self.queue.arn.to_string());
        }
        let acks: Vec<(String, String)> = messages
            .iter()
            .map(|m| {
                (
                    m.message_id.clone().unwrap_or_default(),
                    m.receipt_handle.clone().unwrap_or_default(),
                )
            })
            .collect();
        let book = Book::hidden_until(acks.len(), Instant::now() + self.queue.visibility);
        let mut at_once = self.at_once.clone();
        tokio::select! {
            biased;
            () = self.handle(messages, &acks, &book) => return,
            never = self.keep_alive(&acks, &book) => match never {},
            _ = at_once.wait_for(|at_once| *at_once) => {}
        }
        // A slow neighbour is no reason to do again what is done, or to have twice what was put back.
        let verdicts = acks.into_iter().zip(book.verdicts());
        let done = verdicts.filter(|(_, verdict)| *verdict == Some(Verdict::Ack));
        self.delete(done.map(|(ack, _)| ack).collect()).await;
    }

    async fn handle(&self, messages: Vec<SqsMessage>, acks: &[(String, String)], book: &Book) {
        let mut through = Through {
            to: &self.through,
            messages: messages.len(),
            began: Instant::now(),
        };
        let slots = messages.len().min(self.pipe.concurrency);
        // It is never closed.
        let taken = self.slots.acquire_many(u32::try_from(slots).unwrap_or(1)).await;
        let now = Instant::now();
        through.began = now;
        let deadline = now.checked_add(self.batch_time).unwrap_or(now + LONGEST_BATCH);
        let processed = self.pipe.process(messages, deadline, book).await;
        drop((taken, through));
        match processed {
            Ok(response) => {
                let failed = |id: &str| {
                    response
                        .batch_item_failures
                        .iter()
                        .any(|item| item.item_identifier == id)
                };
                let done = acks.iter().filter(|(id, _)| !failed(id)).cloned();
                self.delete(done.collect()).await;
            }
            Err(error) => tracing::error!(
                target: "frigg.worker", eventName = "frigg.worker.batch_failed",
                "error.type" = "Error", "error.message" = %error,
            ),
        }
    }

    /// Extends the visibility of the messages that have to stay hidden, at half of the queue's timeout.
    async fn keep_alive(&self, acks: &[(String, String)], book: &Book) -> Infallible {
        let queue = &self.queue;
        let seconds = u32::try_from(queue.visibility.as_secs())
            .unwrap_or(u32::MAX)
            .max(1);
        loop {
            sleep((queue.visibility / 2).max(Duration::from_secs(1))).await;
            book.keep(async |indexes| {
                let request = |index: usize| VisibilityRequest {
                    receipt_handle: acks[index].1.clone(),
                    seconds,
                };
                for chunk in indexes.chunks(BATCH) {
                    let requests: Vec<_> = chunk.iter().copied().map(request).collect();
                    let asked = Instant::now();
                    let call = self
                        .pipe
                        .effects
                        .sqs
                        .change_visibility_batch(&queue.url, &requests);
                    let results = call.await.unwrap_or_else(|error| {
                        tracing::debug!(
                            target: "frigg.worker", eventName = "frigg.worker.keep_alive_failed",
                            "error.type" = "CallError", "error.message" = %error,
                        );
                        vec![Err(error); requests.len()]
                    });
                    for (index, result) in chunk.iter().zip(results) {
                        match result {
                            Ok(()) => book.keep_until(*index, asked + Duration::from_secs(seconds.into())),
                            Err(error) if error.kind == CallErrorKind::HandleLost => {
                                book.keep_until(*index, asked);
                            }
                            Err(_) => {}
                        }
                    }
                }
            })
            .await;
        }
    }

    /// Deletes what is done. An entry that is refused is tried once more; then its message comes again.
    async fn delete(&self, done: Vec<(String, String)>) {
        for chunk in done.chunks(BATCH) {
            let mut left = chunk.to_vec();
            let mut errors = self.delete_once(&mut left).await;
            if !left.is_empty() {
                errors = self.delete_once(&mut left).await;
            }
            for ((id, _), error) in left.iter().zip(errors) {
                tracing::warn!(
                    target: "frigg.worker", eventName = "frigg.worker.delete_failed", messageId = id,
                    "error.type" = "CallError", "error.message" = %error,
                    "the message is done and could not be deleted; it will be delivered again",
                );
            }
        }
    }

    /// Leaves what could not be deleted in `entries`, and gives the reasons.
    async fn delete_once(&self, entries: &mut Vec<(String, String)>) -> Vec<CallError> {
        let handles: Vec<String> = entries.iter().map(|(_, handle)| handle.clone()).collect();
        let results = match self
            .pipe
            .effects
            .sqs
            .delete_batch(&self.queue.url, &handles)
            .await
        {
            Ok(results) => results,
            Err(error) => vec![Err(error); handles.len()],
        };
        let mut errors = Vec::new();
        let mut results = results.into_iter();
        entries.retain(|_| match results.next() {
            Some(Err(error)) => {
                errors.push(error);
                true
            }
            _ => false,
        });
        errors
    }
}
