//! Remaining and reset, in every spelling and for several buckets at once.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::{header, ietf};
use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::value::{self, Number, Unit};
use crate::rate_limit::{Hint, Reason, words};

/// The headers that describe a budget, grouped by bucket: `X-RateLimit-Remaining-Requests` and
/// `X-RateLimit-Reset-Requests` are one, `X-RateLimit-Day-Remaining` and `X-RateLimit-Day-Reset` another, each limit of an
/// IETF `RateLimit` field another still (draft-ietf-httpapi-ratelimit-headers, all four forms).
///
/// A bucket with calls left did not refuse, so its reset says nothing. Of the exhausted ones the longest reset decides;
/// when none has a reset, the longest of those that do not say what is left. A negative number left means that the
/// provider does not know, and the bucket does not count.
///
/// A reset is a date in any form, a duration text (`6m0s`, `20ms`), or a number: in the unit of the name
/// (`Reset-After`, `Resets-In`, `Reset-Seconds`: seconds; `Reset-Ms`: milliseconds), else an epoch or seconds by size.
/// The reason comes from the bucket's window (`X-RateLimit-Period`, `w=`) or its name (`day`, `minutely`).
pub fn buckets(headers: &HeaderMap, clock: Clock<'_>) -> Option<Hint> {
    let bucket = collect(headers, clock)
        .into_iter()
        .filter(|bucket| bucket.reset.is_some())
        .filter(|bucket| !matches!(bucket.left, Left::Some(_) | Left::Nonsense))
        .max_by_key(|bucket| {
            (
                bucket.left == Left::Nothing,
                bucket.reset.as_ref().and_then(|hint| hint.wait),
            )
        })?;
    let reason = bucket.reason();
    let remaining = (bucket.left == Left::Nothing).then_some(0);
    bucket.reset.map(|hint| Hint {
        reason,
        remaining,
        ..hint
    })
}

/// The kind of limit that an exhausted bucket's window or name says, whether or not it has a reset.
pub(crate) fn exhausted_reason(headers: &HeaderMap, clock: Clock<'_>) -> Option<Reason> {
    let exhausted = collect(headers, clock)
        .into_iter()
        .filter(|bucket| bucket.left == Left::Nothing);
    exhausted
        .map(|bucket| bucket.reason())
        .find(|reason| *reason != Reason::Unknown)
}

fn collect<'a>(headers: &'a HeaderMap, clock: Clock<'_>) -> Vec<Bucket<'a>> {
    let mut buckets: Vec<Bucket<'_>> = Vec::new();
    for (name, value) in headers {
        let Some(part) = Part::of(name) else { continue };
        let Ok(text) = value.to_str() else { continue };
        let at = buckets
            .iter()
            .position(|bucket| bucket.key == part.key)
            .unwrap_or_else(|| {
                buckets.push(Bucket::new(part.key));
                buckets.len() - 1
            });
        buckets[at].add(part, text.trim(), name, clock);
    }
    if let Some(field) = header(headers, ietf::RATELIMIT.as_str()) {
        buckets.extend(ietf::limits(field).map(|limit| Bucket::of_field(&limit, headers, clock)));
    }
    buckets
}

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

struct Bucket<'a> {
    key: Key<'a>,
    left: Left,
    reset: Option<Hint>,
    window: Option<Duration>,
}

impl<'a> Bucket<'a> {
    fn new(key: Key<'a>) -> Self {
        Bucket {
            key,
            left: Left::Unsaid,
            reset: None,
            window: None,
        }
    }

    fn of_field(limit: &ietf::FieldLimit<'_>, headers: &HeaderMap, clock: Clock<'_>) -> Self {
        let policies = header(headers, ietf::RATELIMIT_POLICY.as_str());
        let hint = limit
            .reset
            .and_then(|reset| Hint::in_header(When::After(reset.seconds()), clock, &ietf::RATELIMIT));
        let window = limit
            .name
            .zip(policies)
            .and_then(|(name, field)| ietf::policy_window(field, name));
        Bucket {
            key: Key::default(),
            left: limit.remaining.map_or(Left::Unsaid, |left| {
                if left == 0 {
                    Left::Nothing
                } else {
                    Left::Some(left)
                }
            }),
            reset: hint.map(|hint| Hint {
                policy: limit.name.map(str::to_owned),
                ..hint
            }),
            window: window.map(Number::seconds),
        }
    }

    fn add(&mut self, part: Part<'_>, text: &str, name: &HeaderName, clock: Clock<'_>) {
        match part.kind {
            Kind::Remaining => {
                self.left = Left::read(text);
                self.window = self.window.or(ietf::parameter(text, "w")
                    .and_then(Number::parse)
                    .map(Number::seconds));
            }
            Kind::Reset => {
                let hint = value::when(text, part.unit).and_then(|when| Hint::in_header(when, clock, name));
                self.reset = self
                    .reset
                    .take()
                    .into_iter()
                    .chain(hint)
                    .max_by_key(|hint| hint.wait);
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
        }
    }

    fn reason(&self) -> Reason {
        let named = || {
            let policy = self.reset.as_ref().and_then(|hint| hint.policy.as_deref());
            self.key.0.into_iter().chain(policy).find_map(words::window_name)
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
}

/// The words of a header name that tell buckets apart, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Key<'a>([&'a str; 4]);

impl<'a> Part<'a> {
    fn of(name: &'a HeaderName) -> Option<Self> {
        let mut kind = None;
        let mut unit = Unit::BySize;
        let mut about_rates = false;
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
                    if word == "quota" {
                        *free.next()? = word;
                    }
                }
                "after" | "in" | "seconds" | "sec" => unit = Unit::Seconds,
                "ms" | "millis" | "milliseconds" => unit = Unit::Millis,
                "minutes" => unit = Unit::Minutes,
                "x" | "time" | "timestamp" | "at" | "on" => {}
                other => *free.next()? = other,
            }
        }
        Some(Part {
            kind: kind?,
            unit,
            key,
        })
    }
}
