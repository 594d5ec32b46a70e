//! The function's environment.

use frigg_worker::core::deferral::BadValue;

use super::Subject;
use crate::doctor::finding::Finding;

/// Variables that lead every call to a machine of one's own.
const LOCAL: [&str; 4] = [
    "IS_OFFLINE",
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_SQS",
];

pub(super) fn local_endpoint(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "local-endpoint";
    let function = &subject.function.name;
    let found = LOCAL
        .iter()
        .find_map(|name| Some((*name, subject.function.variable(name)?)));
    Some(match found {
        Some((name, value)) => Finding::fail(
            CHECK,
            format!("{name} of {function} is {value:?}"),
            "It is for one's own machine: no call of the deployed function reaches AWS, so that nothing can be put back.",
            subject.set_variable(name, None),
        ),
        None => Finding::pass(CHECK, format!("{function} calls AWS")),
    })
}

pub(super) fn bad_values(subject: &Subject<'_>, bad: &[BadValue]) -> Vec<Finding> {
    const CHECK: &str = "variables";
    let mut findings: Vec<_> = bad
        .iter()
        .map(|value| {
            Finding::warn(
                CHECK,
                format!(
                    "{} of {} cannot be {:?}",
                    value.name, subject.function.name, value.value
                ),
                format!("The default is used instead: {}.", value.default),
                subject.set_variable(value.name, None),
            )
        })
        .collect();
    let receives = subject.queue.redrive.as_ref().map(|redrive| redrive.receives);
    if let (Some(told), Some(receives)) = (subject.config.options.max_receive_count, receives)
        && told != receives
    {
        findings.push(Finding::warn(
            CHECK,
            format!("FRIGG_QUEUE_MAX_RECEIVE_COUNT is {told}, the queue gives up after {receives} receives"),
            "The last attempt is not known for what it is: a message can become a dead letter while it is hidden, or be \
             reported lost when it is not.",
            subject.set_variable("FRIGG_QUEUE_MAX_RECEIVE_COUNT", Some(&receives.to_string())),
        ));
    }
    let kept = subject.queue.retention;
    if let Some(told) = subject.config.options.retention.map(|told| told.as_secs())
        && told != kept
    {
        findings.push(Finding::warn(
            CHECK,
            format!("FRIGG_QUEUE_RETENTION_SECONDS is {told}, the queue keeps messages for {kept} s"),
            "A message that waits is put back by the wrong number: with one too large it can be deleted before its time.",
            subject.set_variable("FRIGG_QUEUE_RETENTION_SECONDS", Some(&kept.to_string())),
        ));
    }
    if let Some(scheduling) = &subject.config.scheduling
        && !scheduling.role_arn.contains(":role/")
    {
        findings.push(Finding::fail(
            CHECK,
            format!("SCHEDULER_ROLE_ARN of {} cannot be {:?}", subject.function.name, scheduling.role_arn),
            "It is no ARN of a role: every schedule is refused, and longer waits fall back on hiding the message.",
            subject.set_variable("SCHEDULER_ROLE_ARN", Some("<ARN of the scheduler's role>")),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::pass(
            CHECK,
            "every variable has a value that can be used",
        ));
    }
    findings
}
