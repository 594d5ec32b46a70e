//! What a wait of over 15 minutes needs: the group, the role, and the rights of both.

use super::{Subject, rights};
use crate::doctor::facts::{Found, Role, role_name};
use crate::doctor::finding::Finding;
use crate::doctor::policy::{Answer, Request, allows};

const SCHEDULER: &str = "scheduler.amazonaws.com";
/// What happens without a schedule.
const FALLBACK: &str =
    "No schedule can be made: longer waits fall back on hiding the message, and each costs a receive.";

impl Subject<'_> {
    /// Whether schedules are made at all.
    fn schedules(&self) -> bool {
        self.config.scheduling.is_some() && !self.queue.is_fifo()
    }

    fn group(&self) -> &str {
        self.config
            .scheduling
            .as_ref()
            .map_or("", |scheduling| &scheduling.group)
    }

    /// `arn:aws:scheduler:region:account:<kind>/<rest>`, where the queue is.
    fn scheduler_arn(&self, kind: &str, rest: &str) -> String {
        let mut parts = self.queue.arn.split(':');
        let mut part = || parts.next().unwrap_or_default();
        let (_, partition, _, region, account) = (part(), part(), part(), part(), part());
        format!("arn:{partition}:scheduler:{region}:{account}:{kind}/{rest}")
    }

    fn scheduler_role(&self) -> Option<&Role> {
        self.schedules()
            .then(|| self.facts.scheduler_role.as_ref()?.here())
            .flatten()
    }
}

pub(super) fn group(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "schedule-group";
    let exists = subject.schedules().then_some(subject.facts.group_exists)??;
    let group = subject.group();
    Some(if exists {
        Finding::pass(CHECK, format!("{group} exists"))
    } else {
        Finding::fail(
            CHECK,
            format!("the schedule group {group} does not exist"),
            FALLBACK,
            format!(
                "aws scheduler create-schedule-group --name {group} {}",
                subject.region()
            ),
        )
    })
}

pub(super) fn trust(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "scheduler-role";
    if !subject.schedules() {
        return None;
    }
    let arn = &subject.config.scheduling.as_ref()?.role_arn;
    // One that is no role's ARN is a bad value of a variable.
    if !arn.contains(":role/") {
        return None;
    }
    let role = match subject.facts.scheduler_role.as_ref()? {
        Found::Here(role) => role,
        Found::Missing => {
            return Some(Finding::fail(
                CHECK,
                format!("SCHEDULER_ROLE_ARN names {arn}, which is no role that exists"),
                FALLBACK,
                format!(
                    "deploy the stack again with Scheduler=yes, or {}",
                    subject.set_variable("SCHEDULER_ROLE_ARN", None)
                ),
            ));
        }
    };
    let account = subject.queue.arn.split(':').nth(4).unwrap_or_default();
    let request = Request {
        service: Some(SCHEDULER),
        context: &[
            ("aws:SourceAccount", account),
            (
                "aws:SourceArn",
                &subject.scheduler_arn("schedule-group", subject.group()),
            ),
        ],
        ..Request::new("sts:AssumeRole", "")
    };
    let trust = serde_json::json!({ "Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": { "Service": SCHEDULER }, "Action": "sts:AssumeRole",
        "Condition": { "StringEquals": {
            "aws:SourceAccount": account,
            "aws:SourceArn": subject.scheduler_arn("schedule-group", subject.group()),
        } },
    }] });
    let fix = format!(
        "aws iam update-assume-role-policy --role-name {} --policy-document '{trust}'",
        role.name()
    );
    Some(match allows(std::slice::from_ref(&role.trust), &request) {
        Answer::Yes => Finding::pass(CHECK, format!("the scheduler may assume {}", role.name())),
        Answer::No => Finding::fail(
            CHECK,
            format!(
                "the scheduler may not assume {} for schedules of {}",
                role.name(),
                subject.group()
            ),
            FALLBACK,
            fix,
        ),
        Answer::Unsure => Finding::warn(
            CHECK,
            format!(
                "{} may be assumed on conditions that cannot be judged here",
                role.name()
            ),
            FALLBACK,
            fix,
        ),
    })
}

pub(super) fn hand_over(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "schedule-rights";
    if !subject.schedules() {
        return None;
    }
    let role = subject.facts.function_role.as_ref()?.here()?;
    let passed = &subject.config.scheduling.as_ref()?.role_arn;
    let schedules = subject.scheduler_arn("schedule", &format!("{}/*", subject.group()));
    let lacking = rights::lacking(
        role,
        &[
            ("scheduler:CreateSchedule", &schedules),
            ("scheduler:GetSchedule", &schedules),
            ("iam:PassRole", passed),
        ],
    );
    rights::finding(subject, CHECK, role, "schedule", &lacking, FALLBACK).or_else(|| {
        Some(Finding::pass(
            CHECK,
            format!(
                "{} may make schedules and hand over {}",
                role.name(),
                role_name(passed)
            ),
        ))
    })
}

pub(super) fn send_back(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "scheduler-send";
    let role = subject.scheduler_role()?;
    let lacking = rights::lacking(role, &[("sqs:SendMessage", &subject.queue.arn)]);
    let why = "A message that waits for its schedule is not delivered: it ends in the schedules' dead-letter queue, or is lost where there is none.";
    rights::finding(subject, CHECK, role, "send", &lacking, why).or_else(|| {
        Some(Finding::pass(
            CHECK,
            format!("{} may send to {}", role.name(), subject.queue.name()),
        ))
    })
}

pub(super) fn dead_letters(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "schedule-dead-letters";
    if !subject.schedules() {
        return None;
    }
    let why = "A message that the scheduler cannot deliver is lost.";
    let Some(arn) = &subject.config.scheduling.as_ref()?.dead_letter_arn else {
        return Some(Finding::warn(
            CHECK,
            "FRIGG_SCHEDULE_DLQ_ARN is not set",
            why,
            subject.set_variable("FRIGG_SCHEDULE_DLQ_ARN", Some("<ARN of a standard queue>")),
        ));
    };
    if arn.ends_with(".fifo") {
        return Some(Finding::fail(
            CHECK,
            format!("FRIGG_SCHEDULE_DLQ_ARN names {arn}, a FIFO queue"),
            "The scheduler takes standard queues only and refuses each schedule.",
            subject.set_variable("FRIGG_SCHEDULE_DLQ_ARN", Some("<ARN of a standard queue>")),
        ));
    }
    if subject.facts.schedule_dead_letters.as_ref()? == &Found::Missing {
        let name = arn.rsplit(':').next().unwrap_or_default();
        return Some(Finding::fail(
            CHECK,
            format!("FRIGG_SCHEDULE_DLQ_ARN names {arn}, which does not exist"),
            why,
            format!(
                "aws sqs create-queue --queue-name {name} --attributes MessageRetentionPeriod=1209600 {}",
                subject.region()
            ),
        ));
    }
    let role = subject.scheduler_role()?;
    let lacking = rights::lacking(role, &[("sqs:SendMessage", arn)]);
    rights::finding(subject, CHECK, role, "send-dead-letters", &lacking, why).or_else(|| {
        Some(Finding::pass(
            CHECK,
            format!("what cannot be delivered goes to {arn}"),
        ))
    })
}
