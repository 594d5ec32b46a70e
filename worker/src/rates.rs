//! Provider rates that people configure: `FRIGG_RATES`.

use std::num::NonZeroU32;
use std::time::Duration;

use frigg_core::rate_limit::Window;

/// Rates by scope key, for limits that nothing else names: `hubspot:*=100/10s, *=10/1s`. The first that fits counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates(Vec<(String, Window)>);

impl Rates {
    /// Reads `KEY=CALLS/TIME, …`. A key that ends in `*` stands for all that begin so; a time has the unit `ms`, `s`, `m`
    /// or `h`, and `/s` is `/1s`.
    ///
    /// # Errors
    /// The entry that cannot be read.
    pub fn parse(text: &str) -> Result<Rates, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let read = |entry: &str| {
            // A key may have an equals sign.
            let (key, rate) = entry.rsplit_once('=')?;
            let (calls, per) = rate.split_once('/')?;
            let limit = calls.trim().parse::<NonZeroU32>().ok()?;
            Some((
                key.trim().to_owned(),
                Window {
                    limit,
                    per: duration(per.trim())?,
                },
            ))
        };
        let rates = entries.map(|entry| read(entry).ok_or_else(|| entry.to_owned()));
        rates.collect::<Result<_, _>>().map(Rates)
    }

    /// The rate for a key.
    pub fn of(&self, key: &str) -> Option<Window> {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => key == pattern,
        };
        let found = self.0.iter().find(|(pattern, _)| fits(pattern));
        found.map(|(_, window)| *window)
    }
}

fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let number = if number.is_empty() {
        1
    } else {
        number.parse::<u32>().ok()?
    };
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return None,
    };
    Some(unit * number).filter(|length| !length.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rate_that_fits_counts() {
        let rates = Rates::parse(" hubspot:entity:7=5/s, hubspot:*=100/10s,a=b=1/500ms,*=60/1m ,").unwrap();
        for (key, want) in [
            ("hubspot:entity:7", (5, 1_000)),
            ("hubspot:entity:8", (100, 10_000)),
            ("a=b", (1, 500)),
            ("", (60, 60_000)),
        ] {
            let rate = rates.of(key).unwrap();
            assert_eq!((rate.limit.get(), rate.per.as_millis()), want, "{key}");
        }
        assert_eq!(Rates::parse("a=1/h").unwrap().of("b"), None);
        for bad in [
            "a",
            "a=1",
            "a=0/s",
            "a=-1/s",
            "a=1/0s",
            "a=1/10",
            "a=1/s/s",
            "a=1/d",
            "a=x/s",
            "a=1/99999999999s",
        ] {
            assert_eq!(Rates::parse(&format!("b=1/s,{bad}")), Err(bad.to_owned()));
        }
    }
}
