//! Secrets that are planted wherever one can be, and must come out nowhere.

use std::error::Error;

use super::Logs;

/// Every planted secret has this in it.
pub const MARK: &str = "s3cr3t";
pub const TOKEN: &str = "s3cr3t-token";
pub const KEY: &str = "s3cr3t-key";
pub const CLIENT: &str = "s3cr3t-client";
pub const QUERY: &str = "s3cr3t-query";
pub const BODY: &str = "s3cr3t-body";
pub const USER: &str = "s3cr3t-user";

/// An error in every form in which it can be shown.
pub fn shown(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        text.push_str(&format!("{error}\n{error:?}\n{error:#?}\n"));
        next = error.source();
    }
    text
}

pub fn assert_none(text: &str) {
    for secret in [MARK, "pa55", "a%40b.c", "a@b.c"] {
        assert!(!text.contains(secret), "{secret} is shown: {text}");
    }
}

pub fn assert_none_logged(logs: &Logs) {
    for line in logs.lines() {
        assert_none(&line.to_string());
    }
}
