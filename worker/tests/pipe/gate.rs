//! The gate and its slots: what one record's limit means to the others, in its batch and in other workers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use frigg_core::gate::{Closure, Line, Reservation};
use frigg_core::rate_limit::{Reason, Window};
use frigg_worker::gate::GateStore as _;
use frigg_worker::ports::QueueAttributes;
use frigg_worker::testing::{FakeGate, GateCall, StateCall, message};
use frigg_worker::{
    BatchHandler, Handler, HandlerError, Job, PerBatch, RateLimited, Raw, Router, Worker, handler_fn,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::*;

/// Takes the scope key from the body.
struct Keyed<H>(H);

impl<H: Handler<Message = Raw>> Handler for Keyed<H> {
    type Message = Raw;
    type Error = H::Error;

    async fn handle(&self, job: Job<Raw>) -> Result<(), H::Error> {
        self.0.handle(job).await
    }

    fn scope_key(&self, message: &Raw) -> Option<String> {
        key_of(&message.0)
    }
}

fn key_of(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    body["key"].as_str().map(str::to_owned)
}

fn keyed(id: &str, key: &str) -> SqsMessage {
    message(id, json!({ "key": key }).to_string())
}

fn window(limit: u32, per: u64) -> Window {
    Window {
        limit: NonZeroU32::new(limit).unwrap(),
        per: seconds(per),
    }
}

fn after(ms: i64) -> Timestamp {
    start() + SignedDuration::from_millis(ms)
}

/// Limited for so long, by a provider that documents ten calls a second.
fn paced(wait: u64) -> Result<(), HandlerError> {
    Err(RateLimited::after(start(), seconds(wait))
        .with_reason(Reason::Burst)
        .with_window(window(10, 1))
        .into())
}

impl Rig {
    fn gated_worker<F>(
        &self,
        gate: &FakeGate,
        f: F,
    ) -> Worker<Keyed<impl Handler<Message = Raw, Error = HandlerError> + use<F>>>
    where
        F: Fn(&Job<Raw>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        self.worker(Keyed(self.handler(f)))
            .with_gate(Arc::new(gate.clone()))
    }

    /// The envelopes of the copies, in the order of their ids.
    fn envelopes(&self) -> Vec<Value> {
        let body =
            |copy: &frigg_worker::ports::SendRequest| serde_json::from_str::<Value>(&copy.body).unwrap();
        let mut all: Vec<Value> = self
            .sent()
            .iter()
            .map(|copy| body(copy)["_frigg"].clone())
            .collect();
        all.sort_by_key(|envelope| envelope["deferralId"].to_string());
        all
    }
}

fn closed(until: Timestamp, window: Option<Window>) -> Closure {
    Closure {
        until,
        reason: Reason::Daily,
        module: Some("crm".to_owned()),
        window,
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_limit_the_later_records_of_its_key_are_not_run() {
    let (rig, gate) = (Rig::new(&[("FRIGG_CONCURRENCY", "1")]), FakeGate::default());
    let worker = rig.gated_worker(&gate, |job| match key_of(&job.message.0).as_deref() {
        Some("a") => limited(60),
        _ => Ok(()),
    });
    let batch = [("m1", "a"), ("m2", "a"), ("m3", "b"), ("m4", "a")];
    let failures = crate::support::batch(&worker, batch.map(|(id, key)| keyed(id, key)).into()).await;
    assert_eq!(
        (rig.handled(), failures.len()),
        (vec!["m1".to_owned(), "m3".to_owned()], 0)
    );
    let retry = "2026-09-28T12:01:00.000Z";
    let first = "2026-09-28T12:00:00.000Z";
    assert_eq!(
        rig.envelopes(),
        [
            json!({ "deferrals": 1, "firstDeferredAt": first, "deferralId": "m1", "retryAt": retry }),
            json!({ "gated": 1, "firstDeferredAt": first, "deferralId": "m2", "retryAt": retry }),
            json!({ "gated": 1, "firstDeferredAt": first, "deferralId": "m4", "retryAt": retry }),
        ]
    );
    assert_eq!(rig.lines(), ["record_deferred", "record_gated", "record_gated"]);
    let states: Vec<_> = rig
        .states
        .calls()
        .into_iter()
        .filter(|call| matches!(call, StateCall::Record(..)))
        .collect();
    assert_eq!(states.len(), 3, "each process waits");
    // One look for each key, and one write for the limit.
    let calls = gate.calls();
    assert_eq!(
        (&calls[0], &calls[2], calls.len()),
        (
            &GateCall::Look("a".to_owned()),
            &GateCall::Look("b".to_owned()),
            3
        ),
        "{calls:?}"
    );
    assert!(
        matches!(&calls[1], GateCall::Close(key, closure) if key == "a" && closure.until == after(60_000))
    );
}

/// The provider's word holds for all; the ladder is for a message that goes on being refused.
#[tokio::test(start_paused = true)]
async fn a_key_closes_for_as_long_as_the_provider_says_however_often_the_message_was_put_back() {
    for (wait, deferrals, closed_for) in [(1, 0, 1_000), (1, 6, 1_000), (0, 6, 1_000), (7, 6, 7_000)] {
        let (rig, gate) = (Rig::new(&[]), FakeGate::default());
        let worker = rig.gated_worker(&gate, move |_| limited(wait));
        let history =
            json!({ "deferrals": deferrals, "firstDeferredAt": start().to_string(), "deferralId": "m" });
        let body = json!({ "key": "a", "_frigg": history }).to_string();
        batch(&worker, vec![message("m", body)]).await;
        let until = gate.gate("a").closed_until;
        assert_eq!(until, Some(after(closed_for)), "{wait} s, {deferrals} deferrals");
    }
}

/// Those that were on their way when the first one was refused.
#[tokio::test(start_paused = true)]
async fn a_limit_that_ten_records_meet_at_once_is_written_once() {
    struct Limited(u64);
    impl Handler for Limited {
        type Message = Raw;
        type Error = HandlerError;
        async fn handle(&self, job: Job<Raw>) -> Result<(), HandlerError> {
            tokio::time::sleep(seconds(1)).await;
            let last = job.delivery.message_id == "m9";
            limited(if last { 60 + self.0 } else { 60 })
        }
        fn scope_key(&self, _: &Raw) -> Option<String> {
            Some("a".to_owned())
        }
    }
    // What is later is news.
    for (later, writes) in [(0, 1), (1, 2)] {
        let (rig, gate) = (Rig::new(&[]), FakeGate::default());
        let worker = rig.worker(Limited(later)).with_gate(Arc::new(gate.clone()));
        batch(
            &worker,
            (0..10).map(|n| message(&format!("m{n}"), "{}")).collect(),
        )
        .await;
        let calls = gate.calls();
        let closes = calls.iter().filter(|call| matches!(call, GateCall::Close(..)));
        assert_eq!((rig.sent().len(), closes.count()), (10, writes));
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_key_costs_one_look_in_a_batch() {
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    for _ in 0..2 {
        let messages = (0..10).map(|n| keyed(&format!("m{n}"), "a")).collect();
        assert_eq!(batch(&worker, messages).await, [""; 0]);
    }
    let look = GateCall::Look("a".to_owned());
    assert_eq!(
        gate.calls(),
        [look.clone(), look],
        "each batch asks: another worker may have met a limit"
    );
    assert_eq!(rig.handled().len(), 20);

    // No key, no cost.
    batch(&worker, vec![message("m1", "{}"), keyed("m2", "")]).await;
    assert_eq!((gate.calls().len(), rig.handled().len()), (2, 22));
}

#[tokio::test(start_paused = true)]
async fn another_workers_limit_is_this_ones_too() {
    let (rig, gate) = (Rig::new(&[ROLE]), FakeGate::default());
    gate.close("a", &closed(after(3_600_000), None)).await.unwrap();
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    for n in 0..3 {
        batch(&worker, vec![keyed(&format!("m{n}"), "a")]).await;
    }
    assert_eq!(rig.handled(), [""; 0]);
    let looks = |gate: &FakeGate| {
        gate.calls()
            .iter()
            .filter(|call| matches!(call, GateCall::Look(_)))
            .count()
    };
    assert_eq!(looks(&gate), 1, "a closed key is remembered");
    let line = rig.logs.of_event("frigg.worker.record_gated").remove(0);
    assert_eq!(
        (&line["level"], &line["module"], &line["reason"], &line["retryAt"]),
        (
            &json!("INFO"),
            &json!("crm"),
            &json!("daily"),
            &json!("2026-09-28T13:00:00.000Z")
        )
    );
    // But not for ever: people can open it.
    tokio::time::sleep(seconds(3)).await;
    batch(&worker, vec![keyed("m4", "a")]).await;
    assert_eq!(looks(&gate), 2);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_come_back_one_after_the_other() {
    let (rig, gate) = (Rig::new(&[("FRIGG_CONCURRENCY", "1")]), FakeGate::default());
    let worker = rig.gated_worker(&gate, |_| paced(5));
    let messages = (0..4).map(|n| keyed(&format!("m{n}"), "a")).collect();
    batch(&worker, messages).await;
    let times: Vec<Value> = rig
        .envelopes()
        .iter()
        .map(|envelope| envelope["retryAt"].clone())
        .collect();
    // 10 a second at 95 %, whole milliseconds, rounded up.
    assert_eq!(
        times,
        ["05.000", "05.106", "05.211", "05.316"].map(|s| json!(format!("2026-09-28T12:00:{s}Z")))
    );
    let delays: Vec<u32> = rig.sent().iter().map(|copy| copy.delay_seconds).collect();
    assert_eq!(
        delays,
        [5, 5, 5, 5],
        "the second before the slot, not after it: nothing adds up"
    );
    let slots = gate
        .calls()
        .iter()
        .filter(|call| matches!(call, GateCall::Reserve(..)))
        .count();
    assert_eq!(slots, 4, "one for each");

    // While they wait, a new message has to stand at the line's end, though the provider's time has come.
    tokio::time::sleep(Duration::from_millis(5_050)).await;
    let asked = Reservation {
        line: Line::Call,
        from: after(5_000),
        before: Timestamp::MAX,
        gap: seconds(1),
    };
    gate.reserve("a", &asked).await.unwrap();
    batch(&worker, vec![keyed("new", "a")]).await;
    let last = rig
        .envelopes()
        .into_iter()
        .find(|envelope| envelope["deferralId"] == "new")
        .unwrap();
    assert_eq!(
        (&last["retryAt"], &last["gated"]),
        (&json!("2026-09-28T12:00:05.422Z"), &json!(1))
    );
    assert_eq!(rig.handled(), ["m0"]);

    // Where those who should call are late, one that is here takes the slot.
    tokio::time::sleep(seconds(2)).await;
    gate.reserve(
        "a",
        &Reservation {
            line: Line::Return,
            from: after(9_000),
            ..asked
        },
    )
    .await
    .unwrap();
    batch(&worker, vec![keyed("m9", "a")]).await;
    assert_eq!(rig.handled(), ["m0", "m9"]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_waited_for_in_the_process_for_less_than_a_second() {
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    let waiting = |id: &str, ms: i64| {
        let envelope = json!({ "deferrals": 1, "firstDeferredAt": after(-1_000).to_string(), "retryAt": after(ms).to_string() });
        message(id, json!({ "key": "a", "_frigg": envelope }).to_string())
    };
    batch(
        &worker,
        vec![waiting("m1", 999), waiting("m2", 1_000), waiting("m3", 250)],
    )
    .await;
    let mut seen: Vec<_> = rig
        .seen()
        .into_iter()
        .map(|seen| (seen.delivery.message_id.clone(), seen.at))
        .collect();
    seen.sort();
    assert_eq!(
        seen,
        [("m1".to_owned(), after(999)), ("m3".to_owned(), after(250))]
    );
    assert_eq!(rig.sent().len(), 1, "a whole second goes back");
}

#[tokio::test(start_paused = true)]
async fn slots_far_away_are_hops_and_spend_no_receive() {
    let (rig, gate) = (
        Rig::new(&[("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "3")]),
        FakeGate::default(),
    );
    let far = Closure {
        window: Some(window(1, 1000)),
        ..closed(after(2_000_000), None)
    };
    gate.close("a", &far).await.unwrap();
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    batch(&worker, vec![keyed("m1", "a")]).await;
    assert_eq!(
        (rig.sent().len(), rig.sent()[0].delay_seconds, rig.hidden()),
        (1, 900, vec![])
    );
    assert_eq!(
        rig.envelopes()[0]["retryAt"],
        json!(format!("{:.3}", after(2_000_000)))
    );
}

#[tokio::test(start_paused = true)]
async fn shared_pace_reserves_before_the_call() {
    let rig = Rig::new(&[
        ("FRIGG_PACE", "shared"),
        ("FRIGG_RATES", "crm:*=10/s"),
        ("FRIGG_CONCURRENCY", "50"),
    ]);
    let gate = FakeGate::default();
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    batch(
        &worker,
        (0..30)
            .map(|n| keyed(&format!("m{n:02}"), "crm:entity:7"))
            .collect(),
    )
    .await;
    let mut calls: Vec<Timestamp> = rig.seen().into_iter().map(|seen| seen.at).collect();
    calls.sort();
    assert_eq!(calls.len(), 10, "what has a place within a second runs");
    for pair in calls.windows(2) {
        assert!(
            pair[1].duration_since(pair[0]) >= SignedDuration::from_micros(104_264),
            "{calls:?}"
        );
    }
    let returns: Vec<Value> = rig
        .envelopes()
        .iter()
        .map(|envelope| envelope["retryAt"].clone())
        .collect();
    assert_eq!(returns.len(), 20);
    assert_eq!(
        returns.iter().map(|at| at.as_str().unwrap()).min(),
        Some("2026-09-28T12:00:01.000Z")
    );
    let distinct: std::collections::HashSet<_> = returns.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 20, "each at its own time");
    // One look; at most two reservations for a record: of a call, and of a return when there was none.
    let (looks, slots): (Vec<_>, Vec<_>) = gate
        .calls()
        .into_iter()
        .partition(|call| matches!(call, GateCall::Look(_)));
    assert_eq!(looks.len(), 1);
    assert!(slots.len() <= 50, "{}", slots.len());

    // Other keys are not paced.
    assert_eq!(batch(&worker, vec![keyed("x", "other")]).await, [""; 0]);
    assert!(matches!(gate.calls().last(), Some(GateCall::Look(key)) if key == "other"));
}

/// A call at ten a second may begin 26 ms late in its slot.
#[tokio::test(start_paused = true)]
async fn a_slot_that_is_missed_is_taken_anew_and_the_stores_time_is_learnt() {
    let rig = Rig::new(&[("FRIGG_PACE", "shared"), ("FRIGG_RATES", "a=10/s")]);
    let gate = FakeGate::default();
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    let reserved = |gate: &FakeGate| {
        let calls = gate.calls();
        calls
            .iter()
            .filter(|call| matches!(call, GateCall::Reserve(..)))
            .count()
    };
    for (way, slots, told) in [
        (13, 1, "in time"),
        (
            30,
            3,
            "the slot is over when the answer is here, and the next one is asked for ahead",
        ),
        (30, 4, "now that is known"),
    ] {
        tokio::time::sleep(seconds(10)).await;
        gate.delay(move || Duration::from_millis(way));
        let before = gate.calls().len();
        batch(&worker, vec![keyed("m1", "a")]).await;
        assert_eq!(reserved(&gate), slots, "{told}");
        let (_, asked) = gate.calls()[before..]
            .iter()
            .filter_map(|call| match call {
                GateCall::Reserve(key, asked) => Some((key.clone(), *asked)),
                _ => None,
            })
            .next_back()
            .unwrap();
        let late = rig.seen().last().unwrap().at.duration_since(asked.from);
        assert!(late <= SignedDuration::from_millis(26), "{told}: {late}");
    }

    // A store that becomes slower all the time: the record goes back.
    let way = AtomicU64::new(30);
    gate.delay(move || Duration::from_millis(way.fetch_add(40, Ordering::Relaxed)));
    batch(&worker, vec![keyed("m2", "a")]).await;
    assert_eq!(rig.lines().last().unwrap(), "record_gated");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_opens_the_gate_with_one_warning() {
    let (rig, gate) = (Rig::new(&[("FRIGG_CONCURRENCY", "1")]), FakeGate::default());
    rig.sqs.set_attributes(QueueAttributes {
        backlog: Some(190),
        ..QueueAttributes::default()
    });
    let mut rig = rig;
    rig.clock = rig.clock.clone().with_random(|| 0.5);
    gate.fail(|_| Some("ResourceNotFoundException".to_owned()));
    let worker = rig.gated_worker(&gate, |_| paced(5));
    for n in 0..3 {
        batch(&worker, vec![keyed(&format!("m{n}"), &format!("k{n}"))]).await;
    }
    assert_eq!(rig.handled().len(), 3);
    assert_eq!(gate.calls().len(), 1, "it is left alone for a while");
    let warnings = rig.logs.of_event("frigg.worker.gate_unavailable");
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("ResourceNotFound")
    );
    // Without slots, the backlog decides: 190 at 9.5 a second take 20 s, and half of that is the draw.
    assert_eq!(
        rig.envelopes()[0]["retryAt"],
        json!(format!("{:.3}", after(15_000)))
    );

    // Within a batch a limit still counts, and after the rest the store is asked again.
    tokio::time::sleep(seconds(6)).await;
    gate.fail(|_| None);
    let far = rig.gated_worker(&gate, |_| limited(600));
    batch(&far, vec![keyed("a1", "z"), keyed("a2", "z")]).await;
    assert_eq!(rig.handled().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_or_panics_costs_two_seconds_and_nothing_else() {
    for panics in [false, true] {
        #[derive(Debug)]
        struct Bad(bool);
        impl frigg_worker::gate::GateStore for Bad {
            fn look<'a>(
                &'a self,
                _: &'a str,
            ) -> futures_util::future::BoxFuture<'a, Result<frigg_worker::gate::Gate, frigg_worker::BoxError>>
            {
                assert!(!self.0, "told to panic");
                Box::pin(std::future::pending())
            }
            fn close<'a>(
                &'a self,
                _: &'a str,
                _: &'a Closure,
            ) -> futures_util::future::BoxFuture<'a, Result<(), frigg_worker::BoxError>> {
                Box::pin(std::future::pending())
            }
            fn reserve<'a>(
                &'a self,
                _: &'a str,
                _: &'a frigg_worker::gate::Reservation,
            ) -> futures_util::future::BoxFuture<'a, Result<Option<Timestamp>, frigg_worker::BoxError>>
            {
                Box::pin(std::future::pending())
            }
        }
        let rig = Rig::new(&[]);
        let worker = rig
            .worker(Keyed(rig.handler(|_| Ok(()))))
            .with_gate(Arc::new(Bad(panics)));
        assert_eq!(batch(&worker, vec![keyed("m1", "a")]).await, [""; 0]);
        assert_eq!(rig.lines(), ["gate_unavailable"]);
        assert_eq!(rig.seen()[0].at, after(if panics { 0 } else { 2_000 }));
    }
}

#[tokio::test(start_paused = true)]
async fn any_key_that_fits_is_a_key() {
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    let worker = rig.gated_worker(&gate, |_| limited(60));
    let odd = format!("é\u{0}\"\\\n{}", "k".repeat(1_017));
    assert_eq!(odd.len(), 1_023);
    batch(&worker, vec![keyed("m1", &odd)]).await;
    assert_eq!(gate.gate(&odd).closed_until, Some(after(60_000)));

    let calls = gate.calls().len();
    batch(&worker, vec![keyed("m2", &"k".repeat(2_049))]).await;
    assert_eq!(
        (gate.calls().len(), rig.handled().len()),
        (calls, 2),
        "counts as none"
    );
    assert!(!rig.logs.of_event("frigg.worker.scope_key_too_long").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_errors_own_key_comes_first() {
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    let worker = rig.gated_worker(&gate, |_| {
        Err(RateLimited::after(start(), seconds(60))
            .with_scope_key("hubspot:entity:7")
            .into())
    });
    batch(&worker, vec![keyed("m1", "mine"), message("m2", "{}")]).await;
    assert_eq!(gate.gate("hubspot:entity:7").closed_until, Some(after(60_000)));
    assert_eq!(gate.gate("mine").closed_until, None);
}

#[tokio::test(start_paused = true)]
async fn a_gated_record_obeys_the_cap_on_the_time_and_no_other() {
    let (rig, gate) = (
        Rig::new(&[("FRIGG_QUEUE_MAX_DEFERRALS", "2")]),
        FakeGate::default(),
    );
    gate.close("a", &closed(after(26 * 3_600_000), None))
        .await
        .unwrap();
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    let deferred = |id: &str, first: i64| {
        let envelope = json!({ "deferrals": 2, "firstDeferredAt": after(first).to_string() });
        message(id, json!({ "key": "a", "_frigg": envelope }).to_string())
    };
    let failures = batch(&worker, vec![deferred("m1", 0), deferred("m2", -1)]).await;
    assert_eq!((failures, rig.sent().len()), (vec!["m2".to_owned()], 1));
    assert_eq!(rig.lines(), ["record_deferral_capped", "record_gated"]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_key_holds_its_fifo_group() {
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    gate.close("a", &closed(after(60_000), Some(window(10, 1))))
        .await
        .unwrap();
    let worker = rig.gated_worker(&gate, |_| Ok(()));
    let grouped = |id: &str, group: &str, key: &str| {
        on_queue(with_attribute(keyed(id, key), "MessageGroupId", group), FIFO)
    };
    let messages = vec![
        grouped("m1", "g1", "a"),
        grouped("m2", "g1", "b"),
        grouped("m3", "g2", "b"),
    ];
    assert_eq!(batch(&worker, messages).await, ["m1", "m2"]);
    assert_eq!(
        (rig.handled(), rig.hidden()),
        (vec!["m3".to_owned()], vec![("receipt-m1".to_owned(), 60)])
    );
    let slots = gate
        .calls()
        .iter()
        .filter(|call| matches!(call, GateCall::Reserve(..)))
        .count();
    assert_eq!(slots, 0, "a group keeps its order, not a slot");
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_does_not_see_the_gated() {
    struct Bulk;
    impl BatchHandler for Bulk {
        type Message = Raw;
        type Error = HandlerError;
        async fn handle_batch(&self, jobs: Vec<Job<Raw>>) -> Vec<Result<(), HandlerError>> {
            let ids: Vec<_> = jobs.iter().map(|job| job.delivery.message_id.as_str()).collect();
            assert_eq!(ids, ["m2", "m3"]);
            vec![Ok(()), broken()]
        }
        fn scope_key(&self, message: &Raw) -> Option<String> {
            key_of(&message.0)
        }
    }
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    gate.close("a", &closed(after(60_000), None)).await.unwrap();
    let worker = rig.worker(PerBatch(Bulk)).with_gate(Arc::new(gate.clone()));
    let messages = vec![
        keyed("m1", "a"),
        keyed("m2", "b"),
        keyed("m3", "c"),
        keyed("m4", "a"),
    ];
    assert_eq!(batch(&worker, messages).await, ["m3"]);
    assert_eq!(rig.sent().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_router_asks_the_handler_that_it_leads_to() {
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    gate.close("a", &closed(after(60_000), None)).await.unwrap();
    let handler = handler_fn(|_: Job<Value>| async { Ok::<(), HandlerError>(()) });
    let router = Router::new()
        .on(
            "SYNC",
            handler.with_scope_key(|body: &Value| Some(body["key"].as_str()?.to_owned())),
        )
        .on(
            "PING",
            handler_fn(|_: Job<Value>| async { Ok::<(), HandlerError>(()) }),
        );
    let worker = rig.worker(router).with_gate(Arc::new(gate.clone()));
    let body = |event: &str| json!({ "event": event, "key": "a" }).to_string();
    batch(
        &worker,
        vec![message("m1", body("SYNC")), message("m2", body("PING"))],
    )
    .await;
    assert_eq!(
        (rig.lines(), rig.sent().len()),
        (vec!["record_gated".to_owned()], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn frigg_knows_no_gate() {
    let (rig, gate) = (Rig::new(&[("FRIGG_COMPAT", "1")]), FakeGate::default());
    gate.close("a", &closed(after(60_000), None)).await.unwrap();
    let worker = rig.gated_worker(&gate, |_| paced(5));
    batch(&worker, vec![keyed("m1", "a")]).await;
    assert_eq!(
        (rig.handled().len(), gate.calls().len()),
        (1, 1),
        "the test's own call"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_gate_the_backlog_is_asked_for_once_and_spread() {
    let rig = Rig::new(&[]);
    rig.sqs.set_attributes(QueueAttributes {
        backlog: Some(95),
        ..QueueAttributes::default()
    });
    let mut rig = rig;
    rig.clock = rig.clock.clone().with_random(|| 0.25);
    let asked = |rig: &Rig| rig.count(|call| matches!(call, frigg_worker::testing::Call::QueueAttributes));
    rig.run(messages(3), |_| paced(5)).await;
    // 95 at 9.5 a second take 10 s.
    let late = |wait: i64| json!(format!("{:.3}", after(wait)));
    assert!(
        rig.envelopes()
            .iter()
            .all(|envelope| envelope["retryAt"] == late(7_500)),
        "{:?}",
        rig.envelopes()
    );
    assert_eq!(asked(&rig), 2, "once for its rules, once for its depth");
    // Where no rate is known, repeated deferrals only are spread.
    rig.run(vec![message("x", "{}")], |_| limited(5)).await;
    assert_eq!(rig.envelopes().last().unwrap()["retryAt"], late(5_000));
}

#[tokio::test(start_paused = true)]
async fn a_clock_in_the_past_closes_nothing_and_runs_nothing_early() {
    let (rig, gate) = (Rig::new(&[]), FakeGate::default());
    gate.close("a", &closed(after(60_000), Some(window(10, 1))))
        .await
        .unwrap();
    // This worker's clock is an hour behind: what it closes is over for the others.
    let clock = rig.clock.clone();
    let behind = frigg_worker::Clock::from_fn(move || clock.now() - SignedDuration::from_hours(1));
    let mut rig = rig;
    rig.clock = behind;
    let until = start() - SignedDuration::from_mins(50);
    let worker = rig.gated_worker(&gate, move |_| Err(RateLimited::until(until).into()));
    batch(&worker, vec![keyed("m1", "b"), keyed("m2", "a")]).await;
    assert_eq!(gate.gate("b").closed(start()), None);
    assert_eq!(
        gate.gate("a").closed_until,
        Some(after(60_000)),
        "never shortened"
    );
    let line = gate.calls().into_iter().find_map(|call| match call {
        GateCall::Reserve(key, asked) if key == "a" => Some((asked.line, asked.from)),
        _ => None,
    });
    assert_eq!(line, Some((Line::Return, after(60_000))));
}
