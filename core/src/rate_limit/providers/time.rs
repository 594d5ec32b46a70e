//! [`Time`]: where a provider's answer says when to come back, and the times that only its documentation says.

use std::time::Duration;

use http::HeaderName;
use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::json::Json;
use crate::rate_limit::parsers;
use crate::rate_limit::value::{self, Number, Unit};
use crate::rate_limit::{Hint, Place, Signal, Source, Verdict};

/// Where the time to come back is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Time {
    /// Where the policy's parsers find it, else the policy's window or minimum.
    Parsed,
    /// Nowhere: the times in the response belong to another limit. The policy's window or minimum, if any.
    Unsaid,
    /// A documented wait, whatever the response says.
    Documented(Duration),
    /// In a Retry-After header, else this documented wait; other headers belong to another limit.
    RetryAfterOr(Duration),
    /// In a Retry-After header, else at the next midnight.
    RetryAfterOrMidnight(Midnight),
    /// In this header, in this unit; else as [`Parsed`](Time::Parsed).
    Header(&'static str, Unit),
    /// In this header, which holds JSON, at this path.
    JsonHeader(&'static str, &'static str, Unit),
    /// In this header, a list whose items start with a number in this unit (`60:error:organization, 2700:default`); the
    /// longest.
    HeaderList(&'static str, Unit),
    /// In the body, at this path.
    Field(&'static str, Unit),
    /// At the next midnight.
    Midnight(Midnight),
    /// At the next whole multiple of this since midnight UTC (a window on the clock: :00, :15, :30, :45).
    Every(Duration),
    /// When a bucket has refilled: (needed - available) / restored per second, three numbers in the body.
    Refill {
        /// Points that the call needs.
        needed: &'static str,
        /// Points that are there.
        available: &'static str,
        /// Points that come back in a second.
        per_second: &'static str,
    },
}

/// Whose midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Midnight {
    /// UTC.
    Utc,
    /// Los Angeles, with daylight saving time.
    Pacific,
}

impl Time {
    /// The verdict with this time in it. A time that is over counts as not found: the parsers may know better.
    pub(super) fn apply(self, verdict: Verdict, signal: &Signal<'_>, clock: Clock<'_>) -> Verdict {
        let skip_parsers = matches!(self, Time::Unsaid);
        match self
            .find(signal, clock)
            .filter(|hint| hint.wait > Some(Duration::ZERO))
        {
            Some(hint) => Verdict {
                wait: hint.wait,
                source: Some(hint.source),
                place: hint.place,
                skip_parsers,
                ..verdict
            },
            None => Verdict {
                skip_parsers,
                ..verdict
            },
        }
    }

    fn find(self, signal: &Signal<'_>, clock: Clock<'_>) -> Option<Hint> {
        let documented = |when| Hint::new(when, clock, Source::Static);
        let now = clock.provider_time().unwrap_or(clock.now());
        let retry_after = || {
            parsers::retry_headers(signal.headers(), clock).filter(|hint| hint.wait > Some(Duration::ZERO))
        };
        match self {
            Time::Parsed | Time::Unsaid => None,
            Time::Documented(wait) => documented(When::After(wait)),
            Time::RetryAfterOr(wait) => retry_after().or_else(|| documented(When::After(wait))),
            Time::RetryAfterOrMidnight(midnight) => {
                retry_after().or_else(|| documented(When::At(midnight.after(now)?)))
            }
            Time::Header(name, unit) => {
                let when = value::when(signal.header(name)?, unit)?;
                Hint::in_header(when, clock, &HeaderName::try_from(name).ok()?)
            }
            Time::JsonHeader(name, path, unit) => {
                let json = Json::parse(signal.header(name)?.as_bytes())?;
                let times = json
                    .at(path)
                    .filter_map(|scalar| value::when(&scalar.to_text()?, unit));
                let hints =
                    times.filter_map(|when| Hint::in_header(when, clock, &HeaderName::try_from(name).ok()?));
                hints.max_by_key(|hint| hint.wait)
            }
            Time::HeaderList(name, unit) => {
                let number = |item: &str| {
                    let item = item.trim_start();
                    let end = item
                        .find(|c: char| !c.is_ascii_digit() && c != '.')
                        .unwrap_or(item.len());
                    Number::parse(&item[..end])?.when(unit)
                };
                let times = signal.header(name)?.split(',').filter_map(number);
                let header = HeaderName::try_from(name).ok()?;
                times
                    .filter_map(|when| Hint::in_header(when, clock, &header))
                    .max_by_key(|hint| hint.wait)
            }
            Time::Field(path, unit) => {
                let hint = Hint::new(value::when(&signal.field(path)?, unit)?, clock, Source::Body)?;
                Some(Hint {
                    place: Some(Place::Field(path.to_owned())),
                    ..hint
                })
            }
            Time::Midnight(midnight) => documented(When::At(midnight.after(now)?)),
            Time::Every(step) => documented(When::At(next_multiple(now, step)?)),
            Time::Refill {
                needed,
                available,
                per_second,
            } => {
                let wait = refill(signal, needed, available, per_second)?;
                let hint = Hint::new(When::After(wait), clock, Source::Body)?;
                Some(Hint {
                    place: Some(Place::Field(per_second.to_owned())),
                    ..hint
                })
            }
        }
    }
}

fn refill(signal: &Signal<'_>, needed: &str, available: &str, per_second: &str) -> Option<Duration> {
    let number = |path: &str| signal.field(path)?.parse::<f64>().ok();
    let missing = number(needed)? - number(available)?;
    Duration::try_from_secs_f64((missing / number(per_second)?).max(0.0)).ok()
}

impl Midnight {
    fn after(self, now: Timestamp) -> Option<Timestamp> {
        let zone = match self {
            Midnight::Utc => TimeZone::UTC,
            // The rule in force since 2007, so that no time zone database is needed.
            Midnight::Pacific => TimeZone::posix("PST8PDT,M3.2.0,M11.1.0").ok()?,
        };
        let today = zone.to_datetime(now).date();
        let midnight = today
            .checked_add(1.day())
            .ok()?
            .to_datetime(civil::Time::midnight());
        zone.to_timestamp(midnight).ok()
    }
}

fn next_multiple(now: Timestamp, step: Duration) -> Option<Timestamp> {
    let step = i64::try_from(step.as_secs()).ok().filter(|step| *step > 0)?;
    let next = (now.as_second().div_euclid(step) + 1).checked_mul(step)?;
    Timestamp::from_duration(SignedDuration::from_secs(next)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn midnight_is_that_of_the_zone() {
        assert_eq!(
            Midnight::Utc.after(at("2026-11-30T12:00:00Z")),
            Some(at("2026-12-01T00:00:00Z"))
        );
        assert_eq!(
            Midnight::Utc.after(at("2026-12-01T00:00:00Z")),
            Some(at("2026-12-02T00:00:00Z"))
        );
        assert_eq!(
            Midnight::Pacific.after(at("2026-11-30T12:00:00Z")),
            Some(at("2026-12-01T08:00:00Z"))
        );
        // In summer an hour earlier.
        assert_eq!(
            Midnight::Pacific.after(at("2026-07-01T12:00:00Z")),
            Some(at("2026-07-02T07:00:00Z"))
        );
    }

    #[test]
    fn windows_on_the_clock_end_at_whole_multiples() {
        let quarter = Duration::from_secs(900);
        assert_eq!(
            next_multiple(at("2026-11-30T12:07:30Z"), quarter),
            Some(at("2026-11-30T12:15:00Z"))
        );
        assert_eq!(
            next_multiple(at("2026-11-30T12:15:00Z"), quarter),
            Some(at("2026-11-30T12:30:00Z"))
        );
        assert_eq!(next_multiple(at("2026-11-30T12:15:00Z"), Duration::ZERO), None);
    }
}
