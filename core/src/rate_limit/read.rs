//! The order in which one response is read. The page to start at.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;

use super::clock::{Clock, When};
use super::parsers::{exhausted_reason, stated_window};
use super::{Answer, Hint, Parser, Policy, Reason, Refusal, Signal, Source, Verdict, codes, words};

/// Reads one response of a provider that the [table](super::providers) may know: the call for a handler that has its own
/// HTTP client.
///
/// Without a name, or with one that the table does not know, the response is read by what providers have in common. An
/// empty `body` is fine where it was not read. Keep a [`Policy`] instead when you have more to say.
///
/// ```
/// use frigg_core::rate_limit::{self, Reason};
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("retry-after", HeaderValue::from_static("12"));
/// let now = "2026-09-28T12:00:00Z".parse()?;
///
/// let error = rate_limit::read(429, &headers, b"", now, Some("asana")).check().unwrap_err();
/// assert_eq!(error.limit().retry_at, Some("2026-09-28T12:00:12Z".parse()?));
/// assert_eq!(error.limit().reason, Reason::Minute);
/// assert!(rate_limit::read(404, &headers, b"", now, Some("asana")).check().is_ok());
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn read(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    received_at: Timestamp,
    provider: Option<&str>,
) -> Answer {
    let known = provider.and_then(super::providers::by_name);
    if !may_be_refusal(status, known.is_some_and(|known| known.reads_success)) {
        return Answer::Neither;
    }
    let signal = Signal::new(status, headers, body, received_at);
    match (known, provider) {
        (Some(known), _) => known.policy().read(&signal),
        (None, Some(name)) => Policy::new().with_module(name).read(&signal),
        (None, None) => GENERIC.read(&signal),
    }
}

/// Whether a response with this status is looked at at all. A 401 is about credentials.
fn may_be_refusal(status: u16, reads_success: bool) -> bool {
    match status {
        200..300 => reads_success,
        401 => false,
        _ => status >= 400,
    }
}

static GENERIC: Policy = Policy::new();

/// Why a response was taken for what it is; [`Policy::explain`] puts it into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Because {
    /// A status below 400 that is no error, or whose body is not read.
    Success,
    /// A 2xx body that was read and carries no error code of a limit.
    SuccessBody,
    /// A 401 is about credentials.
    Unauthorized,
    Classify,
    ProviderRule,
    Status429,
    /// The body says so unmistakably.
    Marker,
    /// The error code means that no waiting helps.
    NeverClears,
    /// Nothing says that it is a limit.
    NoMarker,
    /// A retryable 5xx with a Retry-After.
    ServerSaysWhen,
}

impl Policy {
    /// Is this a rate limit that waiting clears? When may we call again? Why?
    ///
    /// The first word has the policy's classify function, then the provider's rules in the table. Without theirs, a 429
    /// is a limit unless its error code says that waiting is in vain, another status from 400 up only if it carries an
    /// unmistakable marker, and a 2xx or 3xx never. Headers alone make nothing a limit: many providers send them always.
    ///
    /// The time comes from the same places, then from the policy's parsers in their order, then from its windows and
    /// minimum wait. A hint of zero yields to a later one in the same response. Nothing is made up: a limit without a
    /// time has none.
    pub fn read(&self, signal: &Signal<'_>) -> Answer {
        if !may_be_refusal(signal.status(), self.reads_success) {
            return Answer::Neither;
        }
        self.decide(signal).0
    }

    /// [`read`](Self::read) with a ladder for a bare 429: `attempt` counts from 0.
    pub fn read_with_ladder(
        &self,
        signal: &Signal<'_>,
        attempt: u32,
        ladder: &crate::backoff::Ladder,
    ) -> Answer {
        self.read(signal).or_step(attempt, ladder)
    }

    pub(crate) fn decide(&self, signal: &Signal<'_>) -> (Answer, Because) {
        if !may_be_refusal(signal.status(), self.reads_success) {
            let because = if signal.status() == 401 {
                Because::Unauthorized
            } else {
                Because::Success
            };
            return (Answer::Neither, because);
        }
        let (verdict, because) = match self.judge(signal) {
            Ok(judged) => judged,
            Err(because) => return self.unavailable(signal, because),
        };
        (
            Answer::Limited(self.refusal(signal, self.hint(signal, verdict))),
            because,
        )
    }

    /// Whether it is a limit, and what is known about it. `Err`: it is none.
    fn judge(&self, signal: &Signal<'_>) -> Result<(Verdict, Because), Because> {
        let ours = self
            .classified(signal)
            .map(|verdict| (verdict, Because::Classify));
        let known = ours.or_else(|| {
            Some((
                self.provider?.judge(signal, self.clock(signal), self.frigg)?,
                Because::ProviderRule,
            ))
        });
        match known {
            Some((verdict, _)) if verdict.not_a_limit => Err(Because::NeverClears),
            Some(known) => Ok(known),
            None => self
                .judge_unknown(signal)
                .map(|because| (Verdict::default(), because)),
        }
    }

    /// The conservative reading, when nobody knows this answer.
    fn judge_unknown(&self, signal: &Signal<'_>) -> Result<Because, Because> {
        match signal.status() {
            429 if !self.frigg && codes::never_clears(signal) => Err(Because::NeverClears),
            429 => Ok(Because::Status429),
            _ if self.frigg => Err(Because::NoMarker),
            200..300 if codes::error_in_success(signal) => Ok(Because::Marker),
            200..300 => Err(Because::SuccessBody),
            status if may_carry_marker(status) && says_limited(signal) => Ok(Because::Marker),
            _ => Err(Because::NoMarker),
        }
    }

    fn classified(&self, signal: &Signal<'_>) -> Option<Verdict> {
        let classify = self.classify.as_ref()?;
        let verdict = match &self.listener {
            None => classify(signal),
            Some(listener) => catch_unwind(AssertUnwindSafe(|| classify(signal))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                listener(signal, text.unwrap_or("the classify function panicked"));
                None
            }),
        };
        verdict.filter(Verdict::counts)
    }

    fn clock<'a>(&self, signal: &Signal<'a>) -> Clock<'a> {
        match self.frigg {
            true => Clock::local(signal.received_at()),
            false => Clock::of_response(signal.received_at(), signal.headers()),
        }
    }

    fn hint(&self, signal: &Signal<'_>, verdict: Verdict) -> Hint {
        let stated = stated(&verdict, signal).or_else(|| {
            let parsers: &[Parser] = if verdict.skip_parsers { &[] } else { &self.parsers };
            self.parse(signal, parsers)
        });
        let mut hint = stated.unwrap_or_default();
        hint.policy = verdict.policy.or(hint.policy);
        hint.remaining = verdict.remaining.or(hint.remaining);
        hint.reason = verdict.reason.unwrap_or_else(|| self.reason(signal, &hint));
        if hint.wait.is_none() {
            match self.static_wait(hint.reason, signal.route()) {
                Some(wait) => {
                    hint.wait = Some(wait);
                    hint.retry_at = signal.received_at().checked_add(wait).ok();
                    hint.source = Source::Static;
                }
                None => hint.source = Source::Backoff,
            }
        }
        hint
    }

    /// The first parser that finds a time decides; a time that is over yields to a later parser's that is not.
    fn parse(&self, signal: &Signal<'_>, parsers: &[Parser]) -> Option<Hint> {
        let clock = self.clock(signal);
        let mut over = None;
        for parser in parsers {
            match parser.read(signal, clock) {
                Some(hint) if self.frigg || hint.wait > Some(Duration::ZERO) => return Some(hint),
                hint => over = over.or(hint),
            }
        }
        over
    }

    /// The larger of the window's length and the minimum (Frigg's static step).
    fn static_wait(&self, reason: Reason, route: Option<&str>) -> Option<Duration> {
        let window = self
            .window(reason, route)
            .filter(|window| !window.rolling)
            .map(|window| window.per);
        window.max(self.min_retry_after).filter(|wait| !wait.is_zero())
    }

    /// The reason, when no rule and no parser names it: an exhausted bucket's window, the message's words, the provider's
    /// usual one, a very long wait.
    fn reason(&self, signal: &Signal<'_>, hint: &Hint) -> Reason {
        if self.frigg || hint.reason != Reason::Unknown {
            return hint.reason;
        }
        // When an exhausted bucket gave the time, it has been asked already.
        let asked = hint.remaining == Some(0);
        (!asked)
            .then(|| exhausted_reason(signal.headers(), self.clock(signal)))
            .flatten()
            .or_else(|| codes::reason_texts(signal).find_map(words::reason))
            .or_else(|| self.provider?.usual_reason(hint.wait))
            .or_else(|| words::reason_of_wait(hint.wait?))
            .unwrap_or_default()
    }

    /// A retryable server error with a Retry-After says when it will be over.
    fn unavailable(&self, signal: &Signal<'_>, because: Because) -> (Answer, Because) {
        if self.frigg || !is_retryable_server_error(signal.status()) {
            return (Answer::Neither, because);
        }
        match self.parse(signal, &[Parser::RetryHeaders]) {
            Some(hint) => (
                Answer::Unavailable(self.refusal(signal, hint)),
                Because::ServerSaysWhen,
            ),
            None => (Answer::Neither, because),
        }
    }

    fn refusal(&self, signal: &Signal<'_>, hint: Hint) -> Refusal {
        let documented = self.rate(hint.reason, signal.route());
        let stated = || stated_window(signal.headers(), self.clock(signal)).filter(|_| !self.frigg);
        Refusal {
            status: signal.status(),
            received_at: signal.received_at(),
            module: self.module().map(str::to_owned),
            window: documented.or_else(stated),
            min_retry_after: self.min_retry_after,
            hint,
        }
    }
}

/// The time that a verdict states itself.
fn stated(verdict: &Verdict, signal: &Signal<'_>) -> Option<Hint> {
    let when = verdict.retry_at.map(When::At).or(verdict.wait.map(When::After))?;
    let source = match verdict.source {
        Some(source @ (Source::Header | Source::Body | Source::Static)) => source,
        _ => Source::Body,
    };
    // A verdict's moment is by the local clock already.
    let hint = Hint::new(when, Clock::local(signal.received_at()), source)?;
    Some(Hint {
        place: verdict.place.clone(),
        ..hint
    })
}

/// A body can say "rate limit" under these statuses and mean it. Not under those whose meaning is settled (not found, too
/// large), and not under a 500, where a gateway reports what happened to it.
fn may_carry_marker(status: u16) -> bool {
    match status {
        404 | 405 | 407 | 408 | 410 | 411 | 413..=417 | 421 | 426 | 431 | 451 => false,
        400..500 => true,
        503 | 509 | 529 => true,
        _ => false,
    }
}

fn says_limited(signal: &Signal<'_>) -> bool {
    !codes::never_clears(signal)
        && (codes::names_limit(signal) || codes::messages(signal).any(words::says_limited))
}

/// RFC 9110, section 15.6: an unknown 5xx means the same as 500. A few say what trying again cannot mend.
fn is_retryable_server_error(status: u16) -> bool {
    matches!(status, 500 | 502..=504 | 509 | 520..=599)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::rate_limit::{LimitKind, NamedWindow};

    const NOW: &str = "2026-11-30T12:00:00Z";

    type Pairs = &'static [(&'static str, &'static str)];
    /// Status, headers, body, and what they come to.
    type Row = (u16, Pairs, &'static str, (&'static str, Option<f64>));

    fn answer(policy: &Policy, status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
        let pairs = headers.iter();
        let headers: HeaderMap = pairs
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        policy.read(&Signal::new(
            status,
            &headers,
            body.as_bytes(),
            NOW.parse().unwrap(),
        ))
    }

    /// `limited`, `unavailable` or nothing, and the wait in seconds.
    fn outcome(answer: &Answer) -> (&'static str, Option<f64>) {
        let word = match answer {
            Answer::Limited(_) => "limited",
            Answer::Unavailable(_) => "unavailable",
            Answer::Neither => "",
        };
        (
            word,
            answer
                .hint()
                .and_then(|hint| hint.wait)
                .map(|wait| wait.as_secs_f64()),
        )
    }

    #[test]
    fn three_answers_and_a_conservative_reading() {
        let exhausted: &[(&str, &str)] = &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "20")];
        let retry: &[(&str, &str)] = &[("retry-after", "9")];
        let table: &[Row] = &[
            (429, &[], "", ("limited", None)),
            (429, retry, "", ("limited", Some(9.0))),
            (429, &[("retry-after", "x")], "", ("limited", None)),
            // Headers make no other status a limit.
            (400, exhausted, "", ("", None)),
            (403, exhausted, r#"{"error":"forbidden"}"#, ("", None)),
            (404, exhausted, "", ("", None)),
            (500, exhausted, "", ("", None)),
            (200, exhausted, "", ("", None)),
            (301, retry, "", ("", None)),
            (401, retry, r#"{"code":"rate_limited"}"#, ("", None)),
            (402, &[], r#"{"error":"payment required"}"#, ("", None)),
            (413, retry, r#"{"code":"rate_limit_exceeded"}"#, ("", None)),
            // A marker does, where the status leaves room for it.
            (
                403,
                exhausted,
                r#"{"code":"RATE_LIMIT_EXCEEDED"}"#,
                ("limited", Some(20.0)),
            ),
            (
                400,
                &[],
                r#"{"__type":"x.y#ThrottlingException"}"#,
                ("limited", None),
            ),
            (403, &[], "You have exceeded the rate limit", ("limited", None)),
            (503, retry, "<Code>SlowDown</Code>", ("limited", Some(9.0))),
            (500, &[], "upstream said: too many requests", ("", None)),
            (404, &[], r#"{"code":"rate_limited"}"#, ("", None)),
            // What waiting never clears.
            (
                429,
                retry,
                r#"{"error":{"code":"insufficient_quota"}}"#,
                ("", None),
            ),
            (
                403,
                &[],
                r#"{"error":{"code":"insufficient_quota","message":"rate limit exceeded"}}"#,
                ("", None),
            ),
            // A server error that says when.
            (503, retry, "maintenance", ("unavailable", Some(9.0))),
            (500, retry, "", ("unavailable", Some(9.0))),
            (529, retry, "", ("unavailable", Some(9.0))),
            (503, &[("retry-after", "x")], "", ("", None)),
            (503, &[], "", ("", None)),
            (501, retry, "", ("", None)),
        ];
        for (status, headers, body, expected) in table {
            assert_eq!(
                outcome(&answer(&Policy::new(), *status, headers, body)),
                *expected,
                "{status} {headers:?} {body}"
            );
        }
    }

    #[test]
    fn bodies_of_successes_are_read_only_when_asked_for() {
        let open = Policy::new().with_success_bodies();
        for (body, limited) in [
            (r#"{"ok":false,"error":"ratelimited"}"#, true),
            (r#"{"error":{"code":"ratelimited"}}"#, true),
            (r#"{"error":["EAPI:Rate limit exceeded"]}"#, true),
            (r#"{"errors":[{"extensions":{"code":"THROTTLED"}}]}"#, true),
            (r#"{"title":"rate limit exceeded"}"#, false),
            (r#"{"items":[{"error":"ratelimited"}]}"#, false),
            (r#"{"error":null}"#, false),
        ] {
            assert_eq!(answer(&open, 200, &[], body).is_limited(), limited, "{body}");
            assert_eq!(answer(&Policy::new(), 200, &[], body), Answer::Neither);
        }
    }

    #[test]
    fn a_time_that_is_over_yields_to_a_later_one() {
        let both = [
            ("retry-after", "0"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "30"),
        ];
        assert_eq!(
            outcome(&answer(&Policy::new(), 429, &both, "")),
            ("limited", Some(30.0))
        );
        assert_eq!(
            outcome(&answer(&Policy::frigg(), 429, &both, "")),
            ("limited", Some(0.0))
        );
        assert_eq!(
            outcome(&answer(&Policy::new(), 429, &[("retry-after", "0")], "")),
            ("limited", Some(0.0))
        );
    }

    #[test]
    fn the_classify_function_has_the_first_word() {
        let hour = Duration::from_secs(3600);
        let policy = Policy::for_provider("github")
            .unwrap()
            .with_classify(move |signal| match signal.status() {
                403 => Some(
                    Verdict::limit(Reason::Daily)
                        .with_wait(hour)
                        .with_source(Source::Static),
                ),
                429 => Some(Verdict::not_a_limit()),
                // A name alone says nothing.
                _ => Some(Verdict::default().with_policy("x")),
            });
        assert_eq!(
            outcome(&answer(&policy, 403, &[("retry-after", "5")], "")),
            ("limited", Some(3600.0))
        );
        assert_eq!(
            outcome(&answer(&policy, 429, &[("retry-after", "5")], "")),
            ("", None)
        );
        assert_eq!(outcome(&answer(&policy, 404, &[], "")), ("", None));
        assert_eq!(outcome(&answer(&policy, 401, &[], "")), ("", None));
    }

    #[test]
    fn a_window_of_the_route_comes_before_a_general_one() {
        let policy = Policy::new()
            .with_module("acme")
            .with_window(NamedWindow::new(Reason::Burst, 100, Duration::from_secs(10)))
            .with_window(NamedWindow::new(Reason::Burst, 4, Duration::from_secs(2)).on("/search/*"))
            .with_classify(|_| Some(Verdict::limit(Reason::Burst)));
        let (headers, now) = (HeaderMap::new(), NOW.parse().unwrap());
        let window = |route: Option<&str>| {
            let signal = Signal::new(429, &headers, b"", now);
            let answer = policy.read(&route.into_iter().fold(signal, Signal::with_route));
            let error = answer.check().unwrap_err();
            let limit = error.limit().clone();
            (
                limit.wait.unwrap().as_secs(),
                limit.window.unwrap().limit.get(),
                limit.source,
            )
        };
        assert_eq!(window(None), (10, 100, Source::Static));
        assert_eq!(window(Some("/users")), (10, 100, Source::Static));
        assert_eq!(window(Some("/search/code")), (2, 4, Source::Static));
    }

    #[test]
    fn the_error_has_what_the_worker_needs() {
        let (headers, now) = (HeaderMap::new(), NOW.parse().unwrap());
        let error = read(429, &headers, b"", now, Some("HubSpot"))
            .check()
            .unwrap_err();
        let limit = error.limit();
        assert_eq!(
            (limit.module.as_deref(), limit.status),
            (Some("hubspot"), Some(429))
        );
        assert_eq!(
            (limit.reason, limit.kind, limit.source),
            (Reason::Burst, LimitKind::RateLimit, Source::Static)
        );
        assert_eq!(limit.window.map(|window| window.limit.get()), Some(110));
        assert_eq!(limit.retry_at, Some("2026-11-30T12:00:10Z".parse().unwrap()));

        // Nobody knows when: no time is made up.
        let error = read(429, &headers, b"", now, Some("nobody"))
            .into_error()
            .unwrap();
        let limit = error.limit();
        assert_eq!(
            (limit.module.as_deref(), limit.retry_at, limit.wait),
            (Some("nobody"), None, None)
        );
        assert_eq!(limit.source, Source::Backoff);

        // The floor of a second and the policy's minimum are in the error.
        let zero: HeaderMap = [(
            HeaderName::from_static("retry-after"),
            HeaderValue::from_static("0"),
        )]
        .into_iter()
        .collect();
        let wait = |policy: &Policy| {
            let answer = policy.read(&Signal::new(429, &zero, b"", now));
            answer.into_error().unwrap().limit().wait
        };
        assert_eq!(wait(&Policy::new()), Some(Duration::from_secs(1)));
        let least = Duration::from_secs(5);
        assert_eq!(wait(&Policy::new().with_min_retry_after(least)), Some(least));

        let unavailable = answer(&Policy::new(), 503, &[("retry-after", "9")], "")
            .into_error()
            .unwrap();
        assert_eq!(unavailable.limit().kind, LimitKind::Unavailable);
    }

    #[test]
    fn a_very_long_wait_names_the_limit() {
        let reason = |wait| {
            answer(&Policy::new(), 429, &[("retry-after", wait)], "")
                .hint()
                .unwrap()
                .reason
        };
        assert_eq!(reason("3600"), Reason::Unknown);
        assert_eq!(reason("79892"), Reason::Daily);
        assert_eq!(reason("2000000"), Reason::Monthly);
    }
}
