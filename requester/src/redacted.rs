//! [`RedactedUrl`]: an address that may be shown.

use std::fmt;

use reqwest::Url;

/// A URL without user, password and fragment, with the values of its query replaced. The path is kept: where a provider
/// puts secrets there (a webhook's address), do not log it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactedUrl(String);

const HIDDEN: &str = "REDACTED";

impl RedactedUrl {
    /// What may be shown of `url`.
    pub fn of(url: &Url) -> Self {
        // `origin` leaves user and password out.
        let mut text = url.origin().ascii_serialization();
        text.push_str(url.path());
        for (at, pair) in url.query().unwrap_or_default().split('&').enumerate() {
            if pair.is_empty() {
                continue;
            }
            text.push(if at == 0 { '?' } else { '&' });
            // A word without a value may be the value itself.
            if let Some((name, _)) = pair.split_once('=') {
                text.push_str(name);
                text.push('=');
            }
            text.push_str(HIDDEN);
        }
        RedactedUrl(text)
    }

    /// Stands for what is no URL.
    pub(crate) fn unknown() -> Self {
        RedactedUrl("(no URL)".to_owned())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedactedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RedactedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        for (url, shown) in [
            (
                "https://user:pa55@api.example.com/v1/contacts?access_token=s3cr3t&email=a%40b.c#frag",
                "https://api.example.com/v1/contacts?access_token=REDACTED&email=REDACTED",
            ),
            (
                "http://127.0.0.1:8080/a?s3cr3t",
                "http://127.0.0.1:8080/a?REDACTED",
            ),
            (
                "https://a.example/?a=b=c&&d",
                "https://a.example/?a=REDACTED&REDACTED",
            ),
            ("https://a.example", "https://a.example/"),
        ] {
            assert_eq!(RedactedUrl::of(&url.parse().unwrap()).as_str(), shown);
        }
    }
}
