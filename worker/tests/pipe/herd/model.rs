//! Workers with clocks of their own, a gate that is down at times, a provider that refuses beyond its rate, and the real
//! pipe in between.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use frigg_core::delivery::QueueArn;
use frigg_core::rate_limit::{Reason, Window};
use frigg_worker::ports::{
    BatchResult, CallError, QueueAttributes, ScheduleRequest, Scheduler, SendRequest, Sqs, VisibilityRequest,
};
use frigg_worker::testing::{FakeGate, event, message};
use frigg_worker::{Clock, Config, Handler, HandlerError, Job, RateLimited, Worker};
use futures_util::future::{BoxFuture, ready};
use jiff::SignedDuration;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::{ROLE, start};

const KEY: &str = "crm:app";

/// Bodies by the time at which they are there. Deliveries are late by up to 300 ms, schedules by up to a minute.
#[derive(Debug, Default)]
struct Queue {
    bodies: Mutex<BinaryHeap<Reverse<(Instant, u64, String)>>>,
    random: Mutex<u64>,
    next: Mutex<u64>,
}

impl Queue {
    fn draw(&self) -> f64 {
        let mut state = self.random.lock().unwrap();
        // Knuth's linear congruential generator.
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn put(&self, body: String, after: Duration, late: Duration) {
        let at = Instant::now() + after + late.mul_f64(self.draw());
        let mut next = self.next.lock().unwrap();
        *next += 1;
        self.bodies.lock().unwrap().push(Reverse((at, *next, body)));
    }

    fn take(&self, most: usize) -> Vec<SqsMessage> {
        let mut bodies = self.bodies.lock().unwrap();
        let mut taken = Vec::new();
        while taken.len() < most
            && bodies
                .peek()
                .is_some_and(|Reverse((at, ..))| *at <= Instant::now())
        {
            let Some(Reverse((_, id, body))) = bodies.pop() else {
                break;
            };
            taken.push(message(&format!("m{id}"), body));
        }
        taken
    }

    fn next_at(&self) -> Option<Instant> {
        self.bodies.lock().unwrap().peek().map(|Reverse((at, ..))| *at)
    }
}

#[derive(Debug, Clone)]
struct Aws(Arc<Queue>);

const LATE: Duration = Duration::from_millis(300);

impl Sqs for Aws {
    fn queue_url<'a>(&'a self, _: &'a QueueArn, _: bool) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(ready(Ok("https://queue/jobs".to_owned())))
    }
    fn queue_attributes<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<QueueAttributes, CallError>> {
        let backlog = Some(self.0.bodies.lock().unwrap().len() as u64);
        Box::pin(ready(Ok(QueueAttributes {
            backlog,
            ..QueueAttributes::default()
        })))
    }
    fn send<'a>(&'a self, _: &'a str, _: &'a SendRequest) -> BoxFuture<'a, Result<String, CallError>> {
        unreachable!("nothing is sent alone")
    }
    fn send_batch<'a>(&'a self, _: &'a str, messages: &'a [SendRequest]) -> BoxFuture<'a, BatchResult> {
        for one in messages {
            self.0.put(
                one.body.clone(),
                Duration::from_secs(one.delay_seconds.into()),
                LATE,
            );
        }
        Box::pin(ready(Ok(vec![Ok(()); messages.len()])))
    }
    fn change_visibility_batch<'a>(
        &'a self,
        _: &'a str,
        _: &'a [VisibilityRequest],
    ) -> BoxFuture<'a, BatchResult> {
        unreachable!("no receive is spent")
    }
    fn receive<'a>(
        &'a self,
        _: &'a str,
        _: u32,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<SqsMessage>, CallError>> {
        unreachable!("the test receives")
    }
    fn delete_batch<'a>(&'a self, _: &'a str, _: &'a [String]) -> BoxFuture<'a, BatchResult> {
        unreachable!("the test deletes")
    }
}

impl Scheduler for Aws {
    fn create<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<(), CallError>> {
        // Schedules are in true time, which the workers' clocks are not.
        let after =
            request.at.duration_since(start()) - SignedDuration::try_from(self.0.origin().elapsed()).unwrap();
        let after = Duration::try_from(after).unwrap_or_default();
        self.0.put(request.input.clone(), after, Duration::from_secs(60));
        Box::pin(ready(Ok(())))
    }
    fn is_same<'a>(&'a self, _: &'a ScheduleRequest) -> BoxFuture<'a, Result<bool, CallError>> {
        Box::pin(ready(Ok(true)))
    }
}

thread_local! {
    static ORIGIN: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

impl Queue {
    /// When the test began: `start()`.
    #[expect(clippy::unused_self, reason = "each test has a thread and a queue of its own")]
    fn origin(&self) -> Instant {
        ORIGIN.get().expect("set at the test's start")
    }
}

/// Lets `limit` calls through in any stretch of `per`, none before `opens`; says for how long it refuses, in whole seconds.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) window: Window,
    pub(super) opens: Duration,
    pub(super) counted: VecDeque<Duration>,
    /// When each call came, and whether it was served.
    pub(super) calls: Vec<(Duration, usize, bool)>,
}

impl Provider {
    fn call(&mut self, now: Duration, worker: usize) -> Result<(), u64> {
        while self
            .counted
            .front()
            .is_some_and(|at| *at + self.window.per <= now)
        {
            self.counted.pop_front();
        }
        let full = self.counted.len() >= self.window.limit.get() as usize;
        let until = match self.counted.front() {
            _ if now < self.opens => self.opens,
            Some(oldest) if full => *oldest + self.window.per,
            _ => {
                self.counted.push_back(now);
                self.calls.push((now, worker, true));
                return Ok(());
            }
        };
        self.calls.push((now, worker, false));
        Err((until - now).as_secs_f64().ceil() as u64)
    }
}

/// What a herd meets.
#[derive(Clone, Copy)]
pub(super) struct Scene {
    pub(super) messages: u64,
    pub(super) window: Window,
    /// The provider refuses everything until then.
    pub(super) opens: Duration,
    /// How far the workers' clocks are apart.
    pub(super) skew_ms: i64,
    /// When the store is down, in seconds.
    pub(super) outages: &'static [(u64, u64)],
    /// The store answers at random within this time.
    pub(super) store_ms: u64,
    /// How many records a worker takes at a time.
    pub(super) batch: usize,
    /// A call takes at least 20 ms, and at random so much more.
    pub(super) call_ms: u64,
    /// One worker starts this long after the other.
    pub(super) stagger_ms: u64,
    /// What the refusals of the provider name as its window.
    pub(super) known: Option<Window>,
    pub(super) gate: bool,
    /// Set for each worker.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

impl Scene {
    pub(super) fn of(messages: u64, window: Window) -> Self {
        Scene {
            messages,
            window,
            opens: Duration::ZERO,
            skew_ms: 20,
            outages: &[],
            store_ms: 0,
            batch: 10,
            call_ms: 0,
            stagger_ms: 0,
            known: Some(window),
            gate: true,
            variables: &[],
        }
    }
}

struct Herd {
    provider: Arc<Mutex<Provider>>,
    worker: usize,
    clock: Clock,
    /// By message: not before this moment of the worker's own clock that was told.
    told: Arc<Mutex<HashMap<u64, Duration>>>,
    early: Arc<Mutex<usize>>,
    first_refusal: Arc<Mutex<Option<Duration>>>,
    queue: Arc<Queue>,
    scene: Scene,
}

impl Handler for Herd {
    type Message = Value;
    type Error = HandlerError;

    async fn handle(&self, job: Job<Value>) -> Result<(), HandlerError> {
        let id = job.message["id"].as_u64().unwrap();
        let origin = ORIGIN.get().unwrap();
        let now = origin.elapsed();
        // A clock that is fast by a second is early by a second, and no more.
        if self
            .told
            .lock()
            .unwrap()
            .get(&id)
            .is_some_and(|at| now + Duration::from_secs(2) < *at)
        {
            *self.early.lock().unwrap() += 1;
        }
        let refused = self.provider.lock().unwrap().call(now, self.worker);
        let more = Duration::from_millis(self.scene.call_ms).mul_f64(self.queue.draw());
        sleep(Duration::from_millis(20) + more).await;
        let Err(wait) = refused else { return Ok(()) };
        self.first_refusal.lock().unwrap().get_or_insert(origin.elapsed());
        self.told
            .lock()
            .unwrap()
            .insert(id, now + Duration::from_secs(wait));
        let limited = RateLimited::after(self.clock.now(), Duration::from_secs(wait));
        let limited = limited.with_reason(Reason::Burst);
        Err(match self.scene.known {
            Some(window) => limited.with_window(window),
            None => limited,
        }
        .into())
    }

    fn scope_key(&self, _: &Value) -> Option<String> {
        Some(KEY.to_owned())
    }
}

pub(super) struct Outcome {
    pub(super) provider: Provider,
    pub(super) early: usize,
    pub(super) done: usize,
    pub(super) failed: usize,
    pub(super) gate: FakeGate,
    /// When the first worker heard that it is refused.
    pub(super) first_refusal: Duration,
}

impl Outcome {
    pub(super) fn refused(&self) -> usize {
        self.provider.calls.iter().filter(|(.., served)| !served).count()
    }

    /// Of the calls since `from`.
    pub(super) fn refused_from(&self, from: Duration) -> usize {
        let calls = self.provider.calls.iter();
        calls.filter(|(at, _, served)| !served && *at >= from).count()
    }

    /// Until the last call that was served.
    pub(super) fn took(&self) -> Duration {
        let served = self.provider.calls.iter().filter(|(.., served)| *served);
        served.map(|(at, ..)| *at).max().unwrap()
    }

    /// Of the calls that the provider would have served from `from` to the last one, how many were made.
    pub(super) fn utilisation(&self, from: Duration) -> f64 {
        let served = self
            .provider
            .calls
            .iter()
            .filter(|(at, _, served)| *served && *at >= from);
        let last = served.clone().map(|(at, ..)| *at).max().unwrap();
        let window = self.provider.window;
        let rate = f64::from(window.limit.get()) / window.per.as_secs_f64();
        served.count() as f64 / ((last - from).as_secs_f64() * rate)
    }
}

/// Runs a scene with twenty workers.
pub(super) async fn run(scene: Scene) -> Outcome {
    const WORKERS: usize = 20;
    let Scene {
        messages,
        window,
        opens,
        skew_ms,
        outages,
        ..
    } = scene;
    let origin = Instant::now();
    ORIGIN.set(Some(origin));
    let queue = Arc::new(Queue::default());
    (0..messages).for_each(|id| queue.put(format!(r#"{{"id":{id}}}"#), Duration::ZERO, Duration::ZERO));
    let calls = Vec::new();
    let provider = Arc::new(Mutex::new(Provider {
        window,
        opens,
        counted: VecDeque::new(),
        calls,
    }));
    let (told, early): (Arc<Mutex<HashMap<_, _>>>, Arc<Mutex<usize>>) = Default::default();
    let first_refusal = Arc::default();
    let gate = FakeGate::default();
    gate.fail(move |_| {
        let now = origin.elapsed().as_secs();
        outages
            .iter()
            .any(|(from, to)| (*from..*to).contains(&now))
            .then(|| "down".to_owned())
    });
    let (ways, way) = (Arc::clone(&queue), Duration::from_millis(scene.store_ms) / 2);
    if !way.is_zero() {
        gate.delay(move || way.mul_f64(ways.draw()));
    }
    let (done, failed): (Arc<Mutex<usize>>, Arc<Mutex<usize>>) = Default::default();
    let work = (0..WORKERS).map(|worker| {
        let skew = SignedDuration::from_millis((worker as i64 - 10) * skew_ms / 19);
        let random = Arc::clone(&queue);
        let clock =
            Clock::from_fn(move || start() + SignedDuration::try_from(origin.elapsed()).unwrap() + skew)
                .with_random(move || random.draw());
        let (config, _) = Config::from_variables(|name| {
            let mut all = scene.variables.iter().chain([&ROLE]);
            all.find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        });
        let (told, early, provider) = (Arc::clone(&told), Arc::clone(&early), Arc::clone(&provider));
        let herd = Herd {
            provider,
            worker,
            clock: clock.clone(),
            told,
            early,
            first_refusal: Arc::clone(&first_refusal),
            queue: Arc::clone(&queue),
            scene,
        };
        let aws = Aws(Arc::clone(&queue));
        let real = Worker::new(herd, config)
            .with_sqs(Arc::new(aws.clone()))
            .with_scheduler(Arc::new(aws))
            .with_clock(clock);
        let real = match scene.gate {
            true => real.with_gate(Arc::new(gate.clone())),
            false => real,
        };
        let (queue, done, failed) = (Arc::clone(&queue), Arc::clone(&done), Arc::clone(&failed));
        async move {
            sleep(Duration::from_millis(scene.stagger_ms * worker as u64)).await;
            loop {
                let batch = queue.take(scene.batch);
                if !batch.is_empty() {
                    let ids = batch.len();
                    let answer = real
                        .handle(event(batch), Instant::now() + Duration::from_secs(900))
                        .await
                        .unwrap();
                    *done.lock().unwrap() += ids;
                    *failed.lock().unwrap() += answer.batch_item_failures.len();
                    continue;
                }
                match queue.next_at() {
                    Some(at) => sleep_until(at).await,
                    // Others may still put theirs back.
                    None if origin.elapsed() > Duration::from_secs(40_000) => return,
                    None => sleep(Duration::from_secs(200)).await,
                }
            }
        }
    });
    futures_util::future::join_all(work).await;
    let provider = std::mem::replace(
        &mut *provider.lock().unwrap(),
        Provider {
            window,
            opens,
            counted: VecDeque::new(),
            calls: Vec::new(),
        },
    );
    let served = provider.calls.iter().filter(|(.., served)| *served).count();
    let (early, failed) = (*early.lock().unwrap(), *failed.lock().unwrap());
    Outcome {
        provider,
        early,
        done: served,
        failed,
        gate,
        first_refusal: first_refusal.lock().unwrap().unwrap_or_default(),
    }
}

pub(super) fn per(limit: u32, seconds: u64) -> Window {
    Window {
        limit: NonZeroU32::new(limit).unwrap(),
        per: Duration::from_secs(seconds),
    }
}
