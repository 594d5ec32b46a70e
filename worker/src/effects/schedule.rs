//! One-time schedules, a call each.

use frigg_core::deferral::{MIN_SCHEDULE_AHEAD, Tier};
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;

use crate::book::Book;
use crate::effects::calls::refused;
use crate::effects::{Done, Effects, Pending};
use crate::groups::ENTRIES;
use crate::ports::{CallError, CallErrorKind, ScheduleRequest, ScheduleTarget};

/// EventBridge Scheduler's limit on a target's input.
const MAX_SCHEDULE_INPUT: usize = 256 * 1024;

impl Effects {
    pub(super) async fn create_schedules(&self, all: Vec<(Pending, Tier)>, book: &Book) {
        let create = |(one, tier): (Pending, Tier)| async move {
            let Tier::Schedule { at } = tier else {
                unreachable!("grouped by tier")
            };
            let result = self.create_schedule(&one, at).await;
            self.rest.note(self.clock.now(), &result);
            (one, tier, result.map(Done::Schedule))
        };
        stream::iter(all)
            .map(create)
            .buffer_unordered(self.calls_at_once)
            // Those that fail together go on together, in one call.
            .ready_chunks(ENTRIES)
            .for_each_concurrent(None, |outcomes| self.settle(outcomes, book))
            .await;
    }

    async fn create_schedule(&self, one: &Pending, at: Timestamp) -> Result<String, CallError> {
        let scheduling = self
            .scheduling
            .as_ref()
            .ok_or_else(|| refused("no scheduler role"))?;
        let delivery = &one.record.delivery;
        let queue = delivery
            .queue_arn
            .as_ref()
            .ok_or_else(|| refused("the record names no queue"))?;
        // Its turn may have come late, behind calls that took their time.
        if at.duration_since(self.clock.now()) < MIN_SCHEDULE_AHEAD {
            return Err(refused("too near for a schedule by now"));
        }
        let copy = one.copy(0);
        let bytes = copy.bytes();
        // The scheduler replaces `<aws.scheduler.…>` in the input, and has no escape of its own. As a whole call, which is
        // JSON, the input can spell it otherwise, and the body arrives as it was.
        let whole_call = copy.has_metadata() || copy.body.contains('<');
        let (target, input) = if whole_call && !self.options.is_frigg() {
            let url = self.queues.url(&*self.sqs, queue).await?;
            let call = copy.as_call(&url).replace('<', "\\u003c");
            (ScheduleTarget::SendMessage, call)
        } else {
            (ScheduleTarget::Queue(queue.as_str().to_owned()), copy.body)
        };
        if input.len() > MAX_SCHEDULE_INPUT {
            return Err(refused("the body is too large for a schedule"));
        }
        // The queue would refuse it when the schedule fires, and then it is nowhere.
        if bytes > self.largest_message(queue).await {
            return Err(refused("the message is too large for its queue"));
        }
        let mut request = ScheduleRequest {
            name: String::new(),
            group: scheduling.group.clone(),
            at,
            region: queue.region().to_owned(),
            target,
            role_arn: scheduling.role_arn.clone(),
            input,
            dead_letter_arn: scheduling.dead_letter_arn.clone(),
        };
        for suffix in [None, Some(at)] {
            request.name = schedule_name(&delivery.message_id, suffix);
            match self.scheduler.create(&request).await {
                Err(error) if error.kind == CallErrorKind::Conflict => {}
                done => return done.map(|()| request.name),
            }
            // The name is taken: by this very deferral, delivered twice, or by another one of the same message.
            if self.options.is_frigg() || self.scheduler.is_same(&request).await? {
                return Ok(request.name);
            }
        }
        Err(refused("other schedules have the message's names"))
    }
}

/// `frigg-defer-<message id>`, in the letters and the length that the scheduler takes.
fn schedule_name(message_id: &str, suffix: Option<Timestamp>) -> String {
    let suffix = suffix
        .map(|at| format!("-{:x}", at.as_second()))
        .unwrap_or_default();
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let id = message_id.chars().map(|c| if valid(c) { c } else { '-' });
    "frigg-defer-"
        .chars()
        .chain(id)
        .take(64 - suffix.len())
        .collect::<String>()
        + &suffix
}
