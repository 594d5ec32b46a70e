//! [`NamedWindow`] and [`Link`]: what a provider documents about its limits.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Reason, Window};

/// A documented window of a provider, under the reason that it gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedWindow {
    /// The reason of refusals in this window.
    pub reason: Reason,
    /// Calls allowed in the window; `None` where it depends on the customer's plan.
    pub limit: Option<NonZeroU32>,
    /// Length of the window.
    pub per: Duration,
    /// Whether the window rolls over so long a time that its length is no sensible wait.
    pub rolling: bool,
    /// The route that the window is for, `*` for any part of it. `None`: every route.
    pub route: Option<&'static str>,
}

impl NamedWindow {
    /// At most `limit` calls in `per`. A limit of 0 counts as not known.
    pub const fn new(reason: Reason, limit: u32, per: Duration) -> Self {
        NamedWindow {
            reason,
            limit: NonZeroU32::new(limit),
            per,
            rolling: false,
            route: None,
        }
    }

    /// A window whose limit depends on the customer's plan.
    pub const fn without_limit(reason: Reason, per: Duration) -> Self {
        NamedWindow {
            reason,
            limit: None,
            per,
            rolling: false,
            route: None,
        }
    }

    /// A window that rolls: calls become free one by one, so its length is not used as a wait.
    pub const fn rolling(self) -> Self {
        NamedWindow {
            rolling: true,
            ..self
        }
    }

    /// For this route only; `*` in the pattern stands for any text.
    pub const fn on(self, route: &'static str) -> Self {
        NamedWindow {
            route: Some(route),
            ..self
        }
    }

    /// Whether a call of this path counts in the window.
    pub fn covers(&self, path: &str) -> bool {
        self.route.is_none_or(|pattern| glob(pattern, path))
    }

    /// The window as the worker spreads over it, where the limit is known.
    pub fn rate(&self) -> Option<Window> {
        self.limit.map(|limit| Window { limit, per: self.per })
    }
}

/// A page for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The kind of limit that it explains.
    pub reason: Reason,
    /// What the link is called.
    pub label: &'static str,
    /// Its address.
    pub url: &'static str,
}

/// Whether `text` fits a pattern in which `*` stands for any text.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(start) else {
        return false;
    };
    (0..=text.len())
        .filter(|at| text.is_char_boundary(*at))
        .any(|at| glob(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*.a.com", "x.a.com", true),
            ("*.a.com", "a.com", false),
            ("/crm/*/search", "/crm/v3/objects/contacts/search", true),
            ("/crm/*/search", "/crm/v3/objects/contacts", false),
            ("a*b*c", "a1b2c", true),
            ("a*", "é", false),
            ("*é", "xé", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }
}
