//! The worker's settings, from the environment.

use std::num::NonZeroUsize;
use std::time::Duration;

use frigg_core::deferral::{BadValue, Options, positive_integer};

use crate::gate::Pace;
use crate::rates::Rates;

/// What a worker is told by its environment. Variables with Frigg's names mean what they mean to Frigg.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Caps and behaviour of deferrals.
    pub options: Options,
    /// `FRIGG_CONCURRENCY`: records of a batch handled at once. Default 10.
    pub concurrency: NonZeroUsize,
    /// `FRIGG_CALLS_AT_ONCE`: calls that put messages back, ten messages to a call, under way at once in the process;
    /// each has a connection. Default 16.
    pub calls_at_once: NonZeroUsize,
    /// The schedule tier; `None` turns it off.
    pub scheduling: Option<Scheduling>,
    /// `FRIGG_GATE_TABLE`: the DynamoDB table by which workers share what they know of limits. Default: none, and each
    /// worker meets every limit by itself. Not under `FRIGG_COMPAT`.
    pub gate_table: Option<String>,
    /// `FRIGG_STATE_TABLE`: the DynamoDB table that keeps each process's rate-limit state. Default: none.
    pub state_table: Option<String>,
    /// `FRIGG_WARNINGS_TOPIC`: ARN of the SNS topic to which new user warnings are published. Needs the feature `sns` and
    /// the state table. Default: none.
    pub warnings_topic: Option<String>,
    /// `FRIGG_WARNINGS_BUS`: name or ARN of the EventBridge bus on which new user warnings are put. Needs the feature
    /// `eventbridge` and the state table. Default: none.
    pub warnings_bus: Option<String>,
    /// `FRIGG_PACE=shared`: every call whose limit's rate is known takes a slot before it goes out. Default: only from a
    /// refusal on, while messages wait.
    pub pace: Pace,
    /// `FRIGG_RATES`: rates of limits that no refusal names.
    pub rates: Rates,
    /// `FRIGG_QUEUE_URL`: the queue to poll outside Lambda. Under Lambda it saves a look-up in each process that puts a
    /// message back.
    pub queue_url: Option<String>,
    /// `FRIGG_BATCH_SECONDS`: how long a polled batch may take. Default 300 s. (Under Lambda, its deadline rules.)
    pub batch_time: Duration,
    /// `FRIGG_DRAIN_SECONDS`: how long running handlers may go on after SIGTERM. Default 30 s.
    pub drain_time: Duration,
}

/// What creating schedules needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduling {
    /// `SCHEDULER_ROLE_ARN`: the role that the scheduler sends with.
    pub role_arn: String,
    /// `SCHEDULE_GROUP_NAME`. Default `frigg-integration-schedules`.
    pub group: String,
    /// `FRIGG_SCHEDULE_DLQ_ARN`: a standard queue for what could not be delivered.
    pub dead_letter_arn: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            options: Options::default(),
            concurrency: DEFAULT_CONCURRENCY,
            calls_at_once: DEFAULT_CALLS_AT_ONCE,
            scheduling: None,
            gate_table: None,
            state_table: None,
            warnings_topic: None,
            warnings_bus: None,
            pace: Pace::default(),
            rates: Rates::default(),
            queue_url: None,
            batch_time: Duration::from_secs(300),
            drain_time: Duration::from_secs(30),
        }
    }
}

const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).unwrap();
const DEFAULT_CALLS_AT_ONCE: NonZeroUsize = NonZeroUsize::new(16).unwrap();

impl Config {
    /// Reads the settings through `variable`. Values that cannot be used leave the default and are returned, for one
    /// WARN each.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> (Config, Vec<BadValue>) {
        let (options, mut bad) = Options::from_variables(&variable);
        let text = |name: &str| {
            variable(name)
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let defaults = Config::default();
        let mut number = |name, default: u64| {
            let Some(text) = text(name) else { return default };
            positive_integer(&text).unwrap_or_else(|| {
                bad.push(BadValue::new(name, &text, &default.to_string()));
                default
            })
        };
        let (batch_time, drain_time) = (
            number("FRIGG_BATCH_SECONDS", defaults.batch_time.as_secs()),
            number("FRIGG_DRAIN_SECONDS", defaults.drain_time.as_secs()),
        );
        let mut count = |name, default: NonZeroUsize| {
            let count = usize::try_from(number(name, default.get() as u64)).ok();
            count.and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MAX)
        };
        let concurrency = count("FRIGG_CONCURRENCY", DEFAULT_CONCURRENCY);
        let calls_at_once = count("FRIGG_CALLS_AT_ONCE", DEFAULT_CALLS_AT_ONCE);
        let pace = match text("FRIGG_PACE").as_deref() {
            None | Some("when-limited") => Pace::WhenLimited,
            Some("shared") => Pace::Shared,
            Some(other) => {
                bad.push(BadValue::new("FRIGG_PACE", other, "when-limited"));
                Pace::default()
            }
        };
        let rates = Rates::parse(&text("FRIGG_RATES").unwrap_or_default()).unwrap_or_else(|entry| {
            bad.push(BadValue::new("FRIGG_RATES", &entry, "no configured rate"));
            Rates::default()
        });
        let config = Config {
            gate_table: text("FRIGG_GATE_TABLE"),
            state_table: text("FRIGG_STATE_TABLE"),
            warnings_topic: text("FRIGG_WARNINGS_TOPIC"),
            warnings_bus: text("FRIGG_WARNINGS_BUS"),
            pace,
            rates,
            concurrency,
            calls_at_once,
            batch_time: Duration::from_secs(batch_time),
            drain_time: Duration::from_secs(drain_time),
            scheduling: Scheduling::from_variables(text),
            queue_url: text("FRIGG_QUEUE_URL"),
            options,
        };
        (config, bad)
    }
}

impl Scheduling {
    fn from_variables(text: impl Fn(&str) -> Option<String>) -> Option<Scheduling> {
        let role_arn = text("SCHEDULER_ROLE_ARN")?;
        if text("SCHEDULER_PROVIDER").as_deref() == Some("mock") {
            return None;
        }
        Some(Scheduling {
            role_arn,
            group: text("SCHEDULE_GROUP_NAME").unwrap_or_else(|| "frigg-integration-schedules".to_owned()),
            dead_letter_arn: text("FRIGG_SCHEDULE_DLQ_ARN"),
        })
    }
}
