//! What is so, as read from AWS. `None` means that it could not be looked at, and that a [`Gap`] says why.

use std::collections::BTreeMap;

use super::finding::Gap;
use super::policy::Policy;

/// Everything that the checks judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The account's region.
    pub region: String,
    /// The function.
    pub function: Option<Function>,
    /// What feeds the function.
    pub mappings: Option<Vec<Mapping>>,
    /// `RecursiveLoop` of the function.
    pub recursive_loop: Option<String>,
    /// Reserved concurrency; the inner `None` is none.
    pub reserved: Option<Option<u32>>,
    /// The queue.
    pub queue: Option<Queue>,
    /// Where the queue's redrive policy leads.
    pub dead_letters: Option<Found<Queue>>,
    /// What `FRIGG_SCHEDULE_DLQ_ARN` names.
    pub schedule_dead_letters: Option<Found<Queue>>,
    /// Whether the schedule group exists.
    pub group_exists: Option<bool>,
    /// The function's role.
    pub function_role: Option<Found<Role>>,
    /// The scheduler's role.
    pub scheduler_role: Option<Found<Role>>,
    /// The tables that variables name, by name, as far as they could be looked at.
    pub tables: BTreeMap<String, Found<Table>>,
    /// The topic and the bus that variables name, by that name, as far as they could be looked at: their ARNs.
    pub announcements: BTreeMap<String, Found<String>>,
    /// What could not be looked at.
    pub gaps: Vec<Gap>,
}

/// A thing that another one names: it is there, or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found<T> {
    /// It is there.
    Here(T),
    /// There is no such thing.
    Missing,
}

impl<T> Found<T> {
    /// The thing, if it is there.
    pub(crate) fn here(&self) -> Option<&T> {
        match self {
            Found::Here(thing) => Some(thing),
            Found::Missing => None,
        }
    }
}

/// A Lambda function.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Function {
    /// Its name.
    pub name: String,
    /// Its timeout in seconds.
    pub timeout: u32,
    /// ARN of its role.
    pub role_arn: String,
    /// Its environment.
    pub variables: BTreeMap<String, String>,
}

impl Function {
    /// A variable that is set to something.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name)?.trim();
        (!value.is_empty()).then_some(value)
    }
}

/// An event source mapping.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mapping {
    /// Its id.
    pub uuid: String,
    /// The queue.
    pub queue_arn: String,
    /// `Enabled`, `Disabled`, …
    pub state: String,
    /// `FunctionResponseTypes`
    pub response_types: Vec<String>,
    /// Batch window in seconds.
    pub window: u32,
    /// `ScalingConfig.MaximumConcurrency`
    pub maximum_concurrency: Option<u32>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Queue {
    /// Its URL.
    pub url: String,
    /// Its ARN.
    pub arn: String,
    /// Visibility timeout in seconds.
    pub visibility: u64,
    /// Retention in seconds.
    pub retention: u64,
    /// Its redrive policy.
    pub redrive: Option<Redrive>,
    /// `KmsMasterKeyId`
    pub key: Option<String>,
}

impl Queue {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.arn.rsplit(':').next().unwrap_or_default()
    }

    /// Whether it keeps order.
    pub(crate) fn is_fifo(&self) -> bool {
        self.arn.ends_with(".fifo")
    }

    /// ARN of the customer's key that encrypts it. SQS's own and AWS's own key take no rights of a role.
    pub(crate) fn key_arn(&self) -> Option<String> {
        let key = self.key.as_deref()?;
        if key.ends_with("alias/aws/sqs") {
            return None;
        }
        if key.starts_with("arn:") {
            return Some(key.to_owned());
        }
        let mut parts = self.arn.split(':');
        let (partition, region, account) = (parts.nth(1)?, parts.nth(1)?, parts.next()?);
        let kind = if key.starts_with("alias/") { "" } else { "key/" };
        Some(format!("arn:{partition}:kms:{region}:{account}:{kind}{key}"))
    }
}

/// When a queue gives a message up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Redrive {
    /// The dead-letter queue.
    pub target: String,
    /// After how many receives.
    pub receives: u32,
}

/// A DynamoDB table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// Its ARN.
    pub arn: String,
    /// Its key: name, `HASH` or `RANGE`, type.
    pub key: Vec<(String, String, String)>,
    /// The attribute of its time to live, where that is on.
    pub ttl: Option<String>,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Role {
    /// Its ARN.
    pub arn: String,
    /// Who may assume it.
    pub trust: Policy,
    /// What it may do.
    pub policies: Vec<Policy>,
    /// What it may do at most.
    pub boundary: Option<Policy>,
}

impl Role {
    /// The name, for commands.
    pub(crate) fn name(&self) -> &str {
        role_name(&self.arn)
    }
}

/// `x` of `arn:aws:iam::1:role/path/x`.
pub(crate) fn role_name(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or_default()
}
