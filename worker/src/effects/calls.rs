//! What the batch calls have in common: entries by queue, ten in a call, an answer for each.

use std::collections::HashMap;

use frigg_core::deferral::Tier;
use frigg_core::delivery::QueueArn;
use futures_util::{StreamExt as _, stream};

use crate::book::Book;
use crate::effects::{AT_ONCE, Done, Effects, Outcome, Pending};
use crate::groups::ENTRIES;
use crate::ports::{CallError, CallErrorKind};

/// SQS's limit on one message and on the sum of a batch.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// A record with its entry of a batch call.
pub(super) struct Entry<R> {
    pub(super) one: Pending,
    pub(super) tier: Tier,
    pub(super) request: R,
}

impl<R> Entry<R> {
    pub(super) fn split(self) -> (R, (Pending, Tier)) {
        (self.request, (self.one, self.tier))
    }
}

impl Effects {
    /// Groups entries by queue, cuts the groups by count and bytes, and makes a call for each piece.
    pub(super) async fn by_queue<R, F, Fut>(
        &self,
        entries: impl Iterator<Item = Entry<R>>,
        bytes: impl Fn(&R) -> usize,
        call: F,
    ) where
        F: Fn(QueueArn, Vec<Entry<R>>) -> Fut,
        Fut: Future<Output = ()>,
    {
        let mut chunks: Vec<(QueueArn, Vec<Entry<R>>)> = Vec::new();
        let mut filling: HashMap<QueueArn, (usize, usize)> = HashMap::new();
        for entry in entries {
            // `plan` puts nothing back that names no queue.
            let Some(queue) = entry.one.record.delivery.queue_arn.clone() else {
                continue;
            };
            let size = bytes(&entry.request);
            let (chunk, used) = filling.entry(queue.clone()).or_insert((usize::MAX, 0));
            let fits = chunks
                .get(*chunk)
                .is_some_and(|(_, c)| c.len() < ENTRIES && *used + size <= MAX_BYTES);
            if !fits {
                (*chunk, *used) = (chunks.len(), 0);
                chunks.push((queue, Vec::with_capacity(ENTRIES)));
            }
            *used += size;
            chunks[*chunk].1.push(entry);
        }
        stream::iter(chunks)
            .for_each_concurrent(AT_ONCE, |(queue, chunk)| call(queue, chunk))
            .await;
    }

    /// Entries whose call was refused as a whole, each in a call of its own: in this group's turn, and in those that are
    /// free now. It waits for no turn: who waits for another one while holding one may wait for ever.
    pub(super) async fn one_by_one(
        &self,
        calls: impl Iterator<Item = impl Future<Output = Outcome>>,
        book: &Book,
    ) {
        let calls: Vec<_> = calls.collect();
        let free = self.calls.available_permits().min(calls.len() - 1);
        let turns = self.calls.try_acquire_many(u32::try_from(free).unwrap_or(0)).ok();
        let at_once = 1 + turns.as_ref().map_or(0, |turns| turns.num_permits());
        stream::iter(calls)
            .buffer_unordered(at_once)
            // Those that fail together go on together, in one call.
            .ready_chunks(ENTRIES)
            .for_each_concurrent(None, |outcomes| self.settle(outcomes, book))
            .await;
    }
}

/// The call is refused for the fault of one of its entries, or for their sum.
pub(super) fn may_be_one_entrys(error: &CallError, entries: usize) -> bool {
    entries > 1 && matches!(error.kind, CallErrorKind::Refused | CallErrorKind::HandleLost)
}

/// The runtime's own refusal, without a call.
pub(super) fn refused(text: &str) -> CallError {
    CallError::new(CallErrorKind::Refused, None, text)
}

pub(super) fn fail_all<R>(entries: Vec<Entry<R>>, error: &CallError) -> Vec<Outcome> {
    entries
        .into_iter()
        .map(|entry| (entry.one, entry.tier, Err(error.clone())))
        .collect()
}

/// Joins entries with their results.
pub(super) fn answers(
    entries: Vec<(Pending, Tier)>,
    results: impl Iterator<Item = Result<Done, CallError>>,
) -> Vec<Outcome> {
    let results = results.map(Some).chain(std::iter::repeat_with(|| None));
    let entries = entries.into_iter().zip(results);
    entries
        .map(|((one, tier), result)| (one, tier, result.unwrap_or_else(no_result)))
        .collect()
}

/// An entry without a result is not confirmed, so it failed.
pub(super) fn no_result<T>() -> Result<T, CallError> {
    let text = "the answer has no result for the entry";
    Err(CallError::new(CallErrorKind::Unavailable, None, text))
}
