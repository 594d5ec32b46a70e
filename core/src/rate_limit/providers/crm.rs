//! Customer relations, support, telephony and sales.

use std::num::NonZeroU32;

use super::{Provider, Rule, Test, Time, secs};
use crate::rate_limit::{Link, NamedWindow, Parser, Reason};

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        hosts: &["api.aircall.io"],
        windows: &[NamedWindow::new(Reason::Minute, 60, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named(
            "aircall",
            "https://developer.aircall.io/api-references/#rate-limiting",
        )
    },
    // Refuses with a 503. The bucket drains by two calls a second.
    Provider {
        hosts: &["*.bitrix24.com", "*.bitrix24.eu", "*.bitrix24.de"],
        windows: &[NamedWindow::new(Reason::Burst, 2, secs(1))],
        reason: Some(Reason::Burst),
        rules: &[Rule::limit(
            Reason::Burst,
            &[
                Test::Status(&[429, 503]),
                Test::Field("error", &["QUERY_LIMIT_EXCEEDED"]),
            ],
        )],
        ..Provider::named("bitrix24", "https://apidocs.bitrix24.com/limits.html")
    },
    Provider {
        aliases: &["freshdesk", "freshservice", "freshsales"],
        hosts: &["*.freshdesk.com", "*.freshservice.com", "*.myfreshworks.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("freshworks", "https://developers.freshdesk.com/api/#ratelimit")
    },
    Provider {
        hosts: &["api.hubapi.com", "*.hubapi.com"],
        windows: &[
            NamedWindow::new(Reason::Burst, 110, secs(10)),
            NamedWindow::new(Reason::Burst, 5, secs(1)).on("/crm/*/search"),
        ],
        max_concurrency: NonZeroU32::new(10),
        parsers: &[Parser::RetryAfter, Parser::ResetHeaders],
        links: &[Link {
            reason: Reason::Daily,
            label: "HubSpot usage guidelines",
            url: "https://developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines",
        }],
        rules: &[
            // The daily limit ends at midnight in the account's time zone, which no response names.
            Rule::limit(
                Reason::Daily,
                &[Test::Status(&[429]), Test::Field("policyName", &["DAILY"])],
            )
            .time(Time::Documented(secs(3600)))
            .policy("policyName"),
            // The search API's own limit.
            Rule::limit(
                Reason::Burst,
                &[Test::Status(&[429]), Test::Field("policyName", &["SECONDLY"])],
            )
            .time(Time::RetryAfterOr(secs(1)))
            .policy("policyName")
            .past_frigg(),
            Rule::limit(Reason::Burst, &[Test::Status(&[429])]).policy("policyName"),
        ],
        ..Provider::named(
            "hubspot",
            "https://developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines",
        )
    },
    Provider {
        hosts: &["api.intercom.io", "api.*.intercom.io"],
        // The minute's budget is dealt out in windows of ten seconds.
        windows: &[NamedWindow::without_limit(Reason::Burst, secs(10))],
        reason: Some(Reason::Burst),
        ..Provider::named(
            "intercom",
            "https://developers.intercom.com/docs/references/rest-api/errors/rate-limiting",
        )
    },
    Provider {
        hosts: &["api.pipedrive.com", "*.pipedrive.com"],
        windows: &[NamedWindow::new(Reason::Burst, 80, secs(2))],
        reason: Some(Reason::Burst),
        parsers: &[Parser::RetryAfter, Parser::ResetHeaders],
        rules: &[
            // The daily token budget; `x-ratelimit-reset` is the burst window's and much too soon.
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[429]),
                    Test::Spent("x-daily-ratelimit-token-remaining"),
                ],
            )
            .time(Time::Unsaid)
            .past_frigg(),
        ],
        ..Provider::named(
            "pipedrive",
            "https://pipedrive.readme.io/docs/core-api-concepts-rate-limiting",
        )
    },
    Provider {
        hosts: &["*.salesforce.com", "*.force.com"],
        windows: &[NamedWindow::without_limit(Reason::Daily, secs(86_400)).rolling()],
        rules: &[
            // SOAP and the older bulk API answer in XML.
            Rule::limit(
                Reason::Concurrency,
                &[Test::Says("REQUEST_LIMIT_EXCEEDED</"), Test::Says("concurrent")],
            )
            .time(Time::Documented(secs(30)))
            .past_frigg(),
            Rule::limit(Reason::Daily, &[Test::Says("REQUEST_LIMIT_EXCEEDED</")])
                .time(Time::Documented(secs(3600)))
                .past_frigg(),
            Rule::limit(
                Reason::Concurrency,
                &[
                    Test::Field("**.errorCode", &["REQUEST_LIMIT_EXCEEDED"]),
                    Test::FieldContains("**.message", "concurrent"),
                ],
            )
            .time(Time::Documented(secs(30))),
            Rule::limit(
                Reason::Daily,
                &[Test::Field("**.errorCode", &["REQUEST_LIMIT_EXCEEDED"])],
            )
            .time(Time::Documented(secs(3600))),
        ],
        ..Provider::named(
            "salesforce",
            "https://developer.salesforce.com/docs/atlas.en-us.salesforce_app_limits_cheatsheet.meta/salesforce_app_limits_cheatsheet/salesforce_app_limits_platform_api.htm",
        )
    },
    Provider {
        hosts: &["api.twilio.com", "*.twilio.com"],
        reason: Some(Reason::Concurrency),
        ..Provider::named("twilio", "https://www.twilio.com/docs/api/errors/20429")
    },
    Provider {
        hosts: &["*.zendesk.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        rules: &[
            // A limit on one record, which no header describes.
            Rule::limit(
                Reason::Unknown,
                &[Test::Status(&[429]), Test::Says("single unique user")],
            ),
        ],
        ..Provider::named(
            "zendesk",
            "https://developer.zendesk.com/api-reference/introduction/rate-limits/",
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
            ("bitrix24", 503, &[], r#"{"error":"QUERY_LIMIT_EXCEEDED"}"#, Some((Reason::Burst, Some(1.0)))),
            ("hubspot", 429, &[], r#"{"policyName":"DAILY"}"#, Some((Reason::Daily, Some(3600.0)))),
            ("hubspot", 429, &[], r#"{"policyName":"SECONDLY"}"#, Some((Reason::Burst, Some(1.0)))),
            ("hubspot", 429, &[("retry-after", "4")], r#"{"policyName":"TEN_SECONDLY_ROLLING"}"#, Some((Reason::Burst, Some(4.0)))),
            ("hubspot", 429, &[], "", Some((Reason::Burst, Some(10.0)))),
            ("hubspot", 403, &[], r#"{"policyName":"DAILY"}"#, None),
            ("pipedrive", 429, &[("x-daily-ratelimit-token-remaining", "0"), ("x-ratelimit-reset", "2")], "", Some((Reason::Daily, None))),
            ("pipedrive", 429, &[("x-daily-ratelimit-token-remaining", "9"), ("x-ratelimit-reset", "2")], "", Some((Reason::Burst, Some(2.0)))),
            ("salesforce", 500, &[], "<exceptionCode>REQUEST_LIMIT_EXCEEDED</exceptionCode> Concurrent", Some((Reason::Concurrency, Some(30.0)))),
            ("salesforce", 500, &[], "<exceptionCode>REQUEST_LIMIT_EXCEEDED</exceptionCode>", Some((Reason::Daily, Some(3600.0)))),
            ("salesforce", 403, &[], r#"[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"Concurrent calls"}]"#, Some((Reason::Concurrency, Some(30.0)))),
            ("salesforce", 403, &[], r#"[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"Total"}]"#, Some((Reason::Daily, Some(3600.0)))),
            ("salesforce", 403, &[("retry-after", "5")], r#"[{"errorCode":"INSUFFICIENT_ACCESS"}]"#, None),
            ("twilio", 429, &[], "", Some((Reason::Concurrency, None))),
            ("zendesk", 429, &[], "Too many updates of a single unique user", Some((Reason::Unknown, None))),
            ("zendesk", 429, &[("retry-after", "17")], "", Some((Reason::Minute, Some(17.0)))),
        ]);
    }
}
