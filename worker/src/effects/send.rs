//! Delayed copies, ten in a call.

use frigg_core::deferral::Tier;
use frigg_core::delivery::QueueArn;

use crate::book::Book;
use crate::effects::calls::{Entry, MAX_BYTES, answers, fail_all, may_be_one_entrys};
use crate::effects::{Done, Effects, Pending};
use crate::ports::SendRequest;

impl Effects {
    /// One `SendMessageBatch` per ten copies.
    pub(super) async fn send_delayed(&self, all: Vec<(Pending, Tier)>, book: &Book) {
        let entries = all.into_iter().map(|(one, tier)| {
            let Tier::Delay { seconds } = tier else {
                unreachable!("grouped by tier")
            };
            let request = one.copy(seconds);
            Entry { one, tier, request }
        });
        self.by_queue(entries, SendRequest::bytes, |queue, chunk| async move {
            self.send_chunk(queue, chunk, book).await;
        })
        .await;
    }

    async fn send_chunk(&self, queue: QueueArn, chunk: Vec<Entry<SendRequest>>, book: &Book) {
        let url = match self.queues.url(&*self.sqs, &queue).await {
            Ok(url) => url,
            Err(error) => return self.settle(fail_all(chunk, &error), book).await,
        };
        let (requests, rest): (Vec<_>, Vec<_>) = chunk.into_iter().map(Entry::split).unzip();
        let done = |request: &SendRequest| Done::Delay(request.delay_seconds);
        let results = match self.sqs.send_batch(&url, &requests).await {
            Ok(results) => results,
            Err(error) if may_be_one_entrys(&error, requests.len()) => {
                let calls = requests.iter().zip(rest).map(async |(request, (one, tier))| {
                    let result = self.sqs.send(&url, request).await;
                    (one, tier, result.map(|_| done(request)))
                });
                return self.one_by_one(calls, book).await;
            }
            Err(error) => vec![Err(error); requests.len()],
        };
        let results = results.into_iter().zip(&requests);
        let results = results.map(|(result, request)| result.map(|()| done(request)));
        self.settle(answers(rest, results), book).await;
    }

    /// What the queue takes, in bytes, as far as it told.
    pub(super) async fn largest_message(&self, queue: &QueueArn) -> usize {
        let asked = !self.options.is_frigg();
        let told = match asked {
            true => self.queues.attributes(&*self.sqs, queue, &self.options).await,
            false => None,
        };
        let largest = told.and_then(|told| told.maximum_message_size);
        largest.map_or(MAX_BYTES, |largest| largest.min(MAX_BYTES))
    }
}
