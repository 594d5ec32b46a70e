//! Events and bodies as SQS would make them.

use axum::body::Bytes;
use frigg_worker::Clock;
use serde_json::json;

/// A task's body, padded to `bytes`.
pub(crate) fn body(id: usize, bytes: usize, limited: Option<u32>, takes_ms: u64) -> String {
    let limited = limited
        .map(|seconds| format!(r#""limited":{seconds},"#))
        .unwrap_or_default();
    let body = format!(r#"{{"id":{id},{limited}"takes_ms":{takes_ms},"text":""}}"#);
    let pad = "x".repeat(bytes.saturating_sub(body.len()));
    format!(
        r#"{},"text":"{pad}"}}"#,
        &body[..body.len() - r#","text":""}"#.len()]
    )
}

/// An event of `records` messages of so many bytes, all limited for so many seconds or none.
pub(crate) fn event(records: usize, bytes: usize, limited: Option<u32>) -> Bytes {
    let now = Clock::system().now().as_millisecond().to_string();
    let record = |id| {
        json!({
            "messageId": format!("{id:08x}-e9f4-11e8-9739-2dfe598c3fcd"),
            "receiptHandle": "AQEB".repeat(22),
            "body": body(id, bytes, limited, 0),
            "attributes": {
                "ApproximateReceiveCount": "1", "SentTimestamp": now, "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": now,
            },
            "messageAttributes": {},
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-west-1:111111111111:jobs",
            "awsRegion": "eu-west-1",
        })
    };
    let records: Vec<_> = (0..records).map(record).collect();
    json!({ "Records": records }).to_string().into()
}
