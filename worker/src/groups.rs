//! Limited records are gathered until they fill a call of ten.

use frigg_core::deferral::Tier;

use crate::effects::Pending;

/// Entries of an SQS batch call.
pub(crate) const ENTRIES: usize = 10;

/// Records by the way that they are to go back. Full groups go out at once, the rest when nothing more can come.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    delayed: Vec<Pending>,
    scheduled: Vec<Pending>,
    hidden: Vec<Pending>,
}

impl Groups {
    /// Takes a record, and gives the group that it fills.
    pub(crate) fn add(&mut self, one: Pending) -> Option<Vec<Pending>> {
        let group = match one.deferral.tier {
            Tier::Delay { .. } => &mut self.delayed,
            Tier::Schedule { .. } => &mut self.scheduled,
            Tier::Visibility { .. } => &mut self.hidden,
        };
        group.push(one);
        (group.len() == ENTRIES).then(|| std::mem::take(group))
    }

    /// The groups that are not full.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = Vec<Pending>> + use<> {
        let Groups {
            delayed,
            scheduled,
            hidden,
        } = std::mem::take(self);
        [delayed, scheduled, hidden]
            .into_iter()
            .filter(|group| !group.is_empty())
    }
}
