//! Frigg's `retryAfter`.

use http::{HeaderMap, header::RETRY_AFTER};

use super::{header, number_or_date};
use crate::rate_limit::Hint;
use crate::rate_limit::clock::Clock;
use crate::rate_limit::value::Unit;

/// `Retry-After` as RFC 9110, section 10.2.3 has it, seconds or an HTTP-date, plus what servers send in its place:
/// decimal seconds and ISO 8601. The first of several fields counts.
pub fn retry_after(headers: &HeaderMap, clock: Clock<'_>) -> Option<Hint> {
    let when = number_or_date(header(headers, RETRY_AFTER.as_str())?, Unit::Seconds)?;
    Hint::in_header(when, clock, &RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{headers, now};
    use super::*;

    #[test]
    fn seconds_or_a_date_as_frigg_reads_it() {
        let table = [
            ("30", Some(30_000)),
            ("0", Some(0)),
            (" 1.5 ", Some(1_500)),
            ("31622400", Some(31_622_400_000)),
            ("31622401", None),
            ("Mon, 30 Nov 2026 12:00:30 GMT", Some(30_000)),
            ("Monday, 30-Nov-26 12:00:30 GMT", Some(30_000)),
            ("Mon Nov 30 12:00:30 2026", Some(30_000)),
            ("2026-11-30T12:00:30Z", Some(30_000)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
            // An epoch, a list and a duration are not Frigg's.
            ("1796040030", None),
            ("5, 10", None),
            ("5s", None),
            ("-1", None),
            ("soon", None),
            ("", None),
        ];
        for (text, wait) in table {
            let hint = retry_after(&headers(&[("retry-after", text)]), Clock::local(now()));
            assert_eq!(
                hint.and_then(|hint| hint.wait).map(|wait| wait.as_millis()),
                wait,
                "{text}"
            );
        }
        let two = headers(&[("retry-after", "5"), ("retry-after", "10")]);
        let hint = retry_after(&two, Clock::local(now())).unwrap();
        assert_eq!(hint.wait.map(|wait| wait.as_secs()), Some(5));
    }
}
