//! Numbers and durations as servers write them.
//!
//! One number grammar holds everywhere: digits, with an optional fraction. No sign, no exponent, no `Infinity`: what
//! does not fit is absent, never zero.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::clock::When;
use super::date;

/// Which unit a number has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// By size: an epoch from 1e9 up (seconds, milliseconds, microseconds or nanoseconds by the number of digits),
    /// below that seconds from now. A provider that means milliseconds then runs late rather than early.
    BySize,
    /// Seconds from now, whatever the size.
    Seconds,
    /// Milliseconds from now; from 1e12 up an epoch by its size.
    Millis,
    /// Minutes from now.
    Minutes,
}

/// A moment or a wait: a number in this unit, a duration text, or a date in any form.
pub(crate) fn when(text: &str, unit: Unit) -> Option<When> {
    let text = text.trim().trim_matches('"');
    if let Some(number) = Number::parse(text) {
        return number.when(unit);
    }
    duration_text(text)
        .map(When::After)
        .or_else(|| date::any(text).map(When::At))
}

/// A number that is not negative, exact to the nanosecond part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number {
    whole: u64,
    /// Billionths; more digits than nine round up.
    nanos: u32,
}

impl Number {
    /// `None` for anything but digits with an optional fraction, and for numbers past 64 bits: no time is that far.
    pub(crate) fn parse(text: &str) -> Option<Number> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return None;
        }
        let kept = &fraction[..fraction.len().min(9)];
        let scale = 10u32.pow(9 - u32::try_from(kept.len()).ok()?);
        let cut_off = fraction[kept.len()..].bytes().any(|byte| byte != b'0');
        let whole = whole.parse().ok()?;
        let nanos = kept.parse::<u32>().ok()? * scale + u32::from(cut_off);
        if nanos == 1_000_000_000 {
            Some(Number {
                whole: u64::checked_add(whole, 1)?,
                nanos: 0,
            })
        } else {
            Some(Number { whole, nanos })
        }
    }

    /// The number without its fraction.
    pub(crate) fn whole(self) -> u64 {
        self.whole
    }

    pub(crate) fn seconds(self) -> Duration {
        Duration::new(self.whole, self.nanos)
    }

    fn times(self, unit: Duration) -> Option<Duration> {
        let whole = unit.as_nanos().checked_mul(self.whole.into())?;
        let part = (unit.as_nanos() * u128::from(self.nanos)).div_ceil(1_000_000_000);
        let nanos = whole.checked_add(part)?;
        Some(Duration::new(
            u64::try_from(nanos / 1_000_000_000).ok()?,
            u32::try_from(nanos % 1_000_000_000).ok()?,
        ))
    }

    /// What the number says in this unit. `None` when no moment is that far away.
    pub(crate) fn when(self, unit: Unit) -> Option<When> {
        const NANO: Duration = Duration::from_nanos(1);
        let epoch = match (unit, self.whole) {
            (Unit::Seconds, _) => return Some(When::After(self.seconds())),
            // That many milliseconds are no wait, but an epoch.
            (Unit::Millis, 1_000_000_000_000..) => return self.when(Unit::BySize),
            (Unit::Millis, _) => return self.times(NANO * 1_000_000).map(When::After),
            (Unit::Minutes, _) => return self.times(Duration::from_secs(60)).map(When::After),
            (Unit::BySize, ..1_000_000_000) => return Some(When::After(self.seconds())),
            (Unit::BySize, 1_000_000_000..1_000_000_000_000) => self.seconds(),
            (Unit::BySize, 1_000_000_000_000..1_000_000_000_000_000) => self.times(NANO * 1_000_000)?,
            (Unit::BySize, 1_000_000_000_000_000..1_000_000_000_000_000_000) => self.times(NANO * 1_000)?,
            (Unit::BySize, 1_000_000_000_000_000_000..) => self.times(NANO)?,
        };
        Timestamp::from_duration(SignedDuration::try_from(epoch).ok()?)
            .ok()
            .map(When::At)
    }
}

/// A duration with its units in the text, one or several: `6m0s`, `20ms`, `1h30m0s` (Go), `0.847655010s`
/// (protobuf JSON), `9 minutes`, `1 hour 5 minutes`; or hours, minutes and seconds as .NET writes them: `00:00:05`.
pub(crate) fn duration_text(text: &str) -> Option<Duration> {
    if let Some(total) = timespan(text) {
        return Some(total);
    }
    let (total, rest) = duration_prefix(text)?;
    rest.trim().is_empty().then_some(total)
}

/// `hh:mm:ss`, each part with its two digits, seconds with or without a fraction.
fn timespan(text: &str) -> Option<Duration> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let whole = seconds.split('.').next()?;
    if [hours, minutes, whole].iter().any(|part| part.len() != 2) {
        return None;
    }
    let [hours, minutes, seconds] = [hours, minutes, seconds].map(Number::parse);
    let larger = hours?
        .times(Duration::from_secs(3600))?
        .checked_add(minutes?.times(Duration::from_secs(60))?)?;
    larger.checked_add(seconds?.seconds())
}

/// The duration at the start of a text, and what follows it.
pub(crate) fn duration_prefix(text: &str) -> Option<(Duration, &str)> {
    let mut total: Option<Duration> = None;
    let mut rest = text;
    while let Some((part, after)) = amount(rest) {
        total = Some(total.unwrap_or_default().checked_add(part)?);
        rest = after;
    }
    Some((total?, rest))
}

/// One number with its unit at the start of a text.
fn amount(text: &str) -> Option<(Duration, &str)> {
    let text = text.trim_start();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number = Number::parse(&text[..digits])?;
    let text = text[digits..].trim_start_matches([' ', '-']);
    let letters = text
        .find(|c: char| !c.is_ascii_alphabetic() && c != 'µ')
        .unwrap_or(text.len());
    let unit = match text[..letters].to_ascii_lowercase().as_str() {
        "ns" => Duration::from_nanos(1),
        "us" | "µs" => Duration::from_micros(1),
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => Duration::from_millis(1),
        "s" | "sec" | "secs" | "second" | "seconds" => Duration::from_secs(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Duration::from_secs(60),
        "h" | "hr" | "hrs" | "hour" | "hours" => Duration::from_secs(3600),
        "d" | "day" | "days" => Duration::from_secs(86_400),
        _ => return None,
    };
    Some((number.times(unit)?, &text[letters..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_with_an_optional_fraction() {
        let number = |text| Number::parse(text).map(Number::seconds);
        assert_eq!(number("0"), Some(Duration::ZERO));
        assert_eq!(number("1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(number("292.052427053"), Some(Duration::new(292, 52_427_053)));
        assert_eq!(number("0.0000000001"), Some(Duration::from_nanos(1)));
        assert_eq!(number("1.9999999999"), Some(Duration::from_secs(2)));
        assert_eq!(
            number("18446744073709551615"),
            Some(Duration::from_secs(u64::MAX))
        );
        let refused = [
            "",
            " ",
            "-1",
            "+5",
            "1e3",
            "0x10",
            "Infinity",
            "inf",
            "NaN",
            "1.",
            ".5",
            "1.5.2",
            "5s",
            "1,000",
            "18446744073709551616",
            "٣",
        ];
        for text in refused {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_read_by_its_size() {
        let at = |text: &str| Some(When::At(text.parse().unwrap()));
        let after = |seconds| Some(When::After(Duration::from_secs(seconds)));
        for (text, expected) in [
            ("75", after(75)),
            ("60000", after(60_000)),
            ("999999999", after(999_999_999)),
            ("1796040075", at("2026-11-30T12:01:15Z")),
            ("1796040075.125", at("2026-11-30T12:01:15.125Z")),
            ("1796040075000", at("2026-11-30T12:01:15Z")),
            ("1796040075000000", at("2026-11-30T12:01:15Z")),
            ("1796040075000000001", at("2026-11-30T12:01:15.000000001Z")),
            ("999999999999", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(when(text, Unit::BySize), expected, "{text}");
        }
        assert_eq!(when("1796040075", Unit::Seconds), after(1_796_040_075));
        assert_eq!(
            when("1500", Unit::Millis),
            Some(When::After(Duration::from_millis(1500)))
        );
        assert_eq!(
            when("0.5", Unit::Millis),
            Some(When::After(Duration::from_micros(500)))
        );
        assert_eq!(when("1796040075000", Unit::Millis), at("2026-11-30T12:01:15Z"));
        assert_eq!(when("19", Unit::Minutes), after(1140));
    }

    #[test]
    fn durations_name_their_units() {
        let millis = |ms| Some(Duration::from_millis(ms));
        for (text, expected) in [
            ("6m0s", millis(360_000)),
            ("20ms", millis(20)),
            ("1h30m0s", millis(5_400_000)),
            ("547ms", millis(547)),
            ("21s", millis(21_000)),
            ("7.5s", millis(7_500)),
            ("0.847655010s", Some(Duration::from_nanos(847_655_010))),
            ("9 minutes", millis(540_000)),
            ("00:01:05", millis(65_000)),
            ("00:00:05.5", millis(5_500)),
            ("12:00", None),
            ("1:2:3", None),
            ("0.:00:00", None),
            ("1 hour 5 minutes", millis(3_900_000)),
            ("2 Days", millis(172_800_000)),
            ("30", None),
            ("s", None),
            ("-5s", None),
            ("5 apples", None),
            ("5s later", None),
            ("", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
        ] {
            assert_eq!(duration_text(text), expected, "{text}");
        }
    }
}
