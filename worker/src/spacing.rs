//! When a limited record comes back: in a slot of its own where workers share a gate, else spread over the time that
//! the backlog takes.

use std::sync::Arc;

use frigg_core::deferral::{Deferral, told};
use frigg_core::delivery::Delivery;
use frigg_core::gate;
use frigg_core::rate_limit::{Limit, Window};
use jiff::Timestamp;

use crate::door::{Asked, Door, Slot, usable};
use crate::effects::{Effects, Pending};
use crate::gate::{Closure, Line, Reservation};
use crate::record::Record;

/// What a record's place among others goes by.
#[derive(Debug)]
pub(crate) struct Spacing {
    window: Window,
    /// The key whose line it stands in; none where there is no gate.
    key: Option<String>,
}

impl Effects {
    pub(crate) fn door(&self, record: &Record, asked: &Arc<Asked>) -> Option<Arc<Door>> {
        let keeper = Arc::clone(self.keeper.as_ref()?);
        let now = self.clock.now();
        let returns = |at: Timestamp| now.duration_since(at) < gate::LATE;
        let returns = record.delivery.retry_at.is_some_and(returns);
        Some(Arc::new(Door::new(
            keeper,
            Arc::clone(asked),
            self.clock.clone(),
            returns,
        )))
    }

    /// Whether a record that is here before its time waits here for the rest. Slots are exact, delays whole seconds.
    pub(crate) fn waits_here(&self, record: &Record, now: Timestamp) -> bool {
        let short = |at: Timestamp| at.duration_since(now) < gate::SHORT_WAIT;
        self.keeper.is_some() && record.delivery.retry_at.is_some_and(short)
    }

    /// Tells the other workers of a limit.
    pub(crate) async fn close(&self, record: &Record, limit: &Limit) {
        let Some((keeper, key)) = self.keeper.as_ref().zip(key(record, limit)) else {
            return;
        };
        // What the provider said is for all; how often this message was put back is its own affair.
        let anybody = Delivery::default();
        let delivery = if limit.retry_at.is_some() {
            &anybody
        } else {
            &*record.delivery
        };
        let closure = Closure {
            until: told(self.clock.now(), limit, delivery, &self.options),
            reason: limit.reason,
            module: limit.module.clone(),
            window: limit.window.or(keeper.rate(key)),
        };
        keeper.close(key, &closure).await;
    }

    /// What a limited record can be spaced by; `None` where no rate is known. A FIFO group keeps its order instead.
    pub(crate) fn spacing(&self, record: &Record, limit: &Limit) -> Option<Spacing> {
        if self.options.is_frigg() || record.delivery.is_fifo() {
            return None;
        }
        let key = key(record, limit);
        let known = || self.keeper.as_ref()?.rate(key?);
        Some(Spacing {
            window: limit.window.or_else(known)?,
            key: key.filter(|_| self.keeper.is_some()).map(str::to_owned),
        })
    }

    /// Gives a record its place, counted from the deferral as it was told; without one it goes back as it is.
    pub(crate) async fn space(&self, mut pending: Pending, told: Option<(Spacing, Deferral)>) -> Pending {
        let Some((Spacing { window, key }, told)) = told else {
            return pending;
        };
        if let Some((keeper, key)) = self.keeper.as_ref().zip(key) {
            let asked = Reservation {
                line: Line::Return,
                from: told.retry_at,
                before: Timestamp::MAX,
                gap: gate::gap(window),
            };
            if let Slot::At(slot) = keeper.slot(&key, asked).await {
                return pending.in_slot(told.at_slot(slot, &self.options));
            }
        }
        let Some(backlog) = self.backlog(&pending.record).await else {
            return pending;
        };
        let (now, random) = (self.clock.now(), self.clock.random());
        let deferral = told.spread_over(now, backlog, window, random, &self.options, pending.can);
        pending.deferral = deferral;
        pending
    }

    async fn backlog(&self, record: &Record) -> Option<u64> {
        let queue = record.delivery.queue_arn.as_ref()?;
        self.queues.backlog(&*self.sqs, queue).await
    }
}

/// The limit's own key, else the one that the handler gave for its message.
fn key<'a>(record: &'a Record, limit: &'a Limit) -> Option<&'a str> {
    let own = limit.scope_key.as_deref().and_then(usable);
    own.or_else(|| record.door.as_ref()?.key())
}
