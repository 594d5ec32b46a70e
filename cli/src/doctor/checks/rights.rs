//! What roles may do.

use serde_json::json;

use super::Subject;
use crate::doctor::facts::{Found, Role};
use crate::doctor::finding::{Finding, Level};
use crate::doctor::policy::{Answer, Request, allows};

/// An action on a resource that a role may not do, or perhaps not.
pub(super) type Lacking = (String, String, Answer);

/// Those of `wanted` that the role is not sure to be allowed.
pub(super) fn lacking(role: &Role, wanted: &[(&str, &str)]) -> Vec<Lacking> {
    let answer = |action: &str, resource: &str| {
        let request = Request {
            context: &[
                ("iam:PassedToService", "scheduler.amazonaws.com"),
                ("aws:SecureTransport", "true"),
            ],
            ..Request::new(action, resource)
        };
        let bounded = role.boundary.as_ref().map_or(Answer::Yes, |boundary| {
            allows(std::slice::from_ref(boundary), &request)
        });
        match (allows(&role.policies, &request), bounded) {
            (Answer::No, _) | (_, Answer::No) => Answer::No,
            (Answer::Yes, Answer::Yes) => Answer::Yes,
            _ => Answer::Unsure,
        }
    };
    let all = wanted.iter().map(|&(action, resource)| {
        let answer = answer(action, resource);
        (action.to_owned(), resource.to_owned(), answer)
    });
    all.filter(|(_, _, answer)| *answer != Answer::Yes).collect()
}

/// A finding about what a role lacks, with a command that grants it as the policy `frigg-<policy>`. None when it lacks
/// nothing.
pub(super) fn finding(
    subject: &Subject<'_>,
    check: &'static str,
    role: &Role,
    policy: &str,
    lacking: &[Lacking],
    why: &str,
) -> Option<Finding> {
    let certain = lacking.iter().any(|(_, _, answer)| *answer == Answer::No);
    let level = match (lacking, certain) {
        ([], _) => return None,
        (_, true) => Level::Fail,
        (_, false) => Level::Warn,
    };
    let mut statements: Vec<(&str, Vec<&str>)> = Vec::new();
    for (action, resource, _) in lacking {
        match statements.iter_mut().find(|(known, _)| known == resource) {
            Some((_, actions)) => actions.push(action),
            None => statements.push((resource, vec![action])),
        }
    }
    let named = |(resource, actions): &(&str, Vec<&str>)| format!("{} on {resource}", actions.join(", "));
    let names: Vec<_> = statements.iter().map(named).collect();
    let grant = |(resource, actions): &(&str, Vec<&str>)| {
        let mut statement = json!({ "Effect": "Allow", "Action": actions, "Resource": resource });
        if actions.contains(&"iam:PassRole") {
            statement["Condition"] =
                json!({ "StringEquals": { "iam:PassedToService": "scheduler.amazonaws.com" } });
        }
        statement
    };
    let document = json!({
        "Version": "2012-10-17",
        "Statement": statements.iter().map(grant).collect::<Vec<_>>(),
    });
    let may = if certain {
        "may not do"
    } else {
        "may, on conditions that cannot be judged here, not do"
    };
    Some(Finding {
        check,
        level,
        what: format!("{} {may} {}", role.name(), names.join("; ")),
        why: why.to_owned(),
        fix: format!(
            "aws iam put-role-policy --role-name {} --policy-name frigg-{policy} --policy-document '{document}' {}",
            role.name(),
            subject.region()
        ),
    })
}

pub(super) fn function(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "function-rights";
    let role = match subject.facts.function_role.as_ref()? {
        Found::Here(role) => role,
        Found::Missing => {
            return Some(Finding::fail(
                CHECK,
                format!("the function's role {} does not exist", subject.function.role_arn),
                "The function cannot run.",
                "deploy the stack again",
            ));
        }
    };
    let queue = subject.queue.arn.as_str();
    let wanted = [
        ("sqs:ReceiveMessage", queue),
        ("sqs:DeleteMessage", queue),
        ("sqs:GetQueueAttributes", queue),
        ("sqs:GetQueueUrl", queue),
        ("sqs:SendMessage", queue),
        ("sqs:ChangeMessageVisibility", queue),
    ];
    // A FIFO queue's messages stay where they are.
    let wanted = wanted
        .into_iter()
        .filter(|(action, _)| *action != "sqs:SendMessage" || !subject.queue.is_fifo());
    let mut wanted: Vec<_> = wanted.collect();
    // Frigg discards permanent failures; we send them to the dead-letter queue.
    if let Some(redrive) = subject
        .queue
        .redrive
        .as_ref()
        .filter(|_| !subject.config.options.is_frigg())
    {
        wanted.push(("sqs:SendMessage", redrive.target.as_str()));
        wanted.push(("sqs:GetQueueUrl", redrive.target.as_str()));
    }
    let lacking = lacking(role, &wanted);
    let why = "The function gets no messages, or cannot put limited ones back or give hopeless ones up: they fail until they are dead letters.";
    finding(subject, CHECK, role, "queue", &lacking, why).or_else(|| {
        Some(Finding::pass(
            CHECK,
            format!(
                "{} may do what the worker does on {}",
                role.name(),
                subject.queue.name()
            ),
        ))
    })
}

pub(super) fn key(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "key";
    let mut keys: Vec<String> = subject.queue.key_arn().into_iter().collect();
    let Some(key) = keys.pop() else {
        return Some(Finding::pass(
            CHECK,
            "the queue is encrypted with no key of yours",
        ));
    };
    if !key.contains(":key/") {
        return Some(Finding::warn(
            CHECK,
            format!("{} is encrypted with the alias {key}", subject.queue.name()),
            "Roles are granted keys, not aliases: whether they may use this one cannot be told.",
            subject.set_attribute(subject.queue, "KmsMasterKeyId", "<ARN of the key>"),
        ));
    }
    let why = "Messages cannot be received, or copies not sent: nothing arrives, and no error shows up where one looks.";
    let scheduling = subject.config.scheduling.is_some() && !subject.queue.is_fifo();
    let roles = [
        subject.facts.function_role.as_ref(),
        subject.facts.scheduler_role.as_ref().filter(|_| scheduling),
    ];
    let roles = roles.into_iter().flatten().filter_map(Found::here);
    let wanted = [
        ("kms:GenerateDataKey", key.as_str()),
        ("kms:Decrypt", key.as_str()),
    ];
    let mut findings =
        roles.filter_map(|role| finding(subject, CHECK, role, "key", &lacking(role, &wanted), why));
    let first = findings.next();
    let more = findings.next();
    Some(match (first, more) {
        (None, _) => Finding::pass(CHECK, format!("the roles may use {key}")),
        (Some(finding), None) => finding,
        (Some(first), Some(second)) => Finding {
            level: first.level.max(second.level),
            what: format!("{}; {}", first.what, second.what),
            fix: format!("{} && {}", first.fix, second.fix),
            ..first
        },
    })
}
