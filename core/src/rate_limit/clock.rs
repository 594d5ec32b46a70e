//! From "in 30 seconds" or "at 12:30" to a wait: the clock that absolute times are measured against.

use std::time::Duration;

use http::{HeaderMap, header};
use jiff::{SignedDuration, Timestamp};

use super::date;

/// The longest wait that is believed: 366 days. The bound itself still counts; anything longer is no hint at all.
pub const MAX_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// What a text says about time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Counted from the response.
    After(Duration),
    /// A moment by the provider's clock.
    At(Timestamp),
}

/// When a response arrived, and what its `Date` header says about the provider's clock.
///
/// A provider's absolute time is right by the provider's clock. Measured against the response's own `Date`, it gives
/// the right wait whatever the local clock says.
#[derive(Debug, Clone, Copy)]
pub struct Clock<'a> {
    now: Timestamp,
    headers: Option<&'a HeaderMap>,
}

impl<'a> Clock<'a> {
    /// Absolute times are measured against `now`, as Frigg does.
    pub fn local(now: Timestamp) -> Self {
        Clock { now, headers: None }
    }

    /// Absolute times are measured against the `Date` of these headers (RFC 9110, section 6.6.1) where it can be
    /// read, else against `now`.
    pub fn of_response(now: Timestamp, headers: &'a HeaderMap) -> Self {
        Clock {
            now,
            headers: Some(headers),
        }
    }

    /// When the response arrived, by the local clock.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The provider's time at which it sent the response, where it said so.
    pub fn provider_time(&self) -> Option<Timestamp> {
        date::http(self.headers?.get(header::DATE)?.to_str().ok()?.trim())
    }

    /// The wait, never negative, and the moment by the local clock at which it ends. A moment that has passed has a
    /// wait of zero and stays in the past. `None` for a wait over [`MAX_WAIT`].
    pub fn resolve(&self, when: When) -> Option<(Duration, Timestamp)> {
        let ahead = match when {
            When::After(wait) => SignedDuration::try_from(wait).ok()?,
            When::At(moment) => moment.duration_since(self.provider_time().unwrap_or(self.now)),
        };
        let wait = Duration::try_from(ahead).unwrap_or(Duration::ZERO);
        if wait > MAX_WAIT {
            return None;
        }
        Some((wait, self.now.checked_add(ahead).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn waits_are_bounded_and_never_negative() {
        let now = at("2026-09-28T12:00:00Z");
        let clock = Clock::local(now);
        let second = Duration::from_secs(1);
        assert_eq!(
            clock.resolve(When::After(second)),
            Some((second, at("2026-09-28T12:00:01Z")))
        );
        assert_eq!(
            clock.resolve(When::After(MAX_WAIT)).map(|(wait, _)| wait),
            Some(MAX_WAIT)
        );
        assert_eq!(
            clock.resolve(When::After(MAX_WAIT + Duration::from_nanos(1))),
            None
        );
        assert_eq!(clock.resolve(When::After(Duration::MAX)), None);
        let past = at("2015-10-21T07:28:00Z");
        assert_eq!(clock.resolve(When::At(past)), Some((Duration::ZERO, past)));
        assert_eq!(clock.resolve(When::At(Timestamp::MAX)), None);
    }

    #[test]
    fn absolute_times_are_measured_against_the_date_header() {
        let now = at("2026-09-28T12:05:00Z");
        let mut headers = HeaderMap::new();
        headers.insert("date", "Mon, 28 Sep 2026 12:00:00 GMT".parse().unwrap());
        let when = When::At(at("2026-09-28T12:01:00Z"));
        let minute = Duration::from_secs(60);
        assert_eq!(
            Clock::of_response(now, &headers).resolve(when),
            Some((minute, at("2026-09-28T12:06:00Z")))
        );
        assert_eq!(
            Clock::local(now).resolve(when).map(|(wait, _)| wait),
            Some(Duration::ZERO)
        );
        headers.insert("date", "yesterday".parse().unwrap());
        assert_eq!(
            Clock::of_response(now, &headers)
                .resolve(when)
                .map(|(wait, _)| wait),
            Some(Duration::ZERO)
        );
    }
}
