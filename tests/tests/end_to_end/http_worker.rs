//! The ready-made worker: calls that messages describe, from a queue, against a server of the test.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse as _;
use frigg_tests::emulator::{Emulator, QueueSpec};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::rig::Rig;

#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// Answers 200, but 404 below `/missing`, and 302 to another host below `/away`; the first call below `/busy` is a 429.
async fn api() -> Result<(String, Arc<Mutex<Vec<Seen>>>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let calls = Arc::clone(&seen);
    let app = Router::new().fallback(
        move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let path = uri.path().to_owned();
            let mut calls = calls.lock().expect("no panic while it is held");
            let first = !calls.iter().any(|call: &Seen| call.path == path);
            calls.push(Seen {
                method,
                path: path.clone(),
                headers,
                body,
            });
            match path.as_str() {
                "/busy" if first => {
                    (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "2")], "later").into_response()
                }
                "/missing" => StatusCode::NOT_FOUND.into_response(),
                "/away" => (StatusCode::FOUND, [("location", "http://localhost:1/")]).into_response(),
                _ => r#"{"done":true}"#.into_response(),
            }
        },
    );
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok((url, seen))
}

fn call(data: Value) -> Value {
    json!({ "event": "HTTP_CALL", "data": data })
}

async fn rig() -> Result<Rig> {
    let mut rig = Rig::new(QueueSpec::standard("calls"), 30).await?;
    for (name, value) in [
        ("FRIGG_HTTP_ALLOWED_HOSTS", "127.0.0.1"),
        ("FRIGG_HTTP_ALLOW_PRIVATE", "1"),
        ("FRIGG_HTTP_CREDENTIALS", "CRM_TOKEN@127.0.0.1"),
        ("CRM_TOKEN", "s3cr3t-token"),
    ] {
        rig.set(name, value);
    }
    Ok(rig)
}

#[tokio::test]
async fn calls_are_made_as_the_message_says_and_results_delivered() -> Result<()> {
    let (url, seen) = api().await?;
    let mut rig = rig().await?;
    let results = Emulator::shared()
        .await?
        .create_queue(&QueueSpec::standard("results"))
        .await?;
    rig.send(&call(json!({
        "method": "POST", "url": format!("{url}/contacts?key=s3cr3t-query"), "json": { "id": 7, "amount": 1.5 },
        "headers": { "authorization": "Bearer ${CRM_TOKEN}" }, "idempotencyKey": "contact-7",
        "processId": 4, "resultQueue": results.url,
    })))
    .await?;
    rig.send(&call(json!({ "url": format!("{url}/busy") }))).await?;
    let mut worker = rig.poll_with(env!("CARGO_BIN_EXE_http-worker"))?;
    rig.is_empty().await?;

    let calls = seen.lock().expect("no panic while it is held").clone();
    let post = calls
        .iter()
        .find(|call| call.path == "/contacts")
        .context("the POST was made")?;
    let sent: Value = serde_json::from_slice(&post.body)?;
    assert_eq!(
        (&post.method, sent),
        (&Method::POST, json!({ "id": 7, "amount": 1.5 }))
    );
    for (name, value) in [
        ("authorization", "Bearer s3cr3t-token"),
        ("idempotency-key", "contact-7"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(post.headers[name], value);
    }
    assert_eq!(
        calls.iter().filter(|call| call.path == "/busy").count(),
        2,
        "refused, then done"
    );
    assert_eq!(worker.events("frigg.worker.record_deferred").len(), 1);
    assert_eq!(worker.events("frigg.worker.http_call_done").len(), 2);

    let result = rig.emulator.receive(&results.url, 5).await?;
    let result: Value = serde_json::from_str(result[0].body().context("a body")?)?;
    assert_eq!(result["event"], "HTTP_RESULT");
    let (data, body) = (&result["data"], r#"{"done":true}"#);
    assert_eq!(
        (&data["status"], &data["body"], &data["processId"]),
        (&json!(200), &json!(body), &json!(4))
    );

    // A worker that is killed before it has deleted what it did leaves it in the queue.
    rig.ends_empty().await?;
    worker.kill().await
}

#[tokio::test]
async fn what_may_not_be_called_is_a_dead_letter_with_its_reason() -> Result<()> {
    let (url, seen) = api().await?;
    let rig = rig().await?;
    let refused = [
        (
            json!({ "url": "http://evil.example.net/x?token=s3cr3t" }),
            "evil.example.net is not among",
        ),
        (
            json!({ "url": format!("{url}/x"), "headers": { "a": "${PATH}" } }),
            "is not listed",
        ),
        (
            json!({ "url": format!("{url}/x"), "headers": { "Host": "evil.example.net" } }),
            "may not set the header Host",
        ),
        (
            json!({ "url": format!("{url}/x"), "method": "GE T" }),
            "no such method",
        ),
        (
            json!({ "url": format!("{url}/x"), "json": 1, "body": "1" }),
            "give one",
        ),
        (json!({ "url": format!("{url}/missing") }), "404"),
        (json!({ "url": format!("{url}/away") }), "302"),
        (json!({}), "does not have the form"),
    ];
    for (data, _) in &refused {
        rig.send(&call(data.clone())).await?;
    }
    rig.send(&json!({ "event": "OTHER" })).await?;
    let mut worker = rig.poll_with(env!("CARGO_BIN_EXE_http-worker"))?;
    let dead = rig.dead(refused.len() + 1).await?;
    let reasons: Vec<String> = dead
        .iter()
        .map(|message| {
            let attributes = message.message_attributes().cloned().unwrap_or_default();
            attributes
                .get("FriggError")
                .and_then(|value| value.string_value.clone())
                .unwrap_or_default()
        })
        .collect();
    for why in refused
        .iter()
        .map(|(_, why)| *why)
        .chain(["no handler for the body's event"])
    {
        assert!(
            reasons.iter().any(|reason| reason.contains(why)),
            "{why}: {reasons:#?}"
        );
    }
    assert!(!reasons.concat().contains("s3cr3t"), "{reasons:#?}");
    let paths: Vec<_> = seen
        .lock()
        .expect("no panic while it is held")
        .iter()
        .map(|c| c.path.clone())
        .collect();
    assert!(
        !paths.contains(&"/x".to_owned()),
        "nothing that is refused is called: {paths:?}"
    );
    rig.is_empty().await?;
    worker.kill().await
}
