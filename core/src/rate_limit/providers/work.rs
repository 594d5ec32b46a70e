//! Office: documents, tasks, time, files.

use super::{Midnight, Provider, Rule, Test, Time, secs};
use crate::rate_limit::{NamedWindow, Reason, Unit};

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        hosts: &["api.airtable.com"],
        windows: &[NamedWindow::new(Reason::Burst, 5, secs(1))],
        reason: Some(Reason::Burst),
        rules: &[
            // The plan's calls of this month.
            Rule::limit(
                Reason::Monthly,
                &[
                    Test::Status(&[429]),
                    Test::Says("PUBLIC_API_BILLING_LIMIT_EXCEEDED"),
                ],
            )
            .time(Time::Unsaid),
            // "You will need to wait 30 seconds before subsequent requests will succeed."
            Rule::limit(Reason::Burst, &[Test::Status(&[429])]).time(Time::RetryAfterOr(secs(30))),
        ],
        ..Provider::named("airtable", "https://airtable.com/developers/web/api/rate-limits")
    },
    Provider {
        hosts: &["app.asana.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("asana", "https://developers.asana.com/docs/rate-limits")
    },
    // One header with everything, as JSON.
    Provider {
        hosts: &["3.basecampapi.com"],
        windows: &[NamedWindow::new(Reason::Burst, 50, secs(10))],
        reason: Some(Reason::Burst),
        rules: &[
            Rule::limit(Reason::Burst, &[Test::Status(&[429]), Test::Has("x-ratelimit")])
                .time(Time::JsonHeader("x-ratelimit", "until", Unit::BySize)),
        ],
        ..Provider::named(
            "basecamp",
            "https://github.com/basecamp/bc3-api#rate-limiting-429-too-many-requests",
        )
    },
    Provider {
        hosts: &["api.cal.com"],
        windows: &[NamedWindow::new(Reason::Minute, 120, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "calcom",
            "https://cal.com/docs/api-reference/v2/introduction#rate-limits",
        )
    },
    Provider {
        hosts: &["api.calendly.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "calendly",
            "https://developer.calendly.com/api-docs/edca8074633f8-api-rate-limits",
        )
    },
    Provider {
        hosts: &["api.clickup.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("clickup", "https://developer.clickup.com/docs/rate-limits")
    },
    // A bucket for each window, named in the header: `x-ratelimit-day-reset`.
    Provider {
        hosts: &["api.connecteam.com"],
        ..Provider::named(
            "connecteam",
            "https://developer.connecteam.com/docs/rate-limiting",
        )
    },
    Provider {
        hosts: &["*.docusign.net"],
        windows: &[
            NamedWindow::new(Reason::Burst, 500, secs(30)),
            NamedWindow::new(Reason::Hourly, 3000, secs(3600)),
        ],
        rules: &[
            // The burst bucket has no reset; the one shown is the hour's.
            Rule::limit(
                Reason::Burst,
                &[Test::Field("errorCode", &["BURST_APIINVOCATION_LIMIT_EXCEEDED"])],
            )
            .time(Time::RetryAfterOr(secs(30))),
            Rule::limit(
                Reason::Hourly,
                &[Test::Field("errorCode", &["HOURLY_APIINVOCATION_LIMIT_EXCEEDED"])],
            ),
        ],
        ..Provider::named(
            "docusign",
            "https://developers.docusign.com/platform/resource-limits/",
        )
    },
    Provider {
        hosts: &["api.dropboxapi.com", "content.dropboxapi.com"],
        ..Provider::named("dropbox", "https://developers.dropbox.com/error-handling-guide")
    },
    // Graph, SharePoint, Dataverse.
    Provider {
        aliases: &["microsoft-graph", "sharepoint", "dataverse", "dynamics"],
        hosts: &["graph.microsoft.com", "*.sharepoint.com", "*.dynamics.com"],
        rules: &[
            // Dataverse's three limits: calls in five minutes, execution time, calls at once.
            Rule::limit(
                Reason::Minute,
                &[Test::Status(&[429]), Test::Field("error.code", &["0x80072322"])],
            ),
            Rule::limit(
                Reason::Cost,
                &[Test::Status(&[429]), Test::Field("error.code", &["0x80072321"])],
            ),
            Rule::limit(
                Reason::Concurrency,
                &[Test::Status(&[429]), Test::Field("error.code", &["0x80072326"])],
            ),
            // SharePoint throttles with "Server Too Busy" as well as with a 429.
            Rule::limit(
                Reason::Unknown,
                &[
                    Test::Status(&[503]),
                    Test::Has("retry-after"),
                    Test::Says("too busy"),
                ],
            ),
        ],
        ..Provider::named("microsoft", "https://learn.microsoft.com/graph/throttling")
    },
    Provider {
        hosts: &["api.miro.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("miro", "https://developers.miro.com/reference/rate-limiting")
    },
    // GraphQL: points per minute, some answers with 200. A query over the maximum has another code and never runs.
    Provider {
        hosts: &["api.monday.com"],
        windows: &[NamedWindow::without_limit(Reason::Cost, secs(60))],
        reads_success: true,
        rules: &[
            Rule::limit(
                Reason::Cost,
                &[Test::Field(
                    "errors.*.extensions.code",
                    &["COMPLEXITY_BUDGET_EXHAUSTED", "ComplexityException"],
                )],
            ),
            Rule::limit(
                Reason::Daily,
                &[Test::Field("errors.*.extensions.code", &["DAILY_LIMIT_EXCEEDED"])],
            )
            .time(Time::Midnight(Midnight::Utc)),
            Rule::limit(
                Reason::Concurrency,
                &[Test::Field(
                    "errors.*.extensions.code",
                    &[
                        "maxConcurrencyExceeded",
                        "CONCURRENCY_LIMIT_EXCEEDED",
                        "FIELD_LIMIT_EXCEEDED",
                    ],
                )],
            ),
        ],
        ..Provider::named(
            "monday",
            "https://developer.monday.com/api-reference/docs/rate-limits",
        )
    },
    Provider {
        hosts: &["api.notion.com"],
        windows: &[NamedWindow::new(Reason::Burst, 3, secs(1))],
        reason: Some(Reason::Burst),
        ..Provider::named("notion", "https://developers.notion.com/reference/request-limits")
    },
    // The plan's calls per hour end in a 402.
    Provider {
        hosts: &["api.track.toggl.com"],
        windows: &[NamedWindow::without_limit(Reason::Hourly, secs(3600))],
        rules: &[Rule::limit(
            Reason::Hourly,
            &[Test::Status(&[402]), Test::Spent("x-toggl-quota-remaining")],
        )
        .time(Time::Header("x-toggl-quota-resets-in", Unit::Seconds))],
        ..Provider::named("toggl", "https://engineering.toggl.com/docs/#generic-responses")
    },
    // No reset; the window's length is the safe wait.
    Provider {
        hosts: &["api.trello.com"],
        windows: &[NamedWindow::new(Reason::Burst, 100, secs(10))],
        reason: Some(Reason::Burst),
        ..Provider::named(
            "trello",
            "https://developer.atlassian.com/cloud/trello/guides/rest-api/rate-limits/",
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
            ("airtable", 429, &[], r#"{"errors":[{"error":"PUBLIC_API_BILLING_LIMIT_EXCEEDED"}]}"#, Some((Reason::Monthly, None))),
            ("airtable", 429, &[], "", Some((Reason::Burst, Some(30.0)))),
            ("basecamp", 429, &[("x-ratelimit", r#"{"until":"2026-11-30T12:00:08Z"}"#)], "", Some((Reason::Burst, Some(8.0)))),
            ("connecteam", 429, &[("x-ratelimit-day-remaining", "0"), ("x-ratelimit-day-reset", "1796043600")], "", Some((Reason::Daily, Some(3600.0)))),
            ("docusign", 429, &[("x-ratelimit-reset", "1796043600")], r#"{"errorCode":"BURST_APIINVOCATION_LIMIT_EXCEEDED"}"#, Some((Reason::Burst, Some(30.0)))),
            ("docusign", 400, &[("x-ratelimit-reset", "1796043600")], r#"{"errorCode":"HOURLY_APIINVOCATION_LIMIT_EXCEEDED"}"#, Some((Reason::Hourly, Some(3600.0)))),
            ("microsoft", 429, &[("retry-after", "7")], r#"{"error":{"code":"0x80072322"}}"#, Some((Reason::Minute, Some(7.0)))),
            ("microsoft", 429, &[("retry-after", "7")], r#"{"error":{"code":"0x80072321"}}"#, Some((Reason::Cost, Some(7.0)))),
            ("microsoft", 429, &[("retry-after", "7")], r#"{"error":{"code":"0x80072326"}}"#, Some((Reason::Concurrency, Some(7.0)))),
            ("microsoft", 503, &[("retry-after", "7")], "Server Too Busy", Some((Reason::Unknown, Some(7.0)))),
            ("microsoft", 503, &[], "Server Too Busy", None),
            ("monday", 200, &[], r#"{"errors":[{"extensions":{"code":"ComplexityException","retry_in_seconds":7}}]}"#, Some((Reason::Cost, Some(7.0)))),
            ("monday", 429, &[], r#"{"errors":[{"extensions":{"code":"DAILY_LIMIT_EXCEEDED"}}]}"#, Some((Reason::Daily, Some(43_200.0)))),
            ("monday", 429, &[], r#"{"errors":[{"extensions":{"code":"maxConcurrencyExceeded"}}]}"#, Some((Reason::Concurrency, None))),
            ("monday", 200, &[], r#"{"data":{"code":"ComplexityException"}}"#, None),
            ("notion", 429, &[("retry-after", "7")], "", Some((Reason::Burst, Some(7.0)))),
            ("toggl", 402, &[("x-toggl-quota-remaining", "0"), ("x-toggl-quota-resets-in", "90")], "", Some((Reason::Hourly, Some(90.0)))),
            ("toggl", 402, &[("x-toggl-quota-remaining", "5")], "", None),
            ("trello", 429, &[], "", Some((Reason::Burst, Some(10.0)))),
        ]);
    }
}
