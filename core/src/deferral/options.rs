//! Settings of the deferral, with Frigg's names and defaults.

use std::fmt;
use std::time::Duration;

use crate::backoff::Ladder;

/// Caps that keep a message from circling for ever. Equality is allowed in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `FRIGG_QUEUE_MAX_DEFERRALS`: how often a message is put back. Default 30.
    pub max_deferrals: u32,
    /// `FRIGG_QUEUE_MAX_DEFERRED_MS`: from the first deferral to the retry time. Default 26 h.
    pub max_deferred: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_deferrals: 30,
            max_deferred: Duration::from_secs(26 * 3600),
        }
    }
}

/// How deferrals behave: the defaults, or Frigg exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The caps.
    pub limits: Limits,
    /// Waits for refusals that give no time.
    pub ladder: Ladder,
    /// `FRIGG_QUEUE_MAX_RECEIVE_COUNT`: the queue's `maxReceiveCount`, where it is told. Default: unknown.
    pub max_receive_count: Option<u32>,
    /// `FRIGG_QUEUE_RETENTION_SECONDS`: the queue's `MessageRetentionPeriod`, where it is told. Default: unknown.
    pub retention: Option<Duration>,
    /// `FRIGG_RELAY=1`: a wait too long for one delay is a chain of delays, rather than a visibility extension, where
    /// there is no scheduler. It costs a send per 900 s and no receive. Default: off.
    pub relay: bool,
    max_delay: Duration,
    frigg: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limits: Limits::default(),
            ladder: Ladder::default(),
            max_receive_count: None,
            retention: None,
            relay: false,
            max_delay: Self::LONGEST_DELAY,
            frigg: false,
        }
    }
}

impl Options {
    /// SQS's maximum of `DelaySeconds`: 900 s.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(900);
    /// The smallest [`max_delay`](Self::max_delay): a schedule is never made less than a minute ahead, so everything
    /// below must be re-sent.
    pub const SHORTEST_MAX_DELAY: Duration = Duration::from_secs(60);

    /// Frigg's behaviour and nothing else, for a queue that Rust and JavaScript workers share (`FRIGG_COMPAT=1`): no
    /// pacing, no early-arrival check, no `retryAt`, no wrapped bodies, FIFO refused, a failed send fails the record.
    pub fn frigg() -> Self {
        Options {
            frigg: true,
            ..Options::default()
        }
    }

    /// Whether these are [`Options::frigg`].
    pub fn is_frigg(&self) -> bool {
        self.frigg
    }

    /// The longest wait that is a delayed re-send. Default and maximum 900 s, minimum 60 s.
    pub fn max_delay(&self) -> Duration {
        self.max_delay
    }

    /// Sets [`max_delay`](Self::max_delay); a value outside 60–900 s becomes the nearer bound.
    #[must_use]
    pub fn with_max_delay(self, max_delay: Duration) -> Self {
        Options {
            max_delay: max_delay.clamp(Self::SHORTEST_MAX_DELAY, Self::LONGEST_DELAY),
            ..self
        }
    }

    /// Sets [`limits`](Self::limits).
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Options { limits, ..self }
    }

    /// Reads `FRIGG_COMPAT`, `FRIGG_RELAY`, `FRIGG_QUEUE_MAX_DEFERRALS`, `FRIGG_QUEUE_MAX_DEFERRED_MS`,
    /// `FRIGG_QUEUE_MAX_RECEIVE_COUNT` and `FRIGG_MAX_DELAY_SECONDS` through `variable`. Values that cannot be used
    /// leave the default and are returned, for one WARN each.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> (Options, Vec<BadValue>) {
        let mut bad = Vec::new();
        let mut switch = |name| match variable(name).as_deref().map(str::trim) {
            Some("1" | "true") => true,
            None | Some("" | "0" | "false") => false,
            Some(other) => {
                bad.push(BadValue::new(name, other, "0"));
                false
            }
        };
        let mut options = Options {
            frigg: switch("FRIGG_COMPAT"),
            relay: switch("FRIGG_RELAY"),
            ..Options::default()
        };
        let mut number = |name, default: &str, accept: fn(u64) -> bool| -> Option<u64> {
            let text = variable(name).filter(|text| !text.trim().is_empty())?;
            let value = positive_integer(&text).filter(|&value| accept(value));
            if value.is_none() {
                bad.push(BadValue::new(name, &text, default));
            }
            value
        };
        if let Some(count) = number("FRIGG_QUEUE_MAX_DEFERRALS", "30", |_| true) {
            options.limits.max_deferrals = saturate(count);
        }
        if let Some(ms) = number("FRIGG_QUEUE_MAX_DEFERRED_MS", "93600000", |_| true) {
            options.limits.max_deferred = Duration::from_millis(ms);
        }
        options.max_receive_count =
            number("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "unknown", |_| true).map(saturate);
        // What SQS takes.
        let retention = |value| (60..=1_209_600).contains(&value);
        options.retention =
            number("FRIGG_QUEUE_RETENTION_SECONDS", "unknown", retention).map(Duration::from_secs);
        if let Some(seconds) = number("FRIGG_MAX_DELAY_SECONDS", "900", |value| {
            (60..=900).contains(&value)
        }) {
            options = options.with_max_delay(Duration::from_secs(seconds));
        }
        (options, bad)
    }
}

fn saturate(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A variable whose value cannot be used, and the default that stands in for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue {
    /// The variable.
    pub name: &'static str,
    /// Its value, cut to 100 characters.
    pub value: String,
    /// What is used instead.
    pub default: String,
}

impl BadValue {
    /// `default` is what is used instead of `value`.
    pub fn new(name: &'static str, value: &str, default: &str) -> Self {
        BadValue {
            name,
            value: value.chars().take(100).collect(),
            default: default.to_owned(),
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cannot be {:?}; using {}",
            self.name, self.value, self.default
        )
    }
}

/// A positive integer as JavaScript's `Number(text)` reads it: outer blanks, a fraction of zero, an exponent, and
/// hexadecimal pass. Beyond 2^64 it saturates.
///
/// ```
/// # use frigg_core::deferral::positive_integer;
/// assert_eq!(positive_integer(" 1e3 "), Some(1000));
/// assert_eq!(positive_integer("0x10"), Some(16));
/// for bad in ["0", "-1", "1.5", "many", "", "1_000", "Infinity", "nan"] {
///     assert_eq!(positive_integer(bad), None);
/// }
/// ```
pub fn positive_integer(text: &str) -> Option<u64> {
    let text = text.trim();
    let radix = |digits: &str, radix| {
        // Rust alone would read a sign too. What is left to fail is a number beyond 2^64.
        let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        let value = valid.then(|| u64::from_str_radix(digits, radix).unwrap_or(u64::MAX));
        value.filter(|&value| value > 0)
    };
    match text.get(..2) {
        Some("0x" | "0X") => return radix(&text[2..], 16),
        Some("0o" | "0O") => return radix(&text[2..], 8),
        Some("0b" | "0B") => return radix(&text[2..], 2),
        _ => {}
    }
    // Rust alone would read "inf" and "nan" too.
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '.') {
        return None;
    }
    let value = text.parse::<f64>().ok()?;
    // `as` saturates, which is what is wanted of a huge limit.
    (value.is_finite() && value >= 1.0 && value.fract() == 0.0).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Options, Vec<BadValue>) {
        Options::from_variables(|name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn values_are_read_and_bad_ones_named() {
        let (options, bad) = read(&[
            ("FRIGG_QUEUE_MAX_DEFERRALS", " 4 "),
            ("FRIGG_QUEUE_MAX_DEFERRED_MS", "1e3"),
            ("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "3"),
            ("FRIGG_QUEUE_RETENTION_SECONDS", "345600"),
            ("FRIGG_MAX_DELAY_SECONDS", "60"),
            ("FRIGG_COMPAT", "1"),
        ]);
        assert_eq!(
            options.limits,
            Limits {
                max_deferrals: 4,
                max_deferred: Duration::from_secs(1)
            }
        );
        assert_eq!(
            (options.max_receive_count, options.max_delay),
            (Some(3), Duration::from_secs(60))
        );
        assert_eq!(options.retention, Some(Duration::from_secs(345_600)));
        assert!(options.is_frigg() && bad.is_empty());

        for value in ["0", "-1", "1.5", "many", "+", "0x", "1e-3", "+inf"] {
            let (options, bad) = read(&[("FRIGG_QUEUE_MAX_DEFERRALS", value)]);
            assert_eq!(options, Options::default(), "{value}");
            assert_eq!(bad, [BadValue::new("FRIGG_QUEUE_MAX_DEFERRALS", value, "30")]);
        }
        let (options, bad) = read(&[("FRIGG_QUEUE_MAX_DEFERRALS", "")]);
        assert_eq!(
            (options, bad),
            (Options::default(), vec![]),
            "an empty variable counts as unset"
        );
        for value in ["59", "901", "x"] {
            let (options, bad) = read(&[("FRIGG_MAX_DELAY_SECONDS", value)]);
            assert_eq!(options.max_delay, Options::LONGEST_DELAY);
            let text = bad[0].to_string();
            assert!(
                ["FRIGG_MAX_DELAY_SECONDS", value, "900"]
                    .iter()
                    .all(|part| text.contains(part)),
                "{text}"
            );
        }
        let (options, _) = read(&[("FRIGG_QUEUE_MAX_DEFERRALS", "1e300")]);
        assert_eq!(options.limits.max_deferrals, u32::MAX);
        for (value, frigg, bad_values) in [
            ("1", true, 0),
            (" true ", true, 0),
            ("", false, 0),
            ("0", false, 0),
            ("false", false, 0),
            ("yes", false, 1),
        ] {
            let (options, bad) = read(&[("FRIGG_COMPAT", value)]);
            assert_eq!((options.is_frigg(), bad.len()), (frigg, bad_values), "{value:?}");
        }
    }

    #[test]
    fn integers_are_read_as_javascript_reads_them() {
        for (text, want) in [
            ("5.", Some(5)),
            (".5e1", Some(5)),
            ("+7", Some(7)),
            ("007", Some(7)),
            ("1e300", Some(u64::MAX)),
            ("0XfF", Some(255)),
            ("0o17", Some(15)),
            ("0b101", Some(5)),
            ("0x10000000000000000", Some(u64::MAX)),
            ("0x0", None),
            ("0x", None),
            ("0x+1", None),
            ("+0x1", None),
            ("0xg", None),
            ("0o8", None),
            ("1e400", None),
            ("1e-1", None),
            ("5,0", None),
            ("5 0", None),
            ("é5", None),
            ("+-5", None),
            (".", None),
            ("+nan", None),
        ] {
            assert_eq!(positive_integer(text), want, "{text:?}");
        }
    }

    #[test]
    fn the_longest_delay_keeps_within_what_sqs_and_the_scheduler_leave() {
        for (asked_ms, want_ms) in [
            (0, 60_000),
            (59_999, 60_000),
            (60_500, 60_500),
            (900_000, 900_000),
            (900_001, 900_000),
        ] {
            let options = Options::default().with_max_delay(Duration::from_millis(asked_ms));
            assert_eq!(options.max_delay(), Duration::from_millis(want_ms));
        }
        assert_eq!(Options::frigg().max_delay(), Options::LONGEST_DELAY);
    }
}
