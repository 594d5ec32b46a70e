//! Public data and search.

use super::{Midnight, Provider, Rule, Test, Time, secs};
use crate::rate_limit::{NamedWindow, Reason};

pub(super) const PROVIDERS: &[Provider] = &[
    // Every answer is a 200; the plan's limits are in `errors`.
    Provider {
        hosts: &["v3.football.api-sports.io"],
        reads_success: true,
        rules: &[
            Rule::limit(
                Reason::Daily,
                &[Test::FieldContains("errors.requests", "limit for the day")],
            )
            .time(Time::Midnight(Midnight::Utc)),
            Rule::limit(
                Reason::Minute,
                &[Test::FieldContains("errors.rateLimit", "too many requests")],
            ),
        ],
        windows: &[NamedWindow::without_limit(Reason::Minute, secs(60))],
        ..Provider::named(
            "api-football",
            "https://www.api-football.com/documentation-v3#section/Architecture/Ratelimit",
        )
    },
    // Answers 200 with a status of its own. `OVER_DAILY_LIMIT` is about keys and billing, and no waiting clears it.
    Provider {
        hosts: &["maps.googleapis.com"],
        reads_success: true,
        rules: &[Rule::limit(
            Reason::Unknown,
            &[Test::Field("status", &["OVER_QUERY_LIMIT"])],
        )],
        ..Provider::named(
            "google-maps",
            "https://developers.google.com/maps/documentation/geocoding/requests-geocoding",
        )
    },
    Provider {
        aliases: &["wikipedia", "wikidata"],
        hosts: &[
            "*.wikipedia.org",
            "*.wikidata.org",
            "*.wikimedia.org",
            "www.mediawiki.org",
        ],
        reads_success: true,
        rules: &[
            Rule::limit(Reason::Unknown, &[Test::Field("error.code", &["ratelimited"])]),
            Rule::limit(Reason::Unknown, &[Test::Field("errors.*.code", &["ratelimited"])]),
        ],
        ..Provider::named("mediawiki", "https://www.mediawiki.org/wiki/API:Ratelimit")
    },
    // Refuses with a 503.
    Provider {
        hosts: &["musicbrainz.org"],
        windows: &[NamedWindow::new(Reason::Burst, 1, secs(1))],
        reason: Some(Reason::Burst),
        rules: &[
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[503]),
                    Test::Says("exceeding the allowable rate limit"),
                ],
            ),
            Rule::limit(
                Reason::Burst,
                &[Test::Status(&[503]), Test::Spent("x-ratelimit-remaining")],
            ),
        ],
        ..Provider::named(
            "musicbrainz",
            "https://musicbrainz.org/doc/MusicBrainz_API/Rate_Limiting",
        )
    },
    Provider {
        hosts: &["*.rapidapi.com"],
        ..Provider::named("rapidapi", "https://docs.rapidapi.com/docs/response-headers")
    },
    Provider {
        hosts: &["www.sec.gov", "data.sec.gov", "efts.sec.gov"],
        windows: &[NamedWindow::new(Reason::Burst, 10, secs(1))],
        rules: &[
            // A missing User-Agent; the page looks much like the one below.
            Rule::not_a_limit(&[Test::Says("undeclared automated tool")]),
            // Over ten a second the address is shut out for ten minutes.
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Status(&[403, 429]),
                    Test::Says("request rate threshold exceeded"),
                ],
            )
            .time(Time::RetryAfterOr(secs(600))),
        ],
        ..Provider::named("sec-edgar", "https://www.sec.gov/os/accessing-edgar-data")
    },
    // Refuses with a 400 (or a 502) that names itself; `error_id` is no HTTP status.
    Provider {
        hosts: &["api.stackexchange.com"],
        reason_by_wait: true,
        rules: &[
            // The `backoff` field of an earlier answer was not obeyed.
            Rule::limit(
                Reason::Burst,
                &[
                    Test::Field("error_name", &["throttle_violation"]),
                    Test::FieldContains("error_message", "backoff"),
                ],
            ),
            Rule::some_limit(&[Test::Field("error_name", &["throttle_violation"])]),
        ],
        ..Provider::named("stackexchange", "https://api.stackexchange.com/docs/throttle")
    },
    Provider {
        hosts: &["api.yelp.com"],
        reason: Some(Reason::Daily),
        ..Provider::named(
            "yelp",
            "https://docs.developer.yelp.com/docs/fusion-rate-limiting",
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
            ("api-football", 200, &[], r#"{"errors":{"requests":"The request limit for the day is reached"}}"#, Some((Reason::Daily, Some(43_200.0)))),
            ("api-football", 200, &[], r#"{"errors":{"rateLimit":"Too many requests."}}"#, Some((Reason::Minute, Some(60.0)))),
            ("api-football", 200, &[], r#"{"errors":[],"response":[]}"#, None),
            ("google-maps", 200, &[], r#"{"status":"OVER_QUERY_LIMIT"}"#, Some((Reason::Unknown, None))),
            ("google-maps", 200, &[], r#"{"status":"OVER_DAILY_LIMIT"}"#, None),
            ("mediawiki", 200, &[], r#"{"error":{"code":"ratelimited"}}"#, Some((Reason::Unknown, None))),
            ("mediawiki", 200, &[], r#"{"errors":[{"code":"ratelimited"}]}"#, Some((Reason::Unknown, None))),
            ("mediawiki", 200, &[], r#"{"error":{"code":"badtoken"}}"#, None),
            ("musicbrainz", 503, &[], r#"{"error":"You are exceeding the allowable rate limit"}"#, Some((Reason::Burst, Some(1.0)))),
            ("musicbrainz", 503, &[("x-ratelimit-remaining", "0"), ("retry-after", "2")], "", Some((Reason::Burst, Some(2.0)))),
            ("musicbrainz", 503, &[("x-ratelimit-remaining", "9")], "maintenance", None),
            ("rapidapi", 429, &[], r#"{"message":"You have exceeded the MONTHLY quota"}"#, Some((Reason::Monthly, None))),
            ("sec-edgar", 403, &[], "<h1>Undeclared Automated Tool</h1>", None),
            ("sec-edgar", 403, &[], "<h1>Request Rate Threshold Exceeded</h1>", Some((Reason::Burst, Some(600.0)))),
            ("stackexchange", 400, &[], r#"{"error_name":"throttle_violation","error_message":"backoff not obeyed"}"#, Some((Reason::Burst, None))),
            ("stackexchange", 400, &[], r#"{"error_name":"throttle_violation","error_message":"more requests available in 7300 seconds"}"#, Some((Reason::Daily, Some(7300.0)))),
        ]);
    }
}
