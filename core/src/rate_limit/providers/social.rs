//! Networks, chat, media.

use super::{Midnight, Provider, Rule, Test, Time, secs};
use crate::rate_limit::{NamedWindow, Reason, Unit};

/// Meta's codes for a limit: application, user, page, custom, and the business use cases; then WhatsApp's.
const META_CODES: &[&str] = &[
    "4", "17", "32", "613", "80000", "80001", "80002", "80003", "80004", "80005", "80006", "80008", "80009",
    "80014", "80007", "130429",
];

pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        hosts: &["discord.com", "discordapp.com"],
        windows: &[NamedWindow::new(Reason::Burst, 50, secs(1))],
        reason: Some(Reason::Burst),
        rules: &[
            // Of a resource, used up by others too; what is left of the own bucket says nothing.
            Rule::limit(
                Reason::Unknown,
                &[
                    Test::Status(&[429]),
                    Test::Header("x-ratelimit-scope", &["shared"]),
                ],
            ),
        ],
        ..Provider::named(
            "discord",
            "https://docs.discord.com/developers/topics/rate-limits",
        )
    },
    // Older APIs refuse with a 400 and this code.
    Provider {
        aliases: &["lark"],
        hosts: &["open.feishu.cn", "open.larksuite.com"],
        rules: &[Rule::limit(
            Reason::Unknown,
            &[Test::Field("code", &["99991400"])],
        )],
        ..Provider::named(
            "feishu",
            "https://open.feishu.cn/document/server-docs/api-call-guide/frequency-control",
        )
    },
    Provider {
        hosts: &["api.linkedin.com"],
        windows: &[NamedWindow::without_limit(Reason::Daily, secs(86_400)).rolling()],
        reason: Some(Reason::Daily),
        reads_success: true,
        rules: &[
            // A decorated field that was refused inside a success.
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[200]),
                    Test::Field("**.status", &["429"]),
                    Test::FieldContains("**.message", "throttle limit"),
                ],
            )
            .time(Time::Midnight(Midnight::Utc)),
            // All budgets start again at midnight UTC.
            Rule::limit(Reason::Daily, &[Test::Status(&[429])])
                .time(Time::RetryAfterOrMidnight(Midnight::Utc)),
        ],
        ..Provider::named(
            "linkedin",
            "https://learn.microsoft.com/linkedin/shared/api-guide/concepts/rate-limits",
        )
    },
    // Refuses with a 400 or a 403; the error code decides. The time to come back, in minutes, is in a header that holds JSON.
    Provider {
        aliases: &["facebook", "instagram", "whatsapp"],
        hosts: &["graph.facebook.com", "graph.instagram.com"],
        windows: &[NamedWindow::without_limit(Reason::Hourly, secs(3600)).rolling()],
        reason: Some(Reason::Hourly),
        rules: &[Rule::limit(
            Reason::Hourly,
            &[
                Test::Status(&[400, 403, 429]),
                Test::Field("error.code", META_CODES),
            ],
        )
        .time(Time::JsonHeader(
            "x-business-use-case-usage",
            "**.estimated_time_to_regain_access",
            Unit::Minutes,
        ))],
        ..Provider::named(
            "meta",
            "https://developers.facebook.com/docs/graph-api/overview/rate-limiting/",
        )
    },
    Provider {
        hosts: &["oauth.reddit.com", "www.reddit.com"],
        windows: &[NamedWindow::new(Reason::Minute, 100, secs(60))],
        reason: Some(Reason::Minute),
        reads_success: true,
        rules: &[
            // The limit on posting comes inside a 200.
            Rule::limit(Reason::Minute, &[Test::Field("json.errors.*.*", &["RATELIMIT"])])
                .time(Time::Field("json.ratelimit", Unit::Seconds)),
        ],
        ..Provider::named(
            "reddit",
            "https://support.reddithelp.com/hc/articles/16160319875092-Reddit-Data-API-Wiki",
        )
    },
    // Epoch milliseconds.
    Provider {
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("rocketchat", "https://docs.rocket.chat/docs/rate-limiter")
    },
    Provider {
        hosts: &["slack.com", "*.slack.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reads_success: true,
        rules: &[
            // Tiers are per minute.
            Rule::limit(Reason::Minute, &[Test::Status(&[429])]),
            // Some surfaces answer 200.
            Rule::limit(
                Reason::Unknown,
                &[
                    Test::Status(&[200]),
                    Test::Field("error", &["ratelimited", "rate_limited"]),
                ],
            ),
        ],
        ..Provider::named("slack", "https://docs.slack.dev/apis/web-api/rate-limits/")
    },
    // A rolling window of 30 s, and bans of up to a day that the Retry-After states.
    Provider {
        hosts: &["api.spotify.com"],
        ..Provider::named(
            "spotify",
            "https://developer.spotify.com/documentation/web-api/concepts/rate-limits",
        )
    },
    // Two numbers in each header: a quarter of an hour on the clock, and the day in UTC.
    Provider {
        hosts: &["www.strava.com"],
        windows: &[
            NamedWindow::new(Reason::Minute, 200, secs(900)),
            NamedWindow::new(Reason::Daily, 2000, secs(86_400)).rolling(),
        ],
        rules: &[
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[429]),
                    Test::ListReached("x-ratelimit-usage", "x-ratelimit-limit", 1),
                ],
            )
            .time(Time::Midnight(Midnight::Utc)),
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[429]),
                    Test::ListReached("x-readratelimit-usage", "x-readratelimit-limit", 1),
                ],
            )
            .time(Time::Midnight(Midnight::Utc)),
            Rule::limit(Reason::Minute, &[Test::Status(&[429])]).time(Time::Every(secs(900))),
        ],
        ..Provider::named("strava", "https://developers.strava.com/docs/rate-limits/")
    },
    Provider {
        hosts: &["api.vimeo.com"],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        reason: Some(Reason::Minute),
        ..Provider::named("vimeo", "https://developer.vimeo.com/guidelines/rate-limiting")
    },
    Provider {
        aliases: &["twitter", "x"],
        hosts: &["api.x.com", "api.twitter.com"],
        // Fifteen minutes, with a limit for each endpoint.
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(900))],
        reason: Some(Reason::Minute),
        rules: &[
            Rule::limit(
                Reason::Monthly,
                &[Test::Status(&[429]), Test::Field("title", &["UsageCapExceeded"])],
            )
            .time(Time::Unsaid),
            // "Enhance Your Calm", of the old search API.
            Rule::some_limit(&[Test::Status(&[420])]),
        ],
        ..Provider::named("x-twitter", "https://docs.x.com/x-api/fundamentals/rate-limits")
    },
    // `X-RateLimit-Type` names the limit; the one per second has no Retry-After.
    Provider {
        hosts: &["api.zoom.us"],
        windows: &[NamedWindow::without_limit(Reason::Burst, secs(1))],
        rules: &[
            Rule::limit(
                Reason::Daily,
                &[
                    Test::Status(&[429]),
                    Test::HeaderContains("x-ratelimit-type", "daily"),
                ],
            )
            .time(Time::RetryAfterOrMidnight(Midnight::Utc)),
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[429]),
                    Test::Header("x-ratelimit-type", &["QPS", "per-second-limit"]),
                ],
            )
            .time(Time::RetryAfterOr(secs(1))),
        ],
        ..Provider::named("zoom", "https://developers.zoom.us/docs/api/rate-limits/")
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
            ("discord", 429, &[("x-ratelimit-scope", "shared"), ("retry-after", "20")], "", Some((Reason::Unknown, Some(20.0)))),
            ("discord", 429, &[("x-ratelimit-scope", "user"), ("retry-after", "20")], "", Some((Reason::Burst, Some(20.0)))),
            ("feishu", 400, &[("x-ogw-ratelimit-reset", "3")], r#"{"code":99991400}"#, Some((Reason::Unknown, Some(3.0)))),
            ("feishu", 400, &[("x-ogw-ratelimit-reset", "3")], r#"{"code":99991663}"#, None),
            ("linkedin", 200, &[], r#"{"a!":{"status":429,"message":"a throttle limit"}}"#, Some((Reason::Daily, Some(43_200.0)))),
            ("linkedin", 200, &[], r#"{"a":{"status":429}}"#, None),
            ("linkedin", 429, &[], "", Some((Reason::Daily, Some(43_200.0)))),
            ("meta", 400, &[("x-business-use-case-usage", r#"{"1":[{"estimated_time_to_regain_access":2},{"estimated_time_to_regain_access":5}]}"#)], r#"{"error":{"code":80004}}"#, Some((Reason::Hourly, Some(300.0)))),
            ("meta", 403, &[], r#"{"error":{"code":17}}"#, Some((Reason::Hourly, None))),
            ("meta", 400, &[], r#"{"error":{"code":100}}"#, None),
            ("reddit", 200, &[], r#"{"json":{"errors":[["RATELIMIT","a break","ratelimit"]],"ratelimit":90.0}}"#, Some((Reason::Minute, Some(90.0)))),
            ("reddit", 200, &[("x-ratelimit-remaining", "0")], r#"{"json":{"errors":[]}}"#, None),
            ("slack", 429, &[("retry-after", "10")], "", Some((Reason::Minute, Some(10.0)))),
            ("slack", 200, &[("retry-after", "10")], r#"{"ok":false,"error":"ratelimited"}"#, Some((Reason::Unknown, Some(10.0)))),
            ("slack", 200, &[], r#"{"ok":false,"error":"not_authed"}"#, None),
            ("strava", 429, &[("x-ratelimit-limit", "100,1000"), ("x-ratelimit-usage", "101,1000")], "", Some((Reason::Daily, Some(43_200.0)))),
            ("strava", 429, &[("x-readratelimit-limit", "100,1000"), ("x-readratelimit-usage", "5,1000")], "", Some((Reason::Daily, Some(43_200.0)))),
            ("strava", 429, &[("x-ratelimit-limit", "100,1000"), ("x-ratelimit-usage", "101,500")], "", Some((Reason::Minute, Some(900.0)))),
            ("x-twitter", 429, &[("x-rate-limit-reset", "1796040030")], r#"{"title":"UsageCapExceeded"}"#, Some((Reason::Monthly, None))),
            ("x-twitter", 420, &[("retry-after", "30")], "", Some((Reason::Minute, Some(30.0)))),
            ("x-twitter", 429, &[("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "1796040030")], "", Some((Reason::Minute, Some(30.0)))),
            ("zoom", 429, &[("x-ratelimit-type", "Daily-limit")], "", Some((Reason::Daily, Some(43_200.0)))),
            ("zoom", 429, &[("x-ratelimit-type", "Per-second-limit")], "", Some((Reason::Burst, Some(1.0)))),
        ]);
    }
}
