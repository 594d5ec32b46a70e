//! Language models.

use super::{Provider, Rule, Test, secs};
use crate::rate_limit::{NamedWindow, Reason};

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        hosts: &["api.anthropic.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("anthropic", "https://docs.anthropic.com/en/api/rate-limits")
    },
    Provider {
        hosts: &["*.openai.azure.com"],
        rules: &[
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[429]),
                    Test::FieldContains("error.message", "token rate limit"),
                ],
            ),
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[429]),
                    Test::FieldContains("error.message", "call rate limit"),
                ],
            ),
        ],
        ..Provider::named(
            "azure-openai",
            "https://learn.microsoft.com/azure/ai-services/openai/how-to/quota",
        )
    },
    Provider {
        hosts: &["api.groq.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("groq", "https://console.groq.com/docs/rate-limits")
    },
    Provider {
        hosts: &["huggingface.co", "*.huggingface.co"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(300))],
        reason: Some(Reason::Minute),
        ..Provider::named("huggingface", "https://huggingface.co/docs/hub/rate-limits")
    },
    Provider {
        hosts: &["api.openai.com"],
        rules: &[
            // The budget is spent, not the rate.
            Rule::not_a_limit(&[Test::Field(
                "error.code",
                &["insufficient_quota", "billing_hard_limit_reached"],
            )]),
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[429]),
                    Test::FieldContains("error.message", "per day"),
                ],
            ),
            // The type names the bucket that ran out; both are per minute.
            Rule::limit(
                Reason::Minute,
                &[
                    Test::Status(&[429]),
                    Test::Field("error.type", &["requests", "tokens"]),
                ],
            ),
        ],
        ..Provider::named("openai", "https://platform.openai.com/docs/guides/rate-limits")
    },
    // Its rate headers are in the body, under `error.metadata.headers`, where the generic reading finds the reset.
    Provider {
        hosts: &["openrouter.ai"],
        ..Provider::named("openrouter", "https://openrouter.ai/docs/api-reference/limits")
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
            ("anthropic", 429, &[("retry-after", "9")], r#"{"error":{"type":"rate_limit_error"}}"#, Some((Reason::Minute, Some(9.0)))),
            ("anthropic", 529, &[], r#"{"error":{"type":"overloaded_error"}}"#, None),
            ("azure-openai", 429, &[("retry-after-ms", "1250")], r#"{"error":{"message":"Exceeded token rate limit of your tier."}}"#, Some((Reason::Minute, Some(1.25)))),
            ("azure-openai", 429, &[], r#"{"error":{"message":"Exceeded call rate limit of your tier."}}"#, Some((Reason::Minute, None))),
            ("groq", 429, &[], r#"{"error":{"message":"Limit on requests per day (RPD). Please try again in 2h."}}"#, Some((Reason::Daily, Some(7200.0)))),
            ("groq", 413, &[], r#"{"error":{"code":"rate_limit_exceeded"}}"#, None),
            ("huggingface", 429, &[("ratelimit", r#""api";r=0;t=7"#)], "", Some((Reason::Minute, Some(7.0)))),
            ("openai", 429, &[("retry-after", "1")], r#"{"error":{"code":"insufficient_quota"}}"#, None),
            ("openai", 429, &[], r#"{"error":{"type":"requests","message":"Limit on requests per day. Try again in 8m."}}"#, Some((Reason::Daily, Some(480.0)))),
            ("openai", 429, &[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m2s")], r#"{"error":{"type":"tokens"}}"#, Some((Reason::Minute, Some(62.0)))),
            ("openrouter", 429, &[], r#"{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"1796040060000"}}}}"#, Some((Reason::Unknown, Some(60.0)))),
        ]);
    }
}
