//! The worker's tables: the gate, and the state of processes, against the rules that the fakes in memory follow.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use frigg_tests::emulator::{Emulator, REGION};
use frigg_tests::proxy::Proxy;
use frigg_worker::core::rate_limit::{Reason, Window};
use frigg_worker::core::time::{iso, parse_iso};
use frigg_worker::gate::{Closure, GateStore, Line, Reservation};
use frigg_worker::run_state::{Mechanism, RunState, State, Status};
use frigg_worker::testing::{FakeGate, FakeSqs, MemoryState, event, message};
use frigg_worker::{
    Aws, BoxError, Clock, Config, DynamoGate, DynamoState, HandlerError, Job, RateLimited, Raw, Worker,
    handler_fn,
};
use futures_util::future::join;
use futures_util::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::{self, Outcome};

pub(crate) fn aws(emulator: &Emulator) -> Aws {
    aws_at(emulator.endpoint())
}

fn aws_at(endpoint: &str) -> Aws {
    let credentials = Credentials::new("test", "test", None, None, "frigg-tests");
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .region(Region::new(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Aws::with_config(config.build())
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_596_800_000 + ms).expect("a time of our days")
}

fn closure(ms: i64, window: Option<Window>) -> Closure {
    Closure {
        until: at(ms),
        reason: Reason::Daily,
        module: Some("crm".to_owned()),
        window,
    }
}

fn asked(line: Line, from: i64, before: i64) -> Reservation {
    Reservation {
        line,
        from: at(from),
        before: at(before),
        gap: Duration::from_micros(105_264),
    }
}

pub(crate) fn text(error: BoxError) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

#[tokio::test]
async fn the_gates_table_follows_the_same_rules_as_the_fake() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let table = emulator.create_table("rules").await?;
    let (store, fake) = (DynamoGate::new(aws(emulator), &table), FakeGate::default());
    let odd = format!("é \"\\\n\u{1}{}", "k".repeat(1_000));
    let window = Window {
        limit: NonZeroU32::MIN,
        per: Duration::from_millis(1_500),
    };
    for key in ["hubspot:entity:7", odd.as_str()] {
        assert_eq!(store.look(key).await.map_err(text)?, Default::default());
        // Closures that come late, again, and earlier; reservations that begin a line, go on, and find it full.
        for (step, ms) in [5_000, 4_000, 5_000, 9_000, 0, -3_600_000]
            .into_iter()
            .enumerate()
        {
            let closure = closure(ms, (step == 1 || step == 3).then_some(window));
            store.close(key, &closure).await.map_err(text)?;
            fake.close(key, &closure).await.map_err(text)?;
            for asked in [
                asked(Line::Return, ms, ms + 3_600_000),
                asked(Line::Return, ms, ms + 3_600_000),
                asked(Line::Call, ms, ms + 100),
                asked(Line::Call, ms, ms + 100),
                asked(Line::Call, ms, ms),
            ] {
                let (got, want) = (store.reserve(key, &asked).await, fake.reserve(key, &asked).await);
                assert_eq!(got.map_err(text)?, want.map_err(text)?, "step {step}: {asked:?}");
            }
            assert_eq!(
                store.look(key).await.map_err(text)?,
                fake.gate(key),
                "step {step}"
            );
        }
    }
    let item = emulator.get_item(&table, "hubspot:entity:7").await?;
    let ttl: i64 = item["ttl"]["N"].as_str().unwrap_or_default().parse()?;
    assert!(
        ttl > at(9_000).as_second() + 86_400,
        "kept for longer than anything waits: {item}"
    );
    Ok(())
}

#[tokio::test]
async fn an_item_of_another_shape_is_no_entry_and_is_written_over() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let table = emulator.create_table("shapes").await?;
    let item = json!({
        "pk": { "S": "a" }, "closedUntil": { "S": "tomorrow" }, "nextReturn": { "BOOL": true }, "nextCall": { "L": [] },
        "reason": { "N": "1" }, "windowLimit": { "N": "-4" }, "windowMs": { "N": "1.5" }, "module": { "M": {} },
    });
    emulator.put_item(&table, &item).await?;
    let store = DynamoGate::new(aws(emulator), &table);
    assert_eq!(store.look("a").await.map_err(text)?, Default::default());
    store.close("a", &closure(5_000, None)).await.map_err(text)?;
    for line in [Line::Return, Line::Call] {
        let slot = store.reserve("a", &asked(line, 0, 9_000)).await.map_err(text)?;
        assert_eq!(slot, Some(at(0)));
    }
    assert_eq!(store.look("a").await.map_err(text)?.closed_until, Some(at(5_000)));

    // Numbers that are no time: nanoseconds, in the place of microseconds.
    let far = json!({ "N": "1790000000000000000" });
    let item = json!({ "pk": { "S": "b" }, "closedUntil": far, "nextReturn": far, "nextCall": far });
    emulator.put_item(&table, &item).await?;
    store.close("b", &closure(5_000, None)).await.map_err(text)?;
    assert_eq!(store.look("b").await.map_err(text)?.closed_until, Some(at(5_000)));
    for line in [Line::Return, Line::Call] {
        let slot = store.reserve("b", &asked(line, 0, 9_000)).await.map_err(text)?;
        assert_eq!(slot, Some(at(0)));
    }

    let states = DynamoState::new(aws(emulator), &table, Clock::from_fn(|| at(0)));
    let waiting = state(Status::Waiting, at(5_000));
    for (n, odd) in [
        json!({ "status": { "N": "1" }, "retryAt": { "N": "5" } }),
        json!({ "status": { "S": "paused" } }),
        json!({ "status": { "S": "WAITING" }, "retryAt": { "N": "5" } }),
        json!({ "status": { "S": "WAITING" } }),
    ]
    .into_iter()
    .enumerate()
    {
        let (process, mut item) = (format!("p{n}"), odd.clone());
        item["pk"] = json!({ "S": format!("process#{process}") });
        emulator.put_item(&table, &item).await?;
        assert_eq!(states.state(&process).await.map_err(text)?, None, "{odd}");
        let body = json!({ "data": { "processId": process } }).to_string();
        states.clear(&body, "x").await.map_err(text)?;
        states.record(&body, &waiting).await.map_err(text)?;
        let stored = states.state(&process).await.map_err(text)?;
        assert_eq!(stored.map(|(state, _)| state), Some(waiting.clone()), "{odd}");
    }
    Ok(())
}

fn state(status: Status, retry_at: Timestamp) -> State {
    State {
        status,
        mechanism: Mechanism::Delay,
        retry_at,
        reason: Reason::Burst,
        module: Some("hubspot".to_owned()),
        deferrals: 1,
        deferral_id: "m-1".to_owned(),
    }
}

#[tokio::test]
async fn two_writers_in_the_same_instant_never_leave_the_earlier_time() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let table = emulator.create_table("race").await?;
    let states = DynamoState::new(aws(emulator), &table, Clock::from_fn(|| at(0)));
    let gate = DynamoGate::new(aws(emulator), &table);
    let race = |round: i64| {
        let (states, gate) = (&states, &gate);
        async move {
            let body = json!({ "data": { "processId": round } }).to_string();
            let times = if round % 2 == 0 {
                (1_000, 2_000)
            } else {
                (2_000, 1_000)
            };
            let (first, second) = (
                state(Status::Waiting, at(times.0)),
                state(Status::Waiting, at(times.1)),
            );
            let (a, b) = join(states.record(&body, &first), states.record(&body, &second)).await;
            a.and(b).map_err(text)?;
            let stored = states.state(&round.to_string()).await.map_err(text)?;
            assert_eq!(
                stored.map(|(state, _)| state.retry_at),
                Some(at(2_000)),
                "round {round}"
            );
            // The gate's closures and slots, on fewer rounds.
            if round % 10 == 0 {
                let key = format!("race:{round}");
                let (first, second) = (closure(times.0, None), closure(times.1, None));
                let (a, b) = join(gate.close(&key, &first), gate.close(&key, &second)).await;
                a.and(b).map_err(text)?;
                assert_eq!(gate.look(&key).await.map_err(text)?.closed_until, Some(at(2_000)));
                let asked = asked(Line::Return, 0, 60_000);
                let slots = join(gate.reserve(&key, &asked), gate.reserve(&key, &asked)).await;
                let mut slots = [slots.0.map_err(text)?, slots.1.map_err(text)?];
                slots.sort();
                assert_eq!(slots, [Some(at(0)), Some(at(0) + Duration::from_micros(105_264))]);
            }
            anyhow::Ok(())
        }
    };
    let rounds = stream::iter(0..1_000).map(race).buffer_unordered(20);
    rounds.collect::<Vec<_>>().await.into_iter().collect()
}

// ---- What it costs

/// A batch of ten for a key, on a worker whose table is behind a proxy: the reads and writes on the wire.
async fn cost(
    proxy: &Proxy,
    table: &str,
    variables: &[(&str, &str)],
    key: &str,
    limit: Option<RateLimited>,
) -> Result<(usize, usize)> {
    let scope = key.to_owned();
    let handler = handler_fn(move |_: Job<Raw>| {
        let answer = limit
            .clone()
            .map_or(Ok(()), |limit| Err(HandlerError::from(limit)));
        async move { answer }
    });
    let handler = handler.with_scope_key(move |_: &Raw| Some(scope.clone()));
    let (config, _) = Config::from_variables(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    });
    let worker = Worker::new(handler, config)
        .with_sqs(Arc::new(FakeSqs::default()))
        .with_gate(Arc::new(DynamoGate::new(aws_at(&proxy.url()), table)));
    let count = |operation: &str| {
        let mut calls = proxy.calls_of(operation);
        calls.retain(|call| call.request["Key"]["pk"]["S"] == key);
        calls.len()
    };
    let before = (count("GetItem"), count("UpdateItem"));
    let messages = (0..10).map(|n| message(&format!("m{n}"), "{}")).collect();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    let answer = worker.handle(event(messages), deadline).await?;
    assert_eq!(answer.batch_item_failures, [], "{key}");
    Ok((count("GetItem") - before.0, count("UpdateItem") - before.1))
}

/// The reads and writes of batches, by what they meet.
async fn costs(emulator: &Emulator, proxy: &Proxy) -> Result<Vec<(&'static str, usize, usize)>> {
    let table = emulator.create_table("cost").await?;
    let limited =
        || RateLimited::after(frigg_tests::clock::now(), Duration::from_secs(60)).with_reason(Reason::Burst);
    let paced = || {
        limited().with_window(Window {
            limit: NonZeroU32::MIN,
            per: Duration::from_secs(1),
        })
    };
    let one = ("FRIGG_CONCURRENCY", "1");
    let (shared, fast) = (("FRIGG_PACE", "shared"), ("FRIGG_RATES", "free*=1000/1m"));
    let mut found = Vec::new();
    for (key, variables, limit) in [
        ("open", &[one][..], None),
        ("limited", &[one], Some(limited())),
        ("paced", &[one], Some(paced())),
        ("paced", &[one], Some(paced())),
        ("at-once", &[], Some(limited())),
        ("free", &[one, shared, fast], None),
        ("free-at-once", &[shared, fast], None),
    ] {
        let (reads, writes) = cost(proxy, &table, variables, key, limit).await?;
        found.push((key, reads, writes));
    }
    Ok(found)
}

#[tokio::test]
async fn a_batch_costs_a_read_and_a_slot_a_write_or_two() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let proxy = Proxy::start(emulator.endpoint()).await?;
    let want = [
        // Ten records of an open key.
        ("open", 1, 0),
        // The first one is limited; the others are not run.
        ("limited", 1, 1),
        // And each has a slot.
        ("paced", 1, 1 + 10),
        // A worker that does not know how far the line has come writes twice for its first slot.
        ("paced", 1, 2 + 9),
        // On their way at once, with the same time.
        ("at-once", 1, 1),
        // A call slot each.
        ("free", 1, 10),
    ];
    let mut found = Vec::new();
    // An emulator that is slow for a moment costs a slot that is missed, or what is remembered for seconds.
    for _ in 0..5 {
        found = costs(emulator, &proxy).await?;
        // Of ten at once, one begins the line, and the others learn that it is begun.
        if let Some((("free-at-once", 1, ..=20), rest)) = found.split_last()
            && rest == want
        {
            return Ok(());
        }
    }
    bail!("{found:?} instead of {want:?} and (\"free-at-once\", 1, at most 20)")
}

// ---- Frigg's cases

/// What is asked of a store, beside the port.
enum Store {
    Fake(MemoryState),
    Table(DynamoState),
}

impl Store {
    fn port(&self) -> &dyn RunState {
        match self {
            Store::Fake(store) => store,
            Store::Table(store) => store,
        }
    }

    async fn stored(&self, process: &str) -> Option<(State, Timestamp)> {
        match self {
            Store::Fake(store) => store.state(process),
            Store::Table(store) => store.state(process).await.expect("the table answers"),
        }
    }
}

fn of_case(value: &Value) -> Option<State> {
    Some(State {
        status: Status::from_name(value["status"].as_str()?)?,
        mechanism: Mechanism::from_name(value["mechanism"].as_str()?)?,
        retry_at: parse_iso(value["retry_at"].as_str()?)?,
        reason: Reason::from_name(value["reason"].as_str()?)?,
        module: value["module"].as_str().map(str::to_owned),
        deferrals: u32::try_from(value["deferrals"].as_u64()?).ok()?,
        deferral_id: value["deferral_id"]
            .as_str()
            .unwrap_or("another message")
            .to_owned(),
    })
}

/// As Frigg writes it.
fn written((state, updated_at): &(State, Timestamp)) -> Value {
    json!({
        "status": state.status.as_str(), "mechanism": state.mechanism.as_str(), "retryAt": iso(state.retry_at),
        "reason": state.reason.frigg_name(), "module": state.module, "deferrals": state.deferrals,
        "deferralId": state.deferral_id, "updatedAt": iso(*updated_at),
    })
}

async fn run(case: &Value, process: &str, make: &dyn Fn(Clock) -> Store) -> Result<Outcome, BoxError> {
    let now = case["now"]
        .as_str()
        .and_then(parse_iso)
        .ok_or("a case without a time")?;
    let body = json!({ "data": { "processId": process } }).to_string();
    // What was there before, written an hour ago. The second store sees what the first one wrote.
    let store = make(Clock::from_fn(move || now - SignedDuration::from_hours(1)));
    if let Some(before) = of_case(&case["process"]["context"]["rateLimit"]) {
        store.port().record(&body, &before).await?;
    }
    let before = store.stored(process).await;
    let store = match store {
        Store::Fake(fake) => Store::Fake(fake.with_clock(Clock::from_fn(move || now))),
        Store::Table(_) => make(Clock::from_fn(move || now)),
    };
    let done = match case["op"].as_str() {
        Some("record") => {
            let incoming = of_case(&case["incoming"]).ok_or("a case with a state that cannot be read")?;
            store.port().record(&body, &incoming).await
        }
        _ => store.port().clear(&body, "this message").await,
    };
    let after = store.stored(process).await;
    let expect = &case["expect"];
    if done.is_err() {
        return Ok(Outcome::Failed(expect.to_string(), format!("{done:?}")));
    }
    if let Some(write) = expect["write"].as_bool()
        && write != (before != after)
    {
        return Ok(Outcome::Failed(
            expect.to_string(),
            format!("from {before:?} to {after:?}"),
        ));
    }
    if let Some(expected) = expect.get("stored") {
        let got = after.as_ref().map_or(Value::Null, written);
        let fits = match expected {
            Value::Object(members) => members.iter().all(|(name, value)| {
                let any = value == "any ISO text" && got[name].as_str().and_then(parse_iso).is_some();
                any || got[name] == *value
            }),
            other => *other == got,
        };
        if !fits {
            return Ok(Outcome::Failed(expected.to_string(), got.to_string()));
        }
    }
    Ok(Outcome::Passed)
}

#[tokio::test]
async fn cases_run_state() -> Result<()> {
    let Some(cases) = support::load("frigg/run_state.jsonl") else {
        return Ok(());
    };
    let emulator = Emulator::shared().await?;
    let table = emulator.create_table("state").await?;
    for (name, table) in [("run_state", None), ("run_state (DynamoDB)", Some(table))] {
        let mut score = support::Score::new(name);
        for (number, case) in cases.iter().enumerate() {
            let make = |clock: Clock| match &table {
                None => Store::Fake(MemoryState::new(clock)),
                Some(table) => Store::Table(DynamoState::new(aws(emulator), table, clock)),
            };
            let outcome = run(case, &format!("p-{number}"), &make).await.map_err(text)?;
            score.add(case, outcome);
        }
        assert!(score.print(), "cases {name} failed");
    }
    Ok(())
}
