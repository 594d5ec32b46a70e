//! Sends the messages, watches until all are done or the time is up, and collects what happened.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cast::{ACCOUNTS, Part, parts, path};
use super::progress::{Moment, Progress};
use super::stage::Stage;
use super::story::{Sent, Story, Tier, tier_of};

/// When a message that is not done counts as lost.
const DEADLINE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(250);
/// Functions' logs come at the end of an invocation, and are read by a call each.
const BETWEEN_LOG_READS: Duration = Duration::from_secs(1);
/// From the last call to the last message's deletion, and to the last log line.
const SETTLING: Duration = Duration::from_secs(15);

pub(super) async fn play(stage: &Stage, progress: &mut Progress, out: &mut impl Write) -> Result<Story> {
    let parts = parts();
    let sent = send(stage, &parts).await?;
    let start = Instant::now();
    let (mut lines, mut read_at) = (Vec::new(), None::<Instant>);
    loop {
        if read_at.is_none_or(|at| at.elapsed() >= BETWEEN_LOG_READS) {
            lines = log_lines(stage).await?;
            read_at = Some(Instant::now());
        }
        let moment = moment(stage, &parts, &lines, start.elapsed());
        progress.show(out, &moment)?;
        if moment.done == moment.sent || start.elapsed() >= DEADLINE {
            break;
        }
        sleep(PAUSE).await;
    }
    settle(stage).await?;
    let lines = log_lines(stage).await?;
    let mut dead = BTreeSet::new();
    for desk in stage.desks() {
        for message in stage.emulator.drain(&desk.queue.dead_letters()?.url).await? {
            dead.extend(message.body.as_deref().and_then(contact_id));
        }
    }
    Ok(Story::new(
        &sent,
        &stage.provider.calls(),
        &stage.provider.closed(),
        &lines,
        &dead,
    ))
}

async fn send(stage: &Stage, parts: &[Part]) -> Result<Vec<Sent>> {
    let mut sent = Vec::with_capacity(parts.len());
    for account in ACCOUNTS {
        let queue_url = &stage.desk(account.worker).queue.url;
        let own: Vec<_> = parts.iter().filter(|part| part.account == account).collect();
        for batch in own.chunks(10) {
            let mut request = stage.emulator.sqs().send_message_batch().queue_url(queue_url);
            for part in batch {
                let url = format!("{}{}", stage.provider.url(), path(account.name, part.id));
                let body = json!({ "event": "HTTP_CALL", "data": { "url": url } }).to_string();
                let entry = SendMessageBatchRequestEntry::builder()
                    .id(part.id.to_string())
                    .message_body(body);
                request = request.entries(entry.build().context("an incomplete entry")?);
            }
            let at = stage.provider.clock().now();
            let answer = request.send().await.context("failed to send the messages")?;
            anyhow::ensure!(answer.failed.is_empty(), "failed to send: {:?}", answer.failed);
            sent.extend(batch.iter().map(|part| Sent {
                id: part.id,
                account: account.name.to_owned(),
                at,
            }));
        }
    }
    Ok(sent)
}

fn moment(stage: &Stage, parts: &[Part], lines: &[Value], elapsed: Duration) -> Moment {
    let calls = stage.provider.calls();
    let accepted: BTreeSet<_> = calls
        .iter()
        .filter(|call| call.accepted)
        .map(|call| call.path.as_str())
        .collect();
    let done = parts
        .iter()
        .filter(|part| accepted.contains(path(part.account.name, part.id).as_str()))
        .count();
    let count = |tier| lines.iter().filter(|line| tier_of(line) == Some(tier)).count();
    Moment {
        elapsed,
        sent: parts.len(),
        done,
        calls: calls.len(),
        refused: calls.iter().filter(|call| !call.accepted).count(),
        deferrals: [count(Tier::Delay), count(Tier::Schedule), count(Tier::Visibility)],
    }
}

/// Waits until nothing is left in the queues; what is left after a while is seen in the story.
async fn settle(stage: &Stage) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < SETTLING {
        let mut left = 0;
        for desk in stage.desks() {
            left += stage.emulator.depth(&desk.queue.url).await?.total();
        }
        if left == 0 {
            break;
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn log_lines(stage: &Stage) -> Result<Vec<Value>> {
    let mut lines = Vec::new();
    for desk in stage.desks() {
        let log = stage.emulator.logs(&desk.function).await?;
        lines.extend(log.iter().filter_map(crate::emulator::logs::LogLine::json));
    }
    Ok(lines)
}

fn contact_id(body: &str) -> Option<u32> {
    let body: Value = serde_json::from_str(body).ok()?;
    body["id"].as_u64()?.try_into().ok()
}
