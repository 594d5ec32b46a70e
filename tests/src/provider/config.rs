//! Which key has which limit.

use std::time::Duration;

use super::gate::{Gate, Window};

/// How a call's key is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyBy {
    /// The path's first segment: `/acme/contacts/1` belongs to `acme`.
    #[default]
    FirstSegment,
    /// The whole path.
    Path,
    /// The value of a request header, an API key say; empty when it is missing.
    Header(String),
}

/// One key's limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    window: Option<Window>,
    closed_on_first_call: Option<Duration>,
}

impl Rule {
    /// No limit.
    #[must_use]
    pub const fn open() -> Self {
        Self {
            window: None,
            closed_on_first_call: None,
        }
    }

    /// So many calls per time.
    #[must_use]
    pub const fn window(window: Window) -> Self {
        Self {
            window: Some(window),
            closed_on_first_call: None,
        }
    }

    /// Closed for this long from its first call on, as an account whose daily limit is spent. The window counts after.
    #[must_use]
    pub const fn closed_on_first_call(mut self, length: Duration) -> Self {
        self.closed_on_first_call = Some(length);
        self
    }

    pub(super) fn gate(&self) -> Gate {
        Gate::new(self.window, self.closed_on_first_call)
    }
}

/// What the provider limits. The default limits nothing.
#[derive(Clone, Debug, Default)]
pub struct ProviderConfig {
    key_by: KeyBy,
    default: Rule,
    rules: Vec<(String, Rule)>,
}

impl ProviderConfig {
    /// The rule for every key that no other rule names. Default: no limit.
    #[must_use]
    pub fn with_default(mut self, rule: Rule) -> Self {
        self.default = rule;
        self
    }

    /// The rule for a key, or for all keys that begin with `key` when it ends in `*` (each has its own state). The first
    /// rule that fits counts.
    #[must_use]
    pub fn with_rule(mut self, key: impl Into<String>, rule: Rule) -> Self {
        self.rules.push((key.into(), rule));
        self
    }

    /// How a call's key is found. Default: the path's first segment.
    #[must_use]
    pub fn with_key_by(mut self, key_by: KeyBy) -> Self {
        self.key_by = key_by;
        self
    }

    pub(super) fn key_by(&self) -> &KeyBy {
        &self.key_by
    }

    pub(super) fn rule(&self, key: &str) -> Rule {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => key == pattern,
        };
        self.rules
            .iter()
            .find(|(pattern, _)| fits(pattern))
            .map_or(self.default, |(_, rule)| *rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let one = Rule::window(Window::rolling(1, Duration::from_secs(1)));
        let two = Rule::window(Window::rolling(2, Duration::from_secs(1)));
        let config = ProviderConfig::default()
            .with_rule("daily-eu", one)
            .with_rule("daily-*", two);
        assert_eq!(config.rule("daily-eu"), one);
        assert_eq!(config.rule("daily-us"), two);
        assert_eq!(config.rule("other"), Rule::open());
    }
}
