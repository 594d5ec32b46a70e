//! AWS calls by plain HTTP, for the services whose SDK would take minutes to build and serve a handful of calls.
//! Emulators check no signature, but read service and region from it.

use anyhow::{Context, Result, bail};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::Value;

use super::REGION;

#[derive(Debug)]
pub(super) struct Api<'a> {
    endpoint: &'a str,
}

/// An answer, which AWS may call a success or an error.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("not JSON: {}", self.body))
    }

    /// This answer when it is a success.
    pub(super) fn success(self, what: &str) -> Result<Self> {
        if !self.status.is_success() {
            bail!("failed to {what}: {} {}", self.status, self.body);
        }
        Ok(self)
    }
}

impl<'a> Api<'a> {
    pub(super) fn new(endpoint: &'a str) -> Self {
        Self { endpoint }
    }

    pub(super) async fn answers(&self, path: &str) -> bool {
        match self.client() {
            Ok(client) => {
                let response = client.get(format!("{}{path}", self.endpoint)).send().await;
                response.is_ok_and(|response| response.status().is_success())
            }
            Err(_) => false,
        }
    }

    /// A service of the REST kind: Lambda, the scheduler.
    pub(super) async fn rest(
        &self,
        service: &str,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Answer> {
        let request = self.request(service, method, path)?;
        send(match body {
            Some(body) => request.header("content-type", "application/json").body(body),
            None => request,
        })
        .await
    }

    /// A body of bytes: S3.
    pub(super) async fn put(&self, service: &str, path: &str, body: Vec<u8>) -> Result<Answer> {
        send(self.request(service, Method::PUT, path)?.body(body)).await
    }

    /// A service of the JSON kind: CloudWatch Logs.
    pub(super) async fn json(&self, service: &str, target: &str, body: &Value) -> Result<Answer> {
        let request = self
            .request(service, Method::POST, "/")?
            .header("x-amz-target", target);
        send(
            request
                .header("content-type", "application/x-amz-json-1.1")
                .body(body.to_string()),
        )
        .await
    }

    /// A service of the query kind: IAM, CloudFormation.
    pub(super) async fn query(&self, service: &str, fields: &[(&str, &str)]) -> Result<Answer> {
        send(self.request(service, Method::POST, "/")?.form(fields)).await
    }

    fn request(&self, service: &str, method: Method, path: &str) -> Result<RequestBuilder> {
        let signature = format!(
            "AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let request = self.client()?.request(method, format!("{}{path}", self.endpoint));
        Ok(request.header("authorization", signature))
    }

    fn client(&self) -> Result<Client> {
        Client::builder()
            .no_proxy()
            .build()
            .context("failed to build an HTTP client")
    }
}

async fn send(request: RequestBuilder) -> Result<Answer> {
    let response = request.send().await.context("the emulator does not answer")?;
    let status = response.status();
    let body = response.text().await.context("the emulator's answer broke off")?;
    Ok(Answer { status, body })
}
