//! Moments as servers write them. Every form must be whole: a month and a year, or a day alone, is no moment.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::rfc2822;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Any form that this module knows.
pub(crate) fn any(text: &str) -> Option<Timestamp> {
    iso(text).or_else(|| http(text)).or_else(|| javascript(text))
}

/// ISO 8601 / RFC 3339 with a time of day: seconds, fraction and offset may be missing, the offset's colon too. No
/// offset means UTC, and a blank may stand for the `T`.
pub(crate) fn iso(text: &str) -> Option<Timestamp> {
    // Cheap, and keeps jiff's wider grammar (a bare day, ISO weeks) out.
    if !text.as_bytes().first()?.is_ascii_digit() || !text.contains(':') {
        return None;
    }
    text.parse().ok().or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(civil).ok()
    })
}

/// The three forms of an HTTP-date (RFC 9110, section 5.6.7) and, because some servers send it, the first of them with
/// another zone than GMT (RFC 822) or with the dashes of a cookie's date.
pub(crate) fn http(text: &str) -> Option<Timestamp> {
    const RFC_2822: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new().relaxed_weekday(true);
    if !text.as_bytes().first()?.is_ascii_alphabetic() {
        return None;
    }
    if let Some(moment) = imf_fixdate(text) {
        return Some(moment);
    }
    // `UTC` is not in the grammar of RFC 822, and is meant as GMT.
    let named = text.strip_suffix("UTC").map(|rest| format!("{rest}GMT"));
    RFC_2822
        .parse_timestamp(named.as_deref().unwrap_or(text))
        .ok()
        .or_else(|| civil("%A, %d-%b-%y %H:%M:%S GMT", text))
        .or_else(|| civil("%a, %d-%b-%Y %H:%M:%S GMT", text))
        .or_else(|| civil("%a %b %e %H:%M:%S %Y", text))
}

/// The form that every `Date` header has: `Mon, 30 Nov 2026 12:02:00 GMT`, each part in its place. Several times faster
/// than a general parser.
fn imf_fixdate(text: &str) -> Option<Timestamp> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    if text.len() != 29 || text.get(3..5)? != ", " || text.get(25..)? != " GMT" {
        return None;
    }
    let month = MONTHS.find(text.get(8..11)?).filter(|at| at % 3 == 0)? / 3 + 1;
    let number = |part: Option<&str>| part?.parse::<i16>().ok();
    let small = |part: Option<&str>| i8::try_from(number(part)?).ok();
    let date = Date::new(
        number(text.get(12..16))?,
        i8::try_from(month).ok()?,
        small(text.get(5..7))?,
    )
    .ok()?;
    let time = Time::new(
        small(text.get(17..19))?,
        small(text.get(20..22))?,
        small(text.get(23..25))?,
        0,
    )
    .ok()?;
    TimeZone::UTC.to_timestamp(date.to_datetime(time)).ok()
}

/// What JavaScript's `Date` prints: `Mon Nov 30 2026 13:00:02 GMT+0100 (Central European Standard Time)`.
fn javascript(text: &str) -> Option<Timestamp> {
    let (moment, _zone_name) = text.split_once(" (").unwrap_or((text, ""));
    strtime::parse("%a %b %d %Y %H:%M:%S GMT%z", moment)
        .ok()?
        .to_timestamp()
        .ok()
}

fn civil(format: &str, text: &str) -> Option<Timestamp> {
    let moment = strtime::parse(format, text).ok()?.to_datetime().ok()?;
    TimeZone::UTC.to_timestamp(moment).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_names_one_moment() {
        let moment = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        for (text, expected) in [
            ("2026-11-30T12:02:00Z", moment("2026-11-30T12:02:00Z")),
            ("2026-11-30T12:02Z", moment("2026-11-30T12:02:00Z")),
            ("2026-11-30T12:02:00.125Z", moment("2026-11-30T12:02:00.125Z")),
            (
                "2026-11-30T12:38:49.9856571Z",
                moment("2026-11-30T12:38:49.9856571Z"),
            ),
            ("2026-11-30T13:02:00+01:00", moment("2026-11-30T12:02:00Z")),
            ("2026-11-30T13:02:00+0100", moment("2026-11-30T12:02:00Z")),
            ("2026-11-30T12:02:00", moment("2026-11-30T12:02:00Z")),
            ("2026-11-30 12:02:00", moment("2026-11-30T12:02:00Z")),
            ("Mon, 30 Nov 2026 12:02:00 GMT", moment("2026-11-30T12:02:00Z")),
            ("Mon, 30 Nov 2026 12:02:00 UTC", moment("2026-11-30T12:02:00Z")),
            ("Mon, 30 Nov 2026 07:02:00 EST", moment("2026-11-30T12:02:00Z")),
            ("Mon, 30 Nov 2026 14:02:00 +0200", moment("2026-11-30T12:02:00Z")),
            ("Monday, 30-Nov-26 12:02:00 GMT", moment("2026-11-30T12:02:00Z")),
            ("Mon, 30-Nov-2026 12:02:00 GMT", moment("2026-11-30T12:02:00Z")),
            ("Mon Nov 30 12:02:00 2026", moment("2026-11-30T12:02:00Z")),
            ("Tue Dec  1 12:02:00 2026", moment("2026-12-01T12:02:00Z")),
            (
                "Mon Nov 30 2026 13:02:00 GMT+0100 (CET)",
                moment("2026-11-30T12:02:00Z"),
            ),
            (
                "Mon Nov 30 2026 13:02:00 GMT+0100",
                moment("2026-11-30T12:02:00Z"),
            ),
            ("2026-11-30", None),
            ("20261130", None),
            ("Sep 2027", None),
            ("Jan 1 2030", None),
            ("tomorrow", None),
            ("Mon, 31 Nov 2026 12:00:00 GMT", None),
            ("2026-11-31T12:00:00Z", None),
            ("", None),
            ("12:00", None),
        ] {
            assert_eq!(any(text), expected, "{text}");
        }
    }
}
