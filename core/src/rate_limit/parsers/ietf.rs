//! Frigg's `ietf`, and the grammar that [`buckets()`](super::buckets()) shares with it.
//!
//! The fields are structured fields (RFC 9651), which a strict parser would have to refuse as a whole for one stray
//! character; real servers send such (two names before the parameters). So the few marks that matter are split here:
//! commas and semicolons outside of quotes.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::header;
use crate::rate_limit::Hint;
use crate::rate_limit::clock::{Clock, When};
use crate::rate_limit::value::Number;

pub(super) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The field `RateLimit` of draft-ietf-httpapi-ratelimit-headers: `"burst";r=0;t=12` (since -08) or
/// `limit=100, remaining=0, reset=12` (-07). Times are seconds from now.
///
/// Of several limits the one with the fewest calls left decides, of equals the longest; an item without a time is left
/// out. The policy is the item's name, else the field `RateLimit-Policy` as it stands.
pub fn ietf(headers: &HeaderMap, clock: Clock<'_>) -> Option<Hint> {
    let text = header(headers, RATELIMIT.as_str())?;
    let limits = limits(text);
    let limit = limits.filter(|limit| limit.reset.is_some()).min_by_key(|limit| {
        (
            limit.remaining.unwrap_or(u64::MAX),
            std::cmp::Reverse(limit.reset),
        )
    })?;
    let hint = Hint::in_header(When::After(limit.reset?.seconds()), clock, &RATELIMIT)?;
    let policy = limit.name.or_else(|| header(headers, RATELIMIT_POLICY.as_str()));
    Some(Hint {
        remaining: limit.remaining,
        policy: policy.map(str::to_owned),
        ..hint
    })
}

/// One limit of a `RateLimit` field.
pub(super) struct FieldLimit<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) remaining: Option<u64>,
    pub(super) reset: Option<Number>,
}

/// The limits of a `RateLimit` field, in either form. Draft -07 has one, without a name.
pub(super) fn limits(text: &str) -> impl Iterator<Item = FieldLimit<'_>> {
    let named = split(text, ',').any(|item| parameter(item, "t").is_some());
    let items = if named {
        split(text, ',')
    } else {
        Split {
            rest: None,
            separator: ',',
        }
    };
    let single = (!named).then(|| {
        let value = |key| {
            split(text, ',')
                .filter_map(pair)
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        FieldLimit {
            name: None,
            remaining: value("remaining").and_then(Number::parse).map(Number::whole),
            reset: value("reset").and_then(Number::parse),
        }
    });
    single.into_iter().chain(items.map(|item| FieldLimit {
        name: names(item).last(),
        remaining: parameter(item, "r").and_then(Number::parse).map(Number::whole),
        reset: parameter(item, "t").and_then(Number::parse),
    }))
}

/// The window in seconds (`w`) of the policy with this name in a `RateLimit-Policy` field.
pub(super) fn policy_window(field: &str, name: &str) -> Option<Number> {
    let item = split(field, ',').find(|item| names(item).any(|own| own == name))?;
    parameter(item, "w").and_then(Number::parse)
}

/// The calls that the limit lets pass, and its window in seconds: the `q` and `w` of the policy with its name; without a
/// name, what `limit=` says and the `w` of the policy of as many calls.
pub(super) fn quota(
    field: &str,
    policy: Option<&str>,
    name: Option<&str>,
) -> Option<(u64, Option<Duration>)> {
    let number = |text| Number::parse(text).map(Number::whole);
    let Some(name) = name else {
        let mut pairs = split(field, ',').filter_map(pair);
        let (_, limit) = pairs.find(|(key, _)| *key == "limit")?;
        let window = policy.and_then(|policy| policy_window(policy, limit));
        return Some((number(limit)?, window.map(Number::seconds)));
    };
    let item = split(policy?, ',').find(|item| names(item).any(|own| own == name))?;
    let window = parameter(item, "w").and_then(Number::parse);
    Some((number(parameter(item, "q")?)?, window.map(Number::seconds)))
}

/// `RateLimit-Limit` of the drafts up to -06: the calls, and the window of the policy of as many calls.
pub(super) fn first_quota(text: &str) -> Option<(u64, Option<Duration>)> {
    let limit = names(split(text, ',').next()?).next()?;
    let same = split(text, ',').filter(|item| names(item).any(|own| own == limit));
    let window = same
        .filter_map(|item| parameter(item, "w"))
        .find_map(Number::parse);
    Some((
        Number::parse(limit).map(Number::whole)?,
        window.map(Number::seconds),
    ))
}

/// A parameter of an item: `t` of `"burst";r=0;t=12`.
pub(super) fn parameter<'a>(item: &'a str, name: &str) -> Option<&'a str> {
    split(item, ';')
        .skip(1)
        .filter_map(pair)
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// The bare words of an item, without quotes: usually one, its name.
fn names(item: &str) -> impl Iterator<Item = &str> {
    split(item, ';')
        .filter(|part| pair(part).is_none())
        .map(|part| part.trim().trim_matches('"'))
        .filter(|name| !name.is_empty())
}

/// `key=value`, unless it is quoted as a whole.
fn pair(part: &str) -> Option<(&str, &str)> {
    let (key, value) = part.split_once('=')?;
    (!key.contains('"')).then_some((key.trim(), value.trim().trim_matches('"')))
}

/// The parts of a text between separators, quoted separators aside.
fn split(text: &str, separator: char) -> Split<'_> {
    Split {
        rest: Some(text),
        separator,
    }
}

struct Split<'a> {
    rest: Option<&'a str>,
    separator: char,
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.find(|c: char| {
            let ends = c == self.separator && !quoted;
            quoted ^= c == '"' && !escaped;
            escaped = c == '\\' && quoted && !escaped;
            ends
        });
        let (part, after) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
        self.rest = after;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{headers, now};
    use super::*;

    #[test]
    fn both_forms_of_the_field() {
        let table = [
            (r#""burst";r=0;t=12"#, Some((12, Some(0), Some("burst")))),
            (r#""a";r=5;t=1, "b";r=0;t=60"#, Some((60, Some(0), Some("b")))),
            (r#""a";r=0;t=5, "b";r=0;t=60"#, Some((60, Some(0), Some("b")))),
            (r#""a";t=5, "b";r=9;t=60"#, Some((60, Some(9), Some("b")))),
            (r#""a;b,c";r=0;t=12"#, Some((12, Some(0), Some("a;b,c")))),
            (r#""a\"b,c";r=0;t=12"#, Some((12, Some(0), Some(r#"a\"b,c"#)))),
            (r#""a";r=0"#, None),
            (r#""a";r=0;t=-1"#, None),
            (r#""a";r=0;t=x, "b";r=3;t=7"#, Some((7, Some(3), Some("b")))),
            ("limit=100, remaining=0, reset=50", Some((50, Some(0), None))),
            ("reset=50", Some((50, None, None))),
            ("limit=100, remaining=0", None),
            ("limit=100, reset=soon", None),
            ("garbage", None),
            (r#""unclosed;r=0;t=5"#, None),
            (";;,,", None),
        ];
        for (text, expected) in table {
            let hint = ietf(&headers(&[("ratelimit", text)]), Clock::local(now()));
            let got = hint.as_ref().map(|hint| {
                (
                    hint.wait.unwrap().as_secs(),
                    hint.remaining,
                    hint.policy.as_deref(),
                )
            });
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn a_policy_is_found_by_name() {
        let field = r#""burst";q=10;w=1, "fixed window";"day";q=1000;w=86400, 100;w=60"#;
        let window = |name| policy_window(field, name).map(Number::whole);
        assert_eq!(window("burst"), Some(1));
        assert_eq!(window("day"), Some(86_400));
        assert_eq!(window("week"), None);
    }
}
