//! Facts to findings. Each check is a pure function; it says nothing about what could not be looked at.

mod delivery;
mod fifo;
mod queue;
mod rights;
mod schedules;
mod tables;
mod variables;
mod warnings;

#[cfg(test)]
mod tests;

use frigg_worker::Config;

use super::facts::{Facts, Function, Queue};
use super::finding::Finding;

/// Runs every check.
pub(crate) fn check(facts: &Facts) -> Vec<Finding> {
    let (Some(function), Some(queue)) = (&facts.function, &facts.queue) else {
        return Vec::new();
    };
    let (config, bad) = Config::from_variables(|name| function.variables.get(name).cloned());
    let subject = Subject {
        facts,
        function,
        queue,
        config: &config,
    };
    let checks: [fn(&Subject<'_>) -> Option<Finding>; 17] = [
        delivery::mapping,
        delivery::reports_failures,
        delivery::recursive_loop,
        delivery::concurrency,
        queue::visibility,
        queue::retention,
        queue::redrive,
        queue::dead_letter_retention,
        fifo::fifo,
        schedules::group,
        schedules::trust,
        schedules::hand_over,
        schedules::send_back,
        schedules::dead_letters,
        rights::function,
        rights::key,
        variables::local_endpoint,
    ];
    let mut findings: Vec<_> = checks.iter().filter_map(|check| check(&subject)).collect();
    findings.extend(tables::tables(&subject));
    findings.extend(warnings::warnings(&subject));
    findings.extend(variables::bad_values(&subject, &bad));
    findings
}

/// What is judged.
struct Subject<'a> {
    facts: &'a Facts,
    function: &'a Function,
    queue: &'a Queue,
    /// What the worker makes of the function's variables.
    config: &'a Config,
}

impl Subject<'_> {
    /// The end of a command.
    fn region(&self) -> String {
        format!("--region {}", self.facts.region)
    }

    /// A command that sets an attribute of a queue.
    fn set_attribute(&self, queue: &Queue, name: &str, value: &str) -> String {
        let attributes = serde_json::json!({ name: value });
        format!(
            "aws sqs set-queue-attributes --queue-url {} --attributes '{attributes}' {}",
            queue.url,
            self.region()
        )
    }

    /// A command that sets a variable of the function and keeps the others, or takes it away.
    fn set_variable(&self, name: &str, value: Option<&str>) -> String {
        let function = &self.function.name;
        let change = match value {
            Some(value) => format!(".{name}=\"{value}\""),
            None => format!("del(.{name})"),
        };
        let region = self.region();
        format!(
            "aws lambda update-function-configuration --function-name {function} {region} --environment \"$(aws lambda \
             get-function-configuration --function-name {function} {region} --query Environment | jq -c '.Variables |= ({change})')\""
        )
    }
}
