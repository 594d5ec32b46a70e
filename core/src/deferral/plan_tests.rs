use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::deferral::{Body, Limits, Reading};
use crate::delivery::QueueArn;

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;
/// The time cap.
const CAP: i64 = 26 * HOUR;
const ALL: Capabilities = Capabilities {
    delay: true,
    schedule: true,
    visibility: true,
    retention: None,
    dead_letters: DeadLetters::Absent,
};
const NO_SCHEDULE: Capabilities = Capabilities {
    schedule: false,
    ..ALL
};
const VISIBILITY: Capabilities = Capabilities {
    delay: false,
    ..NO_SCHEDULE
};
const NONE: Capabilities = Capabilities {
    visibility: false,
    ..VISIBILITY
};

/// 2026-09-28T12:00:00Z and these milliseconds.
fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_596_800_000 + ms).unwrap()
}

fn now() -> Timestamp {
    at(0)
}

fn standard() -> Delivery {
    Delivery {
        message_id: "m-1".into(),
        queue_arn: QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs"),
        ..Delivery::default()
    }
}

fn fifo() -> Delivery {
    Delivery {
        queue_arn: QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs.fifo"),
        ..standard()
    }
}

/// On the last of three receives.
fn last(delivery: Delivery) -> Delivery {
    Delivery {
        receive_count: Some(3),
        max_receive_count: Some(3),
        ..delivery
    }
}

/// Put back this often so far, for the first time at `first`.
fn deferred(deferrals: u32, first: i64) -> Delivery {
    Delivery {
        deferrals,
        first_deferred_at: Some(at(first)),
        ..standard()
    }
}

/// Sent at `sent`, to a queue that keeps messages for a day.
fn sent(sent: i64, delivery: Delivery) -> (Delivery, Capabilities) {
    let sent_at = Some(at(sent));
    let retention = Some(Duration::from_secs(86_400));
    (
        Delivery { sent_at, ..delivery },
        Capabilities {
            retention,
            ..NO_SCHEDULE
        },
    )
}

fn default() -> Options {
    Options::default()
}

fn short() -> Options {
    default().with_max_delay(Duration::ZERO)
}

fn limit(retry_at: impl Into<Option<i64>>) -> Limit {
    Limit {
        retry_at: retry_at.into().map(at),
        ..Limit::default()
    }
}

fn delay(seconds: u32) -> Option<Tier> {
    Some(Tier::Delay { seconds })
}

fn schedule(ms: i64) -> Option<Tier> {
    Some(Tier::Schedule { at: at(ms) })
}

fn visibility(seconds: u32) -> Option<Tier> {
    Some(Tier::Visibility { seconds })
}

fn decide(random: f64, limit: &Limit, delivery: &Delivery, options: &Options, can: Capabilities) -> Decision {
    plan(now(), random, Failure::Limited(limit), delivery, options, can)
}

#[track_caller]
fn deferral(decision: Decision) -> Deferral {
    match decision {
        Decision::Defer(deferral) => deferral,
        other => panic!("not put back: {other:?}"),
    }
}

/// The wait in milliseconds that a fresh default plan gives.
#[track_caller]
fn waits(random: f64, limit: &Limit, delivery: &Delivery, can: Capabilities) -> i64 {
    let deferral = deferral(decide(random, limit, delivery, &default(), can));
    deferral.retry_at.as_millisecond() - now().as_millisecond()
}

#[test]
fn short_waits_are_sent_and_long_ones_scheduled() {
    for (wait, options, want) in [
        (-5_000, default(), delay(0)),
        (0, default(), delay(0)),
        (1, default(), delay(1)),
        (1_000, default(), delay(1)),
        (1_500, default(), delay(2)),
        (899_001, default(), delay(900)),
        (900_000, default(), delay(900)),
        (900_001, default(), schedule(901_000)),
        (901_000, default(), schedule(901_000)),
        (901_001, default(), schedule(902_000)),
        (400 * DAY, default(), schedule(400 * DAY)),
        // Frigg cuts to the second.
        (900_001, Options::frigg(), schedule(900_000)),
        (901_999, Options::frigg(), schedule(901_000)),
        (900_000, Options::frigg(), delay(900)),
        // Nothing below a minute is scheduled, whatever is asked for.
        (60_000, short(), delay(60)),
        (60_001, short(), schedule(61_000)),
        (59_001, short(), delay(60)),
    ] {
        let got = tier(now(), at(wait), &standard(), &options, ALL);
        assert_eq!(got, want, "{wait} ms, {options:?}");
    }
}

#[test]
fn without_a_scheduler_the_message_is_hidden_or_relayed() {
    let frigg = Options::frigg();
    let plain = || (standard(), NO_SCHEDULE);
    let last = || (last(standard()), NO_SCHEDULE);
    let without = |can| (standard(), can);
    // SQS deletes it this long after a visibility of one hour would end.
    let expires = |ms| sent(HOUR + ms - DAY, standard());
    #[rustfmt::skip]
    let rows = [
        ("serves", 901_000, plain(), default(), visibility(901)),
        ("rounded up", 901_001, plain(), default(), visibility(902)),
        ("the longest", 42_000_000, plain(), default(), visibility(42_000)),
        ("too long", 42_000_001, plain(), default(), delay(900)),
        ("relay by 60 s", 42_001_000, plain(), short(), delay(60)),
        ("Frigg caps it", 42_000_001, plain(), frigg.clone(), visibility(42_000)),
        ("last receive", 901_000, last(), default(), delay(900)),
        ("Frigg spends it", 901_000, last(), frigg.clone(), visibility(901)),
        ("within retention", HOUR, expires(60_000), default(), visibility(3600)),
        ("not within retention", HOUR, expires(59_999), default(), delay(900)),
        ("Frigg does not look", HOUR, expires(59_999), frigg, visibility(3600)),
        ("no visibility", HOUR, without(Capabilities { visibility: false, ..NO_SCHEDULE }), default(), delay(900)),
        ("no send", 30_000, without(VISIBILITY), default(), visibility(30)),
        ("no send, long", DAY, without(VISIBILITY), default(), visibility(42_000)),
        ("no send, under a minute", 59_999, without(Capabilities { delay: false, ..ALL }), default(), visibility(60)),
        ("no send, a minute", 60_000, without(Capabilities { delay: false, ..ALL }), default(), schedule(60_000)),
        ("nothing left", 30_000, without(NONE), default(), None),
        ("nothing left, long", DAY, without(NONE), default(), None),
    ];
    for (what, wait, (delivery, can), options, want) in rows {
        let got = tier(now(), at(wait), &delivery, &options, can);
        assert_eq!(got, want, "{what}: {wait} ms");
    }
}

#[test]
fn what_can_only_be_hidden_is_not_hidden_past_its_retention() {
    for (left, wait, want) in [
        (HOUR, HOUR, visibility(3540)),
        (HOUR, 3_540_000, visibility(3540)),
        (HOUR, 30_000, visibility(30)),
        (60_999, HOUR, visibility(0)),
        (-HOUR, HOUR, visibility(0)),
    ] {
        let (held, can) = sent(left - DAY, fifo());
        assert_eq!(
            tier(now(), at(wait), &held, &default(), can),
            want,
            "{left} {wait}"
        );
        let (unsent, can) = sent(left - DAY, standard());
        let can = Capabilities { delay: false, ..can };
        assert_eq!(
            tier(now(), at(wait), &unsent, &default(), can),
            want,
            "{left} {wait}"
        );
    }
}

#[test]
fn a_fifo_message_is_held_and_never_copied() {
    for (wait, can, want) in [
        (1_500, ALL, visibility(2)),
        (HOUR, ALL, visibility(3600)),
        (20 * HOUR, ALL, visibility(42_000)),
        (
            HOUR,
            Capabilities {
                visibility: false,
                ..ALL
            },
            None,
        ),
    ] {
        for delivery in [fifo(), last(fifo())] {
            assert_eq!(
                tier(now(), at(wait), &delivery, &default(), can),
                want,
                "{wait} ms"
            );
        }
    }
    let refused = decide(0.0, &limit(30_000), &fifo(), &Options::frigg(), ALL);
    assert_eq!(refused, Decision::Fail(Refusal::NoEventSource));
}

#[test]
fn a_fifo_message_counts_its_receives() {
    let held = |receive_count, first: Option<i64>| Delivery {
        receive_count,
        first_received_at: first.map(at),
        ..fifo()
    };
    for (receive_count, first, want) in [
        (Some(1), Some(-5_000), (1, -5_000)),
        (Some(30), Some(-HOUR), (30, -HOUR)),
        (None, None, (1, 0)),
        (Some(2), Some(5_000), (2, 0)),
    ] {
        let deferral = deferral(decide(
            0.0,
            &limit(30_000),
            &held(receive_count, first),
            &default(),
            ALL,
        ));
        let counters = deferral.counters;
        assert_eq!(
            (counters.deferrals, counters.first_deferred_at),
            (want.0, at(want.1))
        );
    }
    for (receive_count, first) in [(31, 0), (u32::MAX, 0), (1, 30_001 - CAP - 60_000)] {
        let decision = decide(
            0.0,
            &limit(60_000),
            &held(Some(receive_count), Some(first)),
            &default(),
            ALL,
        );
        assert!(
            matches!(decision, Decision::Fail(Refusal::Capped(_))),
            "{receive_count} {first}"
        );
    }
}

/// A hidden message's envelope says nothing new. Each hold took longer than the longest delay (here 900 s), and what
/// only failed did not.
#[test]
fn a_hidden_message_counts_the_receives_that_a_limit_explains() {
    let first_deferred = Some(at(-20 * HOUR));
    for (receive_count, first_received, deferrals, first_deferred, want) in [
        // Never hidden: a first receive, however late; failures, each a minute after the last.
        (Some(1), Some(-HOUR), 0, None, (1, 0)),
        (Some(4), Some(-180_000), 0, None, (1, 0)),
        (Some(4), Some(-180_000), 2, first_deferred, (3, -20 * HOUR)),
        // Hidden for an hour, twice; and for an hour once, after failures.
        (Some(3), Some(-2 * HOUR), 0, None, (3, -2 * HOUR)),
        (Some(3), Some(-2 * HOUR), 2, first_deferred, (5, -20 * HOUR)),
        (Some(9), Some(-HOUR), 0, None, (5, -HOUR)),
        (Some(2), Some(-900_000), 0, None, (2, -900_000)),
        (Some(2), Some(-899_999), 0, None, (1, 0)),
        // A clock that is behind, and facts that are not there.
        (Some(9), Some(HOUR), 0, None, (1, 0)),
        (Some(9), None, 0, None, (1, 0)),
        (None, Some(-HOUR), 0, None, (1, 0)),
    ] {
        let delivery = Delivery {
            receive_count,
            first_received_at: first_received.map(at),
            deferrals,
            first_deferred_at: first_deferred,
            ..standard()
        };
        let counters = deferral(decide(0.0, &limit(2 * HOUR), &delivery, &default(), NO_SCHEDULE)).counters;
        assert_eq!(
            (counters.deferrals, counters.first_deferred_at),
            (want.0, at(want.1)),
            "{receive_count:?} {first_received:?} {deferrals}"
        );
    }
    let told = limit(2 * HOUR);
    let frigg = Delivery {
        receive_count: Some(3),
        first_received_at: Some(at(-2 * HOUR)),
        ..standard()
    };
    let counters = deferral(decide(0.0, &told, &frigg, &Options::frigg(), NO_SCHEDULE)).counters;
    assert_eq!((counters.deferrals, counters.first_deferred_at), (1, now()));
    // Both caps hold for what was only ever hidden.
    for (receive_count, first_received) in [(31, -30 * HOUR / 2), (2, -(CAP - HOUR))] {
        let delivery = Delivery {
            receive_count: Some(receive_count),
            first_received_at: Some(at(first_received)),
            ..standard()
        };
        let decision = decide(0.0, &told, &delivery, &default(), NO_SCHEDULE);
        assert!(
            matches!(decision, Decision::Fail(Refusal::Capped(_))),
            "{decision:?}"
        );
    }
    // On a queue that keeps messages for a quarter of an hour, a delay is at most half of that.
    let short = Capabilities {
        retention: Some(Duration::from_secs(900)),
        ..NO_SCHEDULE
    };
    let delivery = Delivery {
        receive_count: Some(2),
        first_received_at: Some(at(-460_000)),
        ..standard()
    };
    let counters = deferral(decide(0.0, &limit(60_000), &delivery, &default(), short)).counters;
    assert_eq!(counters.deferrals, 2);
}

#[test]
fn a_way_that_failed_is_not_taken_again() {
    let chain = |wait: i64, options: &Options, mut can: Capabilities| {
        let mut taken = vec![];
        while let Some(way) = tier(now(), at(wait), &standard(), options, can) {
            assert!(!taken.contains(&way), "{way:?} again");
            taken.push(way);
            match degrade(can, way, options) {
                Some(rest) => can = rest,
                None => break,
            }
        }
        taken.into_iter().map(Some).collect::<Vec<_>>()
    };
    let frigg = Options::frigg();
    assert_eq!(chain(30_000, &default(), ALL), [delay(30), visibility(30)]);
    assert_eq!(
        chain(90_000, &default(), ALL),
        [delay(90), schedule(90_000), visibility(90)]
    );
    assert_eq!(
        chain(HOUR, &default(), ALL),
        [schedule(HOUR), visibility(3600), delay(900)]
    );
    assert_eq!(
        chain(DAY, &default(), ALL),
        [schedule(DAY), delay(900), visibility(42_000)]
    );
    assert_eq!(
        chain(90_000, &frigg, ALL),
        [delay(90)],
        "a failed send ends it for Frigg"
    );
    assert_eq!(chain(HOUR, &frigg, ALL), [schedule(HOUR), visibility(3600)]);
}

#[test]
fn the_caps_allow_equality_and_nothing_more() {
    for (what, delivery, retry_at, capped) in [
        ("the 30th", deferred(29, -HOUR), 60_000, false),
        ("the 31st", deferred(30, -HOUR), 60_000, true),
        ("a huge count", deferred(u32::MAX, -HOUR), 60_000, true),
        ("exactly 26 h", deferred(1, -HOUR), CAP - HOUR, false),
        ("1 ms over", deferred(1, -HOUR), CAP - HOUR + 1, true),
        ("exactly 26 h at first", standard(), CAP, false),
        ("1 ms over at first", standard(), CAP + 1, true),
        ("400 days", standard(), 400 * DAY, true),
        ("over already", deferred(1, -CAP), -HOUR, true),
    ] {
        let decision = decide(0.0, &limit(retry_at), &delivery, &default(), ALL);
        assert_eq!(
            matches!(decision, Decision::Fail(Refusal::Capped(_))),
            capped,
            "{what}: {decision:?}"
        );
    }
    let few = default().with_limits(Limits {
        max_deferrals: 2,
        max_deferred: Duration::from_secs(10),
    });
    let want = Capped {
        counters: Counters {
            deferrals: 3,
            gated: 0,
            first_deferred_at: at(-1_000),
            deferral_id: Some("m-1".into()),
            retry_at: None,
        },
        retry_at: at(2_000),
    };
    let decision = decide(0.0, &limit(2_000), &deferred(2, -1_000), &few, ALL);
    assert_eq!(decision, Decision::Fail(Refusal::Capped(want)));
    let endless = default().with_limits(Limits {
        max_deferrals: u32::MAX,
        max_deferred: Duration::MAX,
    });
    let decision = decide(
        0.99,
        &limit(400 * DAY),
        &deferred(u32::MAX, -400 * DAY),
        &endless,
        ALL,
    );
    assert_eq!(deferral(decision).counters.deferrals, u32::MAX);
}

#[test]
fn the_envelope_starts_and_goes_on() {
    let counters = |delivery: &Delivery, options: &Options| {
        deferral(decide(0.0, &limit(30_000), delivery, options, ALL)).counters
    };
    let first = Counters {
        deferrals: 1,
        gated: 0,
        first_deferred_at: now(),
        deferral_id: Some("m-1".into()),
        retry_at: Some(at(30_000)),
    };
    let known = Delivery {
        deferral_id: Some("m-0".into()),
        ..deferred(4, -HOUR)
    };
    let fifth = Counters {
        deferrals: 5,
        gated: 0,
        first_deferred_at: at(-HOUR),
        deferral_id: Some("m-0".into()),
        retry_at: Some(at(30_000)),
    };
    let without_time = |counters: &Counters| Counters {
        retry_at: None,
        ..counters.clone()
    };
    assert_eq!(counters(&standard(), &default()), first);
    assert_eq!(counters(&known, &default()), fifth);
    assert_eq!(counters(&standard(), &Options::frigg()), without_time(&first));
    assert_eq!(counters(&known, &Options::frigg()), without_time(&fifth));
    let nameless = Delivery {
        message_id: String::new(),
        ..standard()
    };
    assert_eq!(
        counters(&nameless, &default()).deferral_id,
        None,
        "an empty id would be malformed"
    );
}

#[test]
fn a_limit_without_a_usable_time_is_paced_by_the_ladder() {
    let steps = [1, 3, 10, 30, 60, 180, 180, 180];
    for told in [None, Some(-DAY), Some(-1), Some(0), Some(1), Some(1_000)] {
        for (deferrals, step) in (0..).zip(steps) {
            let wait = waits(0.0, &limit(told), &deferred(deferrals, -HOUR), ALL);
            assert_eq!(wait, step * 1_000, "{told:?}, deferral {}", deferrals + 1);
        }
    }
    for told in [1_001, 2_000, 2_001, 45_000] {
        assert_eq!(waits(0.0, &limit(told), &deferred(20, -HOUR), ALL), told);
    }
    for (reason, untold, past) in [
        (Reason::Daily, HOUR, 1_000),
        (Reason::Monthly, HOUR, 1_000),
        (Reason::Hourly, 1_000, 1_000),
        (Reason::Burst, 1_000, 1_000),
    ] {
        for (told, want) in [(None, untold), (Some(0), past), (Some(50_000), 50_000)] {
            let limit = Limit {
                reason,
                ..limit(told)
            };
            assert_eq!(waits(0.0, &limit, &standard(), ALL), want, "{reason:?} {told:?}");
        }
    }
    let frigg = |told| decide(0.9, &limit(told), &deferred(9, -HOUR), &Options::frigg(), ALL);
    assert_eq!(deferral(frigg(Some(-5_000))).tier, Tier::Delay { seconds: 0 });
    assert_eq!(deferral(frigg(Some(-5_000))).retry_at, at(-5_000));
    assert_eq!(frigg(None), Decision::Fail(Refusal::NoRetryAt));
}

#[test]
fn repeated_deferrals_are_spread_after_their_time() {
    // The whole width: as near to 1 as a random unit comes.
    let whole = 1.0 - f64::EPSILON;
    for (deferrals, told, random, want) in [
        (0, 10_000, whole, 10_000),
        (1, 10_000, whole, 10_000),
        (2, 10_000, 0.0, 10_000),
        (2, 10_000, 0.5, 20_000),
        (2, 10_000, whole, 30_000),
        (3, 10_000, whole, 50_000),
        (4, 10_000, whole, 90_000),
        (9, 10_000, whole, 910_000),
        (29, 10_000, 0.5, 460_000),
        (2, HOUR, whole, HOUR + 900_000),
        (4, 0, whole, 60_000 + 480_000),
    ] {
        let wait = waits(random, &limit(told), &deferred(deferrals, -HOUR), ALL);
        assert_eq!(
            wait,
            want,
            "deferral {}, {told} ms, random {random}",
            deferrals + 1
        );
    }
    let frigg = decide(whole, &limit(10_000), &deferred(9, -HOUR), &Options::frigg(), ALL);
    assert_eq!(deferral(frigg).retry_at, at(10_000));
}

#[test]
fn the_spread_keeps_within_the_cap_and_the_delay_tier() {
    let whole = 1.0 - f64::EPSILON;
    let old = |left: i64| deferred(9, left - CAP);
    assert_eq!(
        waits(whole, &limit(60_000), &old(200_000), ALL),
        200_000,
        "not past the cap"
    );
    assert_eq!(waits(whole, &limit(60_000), &old(60_000), ALL), 60_000);
    assert_eq!(waits(whole, &limit(60_000), &old(200_000), NO_SCHEDULE), 200_000);
    let young = deferred(9, 0);
    assert_eq!(
        waits(whole, &limit(60_000), &young, NO_SCHEDULE),
        900_000,
        "not out of the delay tier"
    );
    assert_eq!(waits(whole, &limit(900_000), &young, NO_SCHEDULE), 900_000);
    assert_eq!(waits(whole, &limit(60_000), &young, ALL), 960_000);
    // What is out of the delay tier anyway is spread there.
    assert_eq!(
        waits(whole, &limit(901_000), &young, NO_SCHEDULE),
        901_000 + 900_000
    );
    let decision = decide(whole, &limit(30_000), &young, &short(), NO_SCHEDULE);
    assert_eq!(deferral(decision).tier, Tier::Delay { seconds: 60 });
}

#[test]
fn times_between_milliseconds_stay_within_the_bounds() {
    let odd = |at: Timestamp| at + SignedDuration::from_nanos(1);
    let limit = |at: Timestamp| Limit {
        retry_at: Some(at),
        ..Limit::default()
    };
    let plan = |limit: &Limit, delivery: &Delivery, can| {
        let failure = Failure::Limited(limit);
        plan(odd(now()), 1.0 - f64::EPSILON, failure, delivery, &default(), can)
    };
    let got = deferral(plan(&limit(odd(at(30_000))), &deferred(9, 0), NO_SCHEDULE));
    assert_eq!(
        got.tier,
        Tier::Delay { seconds: 900 },
        "spread to the delay tier's end"
    );
    let got = deferral(plan(&limit(odd(at(CAP))), &standard(), ALL));
    assert_eq!(got.retry_at, at(CAP + 1), "26 h from now to the nanosecond");
    assert_eq!(
        got.counters.first_deferred_at,
        at(1),
        "counted in what the envelope can say"
    );
    let held = deferral(plan(&limit(at(30_000)), &fifo(), ALL));
    assert_eq!(held.counters.first_deferred_at, at(1));
    let early = Delivery {
        retry_at: Some(odd(at(30_000))),
        ..standard()
    };
    let early = plan_arrival(now(), &early, &default(), ALL).map(|deferral| deferral.retry_at);
    assert_eq!(early, Some(at(30_001)));
}

#[test]
fn only_a_limit_is_put_back_and_only_a_permanent_failure_dropped() {
    let not_limited = Decision::Fail(Refusal::NotLimited);
    let down = Limit {
        kind: LimitKind::Unavailable,
        ..limit(30_000)
    };
    for options in [default(), Options::frigg()] {
        for (failure, want) in [
            (Failure::Retryable, &not_limited),
            (Failure::Unreadable, &not_limited),
            (Failure::Permanent, &Decision::Discard),
        ] {
            for delivery in [standard(), fifo(), Delivery::default()] {
                assert_eq!(
                    plan(now(), 0.0, failure, &delivery, &options, ALL),
                    *want,
                    "{failure:?}"
                );
            }
        }
        let homeless = decide(0.0, &limit(30_000), &Delivery::default(), &options, ALL);
        assert_eq!(homeless, Decision::Fail(Refusal::NoEventSource));
        let stuck = decide(0.0, &limit(30_000), &standard(), &options, NONE);
        assert_eq!(stuck, Decision::Fail(Refusal::NoWayBack));
    }
    assert_eq!(waits(0.0, &down, &standard(), ALL), 30_000);
    assert_eq!(
        decide(0.0, &down, &standard(), &Options::frigg(), ALL),
        not_limited
    );
    // Frigg looks at the time before the queue.
    let homeless = decide(0.0, &limit(None), &Delivery::default(), &Options::frigg(), ALL);
    assert_eq!(homeless, Decision::Fail(Refusal::NoRetryAt));
}

#[test]
fn a_message_before_its_time_goes_back_uncounted() {
    let until = |retry_at: i64| Delivery {
        retry_at: Some(at(retry_at)),
        deferral_id: Some("m-0".into()),
        ..deferred(30, -HOUR)
    };
    let arrival = |delivery: &Delivery, options: &Options, can| plan_arrival(now(), delivery, options, can);
    let on_time = until(0);
    let homeless = Delivery {
        queue_arn: None,
        ..until(9_000)
    };
    #[rustfmt::skip]
    let rows = [
        ("nearly there", until(1), ALL, delay(1)),
        ("hidden", until(2_000_000), NO_SCHEDULE, visibility(2_000)),
        ("relayed", until(20 * HOUR), NO_SCHEDULE, delay(900)),
        ("scheduled", until(20 * HOUR), ALL, schedule(20 * HOUR)),
        ("on time", on_time, ALL, None),
        ("late", until(-1), ALL, None),
        ("no time", standard(), ALL, None),
        ("no way back", until(9_000), NONE, None),
        ("no queue", homeless, ALL, None),
    ];
    for (what, delivery, can, want) in rows {
        let got = arrival(&delivery, &default(), can);
        assert_eq!(got.as_ref().map(|deferral| deferral.tier), want, "{what}");
        if let Some(deferral) = got {
            let counters = Counters {
                deferrals: 30,
                gated: 0,
                first_deferred_at: at(-HOUR),
                deferral_id: Some("m-0".into()),
                retry_at: delivery.retry_at,
            };
            assert_eq!(
                (Some(deferral.retry_at), deferral.counters),
                (delivery.retry_at, counters),
                "{what}"
            );
        }
    }
    assert_eq!(arrival(&until(HOUR), &Options::frigg(), ALL), None);
}

/// Everything that [`plan`] is given.
#[derive(Debug, Clone)]
struct Input {
    now: Timestamp,
    random: f64,
    failure: u8,
    limit: Limit,
    delivery: Delivery,
    options: Options,
    can: Capabilities,
}

impl Input {
    fn plan(&self) -> Decision {
        let failure = match self.failure {
            0 => Failure::Permanent,
            1 => Failure::Retryable,
            2 => Failure::Unreadable,
            _ => Failure::Limited(&self.limit),
        };
        plan(
            self.now,
            self.random,
            failure,
            &self.delivery,
            &self.options,
            self.can,
        )
    }
}

/// Nanoseconds of any size up to 400 days, often around a bound, often not whole.
fn nanos() -> impl Strategy<Value = i64> {
    let bounds = vec![
        0, 1, 2, 59, 60, 61, 899, 900, 901, 3_600, 41_999, 42_000, 42_001, 93_599, 93_600, 93_601,
    ];
    let near = (
        select(bounds),
        select(vec![-1_000_000, -1, 0, 1, 500_000, 999_999, 1_000_000]),
    )
        .prop_map(|(seconds, by): (i64, i64)| seconds * 1_000_000_000 + by);
    let any = (0u32..=16, 1i64..=34).prop_map(|(power, digit)| digit * 10i64.pow(power) / 10);
    prop_oneof![near, any]
}

fn counts(usual: u32) -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..=usual, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

prop_compose! {
    fn limits()(
        told in proptest::option::of((any::<bool>(), nanos())),
        reason in select(vec![Reason::Burst, Reason::Daily, Reason::Monthly, Reason::Unknown]),
        kind in select(vec![LimitKind::RateLimit, LimitKind::RateLimit, LimitKind::Unavailable]),
    ) -> (Option<i64>, Limit) {
        let told = told.map(|(past, nanos)| if past { -nanos } else { nanos });
        (told, Limit { reason, kind, ..Limit::default() })
    }
}

prop_compose! {
    fn deliveries()(
        queue in select(vec!["jobs", "jobs", "jobs.fifo", ""]),
        ids in select(vec![("m-1", None), ("m-1", Some("m-0")), ("", None)]),
        deferrals in counts(32),
        receive_count in proptest::option::of(counts(32)),
        max_receive_count in proptest::option::of(counts(32)),
        times in proptest::array::uniform3(proptest::option::of(nanos())),
    ) -> (Delivery, [Option<i64>; 3]) {
        let delivery = Delivery {
            message_id: ids.0.into(),
            deferral_id: ids.1.map(str::to_owned),
            queue_arn: QueueArn::parse(&format!("arn:aws:sqs:eu-west-1:1:{queue}")),
            deferrals,
            receive_count: receive_count.map(|count| count.max(1)),
            max_receive_count,
            ..Delivery::default()
        };
        (delivery, times)
    }
}

prop_compose! {
    fn capabilities()(
        delay in prop::bool::weighted(0.8),
        schedule: bool,
        visibility in prop::bool::weighted(0.8),
        retention in proptest::option::of(60u64..1_209_600),
        dead_letters in prop::sample::select(&[DeadLetters::Present, DeadLetters::Absent, DeadLetters::Unknown][..]),
    ) -> Capabilities {
        Capabilities { delay, schedule, visibility, retention: retention.map(Duration::from_secs), dead_letters }
    }
}

prop_compose! {
    fn options()(
        frigg in prop::bool::weighted(0.2),
        max_delay in select(vec![0, 60, 61, 900]),
        max_deferrals in select(vec![30, 30, 1, u32::MAX]),
        max_deferred in select(vec![26 * 3600, 26 * 3600, 1, 10_000_000]),
    ) -> Options {
        let limits = Limits { max_deferrals, max_deferred: Duration::from_secs(max_deferred) };
        let options = if frigg { Options::frigg() } else { default() };
        options.with_limits(limits).with_max_delay(Duration::from_secs(max_delay))
    }
}

prop_compose! {
    fn inputs()(
        past in 0i64..40 * DAY,
        part in select(vec![0, 1, 500_000, 999_999]),
        random in 0.0..1.0,
        failure in 0u8..20,
        (told, limit) in limits(),
        (delivery, [first, sent, received]) in deliveries(),
        options in options(),
        can in capabilities(),
    ) -> Input {
        let now = at(past) + SignedDuration::from_nanos(part);
        let back = |nanos: Option<i64>| nanos.map(|nanos| now - SignedDuration::from_nanos(nanos));
        // An envelope has milliseconds, and is only there with its two times.
        let whole = |at: Timestamp| Timestamp::from_millisecond(at.as_millisecond()).unwrap();
        let first_deferred_at = back(first).map(whole);
        Input {
            now,
            random,
            failure,
            limit: Limit { retry_at: back(told.map(|told| -told)), ..limit },
            delivery: Delivery {
                deferrals: first_deferred_at.map_or(0, |_| delivery.deferrals),
                first_deferred_at,
                sent_at: back(sent).map(whole),
                first_received_at: back(received).map(whole),
                ..delivery
            },
            options,
            can,
        }
    }
}

/// What comes back to the queue after this deferral, and when, if the deferral is done at once and SQS is as quick as
/// it can be. `None` for a message that was only hidden.
fn copy(input: &Input, deferral: &Deferral) -> Option<(Timestamp, Delivery)> {
    let (arrives_at, sent_at) = match deferral.tier {
        Tier::Delay { seconds } => (input.now + Duration::from_secs(seconds.into()), input.now),
        Tier::Schedule { at } => (at, at + Duration::from_secs(3600)),
        Tier::Visibility { .. } => return None,
    };
    let stamped = Body::open("hello", Reading::Frigg).stamp(&deferral.counters);
    let reading = Reading::Strict {
        now: arrives_at,
        sent_at: Some(sent_at),
        limits: input.options.limits,
    };
    let body = Body::open(&stamped, reading);
    assert_eq!((body.text(), body.fault()), ("hello", None), "{stamped}");
    let envelope = body.envelope().clone();
    let delivery = Delivery {
        message_id: "m-2".into(),
        deferrals: envelope.deferrals,
        first_deferred_at: envelope.first_deferred_at,
        deferral_id: envelope.deferral_id,
        retry_at: envelope.retry_at,
        sent_at: Some(sent_at),
        queue_arn: input.delivery.queue_arn.clone(),
        ..Delivery::default()
    };
    Some((arrives_at, delivery))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    /// Exceptions, as the design has them: past a cap (no deferral), Frigg, a FIFO hold beyond 42,000 s; and where
    /// every way that reaches the time has failed, or SQS would delete the message first.
    #[test]
    fn nothing_runs_before_its_time(input in inputs()) {
        let Decision::Defer(deferral) = input.plan() else { return Ok(()) };
        if input.options.is_frigg() {
            return Ok(());
        }
        let told = input.limit.retry_at.unwrap_or(input.now);
        prop_assert!(deferral.retry_at >= told, "the told time is never cut");
        prop_assert!(deferral.retry_at >= input.now);
        match (deferral.tier, copy(&input, &deferral)) {
            (Tier::Visibility { seconds }, _) => {
                let way_out = input.delivery.is_fifo() || !input.can.delay;
                let reaches = input.now + Duration::from_secs(seconds.into()) >= told;
                let as_long_as_it_can = u64::from(seconds) == MAX_VISIBILITY.as_secs() || expires(&input).is_some();
                prop_assert!(reaches || way_out && as_long_as_it_can);
            }
            (_, Some((arrives_at, delivery))) => {
                prop_assert_eq!(delivery.retry_at, Some(deferral.retry_at));
                let again = plan_arrival(arrives_at, &delivery, &input.options, NO_SCHEDULE);
                prop_assert_eq!(again.is_some(), arrives_at < deferral.retry_at);
                if let Some(again) = again {
                    let id = Some(delivery.stable_id().to_owned());
                    let uncounted = Counters { deferral_id: id, ..deferral.counters };
                    prop_assert_eq!((again.retry_at, again.counters), (deferral.retry_at, uncounted));
                }
            }
            (tier, None) => prop_assert!(false, "{tier:?} without a copy"),
        }
    }

    #[test]
    fn no_deferral_is_past_a_cap(input in inputs()) {
        let limits = input.options.limits;
        let ends = |counters: &Counters| counters.first_deferred_at + limits.max_deferred;
        match input.plan() {
            Decision::Defer(Deferral { counters, retry_at, .. }) => {
                prop_assert!(counters.deferrals <= limits.max_deferrals && retry_at <= ends(&counters));
            }
            Decision::Fail(Refusal::Capped(Capped { counters, retry_at }))
            | Decision::Bury(Burial::Capped(Capped { counters, retry_at })) => {
                prop_assert!(counters.deferrals > limits.max_deferrals || retry_at > ends(&counters));
            }
            _ => {}
        }
    }

    #[test]
    fn a_decision_is_what_the_queue_can_do_and_keeps_the_message(input in inputs()) {
        let decision = input.plan();
        prop_assert_eq!(&decision, &input.plan(), "same input, same decision");
        let deferral = match decision {
            Decision::Defer(deferral) => deferral,
            Decision::Discard => {
                prop_assert_eq!(input.failure, 0);
                prop_assert!(input.can.dead_letters == DeadLetters::Absent || input.options.is_frigg());
                return Ok(());
            }
            Decision::Bury(burial) => {
                prop_assert!(input.can.dead_letters == DeadLetters::Present && !input.options.is_frigg());
                prop_assert!(!matches!(burial, Burial::Capped(_)) || input.delivery.is_last_attempt());
                return Ok(());
            }
            Decision::Fail(_) => return Ok(()),
        };
        prop_assert!(input.failure > 2);
        prop_assert_eq!(deferral.retry_at.as_nanosecond() % 1_000_000, 0);
        match deferral.tier {
            Tier::Delay { seconds } => {
                prop_assert!(input.can.delay && !input.delivery.is_fifo());
                prop_assert!(u64::from(seconds) <= input.options.max_delay().as_secs() && seconds <= 900);
            }
            Tier::Schedule { at } => {
                prop_assert!(input.can.schedule && !input.delivery.is_fifo());
                let cut = SignedDuration::from_secs(i64::from(input.options.is_frigg()));
                prop_assert!(at.duration_since(input.now) + cut >= MIN_SCHEDULE_AHEAD);
                prop_assert_eq!(at.subsec_nanosecond(), 0);
            }
            Tier::Visibility { seconds } => {
                prop_assert!(input.can.visibility && seconds <= 42_000);
                let visible_at = input.now + Duration::from_secs(seconds.into());
                let survives = expires(&input).is_none_or(|at| visible_at + RETENTION_MARGIN <= at);
                prop_assert!(seconds == 0 || survives || input.options.is_frigg());
            }
        }
    }
}

/// When SQS deletes the message.
fn expires(input: &Input) -> Option<Timestamp> {
    Some(input.delivery.sent_at? + input.can.retention?)
}

#[test]
fn what_can_never_be_handled_goes_where_the_queue_has_a_place_for_it() {
    use DeadLetters::{Absent, Present, Unknown};
    let fail = || Decision::Fail(Refusal::NotLimited);
    for (dead_letters, options, permanent, unreadable) in [
        (
            Present,
            default(),
            Decision::Bury(Burial::Permanent),
            Decision::Bury(Burial::Unreadable),
        ),
        (Absent, default(), Decision::Discard, fail()),
        (Unknown, default(), fail(), fail()),
        (Present, Options::frigg(), Decision::Discard, fail()),
        (Unknown, Options::frigg(), Decision::Discard, fail()),
    ] {
        let can = Capabilities { dead_letters, ..ALL };
        let decide = |failure| plan(now(), 0.0, failure, &standard(), &options, can);
        assert_eq!(decide(Failure::Permanent), permanent, "{dead_letters:?}");
        assert_eq!(decide(Failure::Unreadable), unreadable, "{dead_letters:?}");
    }
}

#[test]
fn a_capped_message_is_buried_on_its_last_receive_only() {
    let limit = Limit {
        retry_at: Some(now() + SignedDuration::from_hours(27)),
        ..Limit::default()
    };
    let can = Capabilities {
        dead_letters: DeadLetters::Present,
        ..ALL
    };
    for (receive_count, buried) in [(1, false), (2, false), (3, true), (4, true)] {
        let delivery = Delivery {
            receive_count: Some(receive_count),
            max_receive_count: Some(3),
            ..standard()
        };
        let decision = plan(now(), 0.0, Failure::Limited(&limit), &delivery, &default(), can);
        assert_eq!(
            matches!(decision, Decision::Bury(Burial::Capped(_))),
            buried,
            "{receive_count}: {decision:?}"
        );
        let frigg = plan(
            now(),
            0.0,
            Failure::Limited(&limit),
            &delivery,
            &Options::frigg(),
            can,
        );
        assert!(matches!(frigg, Decision::Fail(Refusal::Capped(_))));
    }
}

#[test]
fn relay_comes_before_visibility_where_it_is_asked_for() {
    let mut options = default();
    options.relay = true;
    let retry_at = now() + SignedDuration::from_secs(3600);
    assert_eq!(
        tier(now(), retry_at, &standard(), &options, NO_SCHEDULE),
        Some(Tier::Delay { seconds: 900 })
    );
    assert!(matches!(
        tier(now(), retry_at, &standard(), &options, ALL),
        Some(Tier::Schedule { .. })
    ));
    let visibility = Some(Tier::Visibility { seconds: 3600 });
    assert_eq!(
        tier(now(), retry_at, &standard(), &default(), NO_SCHEDULE),
        visibility
    );
}

// ---- the gate

fn sec(seconds: i64) -> Timestamp {
    at(seconds * 1000)
}

fn gated(now_s: i64, until_s: i64, delivery: &Delivery, options: &Options) -> Decision {
    plan_gated(sec(now_s), sec(until_s), delivery, options, ALL)
}

#[test]
fn a_gated_message_counts_no_deferral_and_obeys_the_cap_on_the_time() {
    let options = Options::default();
    let mut delivery = deferred(30, 0);
    delivery.gated = 4;
    let Decision::Defer(deferral) = gated(100, 160, &delivery, &options) else {
        panic!("at the cap of the count, which does not matter here");
    };
    assert_eq!(
        (
            deferral.counters.deferrals,
            deferral.counters.gated,
            deferral.counters.first_deferred_at
        ),
        (30, 5, sec(0))
    );
    assert_eq!(
        (deferral.retry_at, deferral.counters.retry_at),
        (sec(160), Some(sec(160)))
    );
    assert_eq!(deferral.tier, Tier::Delay { seconds: 60 });

    let first = Delivery {
        deferrals: 0,
        first_deferred_at: None,
        ..deferred(0, 0)
    };
    let Decision::Defer(deferral) = gated(100, 90, &first, &options) else {
        panic!("deferred")
    };
    assert_eq!(
        (deferral.retry_at, deferral.counters.first_deferred_at),
        (sec(100), sec(100))
    );
    assert_eq!((deferral.counters.deferrals, deferral.counters.gated), (0, 1));

    let day = 26 * 3600;
    assert!(
        matches!(gated(100, day, &delivery, &options), Decision::Defer(_)),
        "equality is allowed"
    );
    assert!(matches!(
        gated(100, day + 1, &delivery, &options),
        Decision::Fail(Refusal::Capped(_))
    ));
    let nowhere = Delivery {
        queue_arn: None,
        ..delivery
    };
    assert_eq!(
        gated(100, 160, &nowhere, &options),
        Decision::Fail(Refusal::NoEventSource)
    );
}

#[test]
fn an_early_gated_message_stays_uncounted() {
    let mut delivery = deferred(0, 0);
    (delivery.gated, delivery.retry_at) = (1, Some(sec(60)));
    let deferral = plan_arrival(sec(50), &delivery, &Options::default(), ALL).unwrap();
    assert_eq!((deferral.counters.deferrals, deferral.counters.gated), (0, 1));
}

#[test]
fn a_slot_is_never_before_the_told_time_nor_past_the_cap() {
    let options = Options::default();
    let Decision::Defer(deferral) = gated(100, 160, &deferred(3, 0), &options) else {
        panic!("deferred")
    };
    let last = sec(26 * 3600);
    for (slot, want) in [
        (sec(159), sec(160)),
        (
            sec(160) + SignedDuration::from_nanos(1),
            sec(160) + SignedDuration::from_millis(1),
        ),
        (sec(5_000), sec(5_000)),
        (last + SignedDuration::from_secs(1), last),
        (Timestamp::MAX, last),
        (Timestamp::MIN, sec(160)),
    ] {
        let moved = deferral.clone().at_slot(slot, &options);
        assert_eq!(
            (moved.retry_at, moved.counters.retry_at),
            (want, Some(want)),
            "{slot}"
        );
    }
}

#[test]
fn a_backlog_is_spread_over_the_time_that_it_takes() {
    let options = Options::default();
    let Decision::Defer(deferral) = gated(0, 10, &deferred(1, 0), &options) else {
        panic!("deferred")
    };
    let window = Window {
        limit: 100.try_into().unwrap(),
        per: Duration::from_secs(10),
    };
    let spread = |backlog, random, can| {
        let moved = deferral
            .clone()
            .spread_over(sec(0), backlog, window, random, &options, can);
        moved.retry_at.duration_since(sec(10)).as_secs_f64()
    };
    assert_eq!(spread(5_000, 0.0, ALL), 0.0);
    assert!((spread(500, 1.0, ALL) - 500.0 * 10.0 / 95.0).abs() < 0.01);
    assert_eq!(spread(1_000_000, 1.0, ALL), 900.0, "at most");
    let no_schedule = Capabilities {
        schedule: false,
        ..ALL
    };
    assert_eq!(
        spread(1_000_000, 1.0, no_schedule),
        890.0,
        "not out of the delay tier"
    );
}
