//! The tables by which workers share what they know.

use super::Subject;
use super::rights::{finding, lacking};
use crate::doctor::facts::{Found, Table};
use crate::doctor::finding::Finding;

const CHECK: &str = "tables";

/// One finding for each table that a variable names.
pub(super) fn tables(subject: &Subject<'_>) -> Vec<Finding> {
    let named = [
        (
            "FRIGG_GATE_TABLE",
            &subject.config.gate_table,
            "Each worker meets every limit by itself.",
        ),
        (
            "FRIGG_STATE_TABLE",
            &subject.config.state_table,
            "No process shows what it waits for, and no user is told.",
        ),
    ];
    let named = named
        .iter()
        .filter_map(|(variable, name, why)| Some((*variable, name.as_deref()?, *why)));
    named
        .flat_map(|(variable, name, why)| judge(subject, variable, name, why))
        .collect()
}

fn judge(subject: &Subject<'_>, variable: &'static str, name: &str, why: &str) -> Vec<Finding> {
    let Some(table) = subject.facts.tables.get(name) else {
        // It could not be looked at.
        return Vec::new();
    };
    let region = subject.region();
    let table = match table {
        Found::Here(table) => table,
        Found::Missing => {
            let fix = format!(
                "aws dynamodb create-table --table-name {name} --billing-mode PAY_PER_REQUEST --attribute-definitions \
                 AttributeName=pk,AttributeType=S --key-schema AttributeName=pk,KeyType=HASH {region}"
            );
            return vec![Finding::fail(
                CHECK,
                format!("the table {name} of {variable} does not exist"),
                why,
                fix,
            )];
        }
    };
    let mut findings = Vec::new();
    if !has_right_key(table) {
        let fix = subject.set_variable(variable, Some("<a table whose only key is pk, a string>"));
        findings.push(Finding::fail(
            CHECK,
            format!("the only key of {name} is not pk, a string"),
            why,
            fix,
        ));
    }
    if table.ttl.as_deref() != Some("ttl") {
        let fix = format!(
            "aws dynamodb update-time-to-live --table-name {name} --time-to-live-specification Enabled=true,AttributeName=ttl {region}"
        );
        let what = format!("{name} has no time to live on the attribute ttl");
        findings.push(Finding::warn(
            CHECK,
            what,
            "Entries that nobody needs any more stay, and cost.",
            fix,
        ));
    }
    if let Some(role) = subject.facts.function_role.as_ref().and_then(Found::here) {
        let wanted = [
            ("dynamodb:GetItem", table.arn.as_str()),
            ("dynamodb:UpdateItem", table.arn.as_str()),
        ];
        findings.extend(finding(
            subject,
            CHECK,
            role,
            "tables",
            &lacking(role, &wanted),
            why,
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::pass(CHECK, format!("{name} is as {variable} needs it")));
    }
    findings
}

fn has_right_key(table: &Table) -> bool {
    table.key == [("pk".to_owned(), "HASH".to_owned(), "S".to_owned())]
}
