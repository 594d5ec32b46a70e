//! The AWS adapters on the wire: what they send, and what they make of answers that emulators do not give.

#![allow(clippy::unwrap_used)]

mod environment;
mod refusals;
mod scheduler;
mod sqs;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, HttpClient, SharedCredentialsProvider};
use aws_smithy_http_client::test_util::infallible_client_fn;
use frigg_worker::Aws;
use serde_json::{Value, json};

/// A request as it left the SDK.
#[derive(Debug, Clone)]
struct Request {
    method: String,
    uri: String,
    /// `X-Amz-Target`; the scheduler has none.
    target: Option<String>,
    body: Value,
}

/// One scripted answer.
#[derive(Debug, Clone)]
struct Answer {
    status: u16,
    /// `x-amzn-query-error`: the code in SQS's older spelling, and whose fault it was.
    query_error: Option<&'static str>,
    /// `x-amzn-errortype`: where REST services name the error.
    error_type: Option<&'static str>,
    body: String,
}

fn ok(body: Value) -> Answer {
    Answer {
        status: 200,
        query_error: None,
        error_type: None,
        body: body.to_string(),
    }
}

/// An error of SQS, as its JSON protocol spells it.
fn sqs_error(status: u16, code: &str, query_error: Option<&'static str>, message: &str) -> Answer {
    Answer {
        status,
        query_error,
        error_type: None,
        body: json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": message }).to_string(),
    }
}

/// An error of the scheduler, as REST-JSON spells it.
fn scheduler_error(status: u16, code: &'static str, message: &str) -> Answer {
    Answer {
        status,
        query_error: None,
        error_type: Some(code),
        body: json!({ "Message": message }).to_string(),
    }
}

/// The requests that were made.
#[derive(Debug, Clone, Default)]
struct Wire(Arc<Mutex<Vec<Request>>>);

impl Wire {
    fn requests(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }

    /// The only request.
    fn request(&self) -> Request {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:#?}");
        requests[0].clone()
    }
}

/// A configuration for `us-east-1` whose calls get these answers, one after the other.
fn wire(answers: impl IntoIterator<Item = Answer>) -> (Aws, Wire) {
    let wire = Wire::default();
    let requests = Arc::clone(&wire.0);
    let answers: Mutex<VecDeque<Answer>> = Mutex::new(answers.into_iter().collect());
    let client = infallible_client_fn(move |request| {
        let target = request.headers().get("x-amz-target");
        let body = request.body().bytes().unwrap_or_default();
        requests.lock().unwrap().push(Request {
            method: request.method().to_string(),
            uri: request.uri().to_string(),
            target: target.map(|target| target.to_str().unwrap().to_owned()),
            body: serde_json::from_slice(body).unwrap_or_default(),
        });
        let answer = answers.lock().unwrap().pop_front();
        let answer = answer.expect("an answer for every request");
        let mut response = http::Response::builder().status(answer.status);
        let headers = [
            ("x-amzn-query-error", answer.query_error),
            ("x-amzn-errortype", answer.error_type),
        ];
        for (name, value) in headers {
            if let Some(value) = value {
                response = response.header(name, value);
            }
        }
        response.body(answer.body).unwrap()
    });
    (Aws::with_config(config(client)), wire)
}

fn config(client: impl HttpClient + 'static) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "AKID", "key", None, None, "test",
        )))
        .http_client(client)
        .build()
}
