//! Customer relations, support and sales.

use std::num::NonZeroU32;

use super::{Provider, Rule, Test, Time, secs};
use crate::rate_limit::{Link, NamedWindow, Parser, Reason};

pub(super) const PROVIDERS: &[Provider] = &[
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
        hosts: &["*.salesforce.com", "*.force.com"],
        windows: &[NamedWindow::without_limit(Reason::Daily, secs(86_400)).rolling()],
        rules: &[
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
];
