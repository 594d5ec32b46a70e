//! A record that is to be put back.

use frigg_core::deferral::{Capabilities, Deferral, Options, Tier, tier};
use frigg_core::rate_limit::Limit;
use jiff::{SignedDuration, Timestamp};

use crate::error::HandlerError;
use crate::ports::{CallError, SendRequest};
use crate::record::Record;
use crate::report::Line;

/// Less than [`SHORT_WAIT`](frigg_core::gate::SHORT_WAIT), which is the longest wait in the process.
const EARLY: SignedDuration = SignedDuration::from_millis(999);
const SCHEDULES_ARE_LATE: SignedDuration = SignedDuration::from_secs(60);

/// A record to put back.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) record: Record,
    pub(crate) deferral: Deferral,
    pub(crate) can: Capabilities,
    /// Why; `None` for a record that came before its time.
    pub(crate) cause: Option<(HandlerError, Limit)>,
    /// The ways that were tried.
    pub(super) failed: Vec<(Tier, CallError)>,
    /// Set when SQS found a visibility extension too long.
    pub(super) max_visibility: Option<u32>,
    /// Its handler was not called.
    pub(super) gated: bool,
    /// It has a slot, exact to the millisecond: it may be back a little before that and wait in the process.
    pub(super) in_slot: bool,
}

impl Pending {
    pub(crate) fn new(
        record: Record,
        deferral: Deferral,
        can: Capabilities,
        cause: Option<(HandlerError, Limit)>,
    ) -> Self {
        Pending {
            record,
            deferral,
            can,
            cause,
            failed: Vec::new(),
            max_visibility: None,
            gated: false,
            in_slot: false,
        }
    }

    pub(crate) fn gated(self) -> Self {
        Pending { gated: true, ..self }
    }

    /// For one that waits on: its time is a slot where there is a gate.
    pub(crate) fn waits_on(self, in_slot: bool) -> Self {
        Pending { in_slot, ..self }
    }

    pub(crate) fn in_slot(self, deferral: Deferral) -> Self {
        Pending {
            deferral,
            in_slot: true,
            ..self
        }
    }

    pub(super) fn tier(&self, now: Timestamp, options: &Options) -> Option<Tier> {
        let (delivery, at) = (&self.record.delivery, self.deferral.retry_at);
        if !self.in_slot {
            return tier(now, at, delivery, options, self.can);
        }
        // The whole second before it rather than the one after it, which would add up; and no receive is spent on a slot
        // that is far away.
        let at = at.checked_sub(EARLY).unwrap_or(at);
        let mut options = options.clone();
        options.relay = true;
        match tier(now, at, delivery, &options, self.can) {
            // The scheduler may be late by a minute: it comes before that, and a delay brings it for the rest.
            Some(Tier::Schedule { at }) => {
                let at = at.checked_sub(SCHEDULES_ARE_LATE).unwrap_or(at);
                Some(Tier::Schedule { at })
            }
            other => other,
        }
    }

    pub(super) fn line(&self, now: Timestamp) -> Line {
        let line = match &self.cause {
            Some((error, limit)) => Line::of_limit(error, limit, self.record.body.text()),
            None => Line::default(),
        };
        line.with_time(now, self.deferral.retry_at, &self.deferral.counters)
    }

    /// The copy to send, with everything that the original carried.
    pub(super) fn copy(&self, delay_seconds: u32) -> SendRequest {
        let delivery = &self.record.delivery;
        SendRequest {
            body: self.record.body.stamp(&self.deferral.counters),
            delay_seconds,
            attributes: delivery.message_attributes.clone(),
            trace_header: delivery.attributes.get("AWSTraceHeader").cloned(),
            group_id: delivery.group_id.clone(),
            deduplication_id: None,
        }
    }

    pub(super) fn schedule_error(&self) -> Option<String> {
        let failed = self
            .failed
            .iter()
            .find(|(tier, _)| matches!(tier, Tier::Schedule { .. }));
        failed.map(|(_, error)| error.to_string())
    }

    /// Frigg's name for the last thing that failed, and its cause.
    pub(super) fn skip(&self) -> (&'static str, Option<String>) {
        match self.failed.last() {
            Some((Tier::Visibility { .. }, error)) => ("visibility_failed", Some(error.to_string())),
            Some((_, error)) => ("send_failed", Some(error.to_string())),
            None => ("no_way_back", None),
        }
    }
}
