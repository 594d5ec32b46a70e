//! The verdicts on a batch's records; and, where the runtime polls, what keeps the messages hidden until then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

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
    hidden_until: Option<Instant>,
}

impl Book {
    /// For a batch of so many records, whose messages somebody else keeps hidden.
    pub(crate) fn new(records: usize) -> Self {
        Book::of(vec![Entry::default(); records])
    }

    /// For so many records, whose messages are hidden until then.
    pub(crate) fn hidden_until(records: usize, until: Instant) -> Self {
        let entry = Entry {
            hidden_until: Some(until),
            ..Entry::default()
        };
        Book::of(vec![entry; records])
    }

    fn of(entries: Vec<Entry>) -> Self {
        Book {
            entries: Mutex::new(entries),
            keeping: tokio::sync::Mutex::default(),
        }
    }

    /// Writes down the verdict on the record at this place of the batch.
    pub(crate) fn decide(&self, index: usize, verdict: Verdict) {
        if let Some(entry) = self.entries().get_mut(index) {
            entry.verdict = Some(verdict);
        }
    }

    /// The record's message is hidden until then: a keep-alive was confirmed, or refused for good, which ends it now.
    pub(crate) fn keep_until(&self, index: usize, until: Instant) {
        if let Some(entry) = self.entries().get_mut(index) {
            entry.hidden_until = Some(until);
        }
    }

    /// Whether the record's message is visible again, as far as that is known: another worker may have it.
    pub(crate) fn is_lost(&self, index: usize) -> bool {
        let entries = self.entries();
        let until = entries.get(index).and_then(|entry| entry.hidden_until);
        until.is_some_and(|until| until <= Instant::now())
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
