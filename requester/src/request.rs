//! [`RequestBuilder`]: one call.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use frigg_core::marker::Permanent;
use http::{HeaderName, Method};
use reqwest::Url;
use serde::Serialize;

use crate::address::is_same_host;
use crate::auth::{self, sensitive};
use crate::error::{FetchError, Kind};
use crate::redacted::RedactedUrl;
use crate::replay::is_repeatable;
use crate::requester::Requester;
use crate::response::Response;
use crate::send;

/// One call, made with [`Requester::get`] and its kind, finished by [`send`](Self::send).
#[must_use = "nothing is sent before `send`"]
pub struct RequestBuilder {
    requester: Requester,
    /// As far as it was possible.
    request: Result<reqwest::RequestBuilder, FetchError>,
    method: Method,
    has_key: bool,
    entity: Option<String>,
    timeout: Option<Duration>,
}

/// A call that is ready to be sent, as often as needed.
pub(crate) struct Call {
    pub(crate) request: reqwest::Request,
    /// It may be made twice.
    pub(crate) repeatable: bool,
    pub(crate) scope_key: Option<String>,
    pub(crate) timeout: Option<Duration>,
    /// How many were followed.
    pub(crate) redirects: u32,
}

impl Call {
    /// What errors and logs say about it.
    pub(crate) fn shown(&self) -> (Method, RedactedUrl) {
        (self.request.method().clone(), RedactedUrl::of(self.request.url()))
    }
}

impl RequestBuilder {
    pub(crate) fn new(requester: &Requester, method: &str, path: &str) -> Self {
        let inner = &requester.0;
        let parsed = Method::from_bytes(method.as_bytes());
        let method = parsed.as_ref().cloned().unwrap_or_default();
        let invalid = |what| {
            FetchError::new(
                Kind::Invalid(what, Permanent::default()),
                method.clone(),
                RedactedUrl::of(&inner.base),
            )
        };
        let request = match (&parsed, resolve(&inner.base, path)) {
            (Err(_), _) => Err(invalid("there is no such method")),
            // It makes a tunnel, not a call; and the connector logs its address with the query.
            (Ok(Method::CONNECT), _) => Err(invalid("CONNECT is not a call of an API")),
            (_, Err(what)) => Err(invalid(what)),
            (Ok(method), Ok(url)) => Ok(inner.client.request(method.clone(), url)),
        };
        RequestBuilder {
            requester: requester.clone(),
            request,
            method,
            has_key: false,
            entity: None,
            timeout: None,
        }
    }

    /// Adds to the query: pairs, a map, or a struct. The values appear in no log and no error.
    pub fn query(self, query: &(impl Serialize + ?Sized)) -> Self {
        self.map(|request| request.query(query))
    }

    /// Adds a header. Its value appears in no log and no error.
    pub fn header(self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes());
        match (name, sensitive(value)) {
            (Ok(name), Some(value)) => self.map(|request| request.header(name, value)),
            _ => self.refuse("a header's name or value has a character that is not allowed there"),
        }
    }

    /// Sends this as JSON.
    pub fn json(self, body: &(impl Serialize + ?Sized)) -> Self {
        self.map(|request| request.json(body))
    }

    /// Sends these bytes. Set `Content-Type` with [`header`](Self::header).
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        self.map(|request| request.body(body))
    }

    /// Names the operation, so that the provider does it once however often it is sent: then a POST or PATCH is repeated
    /// after a 5xx or a lost connection too. Use it with providers that document it, and derive the key from the
    /// message, not from the attempt: it must be the same when the message is delivered again.
    /// An empty one is an error.
    pub fn idempotency_key(mut self, key: &str) -> Self {
        if key.trim().is_empty() {
            // It names nothing, and many providers take it for none.
            return self.refuse("the idempotency key is empty");
        }
        self.has_key = true;
        let name = self.requester.0.idempotency_header.clone();
        self.header(name.as_str(), key)
    }

    /// The account, portal or company that this call is for. Default: the requester's.
    pub fn entity(mut self, id: impl Into<String>) -> Self {
        self.entity = Some(id.into());
        self
    }

    /// How long this call may take, its body included. Default: the requester's.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes the call: waits for its turn, repeats it while that is safe and the wait fits, and gives the 2xx.
    ///
    /// # Errors
    /// A [`FetchError`] that [is rate limited](FetchError::is_rate_limited) when the provider refuses and the wait does
    /// not fit in process; else one that says what the answer was, or why there is none.
    pub async fn send(self) -> Result<Response, FetchError> {
        let inner = &self.requester.0;
        let shown = |what| {
            FetchError::new(
                Kind::Invalid(what, Permanent::default()),
                self.method.clone(),
                RedactedUrl::of(&inner.base),
            )
        };
        let mut request = self
            .request?
            .build()
            // Its text and sources may quote what could not be written.
            .map_err(|_| shown("the query or the body cannot be written"))?;
        inner.auth.sign(&mut request);
        let call = Call {
            repeatable: inner.frigg || is_repeatable(request.method(), self.has_key),
            scope_key: inner.scope_key(self.entity.as_deref()),
            timeout: self.timeout.map_or(inner.timeout, send::on),
            redirects: 0,
            request,
        };
        send::send(inner, call).await
    }

    fn map(mut self, set: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder) -> Self {
        self.request = self.request.map(set);
        self
    }

    fn refuse(mut self, what: &'static str) -> Self {
        let url = RedactedUrl::of(&self.requester.0.base);
        self.request = self.request.and_then(|_| {
            Err(FetchError::new(
                Kind::Invalid(what, Permanent::default()),
                self.method.clone(),
                url,
            ))
        });
        self
    }
}

/// Shows no address: its query may hold secrets.
impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("requester", &self.requester)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl auth::Auth {
    /// Puts a fixed credential on a call, unless the call has one of its own.
    fn sign(&self, request: &mut reqwest::Request) {
        match &self.0 {
            auth::Kind::Header(name, value) => {
                request.headers_mut().entry(name).or_insert_with(|| value.clone());
            }
            auth::Kind::Query(name, key) => {
                use secrecy::ExposeSecret as _;
                request
                    .url_mut()
                    .query_pairs_mut()
                    .append_pair(name, key.expose_secret());
            }
            _ => {}
        }
    }
}

/// The address of a path under the base; a whole URL must be of the same host, or the credential would go elsewhere.
fn resolve(base: &Url, path: &str) -> Result<Url, &'static str> {
    let is_whole = path.starts_with("http://") || path.starts_with("https://");
    let url = match is_whole {
        true => Url::parse(path),
        false => Url::parse(&format!(
            "{}/{}",
            base.as_str().trim_end_matches('/'),
            path.trim_start_matches('/')
        )),
    };
    match url {
        Err(_) => Err("the path makes no URL"),
        Ok(url) if is_whole && !is_same_host(base, &url) => Err("the URL is not of the requester's host"),
        Ok(url) => Ok(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_under_the_base() {
        let base: Url = "https://api.example.com/v1/".parse().unwrap();
        for (path, url) in [
            ("/contacts/7", Ok("https://api.example.com/v1/contacts/7")),
            ("contacts?x=1", Ok("https://api.example.com/v1/contacts?x=1")),
            (
                "https://api.example.com/v2/next?after=3",
                Ok("https://api.example.com/v2/next?after=3"),
            ),
            (
                "https://evil.example/",
                Err("the URL is not of the requester's host"),
            ),
            (
                "http://api.example.com/",
                Err("the URL is not of the requester's host"),
            ),
            ("https://", Err("the path makes no URL")),
        ] {
            assert_eq!(
                resolve(&base, path).as_ref().map(Url::as_str),
                url.as_ref().copied(),
                "{path}"
            );
        }
        // An authority that hides behind the base's.
        assert_eq!(
            resolve(&base, "@evil.example/").unwrap().host_str(),
            Some("api.example.com")
        );
    }
}
