//! Shops and marketplaces.

use super::{Provider, Rule, Test, Time, secs};
use crate::rate_limit::{NamedWindow, Reason, Unit};

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        aliases: &["amazon-mws"],
        hosts: &["sellingpartnerapi-*.amazon.com", "mws*.amazonservices.*"],
        reason: Some(Reason::Burst),
        rules: &[
            // The old API (MWS) refuses with a 503; its hourly quota has a reset of its own, an HTTP-date.
            Rule::limit(
                Reason::Hourly,
                &[
                    Test::Status(&[503]),
                    Test::Says("RequestThrottled"),
                    Test::Spent("x-mws-quota-remaining"),
                ],
            )
            .time(Time::Header("x-mws-quota-resetson", Unit::BySize)),
        ],
        ..Provider::named(
            "amazon-spapi",
            "https://developer-docs.amazon.com/sp-api/docs/usage-plans-and-rate-limits",
        )
    },
    Provider {
        hosts: &["api.bigcommerce.com"],
        windows: &[NamedWindow::without_limit(Reason::Burst, secs(30))],
        reason: Some(Reason::Burst),
        ..Provider::named(
            "bigcommerce",
            "https://developer.bigcommerce.com/docs/start/best-practices/api-rate-limits",
        )
    },
    Provider {
        hosts: &["api.ebay.com"],
        // When the day ends, only another call says.
        windows: &[NamedWindow::without_limit(Reason::Daily, secs(86_400)).rolling()],
        reason: Some(Reason::Daily),
        ..Provider::named(
            "ebay",
            "https://developer.ebay.com/develop/get-started/api-call-limits",
        )
    },
    Provider {
        hosts: &["openapi.etsy.com", "api.etsy.com"],
        rules: &[
            Rule::limit(
                Reason::Daily,
                &[Test::Status(&[429]), Test::Spent("x-remaining-today")],
            ),
            Rule::limit(
                Reason::Burst,
                &[Test::Status(&[429]), Test::Spent("x-remaining-this-second")],
            ),
        ],
        windows: &[NamedWindow::without_limit(Reason::Burst, secs(1))],
        ..Provider::named(
            "etsy",
            "https://developers.etsy.com/documentation/essentials/rate-limits",
        )
    },
    Provider {
        hosts: &["*.api.sellercloud.com"],
        reason: Some(Reason::Hourly),
        ..Provider::named(
            "sellercloud",
            "https://developer.sellercloud.com/dev-article/rate-limiting/",
        )
    },
    Provider {
        hosts: &["*.myshopify.com"],
        windows: &[NamedWindow::new(Reason::Burst, 2, secs(1))],
        reads_success: true,
        rules: &[
            // GraphQL: points that come back at a known rate. A query over the maximum has another code and never runs.
            Rule::limit(
                Reason::Cost,
                &[Test::Field("errors.*.extensions.code", &["THROTTLED"])],
            )
            .time(Time::Refill {
                needed: "extensions.cost.requestedQueryCost",
                available: "extensions.cost.throttleStatus.currentlyAvailable",
                per_second: "extensions.cost.throttleStatus.restoreRate",
            }),
            Rule::limit(
                Reason::Burst,
                &[Test::Status(&[429]), Test::Says("calls per second")],
            ),
        ],
        ..Provider::named("shopify", "https://shopify.dev/docs/api/usage/rate-limits")
    },
    Provider {
        hosts: &["api.whatnot.com"],
        windows: &[NamedWindow::without_limit(Reason::Burst, secs(1))],
        reason: Some(Reason::Burst),
        ..Provider::named(
            "whatnot",
            "https://developers.whatnot.com/docs/getting-started/rate-limits",
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
            ("amazon-spapi", 503, &[("x-mws-quota-remaining", "0.0"), ("x-mws-quota-resetson", "Mon, 30 Nov 2026 12:30:00 GMT")], "<Code>RequestThrottled</Code>", Some((Reason::Hourly, Some(1800.0)))),
            ("amazon-spapi", 429, &[], "", Some((Reason::Burst, None))),
            ("bigcommerce", 429, &[("x-rate-limit-time-reset-ms", "2500")], "", Some((Reason::Burst, Some(2.5)))),
            ("etsy", 429, &[("x-remaining-today", "0"), ("retry-after", "90")], "", Some((Reason::Daily, Some(90.0)))),
            ("etsy", 429, &[("x-remaining-today", "7"), ("x-remaining-this-second", "0")], "", Some((Reason::Burst, Some(1.0)))),
            ("shopify", 200, &[], r#"{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":300,"throttleStatus":{"currentlyAvailable":50,"restoreRate":100}}}}"#, Some((Reason::Cost, Some(2.5)))),
            ("shopify", 200, &[], r#"{"errors":[{"extensions":{"code":"THROTTLED"}}]}"#, Some((Reason::Cost, None))),
            ("shopify", 200, &[], r#"{"errors":[{"extensions":{"code":"MAX_COST_EXCEEDED"}}]}"#, None),
            ("shopify", 200, &[("retry-after", "2")], r#"{"data":{}}"#, None),
            ("shopify", 429, &[("retry-after", "2.0")], r#"{"errors":"Over 4 calls per second"}"#, Some((Reason::Burst, Some(2.0)))),
        ]);
    }
}
