//! How long the queue hides, keeps and repeats a message.

use super::Subject;
use crate::doctor::facts::Found;
use crate::doctor::finding::Finding;

pub(super) fn visibility(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "visibility";
    let (has, timeout) = (subject.queue.visibility, u64::from(subject.function.timeout));
    let mappings = subject.facts.mappings.iter().flatten();
    let window = mappings
        .filter(|mapping| mapping.queue_arn == subject.queue.arn)
        .map(|mapping| u64::from(mapping.window))
        .max();
    let wanted = 6 * timeout + window.unwrap_or_default();
    let name = subject.queue.name();
    let fix = subject.set_attribute(subject.queue, "VisibilityTimeout", &wanted.to_string());
    Some(if has < timeout {
        Finding::fail(
            CHECK,
            format!("{name} hides messages for {has} s, the function may run for {timeout} s"),
            "A message comes back while it is still worked on: it runs twice, and its receives are spent. Lambda refuses such a mapping.",
            fix,
        )
    } else if has < wanted {
        Finding::warn(
            CHECK,
            format!(
                "{name} hides messages for {has} s, which is less than 6 x the function's {timeout} s and the batch window ({wanted} s)"
            ),
            "When invocations are throttled, a message comes back while Lambda still tries, and its receives are spent.",
            fix,
        )
    } else {
        Finding::pass(CHECK, format!("{has} s, {wanted} s or more are right"))
    })
}

pub(super) fn retention(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "retention";
    let has = subject.queue.retention;
    let longest = subject.config.options.limits.max_deferred.as_secs();
    if has > longest {
        return Some(Finding::pass(
            CHECK,
            format!("{has} s, deferrals last up to {longest} s"),
        ));
    }
    let what = format!(
        "{} keeps messages for {has} s, a deferral may last {longest} s",
        subject.queue.name()
    );
    let fix = subject.set_attribute(subject.queue, "MessageRetentionPeriod", "1209600");
    let copies = subject.config.scheduling.is_some() && !subject.queue.is_fifo();
    Some(if copies {
        Finding::warn(
            CHECK,
            what,
            "A message that waits hidden in the queue, because its schedule could not be made, is deleted at the end of its retention.",
            fix,
        )
    } else {
        Finding::fail(
            CHECK,
            what,
            "A message that waits hidden in the queue is deleted at the end of its retention.",
            fix,
        )
    })
}

pub(super) fn redrive(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "redrive";
    let queue = subject.queue;
    let name = queue.name();
    let fifo = queue.is_fifo();
    let deferrals = subject.config.options.limits.max_deferrals;
    let wanted = if fifo { deferrals.saturating_add(3) } else { 3 };
    let policy = |target: &str| {
        let policy =
            serde_json::json!({ "deadLetterTargetArn": target, "maxReceiveCount": wanted.min(1000) });
        subject.set_attribute(queue, "RedrivePolicy", &policy.to_string())
    };
    let Some(redrive) = &queue.redrive else {
        let suffix = if fifo { ".fifo" } else { "" };
        let dead = format!("{}-dead-letters{suffix}", queue.arn.trim_end_matches(".fifo"));
        return Some(Finding::fail(
            CHECK,
            format!("{name} has no redrive policy"),
            "A message that always fails is repeated until its retention ends, and then deleted without a trace.",
            format!(
                "create the queue {}, then: {}",
                dead.rsplit(':').next().unwrap_or_default(),
                policy(&dead)
            ),
        ));
    };
    if subject.facts.dead_letters == Some(Found::Missing) {
        return Some(Finding::fail(
            CHECK,
            format!(
                "the dead-letter queue {} of {name} does not exist",
                redrive.target
            ),
            "A message that is given up cannot go there: it is repeated until its retention ends, and then deleted.",
            format!(
                "aws sqs create-queue --queue-name {} --attributes MessageRetentionPeriod=1209600{} {}",
                redrive.target.rsplit(':').next().unwrap_or_default(),
                if fifo { ",FifoQueue=true" } else { "" },
                subject.region()
            ),
        ));
    }
    let has = redrive.receives;
    Some(if has >= wanted {
        Finding::pass(CHECK, format!("dead letters after {has} receives"))
    } else if fifo {
        Finding::fail(
            CHECK,
            format!(
                "{name} gives a message up after {has} receives, with up to {deferrals} deferrals {wanted} or more are needed"
            ),
            "On a FIFO queue each deferral costs a receive: limited messages become dead letters before their cap.",
            policy(&redrive.target),
        )
    } else {
        Finding::warn(
            CHECK,
            format!(
                "{name} gives a message up after {has} receive{}, 3 or more are right",
                if has == 1 { "" } else { "s" }
            ),
            "Receives are spent by throttling, a crash or a hidden wait too: messages become dead letters without having had their chance.",
            policy(&redrive.target),
        )
    })
}

pub(super) fn dead_letter_retention(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "dead-letter-retention";
    let dead = subject.facts.dead_letters.as_ref()?.here()?;
    let (has, source) = (dead.retention, subject.queue.retention);
    if has >= source {
        return Some(Finding::pass(CHECK, format!("{has} s, the queue has {source} s")));
    }
    Some(Finding::fail(
        CHECK,
        format!(
            "{} keeps messages for {has} s, {} for {source} s",
            dead.name(),
            subject.queue.name()
        ),
        "A dead letter's age counts from when it was first sent: an old one is deleted as soon as it arrives.",
        subject.set_attribute(dead, "MessageRetentionPeriod", &source.to_string()),
    ))
}
