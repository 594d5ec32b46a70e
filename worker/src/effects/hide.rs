//! Visibility extensions, ten in a call.

use std::slice;

use frigg_core::deferral::Tier;
use frigg_core::delivery::QueueArn;

use crate::book::Book;
use crate::effects::calls::{Entry, answers, fail_all, may_be_one_entrys, no_result};
use crate::effects::{Done, Effects, Pending};
use crate::ports::{CallError, CallErrorKind, VisibilityRequest};

impl Effects {
    /// One `ChangeMessageVisibilityBatch` per ten records.
    pub(super) async fn hide(&self, all: Vec<(Pending, Tier)>, book: &Book) {
        let entries = all.into_iter().map(|(one, tier)| {
            let Tier::Visibility { seconds } = tier else {
                unreachable!("grouped by tier")
            };
            let receipt_handle = one.record.receipt_handle.clone().unwrap_or_default();
            Entry {
                one,
                tier,
                request: VisibilityRequest {
                    receipt_handle,
                    seconds,
                },
            }
        });
        self.by_queue(
            entries,
            |_| 0,
            |queue, chunk| async move {
                book.hand_over(chunk.iter().map(|entry| entry.one.record.index))
                    .await;
                self.hide_chunk(queue, chunk, book).await;
            },
        )
        .await;
    }

    async fn hide_chunk(&self, queue: QueueArn, chunk: Vec<Entry<VisibilityRequest>>, book: &Book) {
        let url = match self.queues.url(&*self.sqs, &queue).await {
            Ok(url) => url,
            Err(error) => return self.settle(fail_all(chunk, &error), book).await,
        };
        let (requests, rest): (Vec<_>, Vec<_>) = chunk.into_iter().map(Entry::split).unzip();
        let done = |request: &VisibilityRequest| Done::Visibility(request.seconds);
        let results = match self.sqs.change_visibility_batch(&url, &requests).await {
            Ok(results) => results,
            Err(error) if may_be_one_entrys(&error, requests.len()) => {
                let calls = requests.iter().zip(rest).map(async |(request, (one, tier))| {
                    let alone = self.sqs.change_visibility_batch(&url, slice::from_ref(request));
                    let result = alone
                        .await
                        .and_then(|results| results.into_iter().next().unwrap_or_else(no_result));
                    (one, tier, result.map(|()| done(request)))
                });
                return self.one_by_one(calls, book).await;
            }
            Err(error) => vec![Err(error); requests.len()],
        };
        let results = results.into_iter().zip(&requests);
        let results = results.map(|(result, request)| result.map(|()| done(request)));
        self.settle(answers(rest, results), book).await;
    }
}

impl Pending {
    /// SQS counts its 12 h from the receive, which nobody tells. On a FIFO queue, where there is no other way, an
    /// extension that passes them is tried once more with half the time.
    pub(super) fn shorter_visibility(&self, failed: Tier, error: &CallError) -> Option<u32> {
        let Tier::Visibility { seconds } = failed else {
            return None;
        };
        let too_long = error.kind == CallErrorKind::Refused && error.message.contains("43200");
        let again = too_long && self.record.delivery.is_fifo() && self.max_visibility.is_none();
        again.then_some(seconds / 2)
    }
}
