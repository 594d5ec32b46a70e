//! Remaining and reset, in every spelling and for several buckets at once.

use std::num::NonZeroU32;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use jiff::Timestamp;

use super::{header, ietf};
use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::value::{self, Number, Unit};
use crate::rate_limit::{Hint, Place, Reason, Source, Window, words};

/// The headers that describe a budget, grouped by bucket: `X-RateLimit-Remaining-Requests` and
/// `X-RateLimit-Reset-Requests` are one, `X-RateLimit-Day-Remaining` and `X-RateLimit-Day-Reset` another, each limit of an
/// IETF `RateLimit` field another still (draft-ietf-httpapi-ratelimit-headers, all four forms).
///
/// A bucket with calls left did not refuse, so its reset says nothing. Of the exhausted ones the longest reset decides;
/// when none has a reset, the longest of those that do not say what is left. A negative number left means that the
/// provider does not know, and the bucket does not count.
///
/// A reset is a date in any form, a duration text (`6m0s`, `20ms`), or a number: in the unit of the name
/// (`Reset-Ms`: milliseconds), else an epoch or seconds by size.
/// The reason comes from the bucket's window (`X-RateLimit-Period`, `w=`) or its name (`day`, `minutely`).
pub fn buckets(headers: &HeaderMap, clock: Clock<'_>) -> Option<Hint> {
    let buckets = collect(headers, clock);
    let usable = buckets
        .iter()
        .filter(|bucket| !matches!(bucket.left, Left::Some(_) | Left::Nonsense));
    let (bucket, reset) = usable
        .filter_map(|bucket| Some((bucket, bucket.reset?)))
        .max_by_key(|(bucket, reset)| (bucket.left == Left::Nothing, reset.wait))?;
    Some(Hint {
        wait: Some(reset.wait),
        retry_at: Some(reset.retry_at),
        reason: bucket.reason(),
        policy: bucket.policy.map(str::to_owned),
        remaining: (bucket.left == Left::Nothing).then_some(0),
        source: Source::Header,
        place: Some(Place::Header(reset.header.clone())),
    })
}

/// The rate that a refusal states itself: the limit of the exhausted bucket that decides, in the window that is stated
/// (`w=`, `X-RateLimit-Period`) or named (`X-RateLimit-Limit-Minute`). The time until its reset is no window: that is what is
/// left of one. A day and more is none to space calls by.
pub(crate) fn stated_window(headers: &HeaderMap, clock: Clock<'_>) -> Option<Window> {
    let buckets = collect(headers, clock);
    let exhausted = buckets.iter().filter(|bucket| bucket.left == Left::Nothing);
    let bucket = exhausted.max_by_key(|bucket| bucket.reset.map(|reset| reset.wait))?;
    let (limit, stated) = bucket.quota(headers)?;
    let per = bucket.window.or(stated).or_else(|| bucket.named_window())?;
    let limit = NonZeroU32::new(u32::try_from(limit).ok()?)?;
    (!per.is_zero() && per < DAY).then_some(Window { limit, per })
}

/// The kind of limit that an exhausted bucket's window or name says, whether or not it has a reset.
pub(crate) fn exhausted_reason(headers: &HeaderMap, clock: Clock<'_>) -> Option<Reason> {
    let buckets = collect(headers, clock);
    let exhausted = buckets.iter().filter(|bucket| bucket.left == Left::Nothing);
    exhausted
        .map(Bucket::reason)
        .find(|reason| *reason != Reason::Unknown)
}

fn collect<'a>(headers: &'a HeaderMap, clock: Clock<'_>) -> Vec<Bucket<'a>> {
    let mut buckets: Vec<Bucket<'a>> = Vec::new();
    for (name, value) in headers {
        if !may_be_about_rates(name.as_str()) {
            continue;
        }
        let Ok(text) = value.to_str() else { continue };
        if *name == ietf::RATELIMIT {
            let limits = ietf::limits(text);
            buckets.extend(limits.map(|limit| Bucket::of_field(&limit, name, headers, clock)));
        } else if let Some(part) = Part::of(name).filter(|part| part.kind != Kind::Limit) {
            let at = match buckets.iter().position(|bucket| bucket.key == part.key) {
                Some(at) => at,
                None => {
                    buckets.push(Bucket::new(part.key));
                    buckets.len() - 1
                }
            };
            buckets[at].add(part, text.trim(), name, clock);
        }
    }
    buckets
}

/// The key of what the `RateLimit` field says.
const FIELD: Key<'static> = Key([Some("ratelimit"); 4]);
const DAY: Duration = Duration::from_secs(86_400);

/// What is left in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Unsaid,
    Nothing,
    Some(u64),
    /// A negative number: how servers write "not known".
    Nonsense,
}

impl Left {
    /// Less than one call is nothing (`0.0`); parameters after the number are none of it (`0;w=21600`).
    fn read(text: &str) -> Left {
        let number = text.split([';', ',']).next().unwrap_or_default().trim();
        match Number::parse(number).map(Number::whole) {
            Some(0) => Left::Nothing,
            Some(left) => Left::Some(left),
            None if number.starts_with('-') => Left::Nonsense,
            None => Left::Unsaid,
        }
    }
}

#[derive(Clone, Copy)]
struct Bucket<'a> {
    key: Key<'a>,
    left: Left,
    reset: Option<Reset<'a>>,
    window: Option<Duration>,
    policy: Option<&'a str>,
}

#[derive(Clone, Copy)]
struct Reset<'a> {
    wait: Duration,
    retry_at: Timestamp,
    header: &'a HeaderName,
}

impl<'a> Reset<'a> {
    fn new(when: When, header: &'a HeaderName, clock: Clock<'_>) -> Option<Self> {
        let (wait, retry_at) = clock.resolve(when)?;
        Some(Reset {
            wait,
            retry_at,
            header,
        })
    }
}

impl<'a> Bucket<'a> {
    fn new(key: Key<'a>) -> Self {
        Bucket {
            key,
            left: Left::Unsaid,
            reset: None,
            window: None,
            policy: None,
        }
    }

    fn of_field(
        limit: &ietf::FieldLimit<'a>,
        name: &'a HeaderName,
        headers: &HeaderMap,
        clock: Clock<'_>,
    ) -> Self {
        let window = || ietf::policy_window(header(headers, ietf::RATELIMIT_POLICY.as_str())?, limit.name?);
        let left = |left| {
            if left == 0 {
                Left::Nothing
            } else {
                Left::Some(left)
            }
        };
        Bucket {
            // No header's bucket has this key, so none is added to it.
            key: FIELD,
            left: limit.remaining.map_or(Left::Unsaid, left),
            reset: limit
                .reset
                .and_then(|reset| Reset::new(When::After(reset.seconds()), name, clock)),
            window: window().map(Number::seconds),
            policy: limit.name,
        }
    }

    fn add(&mut self, part: Part<'_>, text: &str, name: &'a HeaderName, clock: Clock<'_>) {
        match part.kind {
            Kind::Remaining => {
                self.left = Left::read(text);
                self.window = self.window.or(ietf::parameter(text, "w")
                    .and_then(Number::parse)
                    .map(Number::seconds));
            }
            Kind::Reset => {
                let reset = value::when(text, part.unit).and_then(|when| Reset::new(when, name, clock));
                self.reset = self.reset.into_iter().chain(reset).max_by_key(|reset| reset.wait);
            }
            Kind::Window => {
                let unit = if part.unit == Unit::BySize {
                    Unit::Seconds
                } else {
                    part.unit
                };
                if let Some(When::After(window)) = value::when(text, unit) {
                    self.window = Some(window);
                }
            }
            // Only a refusal's matters.
            Kind::Limit => {}
        }
    }

    /// The calls that it lets pass, and the window where that is stated beside them.
    fn quota(&self, headers: &HeaderMap) -> Option<(u64, Option<Duration>)> {
        if self.key == FIELD {
            let policy = header(headers, ietf::RATELIMIT_POLICY.as_str());
            return ietf::quota(header(headers, ietf::RATELIMIT.as_str())?, policy, self.policy);
        }
        let texts = headers.iter().filter_map(|(name, value)| {
            let part = Part::of(name).filter(|part| part.kind == Kind::Limit && part.key == self.key)?;
            value.to_str().ok().map(|text| (part, text.trim()))
        });
        let (_, text) = texts.into_iter().next()?;
        // `10, 10;w=1, 50;w=60` of the drafts up to -06: the limit that counts, then the policies.
        ietf::first_quota(text)
    }

    fn named_window(&self) -> Option<Duration> {
        let words = self.key.0.into_iter().flatten().chain(self.policy);
        let seconds = |word: &str| match word
            .to_ascii_lowercase()
            .trim_start_matches("per-")
            .trim_end_matches("ly")
        {
            "second" => Some(1),
            "minute" => Some(60),
            "hour" => Some(3_600),
            _ => None,
        };
        words.filter_map(seconds).next().map(Duration::from_secs)
    }

    fn reason(&self) -> Reason {
        let named = || {
            self.key
                .0
                .into_iter()
                .flatten()
                .chain(self.policy)
                .find_map(words::window_name)
        };
        self.window
            .map(Reason::of_window)
            .or_else(named)
            .unwrap_or_default()
    }
}

/// What a header says about a bucket, from its name.
struct Part<'a> {
    kind: Kind,
    unit: Unit,
    key: Key<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Remaining,
    Reset,
    Window,
    Limit,
}

/// The words of a header name that tell buckets apart, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Key<'a>([Option<&'a str>; 4]);

impl<'a> Part<'a> {
    fn of(name: &'a HeaderName) -> Option<Self> {
        // The names that most providers use, at once.
        let usual = |kind| {
            Some(Part {
                kind,
                unit: Unit::BySize,
                key: Key::default(),
            })
        };
        match name.as_str() {
            "x-ratelimit-remaining" | "ratelimit-remaining" | "x-rate-limit-remaining" => {
                return usual(Kind::Remaining);
            }
            "x-ratelimit-reset" | "ratelimit-reset" | "x-rate-limit-reset" => return usual(Kind::Reset),
            "x-ratelimit-limit" | "ratelimit-limit" | "x-rate-limit-limit" => return usual(Kind::Limit),
            _ => {}
        }
        let mut kind = None;
        let mut unit = Unit::BySize;
        let (mut about_rates, mut limit) = (false, None);
        let mut key = Key::default();
        let mut free = key.0.iter_mut();
        for word in name.as_str().split(['-', '_']) {
            match word {
                "remaining" | "left" => kind = Some(Kind::Remaining),
                "reset" | "resets" | "resettime" | "resetat" | "reseton" | "resetson" => {
                    kind = Some(Kind::Reset)
                }
                // These words have other uses (`X-Next-Page`), so another word must say what they are about.
                "next" if kind.is_none() => kind = about_rates.then_some(Kind::Reset),
                "period" | "interval" | "window" if kind.is_none() => {
                    kind = about_rates.then_some(Kind::Window)
                }
                "ratelimit" | "rate" | "limit" | "quota" => {
                    about_rates = true;
                    if word == "limit" {
                        limit = Some(Kind::Limit);
                    }
                    if word == "quota" {
                        *free.next()? = Some(word);
                    }
                }
                "ms" | "millis" | "milliseconds" => unit = Unit::Millis,
                "minutes" => unit = Unit::Minutes,
                // Seconds are what a number without a unit is.
                "x" | "time" | "timestamp" | "at" | "on" | "after" | "in" | "seconds" | "sec" => {}
                other => *free.next()? = Some(other),
            }
        }
        Some(Part {
            kind: kind.or(limit)?,
            unit,
            key,
        })
    }
}

/// Most headers are about something else, and this tells in one pass.
fn may_be_about_rates(name: &str) -> bool {
    let bytes = name.as_bytes();
    let starts = |at: usize, word: &str| bytes[at..].starts_with(word.as_bytes());
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b'l' => starts(at, "limit"),
        b'r' => starts(at, "reset") || starts(at, "remaining"),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Pairs, headers, now};
    use super::*;

    #[test]
    fn a_refusal_states_its_rate() {
        let table: &[(Pairs, Option<(u32, u64)>)] = &[
            // The field and its policy, in the drafts' forms.
            (
                &[
                    ("ratelimit", r#""b";r=0;t=12"#),
                    ("ratelimit-policy", r#""b";q=100;w=60"#),
                ],
                Some((100, 60)),
            ),
            (
                &[
                    ("ratelimit", r#""a";r=5;t=1, "b";r=0;t=12"#),
                    ("ratelimit-policy", r#""a";q=10;w=1, "b";q=100;w=60"#),
                ],
                Some((100, 60)),
            ),
            (
                &[
                    ("ratelimit", "limit=9, remaining=0, reset=5"),
                    ("ratelimit-policy", "9;w=60"),
                ],
                Some((9, 60)),
            ),
            (
                &[
                    ("ratelimit", "limit=9, remaining=0, reset=5"),
                    ("ratelimit-policy", "8;w=60"),
                ],
                None,
            ),
            (
                &[
                    ("ratelimit-limit", "10, 10;w=1, 50;w=60"),
                    ("ratelimit-remaining", "0"),
                    ("ratelimit-reset", "1"),
                ],
                Some((10, 1)),
            ),
            // A name or a header of its own for the window.
            (
                &[
                    ("x-ratelimit-limit-minute", "60"),
                    ("x-ratelimit-remaining-minute", "0"),
                    ("x-ratelimit-reset-minute", "7"),
                ],
                Some((60, 60)),
            ),
            (
                &[
                    ("x-ratelimit-limit", "600"),
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "7"),
                    ("x-ratelimit-period", "3600"),
                ],
                Some((600, 3_600)),
            ),
            // Of two that are exhausted the one that is waited for; one with calls left did not refuse.
            (
                &[
                    ("x-ratelimit-limit-second", "5"),
                    ("x-ratelimit-remaining-second", "0"),
                    ("x-ratelimit-reset-second", "1"),
                    ("x-ratelimit-limit-hour", "1000"),
                    ("x-ratelimit-remaining-hour", "0"),
                    ("x-ratelimit-reset-hour", "99"),
                ],
                Some((1_000, 3_600)),
            ),
            (
                &[
                    ("x-ratelimit-limit-minute", "60"),
                    ("x-ratelimit-remaining-minute", "1"),
                    ("x-ratelimit-reset-minute", "7"),
                ],
                None,
            ),
            // What is left of a window is no window; nor is a day one to space calls by.
            (
                &[
                    ("x-ratelimit-limit", "60"),
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "7"),
                ],
                None,
            ),
            (
                &[
                    ("ratelimit", r#""b";r=0;t=12"#),
                    ("ratelimit-policy", r#""b";q=100;w=86400"#),
                ],
                None,
            ),
            // Nonsense.
            (
                &[
                    ("ratelimit", r#""b";r=0;t=12"#),
                    ("ratelimit-policy", r#""b";q=0;w=60"#),
                ],
                None,
            ),
            (
                &[
                    ("ratelimit", r#""b";r=0;t=12"#),
                    ("ratelimit-policy", r#""b";q=100;w=0"#),
                ],
                None,
            ),
            (
                &[
                    ("ratelimit", r#""b";r=0;t=12"#),
                    ("ratelimit-policy", r#""b";q=-4;w=60"#),
                ],
                None,
            ),
            (
                &[
                    ("x-ratelimit-limit-minute", "many"),
                    ("x-ratelimit-remaining-minute", "0"),
                ],
                None,
            ),
            (&[("retry-after", "7")], None),
        ];
        for (pairs, want) in table {
            let window = stated_window(&headers(pairs), Clock::local(now()));
            let got = window.map(|window| (window.limit.get(), window.per.as_secs()));
            assert_eq!(got, *want, "{pairs:?}");
        }
    }

    #[test]
    fn exhausted_buckets_count_and_the_longest_decides() {
        let table: &[(Pairs, Option<(u128, Reason)>)] = &[
            (&[("x-ratelimit-reset", "75")], Some((75_000, Reason::Unknown))),
            (
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "75")],
                Some((75_000, Reason::Unknown)),
            ),
            (
                &[("x-ratelimit-remaining", "57"), ("x-ratelimit-reset", "75")],
                None,
            ),
            (
                &[("x-ratelimit-remaining", "-1"), ("x-ratelimit-reset", "0")],
                None,
            ),
            (
                &[("x-ratelimit-remaining", "0.0"), ("x-ratelimit-reset", "7")],
                Some((7_000, Reason::Unknown)),
            ),
            // Bucket after or before the verb, and one bucket beside another.
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "1s"),
                    ("x-ratelimit-remaining-tokens", "9"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                ],
                Some((1_000, Reason::Unknown)),
            ),
            (
                &[
                    ("x-ratelimit-minute-remaining", "0"),
                    ("x-ratelimit-minute-reset", "1796040020"),
                    ("x-ratelimit-day-remaining", "0"),
                    ("x-ratelimit-day-reset", "1796043600"),
                ],
                Some((3_600_000, Reason::Daily)),
            ),
            // An exhausted bucket wins over one that does not say what is left.
            (
                &[
                    ("x-ratelimit-remaining-a", "0"),
                    ("x-ratelimit-reset-a", "5"),
                    ("x-ratelimit-reset-b", "50"),
                ],
                Some((5_000, Reason::Unknown)),
            ),
            // Units in the name, other verbs, other prefixes.
            (
                &[("x-ratelimit-reset-after", "1.336")],
                Some((1_336, Reason::Unknown)),
            ),
            (
                &[
                    ("x-rate-limit-time-reset-ms", "15000"),
                    ("x-rate-limit-requests-left", "0"),
                ],
                Some((15_000, Reason::Unknown)),
            ),
            (
                &[("x-ratelimit-reset-seconds-org", "12")],
                Some((12_000, Reason::Unknown)),
            ),
            (
                &[("x-acme-quota-resets-in", "90")],
                Some((90_000, Reason::Unknown)),
            ),
            (
                &[("x-ms-user-quota-resets-after", "00:00:05")],
                Some((5_000, Reason::Unknown)),
            ),
            (
                &[("x-ratelimit-reset-ms", "1796040060000")],
                Some((60_000, Reason::Unknown)),
            ),
            (
                &[("x-ratelimit-next", "2026-11-30T12:00:12Z")],
                Some((12_000, Reason::Unknown)),
            ),
            (
                &[("ratelimit-resettime", "Mon, 30 Nov 2026 12:00:30 GMT")],
                Some((30_000, Reason::Unknown)),
            ),
            (&[("rate-limit-reset", "58.37")], Some((58_370, Reason::Unknown))),
            // The window names the reason.
            (
                &[("x-ratelimit-reset", "7"), ("x-ratelimit-period", "3600")],
                Some((7_000, Reason::Hourly)),
            ),
            (
                &[
                    ("x-rate-limit-time-reset-ms", "7"),
                    ("x-rate-limit-time-window-ms", "30000"),
                ],
                Some((7, Reason::Burst)),
            ),
            // The IETF field in its forms.
            (
                &[
                    ("ratelimit-limit", "10, 10;w=1"),
                    ("ratelimit-remaining", "0"),
                    ("ratelimit-reset", "50"),
                ],
                Some((50_000, Reason::Unknown)),
            ),
            (
                &[
                    ("ratelimit", "limit=9, remaining=0, reset=50"),
                    ("ratelimit-policy", "9;w=60"),
                ],
                Some((50_000, Reason::Unknown)),
            ),
            (
                &[
                    ("ratelimit", r#""a";r=5;t=1, "b";r=0;t=60"#),
                    ("ratelimit-policy", r#""b";q=9;w=300"#),
                ],
                Some((60_000, Reason::Minute)),
            ),
            (&[("ratelimit", r#""a";r=5;t=1"#)], None),
            (
                &[("ratelimit", r#""day";r=0;t=60"#)],
                Some((60_000, Reason::Daily)),
            ),
            // Nothing to do with limits.
            (&[("x-next-page", "2")], None),
            (&[("x-window", "60")], None),
            (&[("x-password-reset", "x")], None),
            (&[], None),
        ];
        for (pairs, expected) in table {
            let hint = buckets(&headers(pairs), Clock::local(now()));
            let got = hint.map(|hint| (hint.wait.unwrap().as_millis(), hint.reason));
            assert_eq!(got, *expected, "{pairs:?}");
        }
    }

    #[test]
    fn an_exhausted_bucket_without_a_reset_still_names_the_limit() {
        let clock = Clock::local(now());
        let reason = |pairs| exhausted_reason(&headers(pairs), clock);
        assert_eq!(
            reason(&[("ratelimit-remaining", "0;w=21600")]),
            Some(Reason::Hourly)
        );
        assert_eq!(
            reason(&[
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-interval-seconds", "60")
            ]),
            Some(Reason::Minute)
        );
        assert_eq!(
            reason(&[
                ("x-ratelimit-remaining", "5"),
                ("x-ratelimit-interval-seconds", "60")
            ]),
            None
        );
    }
}
