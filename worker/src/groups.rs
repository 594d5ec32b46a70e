//! Limited records are gathered for a while: ten of a kind are one call.

use std::mem;
use std::time::Duration;

use frigg_core::deferral::Tier;
use tokio::time::Instant;

use crate::effects::Pending;

/// Entries of an SQS batch call.
pub(crate) const ENTRIES: usize = 10;

/// How long a group waits for the next record of its kind. Handlers that meet the same limit at the same time share a
/// call, and none waits for a neighbour that works for minutes.
pub(crate) const LINGER: Duration = Duration::from_millis(150);

/// Records by the way that they are to go back.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    delayed: Group,
    scheduled: Group,
    hidden: Group,
}

#[derive(Debug, Default)]
struct Group {
    records: Vec<Pending>,
    leaves_at: Option<Instant>,
}

impl Groups {
    /// Takes a record.
    pub(crate) fn add(&mut self, one: Pending, now: Instant) {
        let group = match one.deferral.tier {
            Tier::Delay { .. } => &mut self.delayed,
            Tier::Schedule { .. } => &mut self.scheduled,
            Tier::Visibility { .. } => &mut self.hidden,
        };
        group.records.push(one);
        group.leaves_at = Some(now + LINGER);
    }

    /// The groups that leave: those that are full or have waited; all of them when there is nothing to wait for.
    pub(crate) fn leaving(&mut self, now: Instant, all: bool) -> impl Iterator<Item = Vec<Pending>> + use<> {
        self.each()
            .map(move |group| {
                let leaves =
                    all || group.records.len() == ENTRIES || group.leaves_at.is_some_and(|at| at <= now);
                if leaves {
                    mem::take(group).records
                } else {
                    Vec::new()
                }
            })
            .into_iter()
            .filter(|records| !records.is_empty())
    }

    /// When the next one leaves by itself.
    pub(crate) fn leave_at(&mut self) -> Option<Instant> {
        self.each().into_iter().filter_map(|group| group.leaves_at).min()
    }

    fn each(&mut self) -> [&mut Group; 3] {
        [&mut self.delayed, &mut self.scheduled, &mut self.hidden]
    }
}
