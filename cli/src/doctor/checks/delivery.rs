//! How messages reach the function, and how its answer is taken.

use super::Subject;
use crate::doctor::facts::Mapping;
use crate::doctor::finding::Finding;

impl Subject<'_> {
    fn mapping(&self) -> Option<&Mapping> {
        let mappings = self.facts.mappings.as_ref()?;
        mappings
            .iter()
            .find(|mapping| mapping.queue_arn == self.queue.arn)
    }
}

pub(super) fn mapping(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "mapping";
    subject.facts.mappings.as_ref()?;
    let (function, queue) = (&subject.function.name, &subject.queue.arn);
    Some(match subject.mapping() {
        None => Finding::fail(
            CHECK,
            format!("no event source mapping leads from {queue} to {function}"),
            "The function gets no messages.",
            format!(
                "aws lambda create-event-source-mapping --function-name {function} --event-source-arn {queue} \
                 --batch-size 10 --function-response-types ReportBatchItemFailures {}",
                subject.region()
            ),
        ),
        Some(mapping)
            if !matches!(
                mapping.state.as_str(),
                "Enabled" | "Enabling" | "Creating" | "Updating"
            ) =>
        {
            Finding::warn(
                CHECK,
                format!("the event source mapping {} is {}", mapping.uuid, mapping.state),
                "The function gets no messages; they stay in the queue until their retention ends.",
                format!(
                    "aws lambda update-event-source-mapping --uuid {} --enabled {}",
                    mapping.uuid,
                    subject.region()
                ),
            )
        }
        Some(mapping) => Finding::pass(
            CHECK,
            format!("{} feeds {function} ({})", subject.queue.name(), mapping.uuid),
        ),
    })
}

pub(super) fn reports_failures(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "reports-failures";
    let mapping = subject.mapping()?;
    if mapping
        .response_types
        .iter()
        .any(|kind| kind == "ReportBatchItemFailures")
    {
        return Some(Finding::pass(CHECK, "the mapping heeds ReportBatchItemFailures"));
    }
    Some(Finding::fail(
        CHECK,
        format!(
            "the event source mapping {} lacks ReportBatchItemFailures in FunctionResponseTypes",
            mapping.uuid
        ),
        "The function's answer is ignored: a message that failed, or that waits hidden in the queue, is deleted with its batch \
         and lost.",
        format!(
            "aws lambda update-event-source-mapping --uuid {} --function-response-types ReportBatchItemFailures {}",
            mapping.uuid,
            subject.region()
        ),
    ))
}

pub(super) fn recursive_loop(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "recursive-loop";
    let setting = subject.facts.recursive_loop.as_deref()?;
    if setting == "Allow" {
        return Some(Finding::pass(CHECK, "RecursiveLoop is Allow"));
    }
    let function = &subject.function.name;
    Some(Finding::fail(
        CHECK,
        format!("RecursiveLoop of {function} is {setting}, not Allow"),
        "Lambda takes deferrals for an endless loop: after about 16 of them it stops the message and sends it to the \
         dead-letter queue.",
        format!(
            "aws lambda put-function-recursion-config --function-name {function} --recursive-loop Allow {}",
            subject.region()
        ),
    ))
}

pub(super) fn concurrency(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "concurrency";
    let (mapping, reserved) = (subject.mapping()?, subject.facts.reserved?);
    let Some(reserved) = reserved else {
        return Some(Finding::pass(CHECK, "no concurrency is reserved"));
    };
    let why = "Messages are received before the function refuses them, and each refusal costs a receive: some become dead \
               letters without having run.";
    let function = &subject.function.name;
    let limit = |to: u32| {
        format!(
            "aws lambda update-event-source-mapping --uuid {} --scaling-config MaximumConcurrency={to} {}",
            mapping.uuid,
            subject.region()
        )
    };
    let release = || {
        format!(
            "aws lambda delete-function-concurrency --function-name {function} {}",
            subject.region()
        )
    };
    // AWS takes no maximum concurrency below 2.
    let mend = || if reserved >= 2 { limit(reserved) } else { release() };
    Some(match mapping.maximum_concurrency {
        _ if reserved == 0 => Finding::fail(
            CHECK,
            format!("the reserved concurrency of {function} is 0"),
            "Every invocation is refused: messages become dead letters without having run.",
            release(),
        ),
        None => Finding::warn(
            CHECK,
            format!(
                "{function} has a reserved concurrency of {reserved}, and its mapping no maximum concurrency"
            ),
            why,
            mend(),
        ),
        Some(maximum) if maximum > reserved => Finding::fail(
            CHECK,
            format!(
                "the mapping runs up to {maximum} invocations of {function} at once, of which {reserved} are reserved"
            ),
            why,
            mend(),
        ),
        Some(maximum) => Finding::pass(
            CHECK,
            format!("up to {maximum} invocations at once, {reserved} reserved"),
        ),
    })
}
