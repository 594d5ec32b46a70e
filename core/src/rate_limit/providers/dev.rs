//! For developers: code, issues, identity, monitoring.

use super::{Provider, Rule, Test, Time, secs};
use crate::rate_limit::{NamedWindow, Reason, Unit};

pub(super) const PROVIDERS: &[Provider] = &[
    // `RateLimit-Reason` names the limit. The reset is cut to the minute, so a Retry-After beside it is the better one.
    Provider {
        aliases: &["jira", "confluence"],
        hosts: &["*.atlassian.net", "api.atlassian.com"],
        rules: &[
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[429]),
                    Test::HeaderContains("ratelimit-reason", "burst"),
                ],
            ),
            Rule::limit(
                Reason::Hourly,
                &[
                    Test::Status(&[429]),
                    Test::HeaderContains("ratelimit-reason", "quota"),
                ],
            ),
            // Writes to one issue.
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[429]),
                    Test::HeaderContains("ratelimit-reason", "per-issue"),
                ],
            ),
        ],
        ..Provider::named(
            "atlassian",
            "https://developer.atlassian.com/cloud/jira/platform/rate-limiting/",
        )
    },
    Provider {
        hosts: &["*.auth0.com"],
        reason: Some(Reason::Burst),
        ..Provider::named(
            "auth0",
            "https://auth0.com/docs/troubleshoot/customer-support/operational-policies/rate-limit-policy",
        )
    },
    // `X-Ratelimit-Retryafter` holds an epoch.
    Provider {
        hosts: &["api.crowdstrike.com", "api.*.crowdstrike.com"],
        windows: &[NamedWindow::new(Reason::Minute, 6000, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "crowdstrike",
            "https://www.falconpy.io/Usage/Response-Handling.html",
        )
    },
    // `X-RateLimit-Period` has the window's length, the reset is in seconds.
    Provider {
        hosts: &["api.datadoghq.com", "api.*.datadoghq.com", "api.datadoghq.eu"],
        ..Provider::named("datadog", "https://docs.datadoghq.com/api/latest/rate-limits/")
    },
    // A 403 as often as a 429. Rate headers come with every answer, so a 403 about permissions has them too: its message
    // decides.
    Provider {
        hosts: &["api.github.com"],
        windows: &[
            NamedWindow::new(Reason::Hourly, 5000, secs(3600)),
            NamedWindow::new(Reason::Minute, 30, secs(60)).on("/search/*"),
        ],
        reason: Some(Reason::Hourly),
        reads_success: true,
        rules: &[
            // GraphQL answers 200 when the primary limit is reached. The header comes first: a body with calls left need
            // not be parsed.
            Rule::limit(
                Reason::Hourly,
                &[
                    Test::Status(&[200]),
                    Test::Spent("x-ratelimit-remaining"),
                    Test::Field("errors.*.type", &["RATE_LIMITED", "RATE_LIMIT"]),
                ],
            ),
            // Without a Retry-After "wait for at least one minute"; the reset shown is the primary limit's.
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[403, 429]),
                    Test::FieldContains("message", "secondary rate limit"),
                ],
            )
            .time(Time::RetryAfterOr(secs(60))),
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[403, 429]),
                    Test::FieldContains("message", "abuse detection"),
                ],
            )
            .time(Time::RetryAfterOr(secs(60))),
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[403, 429]),
                    Test::Header("x-ratelimit-resource", &["search", "code_search"]),
                    Test::FieldContains("message", "rate limit"),
                ],
            ),
            Rule::limit(
                Reason::Hourly,
                &[
                    Test::Status(&[403, 429]),
                    Test::FieldContains("message", "rate limit"),
                ],
            ),
            Rule::limit(
                Reason::Hourly,
                &[
                    Test::Status(&[403]),
                    Test::Spent("x-ratelimit-remaining"),
                    Test::Silent,
                ],
            ),
        ],
        ..Provider::named(
            "github",
            "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api",
        )
    },
    Provider {
        hosts: &["gitlab.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "gitlab",
            "https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/",
        )
    },
    // GraphQL: refuses with a 400. Several buckets; what is left of the complexity need not be zero to be too little.
    Provider {
        hosts: &["api.linear.app"],
        windows: &[NamedWindow::without_limit(Reason::Hourly, secs(3600)).rolling()],
        reason: Some(Reason::Hourly),
        rules: &[
            Rule::limit(
                Reason::Cost,
                &[
                    Test::Field("errors.*.extensions.code", &["RATELIMITED"]),
                    Test::Less("x-ratelimit-complexity-remaining", "x-complexity"),
                ],
            )
            .time(Time::Header("x-ratelimit-complexity-reset", Unit::BySize)),
            Rule::limit(
                Reason::Cost,
                &[
                    Test::Field("errors.*.extensions.code", &["RATELIMITED"]),
                    Test::Spent("x-ratelimit-complexity-remaining"),
                ],
            ),
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Field("errors.*.extensions.code", &["RATELIMITED"]),
                    Test::Spent("x-ratelimit-endpoint-requests-remaining"),
                ],
            ),
        ],
        ..Provider::named("linear", "https://linear.app/developers/rate-limiting")
    },
    Provider {
        hosts: &["*.okta.com", "*.oktapreview.com", "*.okta-emea.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        rules: &[
            // A limit of 0 is how the concurrency limit shows.
            Rule::limit(
                Reason::Concurrency,
                &[Test::Status(&[429]), Test::Header("x-rate-limit-limit", &["0"])],
            ),
        ],
        ..Provider::named(
            "okta",
            "https://developer.okta.com/docs/reference/rl-best-practices/",
        )
    },
    Provider {
        hosts: &["api.pagerduty.com", "api.*.pagerduty.com"],
        windows: &[NamedWindow::new(Reason::Minute, 960, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "pagerduty",
            "https://developer.pagerduty.com/docs/rest-api-rate-limits",
        )
    },
    Provider {
        aliases: &["helix-alm"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("perforce-alm", "https://help.perforce.com/alm/help.html")
    },
    Provider {
        hosts: &["sentry.io", "*.sentry.io"],
        // A 429 without a Retry-After shuts a client out for 60 s.
        windows: &[NamedWindow::without_limit(Reason::Unknown, secs(60))],
        rules: &[
            // Seconds, then the categories that they are for. It comes before a Retry-After.
            Rule::limit(
                Reason::Unknown,
                &[Test::Status(&[429]), Test::Has("x-sentry-rate-limits")],
            )
            .time(Time::HeaderList("x-sentry-rate-limits", Unit::Seconds)),
        ],
        ..Provider::named(
            "sentry",
            "https://develop.sentry.dev/sdk/expected-features/rate-limiting/",
        )
    },
    // Two buckets, for the organization and the address; "wait for the longer".
    Provider {
        aliases: &["harness-fme"],
        hosts: &["api.split.io"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("splitio", "https://docs.split.io/reference/rate-limiting")
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
            ("atlassian", 429, &[("ratelimit-reason", "jira-burst-based"), ("retry-after", "3")], "", Some((Reason::Burst, Some(3.0)))),
            ("atlassian", 429, &[("ratelimit-reason", "jira-quota-tenant-based"), ("x-ratelimit-reset", "2026-11-30T12:10Z")], "", Some((Reason::Hourly, Some(600.0)))),
            ("atlassian", 429, &[("ratelimit-reason", "jira-per-issue-on-write"), ("retry-after", "3")], "", Some((Reason::Burst, Some(3.0)))),
            ("github", 403, &[("x-ratelimit-reset", "1796043600")], r#"{"message":"a secondary rate limit"}"#, Some((Reason::Burst, Some(60.0)))),
            ("github", 403, &[("retry-after", "90")], r#"{"message":"a secondary rate limit"}"#, Some((Reason::Burst, Some(90.0)))),
            ("github", 403, &[], r#"{"message":"abuse detection"}"#, Some((Reason::Burst, Some(60.0)))),
            ("github", 429, &[("x-ratelimit-resource", "code_search"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040030")], r#"{"message":"rate limit"}"#, Some((Reason::Minute, Some(30.0)))),
            ("github", 403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040030")], r#"{"message":"API rate limit"}"#, Some((Reason::Hourly, Some(30.0)))),
            ("github", 403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040030")], "", Some((Reason::Hourly, Some(30.0)))),
            ("github", 403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040030")], r#"{"message":"Must have admin rights"}"#, None),
            ("github", 200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040030")], r#"{"errors":[{"type":"RATE_LIMITED"}]}"#, Some((Reason::Hourly, Some(30.0)))),
            ("github", 200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040030")], r#"{"data":{}}"#, None),
            ("linear", 400, &[("x-complexity", "500"), ("x-ratelimit-complexity-remaining", "499"), ("x-ratelimit-complexity-reset", "1796040030000")], r#"{"errors":[{"extensions":{"code":"RATELIMITED"}}]}"#, Some((Reason::Cost, Some(30.0)))),
            ("linear", 400, &[("x-ratelimit-complexity-remaining", "0"), ("x-ratelimit-complexity-reset", "1796040030000")], r#"{"errors":[{"extensions":{"code":"RATELIMITED"}}]}"#, Some((Reason::Cost, Some(30.0)))),
            ("linear", 400, &[("x-ratelimit-endpoint-requests-remaining", "0"), ("x-ratelimit-endpoint-requests-reset", "1796040030000")], r#"{"errors":[{"extensions":{"code":"RATELIMITED"}}]}"#, Some((Reason::Minute, Some(30.0)))),
            ("linear", 400, &[("x-ratelimit-requests-remaining", "0")], r#"{"errors":[{"extensions":{"code":"OTHER"}}]}"#, None),
            ("okta", 429, &[("x-rate-limit-limit", "0"), ("x-rate-limit-remaining", "0")], "", Some((Reason::Concurrency, None))),
            ("okta", 429, &[("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "1796040030")], "", Some((Reason::Minute, Some(30.0)))),
            ("sentry", 429, &[("x-sentry-rate-limits", "60:error:organization, 2700::key"), ("retry-after", "60")], "", Some((Reason::Unknown, Some(2700.0)))),
            ("sentry", 429, &[], "", Some((Reason::Unknown, Some(60.0)))),
        ]);
    }
}
