//! Delayed copies, ten in a call.

use frigg_core::deferral::Tier;
use frigg_core::delivery::QueueArn;
use futures_util::{StreamExt as _, stream};

use crate::book::Book;
use crate::effects::calls::{Entry, MAX_BYTES, answers, fail_all};
use crate::effects::{AT_ONCE, Done, Effects, Outcome, Pending};
use crate::ports::{CallErrorKind, SendRequest};

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
            self.settle(self.send_chunk(queue, chunk).await, book).await;
        })
        .await;
    }

    async fn send_chunk(&self, queue: QueueArn, chunk: Vec<Entry<SendRequest>>) -> Vec<Outcome> {
        let url = match self.queues.url(&*self.sqs, &queue).await {
            Ok(url) => url,
            Err(error) => return fail_all(chunk, &error),
        };
        let (requests, rest): (Vec<_>, Vec<_>) = chunk.into_iter().map(Entry::split).unzip();
        let results = match self.sqs.send_batch(&url, &requests).await {
            Ok(results) => results,
            // The call is refused as a whole for one entry's fault, or for their sum: try them one by one.
            Err(error) if error.kind == CallErrorKind::Refused && requests.len() > 1 => {
                let calls = requests.iter().map(|request| self.sqs.send(&url, request));
                let sent: Vec<_> = stream::iter(calls.collect::<Vec<_>>())
                    .buffered(AT_ONCE)
                    .collect()
                    .await;
                sent.into_iter().map(|result| result.map(drop)).collect()
            }
            Err(error) => vec![Err(error); requests.len()],
        };
        let delays = requests.iter().map(|request| request.delay_seconds);
        answers(
            rest,
            results
                .into_iter()
                .zip(delays)
                .map(|(result, delay)| result.map(|()| Done::Delay(delay))),
        )
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
