//! What SQS and the scheduler do: effects on the state, refusals, and the faults of a mutated runtime.

use std::collections::HashMap;
use std::time::Duration;

use frigg_core::delivery::{AttributeValue, MessageAttribute, QueueArn};
use frigg_worker::ports::{
    CallError, CallErrorKind, QueueAttributes, ScheduleRequest, ScheduleTarget, SendRequest,
    VisibilityRequest,
};
use serde_json::Value;

use crate::mutation::Mutation;
use crate::world::{Nanos, Planned, SECOND, State, bytes, job_of, nanos_of, parse_handle};

/// SQS counts from the receive.
const LONGEST_HOLD: Nanos = 43_200 * SECOND;
const MAX_SCHEDULE_INPUT: usize = 256 * 1024;
pub(crate) const DEAD: &str = "dead";

pub(crate) fn arn(fifo: bool) -> String {
    let ending = if fifo { ".fifo" } else { "" };
    format!("arn:aws:sqs:eu-west-1:111111111111:jobs{ending}")
}

fn refused(code: &str, text: &str) -> CallError {
    CallError::new(CallErrorKind::Refused, Some(code), text)
}

pub(crate) fn attributes(state: &State, url: &str) -> QueueAttributes {
    if url.starts_with(DEAD) {
        return QueueAttributes::default();
    }
    let (queue, mutation) = (state.scenario.queue, state.mutation);
    let dead = if queue.fifo { "dead.fifo" } else { DEAD };
    let has_dead = queue
        .max_receives
        .map(|_| format!("arn:aws:sqs:eu-west-1:111111111111:{dead}"));
    QueueAttributes {
        arn: QueueArn::parse(&arn(queue.fifo && mutation != Some(Mutation::ResendOnFifo))),
        max_receive_count: queue
            .max_receives
            .filter(|_| mutation != Some(Mutation::SpendLastReceive)),
        dead_letter_arn: has_dead,
        retention: (mutation != Some(Mutation::HidePastRetention))
            .then(|| Duration::from_secs(queue.retention)),
        visibility_timeout: Some(Duration::from_secs(queue.visibility.into())),
        backlog: Some(state.entries.len() as u64),
        maximum_message_size: (mutation != Some(Mutation::IgnoreMaximumSize)).then_some(queue.max_bytes),
    }
}

pub(crate) fn job_of_handle(state: &State, handle: &str) -> Option<usize> {
    let (id, _) = parse_handle(handle)?;
    let of_receive = state.receives.iter().find(|r| r.entry == id).map(|r| r.job);
    of_receive.or_else(|| state.entries.iter().find(|e| e.id == id).map(|e| e.job))
}

pub(crate) fn check_count(state: &mut State, entries: usize) {
    if !(1..=10).contains(&entries) {
        state.violate(|| format!("caps: a batch call with {entries} entries"));
    }
}

/// Refuses a batch as a whole.
pub(crate) fn check_batch(state: &mut State, messages: &[SendRequest]) -> Result<(), CallError> {
    check_count(state, messages.len());
    let sum: usize = messages.iter().map(|m| bytes(&m.body, &m.attributes)).sum();
    if sum > 1 << 20 {
        state.violate(|| format!("caps: a batch of {sum} bytes"));
    }
    // Some refusals of one entry are refusals of the whole call.
    let too_long = messages
        .iter()
        .any(|m| bytes(&m.body, &m.attributes) > state.scenario.queue.max_bytes);
    if too_long && state.rng.bool() {
        return Err(refused("BatchRequestTooLong", "the batch is too long"));
    }
    Ok(())
}

pub(crate) fn send(
    state: &mut State,
    process: usize,
    url: &str,
    message: &SendRequest,
) -> Result<(), CallError> {
    let Some(job) = job_of(&message.body).filter(|&job| job < state.jobs.len()) else {
        state.violate(|| format!("changed: a message of no job is sent: {}", message.body));
        return Ok(());
    };
    if message.attributes.len() > 10 {
        state.violate(|| format!("caps: a message with {} attributes", message.attributes.len()));
    }
    if bytes(&message.body, &message.attributes) > state.scenario.queue.max_bytes {
        return Err(refused(
            "InvalidParameterValue",
            "One or more parameters are invalid. Reason: Message must be shorter",
        ));
    }
    if url.starts_with(DEAD) {
        if state.mutation != Some(Mutation::LoseDeadLetter) {
            let reason = message.attributes.get("FriggReason").map(|a| match &a.value {
                AttributeValue::Text(text) => text.clone(),
                AttributeValue::Binary(_) => String::new(),
            });
            state.buried(process, job, &reason.unwrap_or_default(), &message.body);
        }
        return Ok(());
    }
    if message.delay_seconds > 900 {
        state.violate(|| format!("caps: a delay of {} s", message.delay_seconds));
    }
    let (mut seconds, mut body, mut attributes) = (
        message.delay_seconds,
        message.body.clone(),
        message.attributes.clone(),
    );
    let mut copies = 1;
    match state.mutation {
        Some(Mutation::AckBeforeSend) => return Ok(()),
        Some(Mutation::FloorDelay) => seconds = seconds.saturating_sub(1),
        Some(Mutation::HopWithoutRetryAt) => body = without_retry_at(&body),
        Some(Mutation::CountGated) if body.contains("\"gated\"") => body = counted(&body),
        Some(Mutation::DropAttributes) => attributes.clear(),
        Some(Mutation::SendTwice) => copies = 2,
        _ => {}
    }
    let at = state.now + Nanos::from(seconds) * SECOND;
    let hop = is_hop(state, process, message.delay_seconds.into());
    for _ in 0..copies {
        let lineage = state.copied(process, job, at, hop, SECOND, &message.body);
        let (trace, group) = (message.trace_header.clone(), message.group_id.clone());
        let now = state.now;
        state.enqueue(
            job,
            body.clone(),
            attributes.clone(),
            trace,
            group,
            now,
            at,
            lineage,
        );
        // It does not know how long the queue keeps it.
        if state.processes[process].blind
            && let Some(copy) = state.entries.last_mut()
        {
            copy.excused = true;
        }
    }
    Ok(())
}

/// Whether it is as far as a copy gets. Who does not know the queue does not know how long it keeps one.
fn is_hop(state: &State, process: usize, delay: u64) -> bool {
    let longest = state.scenario.max_delay.as_secs();
    let kept = longest.min(state.scenario.queue.retention / 2);
    delay == kept || delay == longest && state.processes[process].blind
}

/// One deferral more.
fn counted(body: &str) -> String {
    match body.split_once("\"deferrals\":") {
        Some((before, after)) => format!("{before}\"deferrals\":{}{after}", 1),
        None => body.replacen("\"gated\":", "\"deferrals\":1,\"gated\":", 1),
    }
}

fn without_retry_at(body: &str) -> String {
    let Some((before, after)) = body.split_once(",\"retryAt\":\"") else {
        return body.to_owned();
    };
    let rest = after.split_once('"').map_or("", |(_, rest)| rest);
    format!("{before}{rest}")
}

pub(crate) fn hide(state: &mut State, process: usize, change: &VisibilityRequest) -> Result<(), CallError> {
    let lost = |code| {
        Err(CallError::new(
            CallErrorKind::HandleLost,
            Some(code),
            "the message is not in flight",
        ))
    };
    let Some((id, receive)) = parse_handle(&change.receipt_handle) else {
        return lost("ReceiptHandleIsInvalid");
    };
    if change.seconds > 43_200 {
        state.violate(|| format!("caps: a visibility of {} s", change.seconds));
    }
    let mut seconds = change.seconds;
    match state.mutation {
        Some(Mutation::ShortHold) if seconds != state.scenario.queue.visibility => seconds /= 2,
        Some(Mutation::NoKeepAlive) if seconds == state.scenario.queue.visibility => return Ok(()),
        _ => {}
    }
    let now = state.now;
    let Some(entry) = state.entries.iter_mut().find(|e| e.id == id) else {
        return lost("ReceiptHandleIsInvalid");
    };
    if entry.receives != receive || entry.visible_at <= now {
        return lost("MessageNotInflight");
    }
    let until = now + Nanos::from(seconds) * SECOND;
    if until > entry.received_at + LONGEST_HOLD {
        return Err(refused(
            "InvalidParameterValue",
            "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
        ));
    }
    entry.visible_at = until;
    state.note(|| format!("message {id} is hidden for {seconds} s"));
    state.hidden(process, &change.receipt_handle, seconds);
    Ok(())
}

/// A handle of an earlier receive deletes nothing, and SQS does not say so.
pub(crate) fn delete(state: &mut State, process: usize, handle: &str) -> Result<(), CallError> {
    let Some((id, receive)) = parse_handle(handle) else {
        return Err(refused("ReceiptHandleIsInvalid", "no such handle"));
    };
    state.note(|| format!("process {process} deletes message {id}"));
    state.acked(process, id, receive);
    state.entries.retain(|e| e.id != id || e.receives != receive);
    Ok(())
}

pub(crate) fn create(state: &mut State, process: usize, request: &ScheduleRequest) -> Result<(), CallError> {
    let Some(job) = job_of(&request.input).filter(|&job| job < state.jobs.len()) else {
        state.violate(|| format!("changed: a schedule of no job: {}", request.input));
        return Ok(());
    };
    let at = nanos_of(request.at);
    let now = state.now;
    // The runtime asks for a minute; a slow call takes its part of that.
    if at - now < 39 * SECOND {
        let ahead = (at - now) as f64 / SECOND as f64;
        state.violate(|| format!("caps: a schedule {ahead:.3} s ahead"));
    }
    if request.input.len() > MAX_SCHEDULE_INPUT {
        state.violate(|| format!("caps: a schedule's input of {} bytes", request.input.len()));
    }
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if request.name.is_empty()
        || request.name.len() > 64
        || !request.name.chars().all(valid)
        || at % SECOND != 0
    {
        state.violate(|| {
            format!(
                "caps: a schedule's name {:?} or time {}",
                request.name, request.at
            )
        });
    }
    if state
        .planned
        .iter()
        .any(|planned| planned.request.name == request.name)
    {
        return Err(CallError::new(
            CallErrorKind::Conflict,
            Some("ConflictException"),
            "the name is taken",
        ));
    }
    let asked = request;
    let mut request = request.clone();
    let mut at = at;
    match state.mutation {
        Some(Mutation::AckBeforeSend) => return Ok(()),
        Some(Mutation::FloorSchedule) => at -= SECOND,
        Some(Mutation::UnescapedSchedule) => request.input = request.input.replace("\\u003c", "<"),
        Some(Mutation::PlainSchedule) if request.target == ScheduleTarget::SendMessage => {
            let call: Value = serde_json::from_str(&request.input).unwrap_or_default();
            request.input = call["MessageBody"].as_str().unwrap_or_default().to_owned();
            request.target = ScheduleTarget::Queue(arn(false));
        }
        _ => {}
    }
    // A schedule may be late by a minute: where a slot is waited for, it comes so much earlier.
    let lineage = state.copied(process, job, at, false, 61 * SECOND, &asked.input);
    let late = state.rng.i64(0..60 * SECOND);
    let mut planned = Planned {
        request,
        job,
        fire_at: at + late,
        lineage,
        again_at: None,
        blind: state.processes[process].blind,
    };
    if state.fault(state.scenario.weather.scheduler) {
        match state.rng.u32(0..3) {
            0 => planned.again_at = Some(planned.fire_at + 5 * SECOND),
            1 => planned.fire_at = at - state.rng.i64(0..10 * SECOND),
            // It could not deliver, and tried again for an hour.
            _ => planned.fire_at = at + 3_590 * SECOND,
        }
    }
    let (name, fire_at) = (
        planned.request.name.clone(),
        planned.fire_at as f64 / SECOND as f64,
    );
    state.note(|| format!("schedule {name} of job {job}, will fire at {fire_at:.3} s"));
    state.planned.push(planned);
    Ok(())
}

pub(crate) fn is_same(
    state: &mut State,
    process: usize,
    request: &ScheduleRequest,
) -> Result<bool, CallError> {
    let Some(found) = state
        .planned
        .iter()
        .find(|planned| planned.request.name == request.name)
        .cloned()
    else {
        return Err(refused("ResourceNotFoundException", "no such schedule"));
    };
    let same = found.request == *request || state.mutation == Some(Mutation::TrustConflict);
    state.note(|| format!("schedule {} exists, the same: {same}", request.name));
    if same {
        // It carries this receive of the message as well.
        state.copied(
            process,
            found.job,
            nanos_of(found.request.at),
            false,
            61 * SECOND,
            &found.request.input,
        );
    }
    Ok(same)
}

impl State {
    /// The schedule sends its message.
    pub(crate) fn fire(&mut self, index: usize) {
        let planned = &mut self.planned[index];
        let at = planned.fire_at;
        let fired = planned.clone();
        match planned.again_at.take() {
            Some(again) => {
                planned.fire_at = again;
                self.jobs[fired.job].faults += 1;
            }
            None => drop(self.planned.swap_remove(index)),
        }
        let (job, lineage) = (fired.job, fired.lineage);
        self.note(|| format!("schedule {} of job {job} fires", fired.request.name));
        if fired.request.input.contains("<aws.scheduler.") {
            self.violate(|| format!("changed: the scheduler replaces words of its own in job {job}"));
        }
        let (body, attributes, trace, group) = match fired.request.target {
            ScheduleTarget::Queue(_) => (fired.request.input, HashMap::new(), None, None),
            ScheduleTarget::SendMessage => read_call(&fired.request.input),
        };
        if bytes(&body, &attributes) > self.scenario.queue.max_bytes {
            // Who could not ask the queue for its limit has the schedule's own dead-letter queue.
            if !fired.blind {
                self.violate(|| format!("lost: job {job} is scheduled, and too large for its queue"));
            }
            self.jobs[job].dead += 1;
            return;
        }
        self.enqueue(job, body, attributes, trace, group, at, at, lineage);
    }
}

/// The call that the universal target makes.
fn read_call(
    input: &str,
) -> (
    String,
    HashMap<String, MessageAttribute>,
    Option<String>,
    Option<String>,
) {
    let call: Value = serde_json::from_str(input).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut attributes = HashMap::new();
    for (name, attribute) in call["MessageAttributes"].as_object().into_iter().flatten() {
        let value = match text(&attribute["StringValue"]) {
            Some(value) => AttributeValue::Text(value),
            None => {
                let base64 = serde_json::from_value::<aws_lambda_events::encodings::Base64Data>(
                    attribute["BinaryValue"].clone(),
                );
                AttributeValue::Binary(base64.map(|data| data.0).unwrap_or_default())
            }
        };
        let data_type = text(&attribute["DataType"]).unwrap_or_default();
        attributes.insert(name.clone(), MessageAttribute { data_type, value });
    }
    (
        text(&call["MessageBody"]).unwrap_or_default(),
        attributes,
        text(&call["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"]),
        text(&call["MessageGroupId"]),
    )
}
