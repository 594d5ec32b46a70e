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
