//! Payments, accounting, exchanges.

use std::num::NonZeroU32;

use super::{Provider, Rule, Test, Time, secs};
use crate::rate_limit::{NamedWindow, Reason, Unit};

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        hosts: &["api.binance.com", "*.binance.com"],
        rules: &[
            // "IP has been auto-banned for continuing to send requests after receiving 429 codes."
            Rule::limit(Reason::Cost, &[Test::Status(&[418])]),
            Rule::limit(
                Reason::Burst,
                &[Test::Status(&[429]), Test::Field("code", &["-1015"])],
            ),
            // Weights, not calls.
            Rule::limit(
                Reason::Cost,
                &[Test::Status(&[429]), Test::Field("code", &["-1003"])],
            ),
        ],
        ..Provider::named(
            "binance",
            "https://developers.binance.com/docs/binance-spot-api-docs/rest-api/limits",
        )
    },
    // Answers 200; `retCode` says what happened, and rate headers come with successes too.
    Provider {
        hosts: &["api.bybit.com", "api.bytick.com"],
        reads_success: true,
        rules: &[
            Rule::limit(Reason::Burst, &[Test::Field("retCode", &["10006", "10018"])])
                .time(Time::Header("x-bapi-limit-reset-timestamp", Unit::BySize)),
            // Shut out by address for ten minutes.
            Rule::limit(
                Reason::Burst,
                &[Test::Status(&[403]), Test::Says("access too frequent")],
            )
            .time(Time::RetryAfterOr(secs(600))),
        ],
        windows: &[NamedWindow::new(Reason::Burst, 600, secs(5))],
        ..Provider::named("bybit", "https://bybit-exchange.github.io/docs/v5/rate-limit")
    },
    // `X-RateLimit-*` is the day, `X-RateLimit-Minutely-*` the minute; resets are epoch milliseconds.
    Provider {
        hosts: &["start.exactonline.*"],
        windows: &[NamedWindow::new(Reason::Minute, 60, secs(60))],
        rules: &[
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[429]),
                    Test::Spent("x-ratelimit-minutely-remaining"),
                ],
            ),
            Rule::limit(
                Reason::Daily,
                &[Test::Status(&[429]), Test::Spent("x-ratelimit-remaining")],
            ),
        ],
        ..Provider::named(
            "exact-online",
            "https://support.exactonline.com/community/s/knowledge-base#All-All-DNO-Simulation-gen-apilimits",
        )
    },
    // A list of texts in `error`, with status 200: `EAPI:Rate limit exceeded`.
    Provider {
        hosts: &["api.kraken.com"],
        reads_success: true,
        ..Provider::named(
            "kraken",
            "https://docs.kraken.com/api/docs/guides/spot-rest-ratelimits",
        )
    },
    Provider {
        hosts: &["*.suitetalk.api.netsuite.com", "*.restlets.api.netsuite.com"],
        reason: Some(Reason::Concurrency),
        rules: &[
            // RESTlets refuse with a 400.
            Rule::limit(
                Reason::Concurrency,
                &[Test::Status(&[400]), Test::Says("SSS_REQUEST_LIMIT_EXCEEDED")],
            ),
        ],
        ..Provider::named(
            "netsuite",
            "https://docs.oracle.com/en/cloud/saas/netsuite/ns-online-help/section_1500275531.html",
        )
    },
    Provider {
        hosts: &["api-m.paypal.com", "api-m.sandbox.paypal.com"],
        ..Provider::named(
            "paypal",
            "https://developer.paypal.com/reference/guidelines/rate-limiting/",
        )
    },
    Provider {
        hosts: &["app.pennylane.com"],
        windows: &[NamedWindow::new(Reason::Burst, 25, secs(5))],
        reason: Some(Reason::Burst),
        ..Provider::named("pennylane", "https://pennylane.readme.io/docs/rate-limiting-1")
    },
    Provider {
        hosts: &["production.plaid.com", "sandbox.plaid.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("plaid", "https://plaid.com/docs/errors/rate-limit-exceeded/")
    },
    Provider {
        aliases: &["quickbooks-online", "intuit"],
        hosts: &["quickbooks.api.intuit.com", "sandbox-quickbooks.api.intuit.com"],
        windows: &[NamedWindow::new(Reason::Minute, 500, secs(60))],
        reason: Some(Reason::Minute),
        reads_success: true,
        rules: &[
            // A batch answers 200, with the refusal in the item that was refused.
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[200]),
                    Test::FieldContains("BatchItemResponse.*.Fault.Error.*.Message", "ThrottleExceeded"),
                ],
            ),
        ],
        ..Provider::named(
            "quickbooks",
            "https://developer.intuit.com/app/developer/qbo/docs/learn/rest-api-features#limits-and-throttles",
        )
    },
    Provider {
        hosts: &["api.stripe.com"],
        windows: &[NamedWindow::new(Reason::Burst, 100, secs(1))],
        rules: &[
            // A 429 for an object that another request holds: retried at once, it clears by itself.
            Rule::not_a_limit(&[Test::Status(&[429]), Test::Field("error.code", &["lock_timeout"])]),
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[429]),
                    Test::Header("stripe-rate-limited-reason", &["global-rate", "endpoint-rate"]),
                ],
            ),
            Rule::limit(
                Reason::Concurrency,
                &[
                    Test::Status(&[429]),
                    Test::Header(
                        "stripe-rate-limited-reason",
                        &["global-concurrency", "endpoint-concurrency"],
                    ),
                ],
            ),
        ],
        ..Provider::named("stripe", "https://docs.stripe.com/rate-limits")
    },
    // The message names the window and the time: "maximum admitted 600 per Minute. Try again in 55 seconds."
    Provider {
        hosts: &["eaccountingapi.vismaonline.com"],
        windows: &[NamedWindow::new(Reason::Minute, 600, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("visma", "https://developer.vismaonline.com/docs/rate-limits")
    },
    // `X-Rate-Limit-Problem` names the limit. A Retry-After comes with the minute and the day only.
    Provider {
        hosts: &["api.xero.com"],
        windows: &[
            NamedWindow::new(Reason::Minute, 60, secs(60)),
            NamedWindow::new(Reason::Daily, 5000, secs(86_400)).rolling(),
        ],
        max_concurrency: NonZeroU32::new(5),
        rules: &[
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[429]),
                    Test::Header("x-rate-limit-problem", &["day", "daily"]),
                ],
            ),
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[429]),
                    Test::HeaderContains("x-rate-limit-problem", "minute"),
                ],
            ),
            Rule::limit(
                Reason::Concurrency,
                &[
                    Test::Status(&[429]),
                    Test::HeaderContains("x-rate-limit-problem", "concurrent"),
                ],
            ),
        ],
        ..Provider::named(
            "xero",
            "https://developer.xero.com/documentation/guides/oauth2/limits/",
        )
    },
    Provider {
        hosts: &["api.xendit.co"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("xendit", "https://docs.xendit.co/apidocs/rate-limits")
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
            ("binance", 418, &[("retry-after", "120")], "", Some((Reason::Cost, Some(120.0)))),
            ("binance", 429, &[], r#"{"code":-1015}"#, Some((Reason::Burst, None))),
            ("binance", 429, &[], r#"{"code":-1003,"msg":"banned until 1796040120000"}"#, Some((Reason::Cost, Some(120.0)))),
            ("binance", 403, &[], "", None),
            ("bybit", 200, &[("x-bapi-limit-reset-timestamp", "1796040003000")], r#"{"retCode":10018}"#, Some((Reason::Burst, Some(3.0)))),
            ("bybit", 200, &[("x-bapi-limit-reset-timestamp", "1796040003000")], r#"{"retCode":0}"#, None),
            ("bybit", 403, &[], "access too frequent", Some((Reason::Burst, Some(600.0)))),
            ("exact-online", 429, &[("x-ratelimit-minutely-remaining", "0"), ("x-ratelimit-minutely-reset", "1796040030000")], "", Some((Reason::Minute, Some(30.0)))),
            ("exact-online", 429, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796043600000")], "", Some((Reason::Daily, Some(3600.0)))),
            ("kraken", 200, &[], r#"{"error":["EOrder:Rate limit exceeded"]}"#, Some((Reason::Unknown, None))),
            ("kraken", 200, &[], r#"{"error":["EGeneral:Invalid arguments"]}"#, None),
            ("netsuite", 400, &[], r#"{"error":{"code":"SSS_REQUEST_LIMIT_EXCEEDED"}}"#, Some((Reason::Concurrency, None))),
            ("netsuite", 429, &[], "", Some((Reason::Concurrency, None))),
            ("quickbooks", 200, &[], r#"{"BatchItemResponse":[{"Fault":{"Error":[{"Message":"ThrottleExceeded"}]}}]}"#, Some((Reason::Minute, Some(60.0)))),
            ("quickbooks", 200, &[], r#"{"BatchItemResponse":[{"Purchase":{}}]}"#, None),
            ("stripe", 429, &[], r#"{"error":{"code":"lock_timeout"}}"#, None),
            ("stripe", 429, &[("stripe-rate-limited-reason", "global-rate")], "", Some((Reason::Burst, Some(1.0)))),
            ("stripe", 429, &[("stripe-rate-limited-reason", "endpoint-concurrency")], "", Some((Reason::Concurrency, None))),
            ("xero", 429, &[("x-rate-limit-problem", "day"), ("retry-after", "900")], "", Some((Reason::Daily, Some(900.0)))),
            ("xero", 429, &[("x-rate-limit-problem", "appminute"), ("retry-after", "9")], "", Some((Reason::Minute, Some(9.0)))),
            ("xero", 429, &[("x-rate-limit-problem", "concurrent")], "", Some((Reason::Concurrency, None))),
        ]);
    }
}
