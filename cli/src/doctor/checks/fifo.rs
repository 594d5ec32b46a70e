//! A FIFO queue with settings that need a standard one.

use super::Subject;
use crate::doctor::finding::Finding;

pub(super) fn fifo(subject: &Subject<'_>) -> Option<Finding> {
    const CHECK: &str = "fifo";
    let name = subject.queue.name();
    if !subject.queue.is_fifo() {
        return Some(Finding::pass(CHECK, format!("{name} is a standard queue")));
    }
    if subject.config.options.is_frigg() {
        return Some(Finding::fail(
            CHECK,
            format!("{name} is a FIFO queue, and FRIGG_COMPAT is on"),
            "Frigg puts nothing back on FIFO queues: a limited message fails until it is a dead letter.",
            subject.set_variable("FRIGG_COMPAT", None),
        ));
    }
    if subject.config.scheduling.is_some() {
        return Some(Finding::warn(
            CHECK,
            format!("{name} is a FIFO queue, and SCHEDULER_ROLE_ARN is set"),
            "Schedules would break the order, so none is ever made: the role and its rights serve nothing.",
            subject.set_variable("SCHEDULER_ROLE_ARN", None),
        ));
    }
    Some(Finding::pass(
        CHECK,
        format!("{name} is a FIFO queue, and nothing is set that needs a standard one"),
    ))
}
