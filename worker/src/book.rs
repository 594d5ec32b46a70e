//! The verdicts on a batch's records; and, where the runtime polls, what keeps the messages hidden until then.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the queue is told of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Done, or safely on its way: delete it.
    Ack,
    /// Deliver it again.
    Fail,
}

/// One batch's book. A record stays hidden until it failed or was handed over to who hides it otherwise: one that is
/// done, too, for it is there until it is deleted.
#[derive(Debug)]
pub(crate) struct Book {
    entries: Mutex<Vec<Entry>>,
    // Held during a call of the keep-alive: one that is under way must not undo the visibility that a deferral sets next.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    verdict: Option<Verdict>,
    handed_over: bool,
}

impl Book {
    /// For a batch of so many records.
    pub(crate) fn new(records: usize) -> Self {
        Book {
            entries: Mutex::new(vec![Entry::default(); records]),
            keeping: tokio::sync::Mutex::default(),
        }
    }

    /// Writes down the verdict on the record at this place of the batch.
    pub(crate) fn decide(&self, index: usize, verdict: Verdict) {
        if let Some(entry) = self.entries().get_mut(index) {
            entry.verdict = Some(verdict);
        }
    }

    /// The verdicts by now; `None` where there is none yet.
    pub(crate) fn verdicts(&self) -> Vec<Option<Verdict>> {
        self.entries().iter().map(|entry| entry.verdict).collect()
    }

    /// From now on nobody but the caller changes the visibility of these records.
    pub(crate) async fn hand_over(&self, indexes: impl Iterator<Item = usize>) {
        {
            let mut entries = self.entries();
            for index in indexes {
                if let Some(entry) = entries.get_mut(index) {
                    entry.handed_over = true;
                }
            }
        }
        drop(self.keeping.lock().await);
    }

    /// Keeps hidden, by one round of `calls`, the records that have to be. `calls` gets their places.
    pub(crate) async fn keep(&self, calls: impl AsyncFnOnce(Vec<usize>)) {
        let _keeping = self.keeping.lock().await;
        let kept = |entry: &Entry| !entry.handed_over && entry.verdict != Some(Verdict::Fail);
        let entries = self.entries().clone();
        let indexes = entries.iter().enumerate().filter(|(_, entry)| kept(entry));
        calls(indexes.map(|(index, _)| index).collect()).await;
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        // Nothing panics while it is held.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
