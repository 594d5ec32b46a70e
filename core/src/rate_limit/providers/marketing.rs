//! Mail, newsletters, sites.

use std::num::NonZeroU32;

use super::{Provider, Rule, Test, secs};
use crate::rate_limit::{NamedWindow, Reason};

pub(super) const PROVIDERS: &[Provider] = &[
    // A burst window of a second and a steady one of a minute; the wait tells which.
    Provider {
        hosts: &["a.klaviyo.com"],
        reason_by_wait: true,
        ..Provider::named(
            "klaviyo",
            "https://developers.klaviyo.com/en/docs/rate_limits_and_error_handling",
        )
    },
    Provider {
        hosts: &["api.lemlist.com"],
        windows: &[NamedWindow::new(Reason::Burst, 20, secs(2))],
        reason: Some(Reason::Burst),
        ..Provider::named(
            "lemlist",
            "https://developer.lemlist.com/api-reference/getting-started/rate-limits",
        )
    },
    // Counts connections at the same time, and gives no time.
    Provider {
        hosts: &["*.api.mailchimp.com"],
        reason: Some(Reason::Concurrency),
        max_concurrency: NonZeroU32::new(10),
        ..Provider::named(
            "mailchimp",
            "https://mailchimp.com/developer/marketing/docs/fundamentals/#api-limits",
        )
    },
    Provider {
        hosts: &["connect.mailerlite.com"],
        windows: &[NamedWindow::new(Reason::Minute, 120, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "mailerlite",
            "https://developers.mailerlite.com/docs/#rate-limits",
        )
    },
    // Answers 200; the code of the error tells which limit.
    Provider {
        hosts: &["*.mktorest.com"],
        windows: &[NamedWindow::new(Reason::Burst, 100, secs(20))],
        max_concurrency: NonZeroU32::new(10),
        reads_success: true,
        rules: &[
            Rule::limit(Reason::Burst, &[Test::Field("errors.*.code", &["606"])]),
            Rule::limit(Reason::Daily, &[Test::Field("errors.*.code", &["607"])]),
            Rule::limit(Reason::Concurrency, &[Test::Field("errors.*.code", &["615"])]),
        ],
        ..Provider::named(
            "marketo",
            "https://experienceleague.adobe.com/en/docs/marketo-developer/marketo/rest/error-codes",
        )
    },
    Provider {
        hosts: &["api.sendgrid.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "sendgrid",
            "https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/rate-limits",
        )
    },
    Provider {
        hosts: &["api.webflow.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "webflow",
            "https://developers.webflow.com/data/reference/rate-limits",
        )
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
            ("klaviyo", 429, &[("retry-after", "1")], "", Some((Reason::Burst, Some(1.0)))),
            ("klaviyo", 429, &[("retry-after", "40")], "", Some((Reason::Minute, Some(40.0)))),
            ("mailchimp", 429, &[], "", Some((Reason::Concurrency, None))),
            ("marketo", 200, &[], r#"{"success":false,"errors":[{"code":"606"}]}"#, Some((Reason::Burst, Some(20.0)))),
            ("marketo", 200, &[], r#"{"success":false,"errors":[{"code":"607"}]}"#, Some((Reason::Daily, None))),
            ("marketo", 200, &[], r#"{"success":false,"errors":[{"code":"615"}]}"#, Some((Reason::Concurrency, None))),
            ("marketo", 200, &[], r#"{"success":false,"errors":[{"code":"1004"}]}"#, None),
            ("webflow", 429, &[], "", Some((Reason::Minute, Some(60.0)))),
        ]);
    }
}
