//! `HTTP_CALL`: one message, one call.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use frigg_requester::{Requester, Response};
use frigg_worker::ports::{CallErrorKind, SendRequest, Sqs as _};
use frigg_worker::{Aws, AwsSqs, Handler, HandlerError, Job};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use crate::credentials::{Credentials, Fault};
use crate::hosts::Hosts;

/// A result carries at most this much of the response's body; SQS takes 1 MiB of message.
const MAX_RESULT_BODY: usize = 512 * 1024;
/// What SQS takes as a message.
const MAX_RESULT: usize = 1024 * 1024;
/// What belongs to the connection, or decides where the call goes: the URL alone does, for its host was admitted.
const NOT_THE_SENDERS: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Requesters that are kept, one per origin and provider.
const MAX_REQUESTERS: usize = 256;

/// `{"event":"HTTP_CALL","data":{…}}`
#[derive(Deserialize)]
pub(crate) struct HttpCall {
    data: Call,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    json: Option<Box<RawValue>>,
    body: Option<String>,
    idempotency_key: Option<String>,
    /// A provider's name in the table; default: the one that the host belongs to.
    provider: Option<String>,
    #[serde(default, deserialize_with = "id")]
    entity_id: Option<String>,
    process_id: Option<Value>,
    /// URL of a queue that gets the response.
    result_queue: Option<String>,
}

fn get() -> String {
    "GET".to_owned()
}

/// Ids are text or numbers.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(other) => Some(other.to_string()),
    })
}

/// Performs calls, one requester per origin.
pub(crate) struct HttpCalls {
    hosts: Hosts,
    credentials: Credentials,
    allow_private: bool,
    requesters: Mutex<HashMap<(String, Option<String>), Requester>>,
    results: AwsSqs,
}

impl HttpCalls {
    /// # Errors
    /// When the allowed hosts are missing or malformed.
    pub(crate) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<HttpCalls, String> {
        let private = variable("FRIGG_HTTP_ALLOW_PRIVATE");
        Ok(HttpCalls {
            hosts: Hosts::parse(&variable("FRIGG_HTTP_ALLOWED_HOSTS").unwrap_or_default())?,
            credentials: Credentials::parse(&variable("FRIGG_HTTP_CREDENTIALS").unwrap_or_default()),
            allow_private: matches!(private.as_deref().map(str::trim), Some("1" | "true")),
            requesters: Mutex::default(),
            results: AwsSqs::new(Aws::from_env()),
        })
    }

    /// The URL, if it may be called.
    fn admit(&self, text: &str) -> Result<Url, HandlerError> {
        let url =
            Url::parse(text).map_err(|error| HandlerError::permanent(format!("the url is none: {error}")))?;
        let host = url.host_str().unwrap_or_default();
        if !matches!((url.scheme(), self.allow_private), ("https", _) | ("http", true)) {
            let text = format!("{}: only https is called", url.scheme());
            return Err(HandlerError::permanent(text));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let text = "the url has a user name or password: name a credential in a header instead";
            return Err(HandlerError::permanent(text));
        }
        if !self.hosts.allow(&url) {
            let text = format!("the host {host} is not among FRIGG_HTTP_ALLOWED_HOSTS");
            return Err(HandlerError::permanent(text));
        }
        Ok(url)
    }

    fn requester(&self, url: &Url, provider: Option<&str>) -> Result<Requester, HandlerError> {
        let key = (url.origin().ascii_serialization(), provider.map(str::to_owned));
        let mut kept = self.requesters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(requester) = kept.get(&key) {
            return Ok(requester.clone());
        }
        let mut builder = Requester::builder(&key.0);
        if let Some(provider) = provider {
            builder = builder.provider(provider);
        }
        if !self.allow_private {
            builder = builder.public_addresses_only();
        }
        let requester = builder.build().map_err(HandlerError::permanent)?;
        if kept.len() >= MAX_REQUESTERS {
            kept.clear();
        }
        kept.insert(key, requester.clone());
        Ok(requester)
    }

    async fn perform(&self, call: &Call, message_id: &str) -> Result<Response, HandlerError> {
        let url = self.admit(&call.url)?;
        let requester = self.requester(&url, call.provider.as_deref())?;
        let mut request = requester.request(&call.method, url.as_str());
        let host = url.host_str().unwrap_or_default();
        for (name, value) in &call.headers {
            if NOT_THE_SENDERS.contains(&name.trim().to_ascii_lowercase().as_str()) {
                let text = format!("a message may not set the header {name}");
                return Err(HandlerError::permanent(text));
            }
            let value = self
                .credentials
                .fill_in(value, host)
                .await
                .map_err(|fault| match fault {
                    Fault::Refused(what) => HandlerError::permanent(what),
                    // The extension is ready when the function is; a fault of it is one of the moment.
                    Fault::Unavailable(..) => HandlerError::retryable(fault),
                })?;
            request = request.header(name, &value);
        }
        let names = |name: &str| call.headers.keys().any(|given| given.eq_ignore_ascii_case(name));
        if !names("x-request-id") {
            // The provider's log and ours then speak of the same thing.
            request = request.header("x-request-id", message_id);
        }
        if let Some(entity) = &call.entity_id {
            request = request.entity(entity);
        }
        if let Some(key) = &call.idempotency_key {
            request = request.idempotency_key(key);
        }
        request = match (&call.json, &call.body) {
            (Some(_), Some(_)) => return Err(HandlerError::permanent("data has json and body: give one")),
            // As it stands in the message: numbers keep their spelling.
            (Some(json), None) => {
                let request = if names("content-type") {
                    request
                } else {
                    request.header("content-type", "application/json")
                };
                request.body(json.get().to_owned())
            }
            (None, Some(body)) => request.body(body.clone()),
            (None, None) => request,
        };
        request.send().await.map_err(|error| {
            // A 304, for instance: it will be the same tomorrow.
            let redirected = error.status().is_some_and(|status| status.is_redirection());
            if redirected {
                HandlerError::permanent(error)
            } else {
                error.into()
            }
        })
    }

    async fn send_result(
        &self,
        queue: &str,
        job: &Job<HttpCall>,
        response: Response,
    ) -> Result<(), HandlerError> {
        let status = response.status().as_u16();
        let media_type = response
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok());
        let media_type = media_type.map(str::to_owned);
        let mut response = response;
        let mut body = Vec::new();
        let mut whole = true;
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_RESULT_BODY {
                whole = false;
                break;
            }
            body.extend_from_slice(&chunk);
        }
        // What is not read makes place for another call.
        drop(response);
        let data = &job.message.data;
        let result = |body: Option<&str>| {
            json!({
                "event": "HTTP_RESULT",
                "data": {
                    "status": status,
                    "contentType": media_type,
                    "body": body,
                    "bodyTooLarge": body.is_none(),
                    "processId": data.process_id,
                    "entityId": data.entity_id,
                    "messageId": job.delivery.stable_id(),
                },
            })
            .to_string()
        };
        let mut text = result(whole.then(|| String::from_utf8_lossy(&body)).as_deref());
        if text.len() > MAX_RESULT {
            // Written as JSON, a body can be six times as long.
            text = result(None);
        }
        let sent = self.results.send(queue, &SendRequest::new(text, 0)).await;
        sent.map(drop).map_err(|error| {
            let text = format!("the call was made, but the result queue takes no message: {error}");
            // The same again would only repeat the call.
            match error.kind {
                CallErrorKind::Refused => HandlerError::permanent(text),
                _ => HandlerError::retryable(text),
            }
        })
    }
}

impl Handler for HttpCalls {
    type Message = HttpCall;
    type Error = HandlerError;

    async fn handle(&self, job: Job<HttpCall>) -> Result<(), HandlerError> {
        let begun = Instant::now();
        let response = self.perform(&job.message.data, &job.delivery.message_id).await?;
        tracing::info!(
            target: "frigg.worker", eventName = "frigg.worker.http_call_done",
            statusCode = response.status().as_u16(),
            durationMs = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
        match &job.message.data.result_queue {
            Some(queue) => self.send_result(queue, &job, response).await,
            None => Ok(()),
        }
    }

    /// That of the provider and the entity, as the requester names it in its errors.
    fn scope_key(&self, call: &HttpCall) -> Option<String> {
        let url = self.admit(&call.data.url).ok()?;
        let requester = self.requester(&url, call.data.provider.as_deref()).ok()?;
        requester.scope_key(call.data.entity_id.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(private: bool) -> HttpCalls {
        HttpCalls::from_variables(|name| match name {
            "FRIGG_HTTP_ALLOWED_HOSTS" => Some("api.example.com,127.0.0.1".to_owned()),
            "FRIGG_HTTP_ALLOW_PRIVATE" if private => Some("1".to_owned()),
            _ => None,
        })
        .unwrap()
    }

    /// So that the gate knows it before the call, and not only by its refusal.
    #[test]
    fn a_call_counts_against_the_limit_that_its_refusal_would_name() {
        for (url, entity, key) in [
            (
                "https://api.example.com/a",
                json!("acme"),
                Some("api.example.com:entity:acme"),
            ),
            (
                "https://api.example.com/b",
                json!(7),
                Some("api.example.com:entity:7"),
            ),
            ("https://evil.example.net/", json!("acme"), None),
        ] {
            let call = json!({ "data": { "url": url, "entityId": entity } }).to_string();
            let call: HttpCall = serde_json::from_str(&call).unwrap();
            assert_eq!(calls(false).scope_key(&call).as_deref(), key, "{url}");
        }
    }

    #[test]
    fn what_may_not_be_called_fails_for_good_and_says_why() {
        for (url, private, why) in [
            (
                "https://evil.example.net/x?token=s3cr3t",
                false,
                Some("evil.example.net"),
            ),
            ("http://api.example.com/", false, Some("only https")),
            ("ftp://api.example.com/", true, Some("only https")),
            ("https://u:s3cr3t@api.example.com/", false, Some("user name")),
            ("not a url", false, Some("the url is none")),
            ("https://api.example.com/x", false, None),
            ("http://127.0.0.1:9000/", true, None),
        ] {
            let admitted = calls(private).admit(url);
            match (admitted, why) {
                (Ok(_), None) => {}
                (Err(error), Some(why)) => {
                    assert!(
                        error.is_permanent() && error.to_string().contains(why),
                        "{url}: {error}"
                    );
                    assert!(!error.to_string().contains("s3cr3t"), "{error}");
                }
                (got, _) => panic!("{url}: {got:?}"),
            }
        }
        // An allowed name is no way into the network around the function.
        let url = "https://127.0.0.1/".parse().unwrap();
        assert!(calls(false).requester(&url, None).unwrap_err().is_permanent());
    }

    #[test]
    fn the_hosts_are_necessary() {
        let error = HttpCalls::from_variables(|_| None).err().unwrap();
        assert!(error.contains("FRIGG_HTTP_ALLOWED_HOSTS"), "{error}");
    }

    #[test]
    fn ids_are_text_or_numbers() {
        let call: HttpCall =
            serde_json::from_str(r#"{"data":{"url":"https://a.example","entityId":7,"processId":"p"}}"#)
                .unwrap();
        assert_eq!(
            (call.data.method.as_str(), call.data.entity_id.as_deref()),
            ("GET", Some("7"))
        );
    }
}
