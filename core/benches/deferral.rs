//! What a deferral costs. Copying the body is the yardstick: no way of re-sending a message does without it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use frigg_core::deferral::{
    Body, Capabilities, Counters, DeadLetters, Failure, Limits, Options, Reading, plan,
};
use frigg_core::delivery::{Delivery, QueueArn};
use frigg_core::rate_limit::RateLimited;
use jiff::Timestamp;

fn now() -> Timestamp {
    Timestamp::constant(1_790_596_800, 0)
}

/// A CRM's webhook, 1 KB.
fn body_of_1_kb() -> String {
    let contact =
        r#"{"id":1724442618569203714,"email":"a.person@example.com","name":"A \"P\" Person","score":0.75}"#;
    let contacts = [contact; 9].join(",");
    let body = format!(
        r#"{{"event":"contact.changed","portal":4711,"attempt":0,"contacts":[{contacts}],"pad":""}}"#
    );
    let pad = "x".repeat(1024 - body.len());
    body.replace(r#""pad":"""#, &format!(r#""pad":"{pad}""#))
}

fn deferral(c: &mut Criterion) {
    let counters = Counters {
        deferrals: 3,
        gated: 0,
        first_deferred_at: now(),
        deferral_id: Some("059f36b4-87a3-44ab-83d2-661975830a7d".into()),
        retry_at: Some(now() + Duration::from_secs(90)),
    };
    let reading = Reading::Strict {
        now: now(),
        sent_at: Some(now()),
        limits: Limits::default(),
    };
    let text = body_of_1_kb();
    assert_eq!(text.len(), 1024);
    let body = Body::open(&text, reading);
    let stamped = body.stamp(&counters);
    assert_eq!(Body::open(&stamped, reading).envelope().deferrals, 3);
    let plain = "plain text. ".repeat(86);
    let wrapped = Body::open(&plain, reading).stamp(&counters);

    c.bench_function("copy 1 KB", |b| b.iter(|| black_box(&text).clone()));
    c.bench_function("open 1 KB", |b| b.iter(|| Body::open(black_box(&text), reading)));
    c.bench_function("open 1 KB with an envelope", |b| {
        b.iter(|| Body::open(black_box(&stamped), reading))
    });
    c.bench_function("open 1 KB of text in an envelope", |b| {
        b.iter(|| Body::open(black_box(&wrapped), reading))
    });
    c.bench_function("stamp 1 KB", |b| b.iter(|| black_box(&body).stamp(&counters)));
    c.bench_function("stamp 1 KB of text", |b| {
        let body = Body::open(&plain, reading);
        b.iter(|| black_box(&body).stamp(&counters));
    });

    let error = RateLimited::after(now(), Duration::from_secs(90));
    let options = Options::default();
    let can = Capabilities {
        delay: true,
        schedule: true,
        visibility: true,
        retention: Some(Duration::from_secs(345_600)),
        dead_letters: DeadLetters::Absent,
    };
    let mut delivery = Delivery::default();
    delivery.message_id = "059f36b4-87a3-44ab-83d2-661975830a7d".into();
    delivery.queue_arn = QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs");
    delivery.deferrals = 4;
    delivery.first_deferred_at = Some(now());
    c.bench_function("plan", |b| {
        b.iter(|| {
            let failure = Failure::Limited(error.limit());
            plan(
                black_box(now()),
                0.5,
                failure,
                black_box(&delivery),
                &options,
                can,
            )
        });
    });
}

criterion_group!(benches, deferral);
criterion_main!(benches);
