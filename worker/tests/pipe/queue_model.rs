//! A small SQS: delays, visibility, receive counts, the redrive rule.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use frigg_core::delivery::{AttributeValue, MessageAttribute, QueueArn};
use frigg_worker::ports::{
    BatchResult, CallError, CallErrorKind, QueueAttributes, SendRequest, Sqs, VisibilityRequest,
};
use frigg_worker::{Clock, Consumer, Worker};
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::support::arn;

#[derive(Debug, Clone)]
struct Stored {
    id: String,
    body: String,
    attributes: HashMap<String, MessageAttribute>,
    receives: u32,
    visible_at: Instant,
    handle: String,
}

#[derive(Debug)]
struct Inner {
    messages: Vec<Stored>,
    dead: usize,
    next: usize,
    received_at: Vec<Timestamp>,
    sends: Vec<usize>,
    /// Received and neither deleted nor visible again, now and at most.
    held: usize,
    most_held: usize,
    deletes: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    attributes: QueueAttributes,
    sends_take: Duration,
}

impl Model {
    pub(crate) fn attributes() -> QueueAttributes {
        QueueAttributes {
            arn: Some(arn("arn:aws:sqs:eu-west-1:111111111111:jobs")),
            visibility_timeout: Some(Duration::from_secs(30)),
            ..QueueAttributes::default()
        }
    }

    pub(crate) fn new(clock: Clock, attributes: QueueAttributes) -> Model {
        let inner = Inner {
            messages: vec![],
            dead: 0,
            next: 0,
            received_at: vec![],
            sends: vec![],
            held: 0,
            most_held: 0,
            deletes: vec![],
        };
        Model {
            inner: Arc::new(Mutex::new(inner)),
            clock,
            attributes,
            sends_take: Duration::ZERO,
        }
    }

    /// Sends to the queue `jobs` are answered after so long.
    pub(crate) fn with_sends_that_take(self, sends_take: Duration) -> Model {
        Model { sends_take, ..self }
    }

    pub(crate) fn shared(&self) -> Arc<dyn Sqs> {
        Arc::new(self.clone())
    }

    pub(crate) fn put(&self, body: &str) {
        self.store(&SendRequest::new(body, 0));
    }

    fn store(&self, request: &SendRequest) {
        let mut inner = self.inner.lock().unwrap();
        inner.next += 1;
        let id = format!("m{}", inner.next);
        inner.messages.push(Stored {
            id,
            body: request.body.clone(),
            attributes: request.attributes.clone(),
            receives: 0,
            visible_at: Instant::now() + Duration::from_secs(request.delay_seconds.into()),
            handle: String::new(),
        });
    }

    pub(crate) fn dead(&self) -> usize {
        self.inner.lock().unwrap().dead
    }

    pub(crate) fn left(&self) -> usize {
        self.inner.lock().unwrap().messages.len()
    }

    /// The number of entries of each send.
    pub(crate) fn sends(&self) -> Vec<usize> {
        self.inner.lock().unwrap().sends.clone()
    }

    pub(crate) fn deletes(&self) -> Vec<usize> {
        self.inner.lock().unwrap().deletes.clone()
    }

    pub(crate) fn received_at(&self) -> Vec<Timestamp> {
        self.inner.lock().unwrap().received_at.clone()
    }

    pub(crate) fn most_held(&self) -> usize {
        self.inner.lock().unwrap().most_held
    }

    fn take(&self, max: u32) -> Vec<SqsMessage> {
        let visibility = self.attributes.visibility_timeout.unwrap_or_default();
        let mut inner = self.inner.lock().unwrap();
        let inner = &mut *inner;
        let now = Instant::now();
        let allowed = self.attributes.max_receive_count.unwrap_or(u32::MAX);
        let before = inner.messages.len();
        inner
            .messages
            .retain(|m| m.visible_at > now || m.receives < allowed);
        inner.dead += before - inner.messages.len();
        let mut taken = Vec::new();
        for stored in inner
            .messages
            .iter_mut()
            .filter(|m| m.visible_at <= now)
            .take(max as usize)
        {
            stored.receives += 1;
            stored.visible_at = now + visibility;
            stored.handle = format!("{}-{}", stored.id, stored.receives);
            taken.push(received(stored));
            inner.received_at.push(self.clock.now());
        }
        inner.held = inner
            .messages
            .iter()
            .filter(|m| m.receives > 0 && m.visible_at > now)
            .count();
        inner.most_held = inner.most_held.max(inner.held);
        taken
    }
}

fn received(stored: &Stored) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = Some(stored.id.clone());
    message.receipt_handle = Some(stored.handle.clone());
    message.body = Some(stored.body.clone());
    message
        .attributes
        .insert("ApproximateReceiveCount".to_owned(), stored.receives.to_string());
    for (name, attribute) in &stored.attributes {
        let mut copy = SqsMessageAttribute::default();
        copy.data_type = Some(attribute.data_type.clone());
        if let AttributeValue::Text(text) = &attribute.value {
            copy.string_value = Some(text.clone());
        }
        message.message_attributes.insert(name.clone(), copy);
    }
    message
}

fn lost() -> CallError {
    CallError::new(
        CallErrorKind::HandleLost,
        Some("ReceiptHandleIsInvalid"),
        "no such handle",
    )
}

impl Sqs for Model {
    fn queue_url<'a>(&'a self, queue: &'a QueueArn, _: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok(format!("https://queue/{}", queue.name()))))
    }

    fn queue_attributes<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        Box::pin(ready(Ok(self.attributes.clone())))
    }

    fn send<'a>(
        &'a self,
        url: &'a str,
        message: &'a SendRequest,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        if url.ends_with("/dead") {
            self.inner.lock().unwrap().dead += 1;
        } else {
            self.store(message);
        }
        Box::pin(ready(Ok("id".to_owned())))
    }

    fn send_batch<'a>(&'a self, url: &'a str, messages: &'a [SendRequest]) -> BoxFuture<'a, BatchResult> {
        Box::pin(async move {
            if url.ends_with("/jobs") {
                sleep(self.sends_take).await;
            }
            messages.iter().for_each(|message| self.store(message));
            self.inner.lock().unwrap().sends.push(messages.len());
            Ok(vec![Ok(()); messages.len()])
        })
    }

    fn change_visibility_batch<'a>(
        &'a self,
        _: &'a str,
        changes: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult> {
        let mut inner = self.inner.lock().unwrap();
        let mut change = |change: &VisibilityRequest| {
            let stored = inner
                .messages
                .iter_mut()
                .find(|m| m.handle == change.receipt_handle)
                .ok_or_else(lost)?;
            stored.visible_at = Instant::now() + Duration::from_secs(change.seconds.into());
            Ok(())
        };
        Box::pin(ready(Ok(changes.iter().map(&mut change).collect())))
    }

    fn receive<'a>(
        &'a self,
        _: &'a str,
        max: u32,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        Box::pin(async move {
            let end = Instant::now() + wait;
            loop {
                let taken = self.take(max);
                if !taken.is_empty() || Instant::now() >= end {
                    return Ok(taken);
                }
                sleep(Duration::from_millis(100)).await;
            }
        })
    }

    fn delete_batch<'a>(&'a self, _: &'a str, handles: &'a [String]) -> BoxFuture<'a, BatchResult> {
        let mut inner = self.inner.lock().unwrap();
        inner.messages.retain(|m| !handles.contains(&m.handle));
        inner.deletes.push(handles.len());
        Box::pin(ready(Ok(vec![Ok(()); handles.len()])))
    }
}

/// Polls for so long, then stops.
pub(crate) async fn poll_for<C: Consumer>(time: Duration, worker: Worker<C>) {
    worker.poll_until(sleep(time)).await.unwrap();
}
