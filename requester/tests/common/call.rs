//! A call with secrets wherever one can be.

use std::sync::Arc;

use frigg_requester::{Auth, FetchError, Requester, RequesterBuilder, Response};

use super::{Logs, Notices, Reply, Server, VirtualClock, logs, noon, secrets};

/// A server, a clock that sleeps at once, and somebody who listens.
pub struct Setup {
    pub server: Server,
    pub clock: VirtualClock,
    pub notices: Notices,
    pub logs: Logs,
    _guard: logs::Guard,
}

impl Setup {
    /// Answers these in turn.
    pub fn script(replies: impl IntoIterator<Item = Reply>) -> Setup {
        Self::with(Server::script(replies))
    }

    pub fn with(server: Server) -> Setup {
        let (logs, _guard) = Logs::capture();
        Setup {
            server,
            clock: VirtualClock::new(noon()),
            notices: Notices::default(),
            logs,
            _guard,
        }
    }

    pub fn builder(&self) -> RequesterBuilder {
        Requester::builder(self.server.url())
            .module("acme")
            .clock(self.clock.clock(0.0))
            .auth(Auth::bearer(secrets::TOKEN))
            .notify(Arc::new(self.notices.clone()))
    }

    pub fn requester(&self) -> Requester {
        self.builder().build().expect("a requester")
    }

    pub async fn get(&self) -> Result<Response, FetchError> {
        send(&self.requester(), "GET").await
    }
}

pub async fn send(requester: &Requester, method: &str) -> Result<Response, FetchError> {
    requester
        .request(method, "/v1/contacts")
        .query(&[("access_token", secrets::QUERY)])
        .header("x-api-key", secrets::KEY)
        .json(&serde_json::json!({ "password": secrets::BODY }))
        .send()
        .await
}

/// The error, in which no secret is shown.
pub fn error<T: std::fmt::Debug>(result: Result<T, FetchError>) -> FetchError {
    let error = result.expect_err("a failure");
    secrets::assert_none(&secrets::shown(&error));
    error
}
