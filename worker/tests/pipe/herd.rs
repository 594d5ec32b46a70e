//! A herd in virtual time: workers with clocks of their own, a gate that is down at times, a provider that refuses beyond
//! its rate, and the real pipe in between.

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
use frigg_worker::testing::{FakeGate, GateCall, event, message};
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
struct Provider {
    window: Window,
    opens: Duration,
    counted: VecDeque<Duration>,
    /// When each call came, and whether it was served.
    calls: Vec<(Duration, usize, bool)>,
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
struct Scene {
    messages: u64,
    window: Window,
    /// The provider refuses everything until then.
    opens: Duration,
    /// How far the workers' clocks are apart.
    skew_ms: i64,
    /// When the store is down, in seconds.
    outages: &'static [(u64, u64)],
    /// The store answers at random within this time.
    store_ms: u64,
    /// Set for each worker.
    variables: &'static [(&'static str, &'static str)],
}

impl Scene {
    fn of(messages: u64, window: Window) -> Self {
        Scene {
            messages,
            window,
            opens: Duration::ZERO,
            skew_ms: 20,
            outages: &[],
            store_ms: 0,
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
    window: Window,
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
        sleep(Duration::from_millis(20)).await;
        let Err(wait) = refused else { return Ok(()) };
        self.told
            .lock()
            .unwrap()
            .insert(id, now + Duration::from_secs(wait));
        let limited = RateLimited::after(self.clock.now(), Duration::from_secs(wait));
        Err(limited.with_reason(Reason::Burst).with_window(self.window).into())
    }

    fn scope_key(&self, _: &Value) -> Option<String> {
        Some(KEY.to_owned())
    }
}

struct Outcome {
    provider: Provider,
    early: usize,
    done: usize,
    failed: usize,
    gate: FakeGate,
}

impl Outcome {
    fn refused(&self) -> usize {
        self.provider.calls.iter().filter(|(.., served)| !served).count()
    }

    /// Of the calls that the provider would have served from `from` to the last one, how many were made.
    fn utilisation(&self, from: Duration) -> f64 {
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

/// Runs a scene with twenty workers, each with ten records at a time.
async fn run(scene: Scene) -> Outcome {
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
            window,
        };
        let aws = Aws(Arc::clone(&queue));
        let real = Worker::new(herd, config)
            .with_sqs(Arc::new(aws.clone()))
            .with_scheduler(Arc::new(aws))
            .with_gate(Arc::new(gate.clone()))
            .with_clock(clock);
        let (queue, done, failed) = (Arc::clone(&queue), Arc::clone(&done), Arc::clone(&failed));
        async move {
            loop {
                let batch = queue.take(10);
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
    }
}

fn per(limit: u32, seconds: u64) -> Window {
    Window {
        limit: NonZeroU32::new(limit).unwrap(),
        per: Duration::from_secs(seconds),
    }
}

#[tokio::test(start_paused = true)]
async fn messages_keep_the_provider_busy() {
    let outcome = run(Scene::of(4_000, per(100, 10))).await;
    assert_eq!((outcome.done, outcome.failed, outcome.early), (4_000, 0, 0));
    let (refused, used) = (outcome.refused(), outcome.utilisation(Duration::ZERO));
    println!("refused {refused}, of the quota used {:.2} %", used * 100.0);
    assert!(used >= 0.95, "{used}");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_messages_lose_nothing_by_clocks_two_seconds_apart_and_outages() {
    let outcome = run(Scene {
        skew_ms: 2_000,
        outages: &[(200, 230), (600, 640)],
        ..Scene::of(10_000, per(100, 10))
    })
    .await;
    assert_eq!((outcome.done, outcome.failed, outcome.early), (10_000, 0, 0));
    let (refused, used) = (outcome.refused(), outcome.utilisation(Duration::ZERO));
    println!("refused {refused}, of the quota used {:.2} %", used * 100.0);
    assert!(used >= 0.85, "{used}");
    assert!(refused < 500, "{refused}");
}

/// Ten calls a second leave a call 52 ms, and this store takes up to 150 ms for an answer.
#[tokio::test(start_paused = true)]
async fn a_slow_store_makes_no_call_late() {
    let shared = &[("FRIGG_PACE", "shared"), ("FRIGG_RATES", "crm:*=10/s")];
    for (variables, most) in [(&[][..], 200), (shared, 0)] {
        let outcome = run(Scene {
            store_ms: 150,
            variables,
            ..Scene::of(600, per(10, 1))
        })
        .await;
        assert_eq!((outcome.done, outcome.failed, outcome.early), (600, 0, 0));
        let late = outcome
            .provider
            .calls
            .iter()
            .filter(|(at, _, served)| !served && *at > Duration::from_secs(1))
            .count();
        println!(
            "{variables:?}: refused {}, {late} of them after the first second, of the quota used {:.2} %",
            outcome.refused(),
            outcome.utilisation(Duration::ZERO) * 100.0
        );
        assert!(
            outcome.refused() <= most && late == 0,
            "{}, {late}",
            outcome.refused()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_daily_limit_costs_one_call_each_and_lets_no_herd_in_at_its_reset() {
    let reset = Duration::from_secs(8 * 3600);
    let outcome = run(Scene {
        opens: reset,
        ..Scene::of(5_000, per(10, 1))
    })
    .await;
    assert_eq!((outcome.done, outcome.failed, outcome.early), (5_000, 0, 0));
    let calls = &outcome.provider.calls;
    let before = calls.iter().filter(|(at, ..)| *at < reset);
    let mut by_worker = HashMap::new();
    // The first one learned it; those that were in flight then are its equals.
    for (at, worker, _) in before.clone() {
        assert!(
            *at <= Duration::from_millis(20),
            "{at:?}: a call that had to know"
        );
        *by_worker.entry(worker).or_insert(0) += 1;
    }
    println!("calls before the reset by worker: {by_worker:?}");
    let mut buckets = HashMap::new();
    for (at, ..) in calls.iter().filter(|(at, ..)| *at >= reset) {
        *buckets.entry(at.as_secs()).or_insert(0) += 1;
    }
    let most = buckets.values().max().unwrap();
    println!(
        "most in a second after the reset: {most}, refused {}",
        outcome.refused()
    );
    assert!(*most <= 20, "{most}");
    let writes = outcome
        .gate
        .calls()
        .iter()
        .filter(|call| matches!(call, GateCall::Reserve(..)))
        .count();
    println!("reservations: {writes} for 5,000 messages");
}
