//! Five hundred messages, put back through every tier, while AWS's answers go wrong and the workers are killed fifty
//! times: all are done, none is lost, none is early. Extra runs are counted, and told.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use frigg_tests::emulator::QueueSpec;
use frigg_tests::proxy::Fault;
use frigg_tests::recorder::Run;
use frigg_tests::wait::wait_until;
use serde_json::json;
use tokio::time::sleep;

use crate::rig::Rig;

const SEED: u64 = 7;
const KILLS: usize = 50;
/// Of a hundred calls, so many go wrong while workers are killed.
const FAULTS: u32 = 12;
const DONE: Duration = Duration::from_secs(240);

/// Messages of one queue: so many, limited for so many seconds.
const SHORT: (usize, std::ops::Range<u64>) = (400, 2..25);
const LONG: (usize, std::ops::Range<u64>) = (50, 62..70);

/// A queue with short and long waits; with a scheduler, the long ones are schedules, else the messages are hidden.
async fn rig(name: &str) -> Result<Rig> {
    // A worker that is killed spends a receive of all that it holds.
    let queue = QueueSpec::standard(name).with_max_receives(100);
    let mut rig = Rig::new(queue, 4).await?;
    rig.set("FRIGG_MAX_DELAY_SECONDS", "60");
    rig.set("FRIGG_CONCURRENCY", "40");
    Ok(rig)
}

async fn send(rig: &Rig, prefix: &str, (count, seconds): (usize, std::ops::Range<u64>)) -> Result<()> {
    let span = seconds.end - seconds.start;
    let body = |n: usize| {
        let seconds = seconds.start + n as u64 % span;
        json!({ "id": format!("{prefix}-{n}"), "do": "limit", "seconds": seconds }).to_string()
    };
    let bodies: Vec<_> = (0..count).map(body).collect();
    for chunk in bodies.chunks(10) {
        rig.send_batch(chunk).await?;
    }
    Ok(())
}

#[tokio::test]
async fn killed_fifty_times_and_lied_to_five_hundred_messages_are_done() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut scheduled = rig("faults-scheduled").await?;
    let hidden = rig("faults-hidden").await?;
    if !scheduled.emulator.fires_schedules() {
        return Ok(());
    }
    let group = scheduled.emulator.create_schedule_group("faults").await?;
    let role = scheduled.emulator.create_scheduler_role("faults").await?;
    scheduled.set("SCHEDULE_GROUP_NAME", group);
    scheduled.set("SCHEDULER_ROLE_ARN", role);
    send(&scheduled, "short", SHORT).await?;
    send(&scheduled, "long", LONG).await?;
    send(&hidden, "hidden", LONG).await?;
    for Rig { proxy, .. } in [&scheduled, &hidden] {
        let weather = std::sync::Mutex::new(rng.fork());
        proxy.disturb(move |operation| {
            let mut rng = weather.lock().expect("no panic while it is held");
            // What a worker learns at its start is not what is tried here.
            let spared = operation == "GetQueueAttributes";
            (!spared && rng.u32(0..100) < FAULTS).then(|| Fault::ALL[rng.usize(0..Fault::ALL.len())])
        });
    }

    let rigs = [&scheduled, &hidden];
    let mut workers = [scheduled.poll()?, scheduled.poll()?, hidden.poll()?];
    for _ in 0..KILLS {
        sleep(Duration::from_millis(rng.u64(200..1800))).await;
        let one = rng.usize(0..workers.len());
        workers[one].kill().await?;
        workers[one] = rigs[one / 2].poll()?;
    }
    for Rig { proxy, .. } in [&scheduled, &hidden] {
        proxy.disturb(|_| None);
    }

    // Done: a run that was not told to come back came to its end.
    let wanted = SHORT.0 + 2 * LONG.0;
    let runs = || [scheduled.recorder.runs(), hidden.recorder.runs()].concat();
    let done = |runs: &[Run]| {
        let mut done = BTreeMap::new();
        for run in runs
            .iter()
            .filter(|run| run.told.is_none() && run.ended_at.is_some())
        {
            *done.entry(run.id.clone()).or_insert(0_usize) += 1;
        }
        done
    };
    wait_until(DONE, &format!("{wanted} messages are done"), async || {
        Ok(done(&runs()).len() >= wanted)
    })
    .await?;
    for rig in rigs {
        rig.is_empty().await?;
        assert_eq!(rig.dead(0).await?.len(), 0, "none is dead");
    }
    let runs = runs();
    for run in &runs {
        // Each copy says until when; what was hidden says nothing, and is asserted below.
        assert!(run.retry_at.is_none_or(|at| run.at >= at), "early: {run:?}");
    }
    let mut told = BTreeMap::new();
    for run in &runs {
        if run.deferrals > 0 {
            // Whichever run it was that sent this copy, it was not told to come back sooner than the soonest.
            let soonest = told.get(&run.id).copied().flatten();
            assert!(soonest.is_some_and(|soonest| run.at >= soonest), "early: {run:?}");
        } else {
            let soonest = told.entry(run.id.clone()).or_insert(run.told);
            *soonest = (*soonest).min(run.told).or(*soonest);
        }
    }
    let done = done(&runs);
    let limited = runs.iter().filter(|run| run.told.is_some()).count();
    let ended: usize = done.values().sum();
    let _ = writeln!(
        std::io::stderr(),
        "{wanted} messages done after {KILLS} kills: {} runs, of which {limited} were limited, {ended} came to an end ({} of \
         them of messages that were done already), and the others were killed",
        runs.len(),
        ended - wanted,
    );
    for mut worker in workers {
        worker.kill().await?;
    }
    Ok(())
}
