//! The emulators, and what each can do.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use super::FLAVOUR_VARIABLE;

/// An emulator that `localstack/local-aws` can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Flavour {
    /// Fires schedules, runs functions; refuses little.
    #[default]
    Ministack,
    /// LocalStack as a host process or in a container: queues and the scheduler's API.
    Localstack,
    /// moto: the strictest about requests.
    Moto,
}

impl Flavour {
    /// The one that [`FLAVOUR_VARIABLE`] names; ministack when it is unset or empty.
    ///
    /// # Errors
    ///
    /// When it names none.
    pub fn from_environment() -> Result<Self> {
        match std::env::var(FLAVOUR_VARIABLE) {
            Ok(name) if !name.is_empty() => name.parse(),
            _ => Ok(Self::default()),
        }
    }

    /// Its name on `local-aws`'s command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ministack => "ministack",
            Self::Localstack => "localstack",
            Self::Moto => "moto",
        }
    }

    /// Whether a schedule's target gets its input when the time comes.
    #[must_use]
    pub fn fires_schedules(self) -> bool {
        self == Self::Ministack
    }

    /// Whether it runs functions behind event source mappings.
    #[must_use]
    pub fn runs_lambda(self) -> bool {
        self == Self::Ministack
    }

    /// Whether a FIFO queue holds a message group while one of its messages is in flight.
    #[must_use]
    pub fn holds_groups(self) -> bool {
        self != Self::Moto
    }

    /// A path that this flavour answers and the others do not.
    pub(super) fn own_path(self) -> &'static str {
        match self {
            Self::Ministack => "/_ministack/health",
            Self::Localstack => "/_localstack/init",
            Self::Moto => "/moto-api/",
        }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flavour {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "ministack" => Ok(Self::Ministack),
            "localstack" => Ok(Self::Localstack),
            "moto" => Ok(Self::Moto),
            other => bail!("{FLAVOUR_VARIABLE}: {other:?} is none of ministack, localstack, moto"),
        }
    }
}
