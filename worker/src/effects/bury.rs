//! Dead letters with a reason.

use frigg_core::deferral::Burial;
use frigg_core::delivery::QueueArn;
use frigg_core::rate_limit::Limit;
use tracing::Level;

use crate::book::Verdict;
use crate::dead_letter;
use crate::effects::Effects;
use crate::error::HandlerError;
use crate::ports::{CallError, CallErrorKind};
use crate::record::Record;
use crate::report::Line;

impl Effects {
    /// Sends a copy to the dead-letter queue, with the reason; the record is acknowledged once that is confirmed.
    pub(crate) async fn bury(
        &self,
        record: &Record,
        burial: &Burial,
        error: &HandlerError,
        limit: Option<&Limit>,
    ) -> Verdict {
        let body = record.body.text();
        let line = match limit {
            Some(limit) => Line::of_limit(error, limit, body),
            None => Line::of_error(error, body),
        };
        let line = match (burial, limit) {
            (Burial::Capped(capped), Some(limit)) => self.capped(record, limit, line, capped).await,
            _ => line,
        };
        match self.send_dead_letter(record, burial, error).await {
            Ok(queue) => {
                let event = match burial {
                    Burial::Permanent => "record_halted",
                    Burial::Unreadable => "record_dead_lettered",
                    Burial::Capped(_) => "record_lost_rate_limited",
                };
                let line = line.with_dead_letter_queue(&queue);
                record.span.in_scope(|| line.write(Level::ERROR, event));
                Verdict::Ack
            }
            Err((queue, error)) => {
                let line = line
                    .with_dead_letter_queue(&queue)
                    .with_skip("dead_letter_failed", Some(error.to_string()));
                record
                    .span
                    .in_scope(|| line.write(Level::ERROR, "dead_letter_failed"));
                Verdict::Fail
            }
        }
    }

    async fn send_dead_letter(
        &self,
        record: &Record,
        burial: &Burial,
        error: &HandlerError,
    ) -> Result<String, (String, CallError)> {
        let unknown = || {
            (
                String::new(),
                CallError::new(CallErrorKind::Refused, None, "no dead-letter queue is known"),
            )
        };
        let queue = record.delivery.queue_arn.as_ref().ok_or_else(unknown)?;
        let attributes = self
            .queues
            .attributes(&*self.sqs, queue, &self.options)
            .await
            .ok_or_else(unknown)?;
        let target = attributes
            .dead_letter_arn
            .as_deref()
            .and_then(QueueArn::parse)
            .ok_or_else(unknown)?;
        let copy = dead_letter::copy(record, burial, error, &target);
        let sent = async {
            self.sqs
                .send(&self.queues.url(&*self.sqs, &target).await?, &copy)
                .await
        };
        let name = target.name().to_owned();
        match sent.await {
            Ok(_) => Ok(name),
            Err(error) => Err((name, error)),
        }
    }
}
