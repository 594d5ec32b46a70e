//! What was understood of a response, in words for people.

use std::fmt::Write;
use std::time::Duration;

use super::clock::Clock;
use super::hint::Place;
use super::read::Because;
use super::value::{self, Number};
use super::{Answer, Hint, Parser, Policy, Reason, Refusal, Signal, Source};

impl Policy {
    /// What [`read`](Self::read) makes of a response and why, in a few lines of English for people. No program should
    /// depend on the wording.
    ///
    /// Header values and the provider's name for the limit appear in it, the body does not.
    pub fn explain(&self, signal: &Signal<'_>) -> String {
        let (answer, because) = self.decide(signal);
        let mut lines = vec![format!("{}: {}.", headline(&answer), self.why(signal, because))];
        match &answer {
            Answer::Limited(refusal) => {
                lines.push(which(&refusal.hint));
                lines.extend(when(refusal, signal));
            }
            Answer::Unavailable(refusal) => lines.extend(when(refusal, signal)),
            Answer::Neither => lines.extend(self.unused(signal)),
        }
        lines.join("\n")
    }

    fn why(&self, signal: &Signal<'_>, because: Because) -> String {
        let status = signal.status();
        match because {
            Because::Success if (200..300).contains(&status) => {
                format!("status {status} is a success, and its body is not read for errors")
            }
            Because::Success => format!("status {status} is no error"),
            Because::SuccessBody => format!("status {status}, and the body has no error code of a limit"),
            Because::Unauthorized => "status 401 is about credentials".to_owned(),
            Because::Classify => "the policy's classify function says so".to_owned(),
            Because::ProviderRule => match self.provider {
                Some(provider) => format!("a rule for {} says so ({})", provider.name, provider.docs),
                None => "a rule says so".to_owned(),
            },
            Because::Status429 => "status 429".to_owned(),
            Because::Marker => {
                format!("status {status}, and the body says outright that a rate limit was hit")
            }
            Because::NeverClears => {
                format!("status {status}, but the error is one that waiting does not clear")
            }
            Because::NoMarker => format!(
                "nothing says that this {status} is a rate limit; headers about limits alone do not, many providers send them always"
            ),
            Because::ServerSaysWhen => format!("status {status} with a time to come back"),
        }
    }

    /// A time that is there and means nothing.
    fn unused(&self, signal: &Signal<'_>) -> Option<String> {
        let clock = Clock::of_response(signal.received_at(), signal.headers());
        let hint = [Parser::RetryHeaders, Parser::Buckets]
            .into_iter()
            .find_map(|parser| parser.read(signal, clock))?;
        Some(format!("Not used: {}.", place(hint.place.as_ref()?, signal)))
    }
}

fn headline(answer: &Answer) -> &'static str {
    match answer {
        Answer::Limited(_) => "A rate limit that waiting clears",
        Answer::Unavailable(_) => "Unavailable until a stated time, no rate limit",
        Answer::Neither => "No rate limit",
    }
}

fn which(hint: &Hint) -> String {
    let mut line = match hint.reason {
        Reason::Unknown => "Which limit: the response does not say".to_owned(),
        reason => format!("Which limit: {reason}"),
    };
    if let Some(policy) = &hint.policy {
        let _ = write!(line, ", which the provider calls {policy:?}");
    }
    line.push('.');
    line
}

fn when(refusal: &Refusal, signal: &Signal<'_>) -> Vec<String> {
    let hint = &refusal.hint;
    let (Some(wait), Some(base)) = (hint.wait, refusal.base_wait()) else {
        return vec![
            "When: no time is given or documented, so wait by a ladder (1, 3, 10, 30, 60, 180 s).".to_owned(),
        ];
    };
    let at = signal
        .received_at()
        .checked_add(base)
        .map(|at| format!(", not before {at:.3}"))
        .unwrap_or_default();
    let mut lines = vec![format!("When: in {}{at}.", seconds(base))];
    lines.push(match (&hint.place, hint.source) {
        (Some(found), _) => format!("Learned from {}.", place(found, signal)),
        (None, Source::Static) => {
            "Learned from the provider's documentation; the response gives no time.".to_owned()
        }
        (None, Source::Body) => "Learned from the body.".to_owned(),
        (None, _) => "Learned from the headers.".to_owned(),
    });
    if wait.is_zero() {
        lines.push("The stated time is over already; the shortest wait is one second.".to_owned());
    } else if base > wait {
        lines.push(format!(
            "It says {}, which is under the shortest wait.",
            seconds(wait)
        ));
    }
    lines.extend(skew(signal));
    lines
}

/// A word about clocks that differ by more than a response is under way.
fn skew(signal: &Signal<'_>) -> Option<String> {
    let clock = Clock::of_response(signal.received_at(), signal.headers());
    let off = clock.provider_time()?.duration_since(clock.now());
    let (off, word) = (
        off.unsigned_abs(),
        if off.is_negative() { "behind" } else { "ahead of" },
    );
    (off > Duration::from_secs(2)).then(|| {
        format!(
            "The provider's clock is {} {word} this one; moments are measured against its Date header.",
            seconds(off)
        )
    })
}

fn place(place: &Place, signal: &Signal<'_>) -> String {
    match place {
        Place::Header(name) => {
            let text = signal.header(name.as_str()).unwrap_or_default();
            format!(
                "the header `{name}: {text}`, read as {}",
                reading(name.as_str(), text)
            )
        }
        Place::Field(key) => format!("`{key}` in the body"),
        Place::Words => "the words of the body".to_owned(),
    }
}

/// How a header's value was taken.
fn reading(name: &str, text: &str) -> &'static str {
    let says = |unit: &str| name.split('-').any(|word| word == unit);
    match Number::parse(text).map(Number::whole) {
        Some(_) if says("ms") || says("milliseconds") => "milliseconds",
        Some(..1_000_000_000)
            if name.ends_with("retry-after") || says("after") || says("seconds") || says("in") =>
        {
            "seconds"
        }
        Some(..1_000_000_000) => {
            "seconds from now: it has no unit, and should milliseconds be meant, this is late rather than early"
        }
        Some(..1_000_000_000_000) => "an epoch in seconds",
        Some(..1_000_000_000_000_000) => "an epoch in milliseconds",
        Some(..1_000_000_000_000_000_000) => "an epoch in microseconds",
        Some(_) => "an epoch in nanoseconds",
        None if value::duration_text(text).is_some() => "a duration",
        None if text.contains(['{', '=', ';']) => "a field with several parts",
        None if text.contains(',') && !text.contains(':') => "a list, of which the longest counts",
        None => "a date",
    }
}

fn seconds(wait: Duration) -> String {
    let (seconds, rest) = (wait.as_secs(), wait.subsec_millis());
    let exact = if rest == 0 {
        format!("{seconds} s")
    } else {
        format!("{seconds}.{rest:03} s")
    };
    match seconds {
        0..120 => exact,
        120..7_200 => format!("{exact} (about {} minutes)", seconds / 60),
        _ => format!("{exact} (about {} hours)", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName};

    use super::*;

    fn explain(provider: &str, status: u16, headers: &[(&'static str, &str)], body: &str) -> String {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let policy = Policy::for_provider(provider).unwrap_or_default();
        policy.explain(&Signal::new(
            status,
            &headers,
            body.as_bytes(),
            "2026-11-30T12:00:00Z".parse().unwrap(),
        ))
    }

    #[test]
    fn it_says_what_was_understood_and_why() {
        let table: &[(&str, &[&str])] = &[
            (
                &explain("", 429, &[("x-ratelimit-reset", "60000")], ""),
                &[
                    "A rate limit",
                    "status 429",
                    "in 60000 s",
                    "`x-ratelimit-reset: 60000`",
                    "late rather than early",
                ],
            ),
            (
                &explain(
                    "github",
                    403,
                    &[],
                    r#"{"message":"You have exceeded a secondary rate limit."}"#,
                ),
                &[
                    "a rule for github",
                    "https://docs.github.com/",
                    "Which limit: burst",
                    "in 60 s",
                    "documentation",
                ],
            ),
            (
                &explain(
                    "",
                    403,
                    &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")],
                    "",
                ),
                &[
                    "No rate limit",
                    "nothing says that this 403",
                    "Not used: the header `x-ratelimit-reset: 60`",
                ],
            ),
            (&explain("", 429, &[], ""), &["does not say", "by a ladder"]),
            (
                &explain("", 429, &[("retry-after", "0")], ""),
                &["in 1 s", "over already", "read as seconds."],
            ),
            (
                &explain("", 200, &[], ""),
                &["No rate limit: status 200 is a success"],
            ),
            (
                &explain("", 503, &[("retry-after", "60")], ""),
                &[
                    "Unavailable until",
                    "in 60 s, not before 2026-11-30T12:01:00.000Z",
                ],
            ),
            (
                &explain(
                    "",
                    429,
                    &[
                        ("date", "Mon, 30 Nov 2026 11:50:00 GMT"),
                        ("retry-after", "Mon, 30 Nov 2026 11:51:00 GMT"),
                    ],
                    "",
                ),
                &[
                    "in 60 s",
                    "read as a date",
                    "600 s (about 10 minutes) behind this one",
                ],
            ),
            (
                &explain("hubspot", 429, &[], r#"{"policyName":"DAILY"}"#),
                &["Which limit: daily, which the provider calls \"DAILY\"."],
            ),
            (
                &explain(
                    "meta",
                    400,
                    &[(
                        "x-business-use-case-usage",
                        r#"{"1":[{"estimated_time_to_regain_access":19}]}"#,
                    )],
                    r#"{"error":{"code":80004}}"#,
                ),
                &["in 1140 s", "the header `x-business-use-case-usage"],
            ),
            (
                &explain("", 429, &[], r#"{"error":{"code":"insufficient_quota"}}"#),
                &["waiting does not clear"],
            ),
            (
                &explain("", 429, &[], "Please try again in 7s."),
                &["in 7 s", "the words of the body"],
            ),
            (
                &explain("", 429, &[], r#"{"retry_after":7}"#),
                &["`retry_after` in the body"],
            ),
        ];
        for (text, parts) in table {
            for part in *parts {
                assert!(text.contains(part), "{part:?} is not in:\n{text}");
            }
        }
    }
}
