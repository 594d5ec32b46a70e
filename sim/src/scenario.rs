//! What is simulated: a queue, a platform, settings, messages with what their handlers come to, and faults. All of it
//! follows from a seed.

use std::time::Duration;

use fastrand::Rng;
use frigg_worker::Limits;
use frigg_worker::gate::Pace;

/// One scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Where it comes from.
    pub seed: u64,
    /// What runs the workers.
    pub platform: Platform,
    /// The queue.
    pub queue: QueueSpec,
    /// Whether there is a scheduler role.
    pub scheduling: bool,
    /// `FRIGG_RELAY`
    pub relay: bool,
    /// `FRIGG_MAX_DELAY_SECONDS`
    pub max_delay: Duration,
    /// The caps.
    pub limits: Limits,
    /// Whether the environment tells `maxReceiveCount` too.
    pub receives_are_told: bool,
    /// The provider's limit for calls that ask it.
    pub window: Window,
    /// What the workers share of limits; without it each meets them by itself.
    pub gate: Option<GateSpec>,
    /// Whether the handler takes whole batches.
    pub per_batch: bool,
    /// What goes wrong.
    pub weather: Weather,
    /// The messages.
    pub jobs: Vec<JobSpec>,
}

/// What runs the workers.
#[derive(Debug, Clone, Copy)]
pub enum Platform {
    /// Lambda with an event source mapping.
    Lambda {
        /// Processes.
        sandboxes: usize,
        /// Invocations at once in one process.
        at_once: usize,
        /// The function's timeout in seconds.
        timeout: u64,
        /// Messages of one batch.
        batch: usize,
    },
    /// Processes that poll.
    Poll {
        /// How many.
        processes: usize,
        /// `FRIGG_CONCURRENCY`
        concurrency: usize,
    },
}

/// The queue's settings.
#[derive(Debug, Clone, Copy)]
pub struct QueueSpec {
    /// A FIFO queue?
    pub fifo: bool,
    /// `VisibilityTimeout` in seconds.
    pub visibility: u32,
    /// `maxReceiveCount`; without it there is no dead-letter queue.
    pub max_receives: Option<u32>,
    /// `MessageRetentionPeriod` in seconds.
    pub retention: u64,
    /// `MaximumMessageSize` in bytes.
    pub max_bytes: usize,
}

/// At most `calls` in each window of `seconds`.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Calls.
    pub calls: u32,
    /// Its length.
    pub seconds: u64,
    /// Whether a refusal names it.
    pub is_told: bool,
}

/// The store of the gate.
#[derive(Debug, Clone, Copy)]
pub struct GateSpec {
    /// Whether calls are paced before a limit is met.
    pub pace: Pace,
    /// From when until when it is down, in seconds.
    pub down: Option<(u64, u64)>,
    /// Whether it is silent then, or refuses.
    pub silent: bool,
}

/// How often things go wrong, of a thousand; and how many times at most.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// The process dies at a call, before or after its effect.
    pub crash: u32,
    /// A call is refused or fails, before or after its effect; one entry of a batch fails.
    pub fail: u32,
    /// A call is never answered.
    pub hang: u32,
    /// A call takes seconds.
    pub slow: u32,
    /// SQS delivers twice.
    pub duplicate: u32,
    /// The scheduler fires twice, early, or an hour late.
    pub scheduler: u32,
    /// Lambda does not hear the answer.
    pub lost_answer: u32,
    /// After so many faults the sky is blue.
    pub at_most: u32,
}

/// A message.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// When it is sent, in milliseconds from the start.
    pub sent_at: u64,
    /// Its body, which names the job as `#17#`.
    pub body: String,
    /// Whether it has attributes, a trace header, a group.
    pub attributes: bool,
    /// A trace header?
    pub trace: bool,
    /// FIFO group, or tenant.
    pub group: Option<String>,
    /// Whose limit it counts against, where there is a gate.
    pub key: Option<&'static str>,
    /// What its handler comes to, run by run; after the last it succeeds.
    pub steps: Vec<Step>,
}

/// What a handler does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Works for so many milliseconds, and is done.
    Work(u64),
    /// Is told to come back in so many milliseconds.
    Limit(u64),
    /// Is limited without a time; `true`: for the day.
    LimitWithoutTime(bool),
    /// Asks the provider with its window.
    Ask,
    /// Fails.
    Fail,
    /// Panics.
    Panic,
    /// Fails for good.
    Permanent,
    /// Takes its process with it.
    Crash,
}

/// Somebody else's member of the envelope.
pub(crate) const FOREIGN: &str = r#""_frigg":{"other":1},"#;
const HOUR: u64 = 3_600_000;

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}: {:?}", self.seed, self.platform)?;
        writeln!(f, "{:?}", self.queue)?;
        writeln!(
            f,
            "scheduling {}, relay {}, max_delay {:?}, {:?}, receives_are_told {}, {:?}",
            self.scheduling, self.relay, self.max_delay, self.limits, self.receives_are_told, self.window
        )?;
        writeln!(f, "{:?}, per_batch {}", self.gate, self.per_batch)?;
        writeln!(f, "{:?}", self.weather)?;
        for (number, job) in self.jobs.iter().enumerate() {
            writeln!(f, "job {number}: {job:?}")?;
        }
        Ok(())
    }
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Scenario {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let rng = &mut rng;
        let fifo = chance(rng, 25);
        let limits = Limits {
            max_deferrals: pick(rng, &[30, 30, 30, 2, 4]),
            max_deferred: Duration::from_secs(pick(rng, &[26, 26, 26, 2, 13]) * 3600),
        };
        let platform = if chance(rng, 60) {
            Platform::Lambda {
                sandboxes: rng.usize(1..4),
                at_once: pick(rng, &[1, 1, 1, 3]),
                timeout: pick(rng, &[10, 30, 300, 900]),
                batch: pick(rng, &[1, 3, 10, 10]),
            }
        } else {
            Platform::Poll {
                processes: rng.usize(1..3),
                concurrency: pick(rng, &[1, 3, 10]),
            }
        };
        let visibility = match platform {
            Platform::Lambda { timeout, .. } => timeout as u32 * 6,
            Platform::Poll { .. } => pick(rng, &[2, 5, 30, 120]),
        };
        let max_receives = if fifo {
            pick(
                rng,
                &[
                    None,
                    Some(limits.max_deferrals + 3),
                    Some(limits.max_deferrals + 20),
                ],
            )
        } else {
            pick(
                rng,
                &[None, Some(1), Some(2), Some(3), Some(3), Some(5), Some(10)],
            )
        };
        let gate = chance(rng, 30).then(|| gate(rng));
        // What is past a cap, and behind a closed gate, comes again and again until that opens.
        let visibility = match (gate, max_receives) {
            (Some(_), None) => visibility.max(120),
            _ => visibility,
        };
        let queue = QueueSpec {
            fifo,
            visibility,
            max_receives,
            retention: retention(rng, fifo, visibility),
            max_bytes: pick(rng, &[1 << 20, 1 << 20, 1024]),
        };
        let jobs = pick(rng, &[1, 1, 2, 2, 3, 5, 7]);
        let at_once = chance(rng, 50);
        Scenario {
            seed,
            platform,
            queue,
            scheduling: !fifo && chance(rng, 50),
            relay: chance(rng, 25),
            max_delay: Duration::from_secs(pick(rng, &[900, 900, 900, 900, 200])),
            limits,
            receives_are_told: chance(rng, 30),
            window: Window {
                calls: rng.u32(1..4),
                seconds: pick(rng, &[1, 10, 60, 3600]),
                is_told: chance(rng, 50),
            },
            gate,
            // On a FIFO queue its handler would have to stop groups itself.
            per_batch: !fifo && chance(rng, 20),
            weather: weather(rng),
            jobs: (0..jobs).map(|job| job_spec(rng, job, at_once, &queue)).collect(),
        }
    }
}

fn retention(rng: &mut Rng, fifo: bool, visibility: u32) -> u64 {
    let long = pick(rng, &[14 * 86_400, 14 * 86_400, 86_400, 6 * 3600, 3600]);
    // A FIFO group goes on when its head is deleted for its age, be it in the hands of a worker.
    if fifo || chance(rng, 80) {
        return long;
    }
    // Long enough for a second receive.
    pick(rng, &[60, 600]).max(4 * u64::from(visibility))
}

fn gate(rng: &mut Rng) -> GateSpec {
    GateSpec {
        pace: pick(rng, &[Pace::WhenLimited, Pace::WhenLimited, Pace::Shared]),
        down: chance(rng, 40).then(|| {
            let from = pick(rng, &[0, 1, 60, 900, 3600]);
            (from, from + pick(rng, &[3, 60, 3600, 100_000]))
        }),
        silent: chance(rng, 30),
    }
}

fn weather(rng: &mut Rng) -> Weather {
    if chance(rng, 25) {
        return Weather::default();
    }
    let mut rate = |some: &[u32]| if chance(rng, 50) { 0 } else { pick(rng, some) };
    Weather {
        crash: rate(&[10, 50, 200]),
        fail: rate(&[20, 100, 400]),
        hang: rate(&[5, 50]),
        slow: rate(&[50, 300]),
        duplicate: rate(&[10, 50]),
        scheduler: rate(&[100, 500]),
        lost_answer: rate(&[20, 100]),
        at_most: rate(&[1, 3, 10]) + 1,
    }
}

fn job_spec(rng: &mut Rng, job: usize, at_once: bool, queue: &QueueSpec) -> JobSpec {
    let mut steps = Vec::new();
    while steps.len() < 6 && chance(rng, if steps.is_empty() { 85 } else { 50 }) {
        steps.push(step(rng));
    }
    JobSpec {
        sent_at: if at_once { 0 } else { rng.u64(0..600_000) },
        body: body(rng, job, queue),
        attributes: chance(rng, 30),
        trace: chance(rng, 20),
        group: if queue.fifo {
            Some(format!("g{}", rng.u8(0..3)))
        } else {
            chance(rng, 20).then(|| "tenant".to_owned())
        },
        key: pick(rng, &[None, Some("p"), Some("p"), Some("q")]),
        steps,
    }
}

fn step(rng: &mut Rng) -> Step {
    match rng.u32(0..100) {
        0..48 => Step::Limit(wait(rng)),
        48..56 => Step::LimitWithoutTime(chance(rng, 30)),
        56..70 => Step::Ask,
        70..80 => Step::Fail,
        80..83 => Step::Panic,
        83..86 => Step::Permanent,
        86..89 => Step::Crash,
        _ => Step::Work(pick(rng, &[1, 900, 5_000, 40_000, 250_000, 1_000_000])),
    }
}

/// Milliseconds, the borders of the tiers among them.
fn wait(rng: &mut Rng) -> u64 {
    match rng.u32(0..10) {
        0 => rng.u64(0..2_500),
        1..5 => rng.u64(2_000..900_000),
        5 => pick(rng, &[899_001, 899_999, 900_000, 900_001, 901_000, 960_000]),
        6 => rng.u64(900_000..2 * HOUR),
        7 => rng.u64(900_000..5 * HOUR),
        8 => pick(
            rng,
            &[
                1_800_000, 2_700_001, 41_999_500, 42_000_000, 42_000_001, 43_200_000,
            ],
        ),
        _ if chance(rng, 50) => rng.u64(900_000..3 * HOUR),
        _ => rng.u64(5 * HOUR..30 * HOUR),
    }
}

fn body(rng: &mut Rng, job: usize, queue: &QueueSpec) -> String {
    match rng.u32(0..20) {
        0..8 => format!(r##"{{"id":"#{job}#"}}"##),
        8..11 => {
            format!(r##"{{ "n":1e400, "id":"#{job}#", "a":"<aws.scheduler.execution-id>", "é":"ß\u00e9" }}"##)
        }
        11..13 => format!("#{job}# is no JSON <b>"),
        13 => format!(r##"["#{job}#",1]"##),
        // Without a dead-letter queue it would come again for ever.
        14..16 if queue.max_receives.is_some() => format!(r##"{{"id":"#{job}#","unreadable":1}}"##),
        // Without room for an envelope where the queue is a narrow one.
        16 => format!(
            r##"{{"id":"#{job}#","pad":"{}"}}"##,
            "x".repeat(queue.max_bytes.min(1024) - 60)
        ),
        17 => format!(r##"{{{FOREIGN}"id":"#{job}#"}}"##),
        _ => format!(r##"{{"id":"#{job}#","data":{{"x":[1,2,3]}}}}"##),
    }
}

fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}

fn pick<T: Copy>(rng: &mut Rng, some: &[T]) -> T {
    some[rng.usize(0..some.len())]
}
