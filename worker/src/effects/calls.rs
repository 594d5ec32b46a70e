//! What the batch calls have in common: entries by queue, ten in a call, an answer for each.

use std::collections::HashMap;

use frigg_core::deferral::Tier;
use frigg_core::delivery::QueueArn;
use futures_util::{StreamExt as _, stream};

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

/// Joins entries with their results. One without a result is not confirmed, so it failed.
pub(super) fn answers(
    entries: Vec<(Pending, Tier)>,
    results: impl Iterator<Item = Result<Done, CallError>>,
) -> Vec<Outcome> {
    let missing = || {
        Err(CallError::new(
            CallErrorKind::Unavailable,
            None,
            "the answer has no result for the entry",
        ))
    };
    let results = results.map(Some).chain(std::iter::repeat_with(|| None));
    entries
        .into_iter()
        .zip(results)
        .map(|((one, tier), r)| (one, tier, r.unwrap_or_else(missing)))
        .collect()
}
