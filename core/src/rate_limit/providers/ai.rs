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
