//! Clouds, networks and hosting.

use super::{Midnight, Provider, Rule, Test, Time, secs};
use crate::rate_limit::{NamedWindow, Reason};

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        hosts: &["*.akamaiapis.net", "*.luna.akamaiapis.net"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "akamai",
            "https://techdocs.akamai.com/adaptive-acceleration/reference/rate-limiting",
        )
    },
    Provider {
        hosts: &["*.amazonaws.com"],
        rules: &[
            // Capacity units, not calls.
            Rule::limit(
                Reason::Cost,
                &[Test::FieldContains("__type", "ProvisionedThroughputExceeded")],
            ),
            // API Gateway's own token bucket; a usage plan's quota says "Limit Exceeded" instead.
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[429]),
                    Test::Field("message", &["Too Many Requests"]),
                ],
            ),
        ],
        ..Provider::named(
            "aws",
            "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html",
        )
    },
    Provider {
        aliases: &["azure-resource-manager"],
        hosts: &["management.azure.com"],
        reason: Some(Reason::Minute),
        rules: &[
            // Cost Management has headers of its own: query processing units, and budgets per client type, entity, tenant.
            Rule::limit(
                Reason::Cost,
                &[Test::Has(
                    "x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after",
                )],
            ),
            Rule::limit(
                Reason::Unknown,
                &[Test::Has(
                    "x-ms-ratelimit-microsoft.costmanagement-entity-retry-after",
                )],
            ),
            Rule::limit(
                Reason::Unknown,
                &[Test::Has(
                    "x-ms-ratelimit-microsoft.costmanagement-tenant-retry-after",
                )],
            ),
            Rule::limit(
                Reason::Unknown,
                &[Test::Has(
                    "x-ms-ratelimit-microsoft.costmanagement-clienttype-retry-after",
                )],
            ),
        ],
        ..Provider::named(
            "azure",
            "https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling",
        )
    },
    // Request units; `x-ms-retry-after-ms` has the wait.
    Provider {
        aliases: &["cosmosdb"],
        hosts: &["*.documents.azure.com"],
        reason: Some(Reason::Cost),
        ..Provider::named(
            "azure-cosmos",
            "https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb",
        )
    },
    Provider {
        hosts: &["api.cloudflare.com"],
        windows: &[NamedWindow::new(Reason::Minute, 1200, secs(300))],
        reason: Some(Reason::Minute),
        rules: &[
            // A site's own rate limiting rule, not the API's limit.
            Rule::limit(Reason::Unknown, &[Test::Status(&[429]), Test::Says("error 1015")]),
            Rule::limit(
                Reason::Unknown,
                &[Test::Status(&[429]), Test::Says("error code: 1015")],
            ),
        ],
        ..Provider::named(
            "cloudflare",
            "https://developers.cloudflare.com/fundamentals/api/reference/limits/",
        )
    },
    Provider {
        hosts: &["api.digitalocean.com"],
        windows: &[NamedWindow::new(Reason::Hourly, 5000, secs(3600))],
        reason: Some(Reason::Hourly),
        ..Provider::named(
            "digitalocean",
            "https://docs.digitalocean.com/reference/api/reference/#rate-limit",
        )
    },
    // The window is six hours and rolls; the header names it and no time.
    Provider {
        aliases: &["docker"],
        hosts: &["registry-1.docker.io", "hub.docker.com"],
        windows: &[NamedWindow::without_limit(Reason::Hourly, secs(21_600)).rolling()],
        reason: Some(Reason::Hourly),
        ..Provider::named("dockerhub", "https://docs.docker.com/docker-hub/usage/")
    },
    Provider {
        hosts: &["api.fastly.com"],
        windows: &[NamedWindow::new(Reason::Hourly, 1000, secs(3600))],
        reason: Some(Reason::Hourly),
        ..Provider::named(
            "fastly",
            "https://www.fastly.com/documentation/reference/api/#rate-limiting",
        )
    },
    Provider {
        aliases: &["gmail", "google-drive", "google-calendar", "youtube", "gemini"],
        hosts: &["*.googleapis.com"],
        rules: &[
            // Daily quotas come back at midnight Pacific time.
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[403, 429]),
                    Test::Field("error.errors.*.reason", &["dailyLimitExceeded"]),
                ],
            )
            .time(Time::Midnight(Midnight::Pacific)),
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[403, 429]),
                    Test::Field("error.errors.*.domain", &["youtube.quota"]),
                    Test::Field("error.errors.*.reason", &["quotaExceeded"]),
                ],
            )
            .time(Time::Midnight(Midnight::Pacific)),
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[403, 429]),
                    Test::Field(
                        "error.errors.*.reason",
                        &["rateLimitExceeded", "userRateLimitExceeded"],
                    ),
                    Test::FieldContains("error.message", "per day"),
                ],
            )
            .time(Time::Midnight(Midnight::Pacific)),
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[403, 429]),
                    Test::Field(
                        "error.errors.*.reason",
                        &["rateLimitExceeded", "userRateLimitExceeded"],
                    ),
                ],
            ),
            // Calendar's limit on use; Drive's storage quota has a reason of its own and is none.
            Rule::limit(
                Reason::Unknown,
                &[
                    Test::Status(&[403, 429]),
                    Test::Field("error.errors.*.domain", &["usageLimits"]),
                    Test::Field("error.errors.*.reason", &["quotaExceeded"]),
                ],
            ),
        ],
        ..Provider::named(
            "google",
            "https://developers.google.com/workspace/gmail/api/guides/handle-errors",
        )
    },
    Provider {
        hosts: &["api.heroku.com"],
        // A bucket that refills all the time.
        windows: &[NamedWindow::new(Reason::Hourly, 4500, secs(3600)).rolling()],
        reason: Some(Reason::Hourly),
        ..Provider::named(
            "heroku",
            "https://devcenter.heroku.com/articles/platform-api-reference#rate-limits",
        )
    },
    Provider {
        hosts: &["api.hetzner.cloud"],
        windows: &[NamedWindow::new(Reason::Hourly, 3600, secs(3600)).rolling()],
        reason: Some(Reason::Hourly),
        ..Provider::named(
            "hetzner",
            "https://docs.hetzner.cloud/reference/cloud#rate-limiting",
        )
    },
    Provider {
        hosts: &["api.linode.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "linode",
            "https://techdocs.akamai.com/linode-api/reference/rate-limits",
        )
    },
    Provider {
        hosts: &["api.netlify.com"],
        windows: &[NamedWindow::new(Reason::Minute, 500, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "netlify",
            "https://docs.netlify.com/api/get-started/#rate-limiting",
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
            ("aws", 400, &[], r#"{"__type":"ProvisionedThroughputExceededException"}"#, Some((Reason::Cost, None))),
            ("aws", 429, &[], r#"{"message":"Too Many Requests"}"#, Some((Reason::Burst, None))),
            ("aws", 503, &[], "<Error><Code>SlowDown</Code></Error>", Some((Reason::Unknown, None))),
            ("aws", 400, &[("x-amzn-errortype", "ThrottlingException:http://x/")], "", Some((Reason::Unknown, None))),
            ("aws", 400, &[], r#"{"__type":"LimitExceededException"}"#, None),
            ("azure", 429, &[("retry-after", "1"), ("x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after", "8")], "", Some((Reason::Cost, Some(8.0)))),
            ("azure", 429, &[("x-ms-ratelimit-microsoft.costmanagement-entity-retry-after", "8")], "", Some((Reason::Unknown, Some(8.0)))),
            ("azure", 429, &[("x-ms-ratelimit-microsoft.costmanagement-tenant-retry-after", "8")], "", Some((Reason::Unknown, Some(8.0)))),
            ("azure", 429, &[("x-ms-ratelimit-microsoft.costmanagement-clienttype-retry-after", "8")], "", Some((Reason::Unknown, Some(8.0)))),
            ("azure", 429, &[("retry-after", "8")], "", Some((Reason::Minute, Some(8.0)))),
            ("azure-cosmos", 429, &[("x-ms-retry-after-ms", "12")], "", Some((Reason::Cost, Some(0.012)))),
            ("cloudflare", 429, &[("retry-after", "8")], "error code: 1015", Some((Reason::Unknown, Some(8.0)))),
            ("cloudflare", 429, &[("retry-after", "8")], "<h1>Error 1015</h1>", Some((Reason::Unknown, Some(8.0)))),
            ("cloudflare", 429, &[], "", Some((Reason::Minute, Some(300.0)))),
            ("dockerhub", 429, &[], "", Some((Reason::Hourly, None))),
            ("google", 403, &[], r#"{"error":{"errors":[{"reason":"dailyLimitExceeded"}]}}"#, Some((Reason::Daily, Some(72_000.0)))),
            ("google", 403, &[], r#"{"error":{"errors":[{"domain":"youtube.quota","reason":"quotaExceeded"}]}}"#, Some((Reason::Daily, Some(72_000.0)))),
            ("google", 403, &[], r#"{"error":{"message":"Quota 'Queries per day' used up","errors":[{"reason":"rateLimitExceeded"}]}}"#, Some((Reason::Daily, Some(72_000.0)))),
            ("google", 403, &[], r#"{"error":{"errors":[{"reason":"userRateLimitExceeded"}]}}"#, Some((Reason::Minute, None))),
            ("google", 403, &[], r#"{"error":{"errors":[{"domain":"usageLimits","reason":"quotaExceeded"}]}}"#, Some((Reason::Unknown, None))),
            ("google", 403, &[], r#"{"error":{"errors":[{"domain":"global","reason":"storageQuotaExceeded"}]}}"#, None),
        ]);
    }
}
