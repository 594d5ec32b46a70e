//! A [`Notify`] that remembers, and fails when told to.

use std::sync::{Arc, Mutex};

use frigg_requester::{BoxError, Notice, Notify};
use futures_util::future::BoxFuture;

#[derive(Clone, Default)]
pub struct Notices {
    heard: Arc<Mutex<Vec<Notice>>>,
    fault: Option<String>,
}

impl Notices {
    pub fn failing(text: &str) -> Self {
        Notices {
            fault: Some(text.to_owned()),
            ..Notices::default()
        }
    }

    pub fn heard(&self) -> Vec<Notice> {
        self.heard.lock().expect("notices").clone()
    }
}

impl Notify for Notices {
    fn notify<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            // It is awaited: what comes after the first turn counts too.
            tokio::task::yield_now().await;
            self.heard.lock().expect("notices").push(notice.clone());
            self.fault.clone().map_or(Ok(()), |text| Err(text.into()))
        })
    }
}
