//! Where new warnings for users are announced.

use super::Subject;
use super::rights::{finding, lacking};
use crate::doctor::facts::Found;
use crate::doctor::finding::Finding;

const CHECK: &str = "warnings";

/// One finding for each variable that names a topic or a bus.
pub(super) fn warnings(subject: &Subject<'_>) -> Vec<Finding> {
    let config = subject.config;
    let named = [
        ("FRIGG_WARNINGS_TOPIC", &config.warnings_topic, "sns:Publish"),
        ("FRIGG_WARNINGS_BUS", &config.warnings_bus, "events:PutEvents"),
    ];
    let named = named
        .into_iter()
        .filter_map(|(variable, name, action)| Some((variable, name.as_deref()?, action)));
    named
        .filter_map(|(variable, name, action)| judge(subject, variable, name, action))
        .collect()
}

fn judge(subject: &Subject<'_>, variable: &'static str, name: &str, action: &str) -> Option<Finding> {
    if subject.config.state_table.is_none() {
        return Some(Finding::fail(
            CHECK,
            format!("{variable} is set, and FRIGG_STATE_TABLE is not"),
            "The worker does not start: a warning is announced when it is stored there.",
            subject.set_variable(variable, None),
        ));
    }
    let arn = match subject.facts.announcements.get(name)? {
        Found::Here(arn) => arn,
        Found::Missing => {
            return Some(Finding::fail(
                CHECK,
                format!("{name} of {variable} does not exist"),
                "Warnings are stored, and nobody is told.",
                subject.set_variable(variable, Some("<one that is there>")),
            ));
        }
    };
    let role = subject.facts.function_role.as_ref().and_then(Found::here)?;
    let why = "Warnings are stored, and nobody is told.";
    let lacking = lacking(role, &[(action, arn)]);
    finding(subject, CHECK, role, "warnings", &lacking, why)
        .or_else(|| Some(Finding::pass(CHECK, format!("{name} hears of new warnings"))))
}
