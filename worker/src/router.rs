//! Several handlers on one queue, told apart by the body's `event` field.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::error::HandlerError;
use crate::handler::{DecodeError, Handler, Job, Message, Raw};

type Route = Arc<dyn Fn(Job<Raw>) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync>;

/// Dispatches on the body's `event` field. Each handler decodes the whole body.
///
/// An event without a handler is a failure of the message, not of the moment: it is never dropped silently.
///
/// ```
/// use frigg_worker::{HandlerError, Job, Router, handler_fn};
///
/// #[derive(serde::Deserialize)]
/// struct SyncPage { data: Page }
/// #[derive(serde::Deserialize)]
/// struct Page { number: u32 }
///
/// let router = Router::new()
///     .on("SYNC_PAGE", handler_fn(|job: Job<SyncPage>| async move {
///         println!("page {}", job.message.data.number);
///         Ok::<(), HandlerError>(())
///     }))
///     .on("PING", handler_fn(|_: Job<serde_json::Value>| async { Ok::<(), HandlerError>(()) }));
/// ```
#[derive(Default, Clone)]
pub struct Router {
    routes: HashMap<String, Route>,
}

impl Router {
    /// A router without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends messages whose `event` is `event` to `handler`. A later route for the same event replaces the earlier.
    #[must_use]
    pub fn on<H: Handler>(mut self, event: impl Into<String>, handler: H) -> Self {
        let handler = Arc::new(handler);
        let route = move |job: Job<Raw>| -> BoxFuture<'static, Result<(), HandlerError>> {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let message = H::Message::decode(&job.message.0).map_err(HandlerError::unreadable)?;
                let job = job.with(message);
                // Only now is the key known: it is the inner handler's.
                job.enter(|message| handler.scope_key(message)).await?;
                handler.handle(job).await.map_err(Into::into)
            })
        };
        self.routes.insert(event.into(), Arc::new(route));
        self
    }
}

impl Handler for Router {
    type Message = Raw;
    type Error = HandlerError;

    async fn handle(&self, job: Job<Raw>) -> Result<(), HandlerError> {
        #[derive(Deserialize)]
        struct Event {
            event: Option<String>,
        }
        let Event { event } = serde_json::from_str(&job.message.0)
            .map_err(|error| HandlerError::unreadable(DecodeError::from_json(&error)))?;
        let route = event.as_deref().and_then(|event| self.routes.get(event));
        match (route, event) {
            (Some(route), _) => route(job).await,
            (None, Some(_)) => Err(HandlerError::unreadable("no handler for the body's event")),
            (None, None) => Err(HandlerError::unreadable("the body has no event")),
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.routes.keys()).finish()
    }
}
