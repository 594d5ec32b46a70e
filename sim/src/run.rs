//! Runs scenarios: the real worker on the simulated platform, under tokio's paused time.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use frigg_worker::{Clock, Config, Consumer, PerBatch, Scheduling, Worker};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::aws;
use crate::handler::Simulated;
use crate::ledger::Receive;
use crate::mutation::Mutation;
use crate::ports::Port;
use crate::scenario::{Platform, Scenario};
use crate::world::{World, parse_handle};

/// What became of a scenario.
#[derive(Debug)]
pub struct Outcome {
    /// What did not hold.
    pub violation: Option<String>,
    /// How often a handler ran.
    pub runs: u64,
    /// Line by line, where that was asked for.
    pub trace: Vec<String>,
}

/// Runs one scenario.
///
/// # Panics
/// When tokio cannot start.
#[must_use]
pub fn run(scenario: &Scenario, mutation: Option<Mutation>, traced: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    #[expect(clippy::expect_used, reason = "nothing could be simulated")]
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let world = World::new(scenario.clone(), mutation, traced);
        if scenario.per_batch {
            go(&world, PerBatch).await;
        } else {
            go(&world, |handler| handler).await;
        }
        let mut state = world.lock();
        if state.violation.is_none() {
            state.close();
        }
        Outcome {
            violation: state.violation.take(),
            runs: state.runs,
            trace: state.trace.take().unwrap_or_default(),
        }
    })
}

async fn go<C: Consumer>(world: &Arc<World>, consumer: fn(Simulated) -> C) {
    let platform = world.lock().scenario.platform;
    match platform {
        Platform::Lambda { .. } => lambda(world, consumer).await,
        Platform::Poll { processes, .. } => poll(world, consumer, processes).await,
    }
}

/// A seed that failed, with all that happened.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What did not hold.
    pub violation: String,
    /// The whole story.
    pub trace: Vec<String>,
}

/// Runs the scenarios of seeds `first..first + count` on all cores, until one fails. Gives the first failure found and
/// how many scenarios and handler runs there were.
#[must_use]
pub fn run_many(first: u64, count: u64, mutation: Option<Mutation>) -> (Option<Failure>, u64, u64) {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (next, done, runs) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let seed = first.wrapping_add(index);
            let scenario = Scenario::of(seed);
            let outcome = run(&scenario, mutation, false);
            done.fetch_add(1, Ordering::Relaxed);
            runs.fetch_add(outcome.runs, Ordering::Relaxed);
            if let Some(violation) = outcome.violation {
                failed.store(true, Ordering::Relaxed);
                // Once more, and this time with its story.
                let trace = run(&scenario, mutation, true).trace;
                return Some(Failure {
                    seed,
                    violation,
                    trace,
                });
            }
        }
        None
    };
    let failure = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let failures = handles
            .into_iter()
            .filter_map(|handle| handle.join().ok().flatten());
        failures.min_by_key(|failure| failure.seed)
    });
    (failure, done.into_inner(), runs.into_inner())
}

fn worker<C: Consumer>(world: &Arc<World>, consumer: fn(Simulated) -> C, process: usize) -> Worker<C> {
    let mut config = Config::default();
    let (scenario, mutation) = {
        let state = world.lock();
        (state.scenario.clone(), state.mutation)
    };
    let mut options = match mutation {
        Some(Mutation::Frigg) => frigg_worker::Options::frigg(),
        _ => frigg_worker::Options::default(),
    };
    options.relay = scenario.relay;
    options.limits = scenario.limits;
    if mutation == Some(Mutation::IgnoreCaps) {
        // A FIFO queue that allows too few receives for that would be refused at the start.
        if scenario.queue.max_receives.is_none() || !scenario.queue.fifo {
            options.limits.max_deferrals = 1_000;
        }
        options.limits.max_deferred *= 100;
    }
    let told = scenario.queue.max_receives.filter(|_| scenario.receives_are_told);
    options.max_receive_count = told.filter(|_| mutation != Some(Mutation::SpendLastReceive));
    config.options = options.with_max_delay(scenario.max_delay);
    config.scheduling = scenario.scheduling.then(|| Scheduling {
        role_arn: "arn:aws:iam::111111111111:role/scheduler".to_owned(),
        group: "schedules".to_owned(),
        dead_letter_arn: None,
    });
    config.queue_url = Some("jobs".to_owned());
    if let Platform::Poll { concurrency, .. } = scenario.platform {
        config.concurrency = NonZeroUsize::new(concurrency).unwrap_or(NonZeroUsize::MIN);
    }
    let (time, random) = (Arc::clone(world), Arc::clone(world));
    let clock = Clock::from_fn(move || time.now()).with_random(move || random.lock().rng.f64());
    let port = Arc::new(Port {
        world: Arc::clone(world),
        process,
    });
    let handler = Simulated {
        world: Arc::clone(world),
        process,
    };
    if let Some(gate) = scenario.gate {
        config.pace = gate.pace;
    }
    let worker = Worker::new(consumer(handler), config)
        .with_sqs(port.clone())
        .with_scheduler(port.clone())
        .with_clock(clock);
    match scenario.gate {
        Some(_) => worker.with_gate(port),
        None => worker,
    }
}

async fn poll<C: Consumer>(world: &Arc<World>, consumer: fn(Simulated) -> C, processes: usize) {
    let all: FuturesUnordered<_> = (0..processes).map(|_| poll_in_turn(world, consumer)).collect();
    let all = all.for_each(|()| async {});
    tokio::select! {
        biased;
        () = world.quiet() => {}
        () = all => {}
    }
}

/// One process after the other.
async fn poll_in_turn<C: Consumer>(world: &Arc<World>, consumer: fn(Simulated) -> C) {
    loop {
        let (process, mut dies, life) = {
            let mut state = world.lock();
            let (process, dies) = state.start_process();
            // Some are stopped in their time.
            let stopped = state.rng.u32(0..4) == 0;
            (process, dies, stopped.then(|| state.rng.u64(1..7_200_000)))
        };
        let stop = async {
            match life {
                Some(ms) => sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        let worker = worker(world, consumer, process);
        tokio::select! {
            biased;
            _ = dies.wait_for(|dead| *dead) => {}
            result = worker.poll_until(stop) => {
                if let Err(error) = result {
                    world.lock().violate(|| format!("start: the worker refuses to poll: {error}"));
                }
            }
        }
        // Tasks of the dead one go before anything else happens.
        tokio::task::yield_now().await;
        let pause = {
            let mut state = world.lock();
            state.end_process(process);
            state.rng.u64(1..30_000)
        };
        world.wake.notify_waiters();
        sleep(Duration::from_millis(pause)).await;
    }
}

/// A process that Lambda invokes.
struct Sandbox<C> {
    process: usize,
    worker: Arc<Worker<C>>,
    dies: watch::Receiver<bool>,
    busy: usize,
}

impl<C: Consumer> Sandbox<C> {
    fn start(world: &Arc<World>, consumer: fn(Simulated) -> C) -> Self {
        let (process, dies) = world.lock().start_process();
        Sandbox {
            process,
            worker: Arc::new(worker(world, consumer, process)),
            dies,
            busy: 0,
        }
    }
}

async fn lambda<C: Consumer>(world: &Arc<World>, consumer: fn(Simulated) -> C) {
    let Platform::Lambda {
        sandboxes,
        at_once,
        timeout,
        batch,
    } = world.lock().scenario.platform
    else {
        return;
    };
    let mut sandboxes: Vec<Sandbox<C>> = (0..sandboxes).map(|_| Sandbox::start(world, consumer)).collect();
    let mut running = FuturesUnordered::new();
    loop {
        let next = {
            let mut state = world.lock();
            loop {
                let free: Vec<usize> = (0..sandboxes.len())
                    .filter(|&i| sandboxes[i].busy < at_once)
                    .collect();
                if free.is_empty() || state.violation.is_some() {
                    break;
                }
                let index = free[state.rng.usize(0..free.len())];
                let sandbox = &mut sandboxes[index];
                let messages = state.take(sandbox.process, batch);
                if messages.is_empty() {
                    break;
                }
                sandbox.busy += 1;
                let (worker, dies, process) =
                    (Arc::clone(&sandbox.worker), sandbox.dies.clone(), sandbox.process);
                running.push(async move {
                    invoke(
                        world,
                        &worker,
                        process,
                        dies,
                        messages,
                        Duration::from_secs(timeout),
                    )
                    .await;
                    (index, process)
                });
            }
            if running.is_empty() && state.is_over() || state.violation.is_some() {
                return;
            }
            state.next_event()
        };
        tokio::select! {
            biased;
            Some((index, process)) = running.next(), if !running.is_empty() => {
                let alive = world.lock().processes[process].alive;
                if sandboxes[index].process == process {
                    if alive {
                        sandboxes[index].busy -= 1;
                    } else {
                        sandboxes[index] = Sandbox::start(world, consumer);
                    }
                }
            }
            () = world.change(next) => {}
        }
    }
}

/// One invocation, as an event source mapping with `ReportBatchItemFailures` makes it.
async fn invoke<C: Consumer>(
    world: &Arc<World>,
    worker: &Worker<C>,
    process: usize,
    mut dies: watch::Receiver<bool>,
    mut messages: Vec<SqsMessage>,
    timeout: Duration,
) {
    let mutation = world.lock().mutation;
    let fifo = world.lock().scenario.queue.fifo && mutation != Some(Mutation::ResendOnFifo);
    let mut handles = Vec::new();
    for message in &mut messages {
        message.event_source_arn = Some(aws::arn(fifo));
        handles.push((
            message.message_id.clone().unwrap_or_default(),
            message.receipt_handle.clone().unwrap_or_default(),
        ));
    }
    let mut event = SqsEvent::default();
    event.records = messages;
    let deadline = Instant::now() + timeout;
    let told = match mutation {
        Some(Mutation::IgnoreDeadline) => deadline + Duration::from_secs(3600),
        _ => deadline,
    };
    let answered = tokio::select! {
        biased;
        _ = dies.wait_for(|dead| *dead) => return,
        answered = timeout_at(deadline, worker.handle(event, told)) => answered,
    };
    let mut state = world.lock();
    match answered {
        Err(_) => {
            state.violate(|| format!("deadline: process {process} does not answer in time"));
            state.end_process(process);
        }
        Ok(Err(error)) => state.violate(|| format!("answer: the whole batch fails: {error}")),
        Ok(Ok(response)) => answer(&mut state, process, &handles, &response),
    }
    drop(state);
    world.wake.notify_waiters();
}

/// Deletes what is not reported failed; what is, stays as it is.
fn answer(
    state: &mut crate::world::State,
    process: usize,
    handles: &[(String, String)],
    response: &SqsBatchResponse,
) {
    let lost = state.fault(state.scenario.weather.lost_answer);
    if lost {
        state.note(|| format!("process {process} answers, and Lambda does not hear it"));
    }
    let parsed = handles
        .iter()
        .filter_map(|(id, handle)| Some((id, handle, parse_handle(handle)?)));
    for (id, handle, (entry, _)) in parsed.clone() {
        let failed = response
            .batch_item_failures
            .iter()
            .any(|item| item.item_identifier == *id);
        if lost {
            if let Some(job) = aws::job_of_handle(state, handle) {
                state.jobs[job].faults += 1;
            }
            state.excuse(entry);
        } else if !failed || state.mutation == Some(Mutation::AckAll) {
            let _ = aws::delete(state, process, handle);
        }
    }
    for (_, _, (entry, receive)) in parsed {
        let ended = |r: &Receive| r.process == process && r.entry == entry && r.receive == receive;
        let Some(index) = state.receives.iter().position(ended) else {
            continue;
        };
        let gone = state.receives.remove(index);
        // Its copies may have been another one's, of the same message in the same process.
        let twin = |r: &&mut Receive| r.process == process && r.job == gone.job;
        if let Some(twin) = state.receives.iter_mut().find(twin) {
            twin.copies += gone.copies;
            twin.buried += gone.buried;
        }
    }
}
