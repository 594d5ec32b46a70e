//! [`Time`]: where a provider's answer says when to come back, and the times that only its documentation says.

use std::time::Duration;

use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::json::Json;
use crate::rate_limit::parsers;
use crate::rate_limit::value::{self, Unit};
use crate::rate_limit::{Signal, Source, Verdict};

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
    pub(super) fn apply(self, verdict: Verdict, signal: &Signal<'_>, clock: Clock<'_>) -> Verdict {
        let now = || clock.provider_time().unwrap_or(clock.now());
        let found = match self {
            Time::Parsed => None,
            Time::Unsaid => {
                return Verdict {
                    skip_parsers: true,
                    ..verdict
                };
            }
            Time::Documented(wait) => Some((When::After(wait), Source::Static)),
            Time::RetryAfterOr(wait) => {
                retry_after(signal, clock).or(Some((When::After(wait), Source::Static)))
            }
            Time::RetryAfterOrMidnight(midnight) => retry_after(signal, clock)
                .or_else(|| midnight.after(now()).map(|at| (When::At(at), Source::Static))),
            Time::Header(name, unit) => signal
                .header(name)
                .and_then(|text| Some((value::when(text, unit)?, Source::Header))),
            Time::JsonHeader(name, path, unit) => {
                json_header(signal, name, path, unit).map(|when| (when, Source::Header))
            }
            Time::Field(path, unit) => signal
                .field(path)
                .and_then(|text| Some((value::when(&text, unit)?, Source::Body))),
            Time::Midnight(midnight) => midnight.after(now()).map(|at| (When::At(at), Source::Static)),
            Time::Every(step) => next_multiple(now(), step).map(|at| (When::At(at), Source::Static)),
            Time::Refill {
                needed,
                available,
                per_second,
            } => refill(signal, needed, available, per_second).map(|wait| (When::After(wait), Source::Body)),
        };
        let resolved = found.and_then(|(when, source)| Some((when, clock.resolve(when)?, source)));
        match resolved {
            Some((When::At(_), (_, retry_at), source)) => verdict.with_retry_at(retry_at).with_source(source),
            Some((When::After(_), (wait, _), source)) => verdict.with_wait(wait).with_source(source),
            None => verdict,
        }
    }
}

/// A Retry-After that is not over yet.
fn retry_after(signal: &Signal<'_>, clock: Clock<'_>) -> Option<(When, Source)> {
    let wait = parsers::retry_headers(signal.headers(), clock)?.wait?;
    (!wait.is_zero()).then_some((When::After(wait), Source::Header))
}

/// The longest of the times at this path.
fn json_header(signal: &Signal<'_>, name: &str, path: &str, unit: Unit) -> Option<When> {
    let json = Json::parse(signal.header(name)?.as_bytes())?;
    let times = json
        .at(path)
        .filter_map(|scalar| value::when(&scalar.to_text()?, unit));
    times.max_by_key(|when| match *when {
        When::After(wait) => (wait, Timestamp::MIN),
        When::At(at) => (Duration::ZERO, at),
    })
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
