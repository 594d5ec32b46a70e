//! What a user writes: [`Handler`] for one record, [`BatchHandler`] for a whole batch.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use frigg_core::delivery::Delivery;
use futures_util::FutureExt as _;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::door::Door;
use crate::error::HandlerError;

/// One message and the facts of its delivery.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Job<T> {
    /// The decoded body, without the `_frigg` envelope.
    pub message: T,
    /// Receive count, attributes, time left, …
    pub delivery: Arc<Delivery>,
    door: Option<Arc<Door>>,
}

impl<T> Job<T> {
    /// For tests of handlers.
    pub fn new(message: T, delivery: impl Into<Arc<Delivery>>) -> Self {
        Job {
            message,
            delivery: delivery.into(),
            door: None,
        }
    }

    /// With another message, for a handler that hands it on.
    pub(crate) fn with<U>(self, message: U) -> Job<U> {
        Job {
            message,
            delivery: self.delivery,
            door: self.door,
        }
    }

    /// Lets the job in, or sends it back because its key is closed. The future borrows nothing of the message, which need
    /// not be `Sync`.
    pub(crate) fn enter<K>(&self, key: K) -> impl Future<Output = Result<(), HandlerError>> + Send + use<T, K>
    where
        K: FnOnce(&T) -> Option<String>,
    {
        let door = self.door.clone();
        let key = door.as_ref().and_then(|_| key(&self.message));
        async move {
            match door.zip(key) {
                Some((door, key)) => door.enter(key).await,
                None => Ok(()),
            }
        }
    }
}

/// Handles one message at a time.
///
/// At least once: a message can come again after it was handled, so a handler's work is idempotent. Where the last
/// attempt needs a goodbye (a run to be marked failed), check
/// [`is_last_attempt`](Delivery::is_last_attempt) first and return the error all the same; ending the run there also
/// ends one that could still be deferred, so leave rate limits alone.
pub trait Handler: Send + Sync + 'static {
    /// Any [`DeserializeOwned`] type, or [`Raw`] for the undecoded body.
    type Message: Message;
    /// Any error; see [`HandlerError`] for what becomes of it.
    type Error: Into<HandlerError>;

    /// Does the work. Dropped at the batch's deadline.
    fn handle(&self, job: Job<Self::Message>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whose limit the message's work counts against: `hubspot:entity:7`, as on the
    /// [`RateLimited`](crate::RateLimited) errors that the work can end in. While that key is closed (see
    /// [`gate`](crate::gate)), the handler is not called and the message put back. At most 2,048 bytes. Default: none.
    fn scope_key(&self, _: &Self::Message) -> Option<String> {
        None
    }
}

/// Handles a whole batch at once, for bulk APIs. Run it with [`PerBatch`].
pub trait BatchHandler: Send + Sync + 'static {
    /// Any [`DeserializeOwned`] type, or [`Raw`].
    type Message: Message;
    /// Any error; see [`HandlerError`].
    type Error: Into<HandlerError>;

    /// Does the work: one result per job, in order. With any other number of results all jobs count as failed.
    ///
    /// On a FIFO queue the jobs are in order, and it is the handler that stops a group after a failure.
    fn handle_batch(
        &self,
        jobs: Vec<Job<Self::Message>>,
    ) -> impl Future<Output = Vec<Result<(), Self::Error>>> + Send;

    /// See [`Handler::scope_key`]. Messages whose key is closed are left out of the batch. Default: none.
    fn scope_key(&self, _: &Self::Message) -> Option<String> {
        None
    }
}

/// A body that a handler can take.
pub trait Message: Sized + Send + 'static {
    /// Decodes a body.
    ///
    /// # Errors
    /// When the body does not have this form. The error must not quote the body.
    fn decode(body: &str) -> Result<Self, DecodeError>;
}

impl<T: DeserializeOwned + Send + 'static> Message for T {
    fn decode(body: &str) -> Result<Self, DecodeError> {
        serde_json::from_str(body).map_err(|error| DecodeError::from_json(&error))
    }
}

/// The body as it came, without the envelope.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(pub String);

/// Its length: a body belongs in no log.
impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({} bytes)", self.0.len())
    }
}

impl Message for Raw {
    fn decode(body: &str) -> Result<Self, DecodeError> {
        Ok(Raw(body.to_owned()))
    }
}

/// A body that does not decode: says where, never what stood there (serde_json's own text quotes it).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError(String);

impl DecodeError {
    /// `what` is wrong; it must not quote the body.
    pub fn new(what: impl Into<String>) -> Self {
        DecodeError(what.into())
    }

    pub(crate) fn from_json(error: &serde_json::Error) -> Self {
        use serde_json::error::Category;
        let what = match error.classify() {
            Category::Syntax => "the body is not JSON",
            Category::Eof => "the body is cut short",
            Category::Data => "the body does not have the form that the handler takes",
            Category::Io => "the body cannot be read",
        };
        DecodeError(format!(
            "{what} (line {}, column {})",
            error.line(),
            error.column()
        ))
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

/// A closure as a [`Handler`].
///
/// ```
/// use frigg_worker::{HandlerError, Job, handler_fn};
///
/// let handler = handler_fn(|job: Job<serde_json::Value>| async move {
///     println!("{}", job.message["id"]);
///     Ok::<(), HandlerError>(())
/// });
/// ```
pub fn handler_fn<T, E, F, Fut>(f: F) -> HandlerFn<T, F>
where
    T: Message,
    E: Into<HandlerError>,
    F: Fn(Job<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
{
    HandlerFn {
        f,
        key: None,
        message: PhantomData,
    }
}

/// See [`handler_fn`].
pub struct HandlerFn<T, F> {
    f: F,
    key: Option<KeyFn<T>>,
    message: PhantomData<fn(T)>,
}

type KeyFn<T> = Arc<dyn Fn(&T) -> Option<String> + Send + Sync>;

impl<T, F> HandlerFn<T, F> {
    /// Names the message's [scope key](Handler::scope_key). Default: none.
    #[must_use]
    pub fn with_scope_key(self, key: impl Fn(&T) -> Option<String> + Send + Sync + 'static) -> Self {
        HandlerFn {
            key: Some(Arc::new(key)),
            ..self
        }
    }
}

impl<T, F> fmt::Debug for HandlerFn<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandlerFn")
    }
}

impl<T, E, F, Fut> Handler for HandlerFn<T, F>
where
    T: Message,
    E: Into<HandlerError>,
    F: Fn(Job<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
{
    type Message = T;
    type Error = E;

    fn handle(&self, job: Job<T>) -> impl Future<Output = Result<(), E>> + Send {
        (self.f)(job)
    }

    fn scope_key(&self, message: &T) -> Option<String> {
        self.key.as_ref()?(message)
    }
}

/// Runs a [`BatchHandler`]: `Worker::from_env(PerBatch(handler))`.
#[derive(Debug, Clone)]
pub struct PerBatch<H>(pub H);

/// An undecoded job, as the batch code has it.
#[expect(missing_debug_implementations, reason = "it is a body")]
pub struct RawJob<'a> {
    /// `None`: the record had none.
    pub(crate) body: Option<&'a str>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) door: Option<Arc<Door>>,
    /// Its FIFO group, which goes no further than its first record that fails.
    pub(crate) group: Option<String>,
}

impl RawJob<'_> {
    fn decode<T: Message>(self) -> Result<Job<T>, HandlerError> {
        match decode(self.body) {
            Ok(message) => Ok(Job {
                message,
                delivery: self.delivery,
                door: self.door,
            }),
            Err(error) => Err(HandlerError::unreadable(error)),
        }
    }
}

/// How the batch code calls a user's handler. Implemented for every [`Handler`] and for [`PerBatch`].
pub trait Consumer: Send + Sync + 'static {
    /// Whether one call takes the whole batch, or one record.
    #[doc(hidden)]
    const WHOLE_BATCH: bool;

    /// Decodes and handles, until `end`; one result per job.
    #[doc(hidden)]
    fn consume(
        &self,
        jobs: Vec<RawJob<'_>>,
        end: Instant,
    ) -> impl Future<Output = Vec<Result<(), HandlerError>>> + Send;
}

impl<H: Handler> Consumer for H {
    const WHOLE_BATCH: bool = false;

    async fn consume(&self, jobs: Vec<RawJob<'_>>, end: Instant) -> Vec<Result<(), HandlerError>> {
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs {
            // Pinned here, as what is passed on and on would be copied each time with all of the handler's future.
            let work = pin!(async {
                let job = job.decode()?;
                job.enter(|message| self.scope_key(message)).await?;
                self.handle(job).await.map_err(Into::into)
            });
            results.push(guarded(end, work).await.unwrap_or_else(|cut| Err(cut.error())));
        }
        results
    }
}

impl<H: BatchHandler> Consumer for PerBatch<H> {
    const WHOLE_BATCH: bool = true;

    async fn consume(&self, jobs: Vec<RawJob<'_>>, end: Instant) -> Vec<Result<(), HandlerError>> {
        let mut readable = Vec::with_capacity(jobs.len());
        let mut faults = Vec::with_capacity(jobs.len());
        let mut held = HashSet::new();
        for mut job in jobs {
            let group = job.group.take();
            let entered = if group.as_ref().is_some_and(|group| held.contains(group)) {
                Err(HandlerError::held())
            } else {
                let entered = guarded(end, async {
                    let job = job.decode()?;
                    job.enter(|message| self.0.scope_key(message)).await?;
                    Ok::<_, HandlerError>(job)
                });
                entered.await.unwrap_or_else(|cut| Err(cut.error()))
            };
            faults.push(match entered {
                Ok(job) => {
                    readable.push(job);
                    None
                }
                Err(error) => {
                    held.extend(group);
                    Some(error)
                }
            });
        }
        let expected = readable.len();
        let mut results = if expected == 0 {
            Vec::new()
        } else {
            match guarded(end, self.0.handle_batch(readable)).await {
                Ok(results) => results
                    .into_iter()
                    .map(|result| result.map_err(Into::into))
                    .collect(),
                Err(cut) => (0..expected).map(|_| Err(cut.error())).collect(),
            }
        };
        let given = results.len();
        if given != expected {
            results.clear();
        }
        let mut results = results.into_iter();
        let mut next = || match results.next() {
            Some(result) => result,
            None => Err(format!("the batch handler gave {given} results for {expected} messages").into()),
        };
        faults
            .into_iter()
            .map(|fault| match fault {
                Some(error) => Err(error),
                None => next(),
            })
            .collect()
    }
}

/// Why the user's code did not come to its end.
enum Cut {
    Panicked(Box<dyn Any + Send>),
    TimedOut,
}

impl Cut {
    fn error(&self) -> HandlerError {
        match self {
            Cut::Panicked(panic) => HandlerError::panicked(&**panic),
            Cut::TimedOut => HandlerError::timed_out(),
        }
    }
}

/// Runs the user's code: its panic is caught, and it ends at `end`. What others of the batch came to before stays.
async fn guarded<T>(end: Instant, work: impl Future<Output = T>) -> Result<T, Cut> {
    // It must not even begin past its end; `timeout_at` alone would poll it once.
    if Instant::now() >= end {
        return Err(Cut::TimedOut);
    }
    match timeout_at(end, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(ended) => ended.map_err(Cut::Panicked),
        Err(_) => Err(Cut::TimedOut),
    }
}

fn decode<T: Message>(body: Option<&str>) -> Result<T, DecodeError> {
    T::decode(body.ok_or_else(|| DecodeError::new("the record has no body"))?)
}
