//! The stores and announcements that the settings name.

use crate::config::Config;
use crate::error::Error;

/// Whether what is set can be used by this program.
///
/// # Errors
/// The first variable that cannot, and what to do.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    let announcements = [
        (
            "FRIGG_WARNINGS_TOPIC",
            &config.warnings_topic,
            "sns",
            cfg!(feature = "sns"),
        ),
        (
            "FRIGG_WARNINGS_BUS",
            &config.warnings_bus,
            "eventbridge",
            cfg!(feature = "eventbridge"),
        ),
    ];
    for (variable, value, feature, built) in announcements {
        let Some(value) = value else { continue };
        if !built {
            return Err(Error::new(format!(
                "{variable} is set, and this program was built without the feature `{feature}` of frigg-worker: build it \
                 with that, or unset the variable"
            )));
        }
        if config.state_table.is_none() {
            return Err(Error::new(format!(
                "{variable} is set, and FRIGG_STATE_TABLE is not: a warning is announced when it is stored there"
            )));
        }
        if variable == "FRIGG_WARNINGS_TOPIC" && !is_topic(value) {
            return Err(Error::new(format!(
                "FRIGG_WARNINGS_TOPIC is {value:?}: it has to be the ARN of a standard topic, \
                 arn:aws:sns:eu-west-1:123456789012:users say"
            )));
        }
    }
    Ok(())
}

/// An ARN of a topic that takes messages without a group.
fn is_topic(arn: &str) -> bool {
    let parts: Vec<_> = arn.split(':').collect();
    matches!(parts[..], ["arn", _, "sns", region, _, name] if !region.is_empty() && !name.is_empty() && !name.ends_with(".fifo"))
}

#[cfg(feature = "dynamodb")]
pub(crate) mod tables {
    use std::sync::Arc;

    use super::{Config, Error, check};
    use crate::aws::{Aws, DynamoState};
    use crate::clock::Clock;
    use crate::warnings::Warnings;

    /// The table of the state, where one is set, and the warnings in it.
    pub(crate) fn state(config: &Config, aws: &Aws) -> Option<(Arc<DynamoState>, Warnings)> {
        let table = config.state_table.clone()?;
        let store = Arc::new(DynamoState::new(aws.clone(), table, Clock::system()));
        #[cfg_attr(
            not(any(feature = "eventbridge", feature = "sns")),
            expect(unused_mut, reason = "nothing to announce by")
        )]
        let mut warnings = Warnings::new(Arc::clone(&store) as _);
        #[cfg(feature = "sns")]
        if let Some(topic) = &config.warnings_topic {
            warnings = warnings.with_announce(Arc::new(crate::aws::Topic::new(aws.clone(), topic)));
        }
        #[cfg(feature = "eventbridge")]
        if let Some(bus) = &config.warnings_bus {
            warnings = warnings.with_announce(Arc::new(crate::aws::EventBus::new(aws.clone(), bus)));
        }
        Some((store, warnings))
    }

    impl Warnings {
        /// In the table of `FRIGG_STATE_TABLE`, announced to `FRIGG_WARNINGS_TOPIC` and `FRIGG_WARNINGS_BUS` where they
        /// are set: as a worker does, for programs that are none. Calls nothing.
        ///
        /// # Errors
        /// When `FRIGG_STATE_TABLE` is not set, or another of them cannot be used; the text says why.
        pub fn from_env() -> Result<Warnings, Error> {
            let (config, _) = Config::from_variables(|name| std::env::var(name).ok());
            check(&config)?;
            let state = state(&config, &Aws::from_env());
            let (_, warnings) = state.ok_or_else(|| {
                Error::new("FRIGG_STATE_TABLE is not set: it names the DynamoDB table that keeps warnings")
            })?;
            Ok(warnings)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let (config, _) = Config::from_variables(variable);
        check(&config)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn an_announcement_that_cannot_be_made_is_told_at_the_start() {
        const STATE: (&str, &str) = ("FRIGG_STATE_TABLE", "state");
        let topic = ("FRIGG_WARNINGS_TOPIC", "arn:aws:sns:eu-west-1:123456789012:users");
        let bus = ("FRIGG_WARNINGS_BUS", "users");
        assert_eq!(verdict(&[]), "");
        for (setting, feature, built) in [
            (topic, "sns", cfg!(feature = "sns")),
            (bus, "eventbridge", cfg!(feature = "eventbridge")),
        ] {
            let with_table = verdict(&[STATE, setting]);
            if !built {
                assert!(
                    with_table.contains(&format!("the feature `{feature}`")),
                    "{with_table}"
                );
                continue;
            }
            assert_eq!(with_table, "", "{setting:?}");
            assert!(verdict(&[setting]).contains("FRIGG_STATE_TABLE is not"));
        }
        for bad in [
            "users",
            "arn:aws:sns:eu-west-1:123456789012:users.fifo",
            "arn:aws:sqs:eu-west-1:123456789012:users",
            "arn:aws:sns::123456789012:users",
        ] {
            let verdict = verdict(&[STATE, ("FRIGG_WARNINGS_TOPIC", bad)]);
            assert!(verdict.contains("FRIGG_WARNINGS_TOPIC is"), "{bad}: {verdict}");
        }
    }
}
