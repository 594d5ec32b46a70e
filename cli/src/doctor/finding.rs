//! What a check says.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Pass,
    /// Works, at a risk or a cost.
    Warn,
    /// Loses messages, or keeps them from coming back.
    Fail,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Pass => "pass",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        })
    }
}

/// One check's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The check's name; stable, for scripts.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What is so, naming the resource.
    pub what: String,
    /// Why that matters. Empty on a pass.
    pub why: String,
    /// The command that mends it. Empty on a pass.
    pub fix: String,
}

impl Finding {
    /// As it should be.
    pub(crate) fn pass(check: &'static str, what: impl Into<String>) -> Finding {
        Finding {
            check,
            level: Level::Pass,
            what: what.into(),
            why: String::new(),
            fix: String::new(),
        }
    }

    /// Works, at a risk or a cost.
    pub(crate) fn warn(
        check: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding {
            check,
            level: Level::Warn,
            what: what.into(),
            why: why.into(),
            fix: fix.into(),
        }
    }

    /// Loses messages, or keeps them from coming back.
    pub(crate) fn fail(
        check: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Fail,
            ..Finding::warn(check, what, why, fix)
        }
    }
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Gap {
    /// The IAM action that looking takes.
    pub permission: &'static str,
    /// On what.
    pub resource: String,
    /// What happened, and what to do.
    pub reason: String,
}
