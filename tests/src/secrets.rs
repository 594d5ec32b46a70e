//! Secrets that every worker under test is given, and that must come out nowhere.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Every planted secret has this in it.
pub const PLANTED: &str = "s3cr3t";

/// The body with a secret in it, as a sender's own fields may be.
#[must_use]
pub fn planted(body: &Value) -> Value {
    let mut body = body.clone();
    if let Value::Object(fields) = &mut body {
        fields.insert("token".to_owned(), json!(format!("{PLANTED}-body")));
    }
    body
}

/// The variables of a worker's environment that hold secrets.
#[must_use]
pub fn variables() -> [(&'static str, String); 2] {
    ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"].map(|name| (name, format!("{PLANTED}-{name}")))
}

/// That none of these lines shows a planted secret.
///
/// # Errors
///
/// When one does: with the line.
pub fn none_shown<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<()> {
    for line in lines {
        ensure!(!line.contains(PLANTED), "a secret is shown: {line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_a_line_is_found() {
        let body = planted(&json!({ "id": 1 })).to_string();
        assert!(none_shown(["fine", &body]).is_err());
        for (_, secret) in variables() {
            assert!(none_shown([&*format!("key={secret}")]).is_err());
        }
        assert!(none_shown(["fine", ""]).is_ok());
    }
}
