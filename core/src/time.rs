//! The forms in which times travel: ISO 8601 with milliseconds, whole seconds rounded so that nothing is early.

use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit, civil};

/// Reads an ISO 8601 time as JavaScript's `Date.parse` does for the forms that occur on the wire: with an offset or
/// `Z`; without one, or as a date alone, it is UTC.
pub fn parse_iso(text: &str) -> Option<Timestamp> {
    let utc = |at: civil::DateTime| TimeZone::UTC.to_timestamp(at).ok();
    text.parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<civil::DateTime>().ok().and_then(utc))
        .or_else(|| text.parse::<civil::Date>().ok().and_then(|date| utc(date.into())))
}

/// Writes a time as JavaScript's `toISOString` does: UTC, three digits of milliseconds, `Z`.
pub fn iso(at: Timestamp) -> String {
    let mut out = String::with_capacity(24);
    push_iso(&mut out, at);
    out
}

/// Appends a time as [`iso`] writes it. By hand: through the formatting machinery it was most of a stamp's cost.
pub(crate) fn push_iso(out: &mut String, at: Timestamp) {
    let civil = TimeZone::UTC.to_datetime(at);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |places: std::ops::Range<usize>, number: u32| {
        let mut rest = number;
        for digit in text[places].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    };
    put(0..4, u32::from(civil.year().unsigned_abs()));
    put(5..7, civil.month().unsigned_abs().into());
    put(8..10, civil.day().unsigned_abs().into());
    put(11..13, civil.hour().unsigned_abs().into());
    put(14..16, civil.minute().unsigned_abs().into());
    put(17..19, civil.second().unsigned_abs().into());
    put(20..23, civil.subsec_nanosecond().unsigned_abs() / 1_000_000);
    match std::str::from_utf8(&text) {
        Ok(text) if civil.year() >= 0 => out.push_str(text),
        // Before the year 0.
        _ => out.push_str(&format!("{at:.3}")),
    }
}

/// The first whole millisecond that is not before `at`. Times on the wire have milliseconds; cutting would be early.
pub fn ceil_to_millisecond(at: Timestamp) -> Timestamp {
    round(at, Unit::Millisecond, RoundMode::Ceil)
}

/// The last whole millisecond that is not after `at`: for a bound that must not be passed.
pub fn floor_to_millisecond(at: Timestamp) -> Timestamp {
    round(at, Unit::Millisecond, RoundMode::Floor)
}

/// The first whole second that is not before `at`.
pub fn ceil_to_second(at: Timestamp) -> Timestamp {
    round(at, Unit::Second, RoundMode::Ceil)
}

/// The last whole second that is not after `at`.
pub fn floor_to_second(at: Timestamp) -> Timestamp {
    round(at, Unit::Second, RoundMode::Floor)
}

fn round(at: Timestamp, unit: Unit, mode: RoundMode) -> Timestamp {
    // Fails only in the first and last moments of the calendar.
    at.round(TimestampRound::new().smallest(unit).mode(mode))
        .unwrap_or(at)
}

/// `later - earlier`, never negative.
pub fn wait(earlier: Timestamp, later: Timestamp) -> SignedDuration {
    later.duration_since(earlier).max(SignedDuration::ZERO)
}

/// A wait in whole seconds, rounded up; 0 for a negative one.
pub fn ceil_seconds(wait: SignedDuration) -> u64 {
    let whole = u64::try_from(wait.as_secs()).unwrap_or(0);
    whole.saturating_add(u64::from(wait.is_positive() && wait.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn iso_times_are_read_as_javascript_reads_them() {
        for (text, want) in [
            ("2026-09-28T12:00:00.000Z", Some("2026-09-28T12:00:00Z")),
            ("2026-09-28T14:00:00+02:00", Some("2026-09-28T12:00:00Z")),
            ("2026-09-28T12:00", Some("2026-09-28T12:00:00Z")),
            ("2026-09-28", Some("2026-09-28T00:00:00Z")),
            ("yesterday", None),
            ("", None),
            ("5", None),
        ] {
            assert_eq!(parse_iso(text), want.map(at), "{text:?}");
        }
    }

    #[test]
    fn iso_times_are_written_as_the_calendar_crate_writes_them() {
        let mut times = vec![
            Timestamp::MIN,
            Timestamp::MAX,
            at("0000-01-01T00:00:00Z"),
            at("-000001-12-31T23:59:59.5Z"),
        ];
        // A prime step, so that every field takes many values.
        times.extend(
            (0..2_500).map(|i| Timestamp::UNIX_EPOCH + SignedDuration::from_millis(i * 86_400_123_457)),
        );
        times.push(at("1969-12-31T23:59:59.9999Z"));
        for at in times {
            assert_eq!(iso(at), format!("{at:.3}"));
        }
    }

    #[test]
    fn rounding_is_never_early() {
        assert_eq!(
            iso(ceil_to_millisecond(at("2026-09-28T12:00:00.0000001Z"))),
            "2026-09-28T12:00:00.001Z"
        );
        assert_eq!(
            ceil_to_second(at("2026-09-28T12:00:00.001Z")),
            at("2026-09-28T12:00:01Z")
        );
        assert_eq!(
            ceil_to_second(at("2026-09-28T12:00:01Z")),
            at("2026-09-28T12:00:01Z")
        );
        for whole in [at("2026-09-28T12:00:00Z"), at("1969-12-31T23:59:59Z")] {
            let odd = whole + SignedDuration::from_micros(1_999);
            assert_eq!(floor_to_millisecond(odd), whole + SignedDuration::from_millis(1));
            assert_eq!(floor_to_second(odd), whole);
            assert_eq!(floor_to_second(whole), whole);
        }
        for edge in [Timestamp::MIN, Timestamp::MAX] {
            let bounds = Timestamp::MIN..=Timestamp::MAX;
            assert!(bounds.contains(&ceil_to_second(edge)) && bounds.contains(&floor_to_second(edge)));
        }
        assert_eq!(ceil_seconds(SignedDuration::from_millis(1001)), 2);
        assert_eq!(ceil_seconds(SignedDuration::from_millis(1000)), 1);
        assert_eq!(ceil_seconds(SignedDuration::from_millis(-1)), 0);
        assert_eq!(ceil_seconds(SignedDuration::from_nanos(1)), 1);
        assert_eq!(ceil_seconds(SignedDuration::MAX), i64::MAX as u64 + 1);
        let (first, second) = (at("2026-09-28T12:00:00Z"), at("2026-09-28T12:00:01.5Z"));
        assert_eq!(wait(first, second), SignedDuration::from_millis(1500));
        assert_eq!(wait(second, first), SignedDuration::ZERO);
    }
}
