//! Frameworks behind many small APIs, and identity services.

use super::{Provider, secs};
use crate::rate_limit::{NamedWindow, Reason};

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        hosts: &["api.airweave.ai"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("airweave", "https://docs.airweave.ai/rate-limits")
    },
    // "Request was throttled. Expected available in 831.0 seconds."; a rate is so many calls per second, minute, hour or day.
    Provider {
        aliases: &["drf"],
        reason_by_wait: true,
        ..Provider::named(
            "django-rest-framework",
            "https://www.django-rest-framework.org/api-guide/throttling/",
        )
    },
    // The token endpoint says all of it in `error_description`.
    Provider {
        ..Provider::named("idportal", "https://www.rfc-editor.org/rfc/rfc6749#section-5.2")
    },
    Provider {
        hosts: &["withpersona.com", "api.withpersona.com"],
        windows: &[NamedWindow::new(Reason::Minute, 300, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("persona", "https://docs.withpersona.com/rate-limiting")
    },
];

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    // A row a line.
    #[rustfmt::skip]
    #[test]
    fn rows() {
        check(PROVIDERS, &[
            ("django-rest-framework", 429, &[], r#"{"detail":"Expected available in 40 seconds."}"#, Some((Reason::Minute, Some(40.0)))),
            ("django-rest-framework", 429, &[], r#"{"detail":"Expected available in 90 seconds."}"#, Some((Reason::Hourly, Some(90.0)))),
            ("idportal", 429, &[], r#"{"error_description":"50 requests per hour. Try again in 9 seconds."}"#, Some((Reason::Hourly, Some(9.0)))),
            ("persona", 429, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "9")], "", Some((Reason::Minute, Some(9.0)))),
        ]);
    }
}
