//! What functions wrote.

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Emulator, Function};

/// A line that a function wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it arrived. Emulators collect a function's output at the end of an invocation.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

impl LogLine {
    /// The line as a JSON object, if it is one.
    #[must_use]
    pub fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok().filter(Value::is_object)
    }
}

impl Emulator {
    /// Every line of a function so far. None before its first invocation has ended.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn logs(&self, function: &Function) -> Result<Vec<LogLine>> {
        let mut lines = Vec::new();
        let mut page = json!({ "logGroupName": format!("/aws/lambda/{}", function.name) });
        loop {
            let answer = self
                .api()
                .json("logs", "Logs_20140328.FilterLogEvents", &page)
                .await?;
            if answer.body.contains("ResourceNotFoundException") {
                return Ok(lines);
            }
            let answer = answer.success("read the log")?.json()?;
            for event in answer["events"].as_array().into_iter().flatten() {
                let at = Timestamp::from_millisecond(event["timestamp"].as_i64().unwrap_or_default())?;
                let text = event["message"].as_str().unwrap_or_default();
                // One event may hold several lines.
                lines.extend(text.lines().map(|line| LogLine {
                    at,
                    text: line.to_owned(),
                }));
            }
            match answer["nextToken"].as_str() {
                Some(token) => page["nextToken"] = json!(token),
                None => return Ok(lines),
            }
        }
    }

    /// The lines of a function that are JSON objects with this `eventName`.
    ///
    /// # Errors
    ///
    /// As [`logs`](Self::logs).
    pub async fn events(&self, function: &Function, event_name: &str) -> Result<Vec<Value>> {
        let lines = self.logs(function).await?;
        Ok(lines
            .iter()
            .filter_map(LogLine::json)
            .filter(|line| line["eventName"] == event_name)
            .collect())
    }
}
