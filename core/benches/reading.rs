//! What reading one response costs, beside the `rate-limits` crate on the formats that it reads.
//!
//! Aims: a header-only 429 under 1 µs, a success under 100 ns, a JSON body of 10 KB under 20 µs.

#![allow(missing_docs, unreachable_pub)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use frigg_core::rate_limit::{Policy, Signal};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

const NOW: &str = "2026-11-30T12:00:00Z";

/// What any API sends besides.
const USUAL: &[(&str, &str)] = &[
    ("date", "Mon, 30 Nov 2026 12:00:00 GMT"),
    ("content-type", "application/json; charset=utf-8"),
    ("content-length", "0"),
    ("server", "nginx"),
    ("cache-control", "no-store"),
    ("strict-transport-security", "max-age=31536000"),
    ("x-request-id", "0f6f2c1e-7c1f-4f6e-8a55-1f6b2f0f7a11"),
    ("vary", "accept-encoding"),
];

fn headers(own: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs = USUAL.iter().chain(own);
    pairs
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

/// The formats that both read.
fn header_only(c: &mut Criterion) {
    let formats: [(&str, &[(&str, &str)]); 3] = [
        ("retry-after", &[("retry-after", "30")]),
        (
            "x-ratelimit",
            &[
                ("x-ratelimit-limit", "5000"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1796040042"),
            ],
        ),
        (
            "ietf-06",
            &[
                ("ratelimit-limit", "100"),
                ("ratelimit-remaining", "0"),
                ("ratelimit-reset", "30"),
            ],
        ),
    ];
    let now: Timestamp = NOW.parse().expect("a time");
    let policy = Policy::new();
    for (name, own) in formats {
        let headers = headers(own);
        let mut group = c.benchmark_group(format!("header-only 429, {name}"));
        group.bench_function("frigg-core", |b| {
            b.iter(|| policy.read(&Signal::new(429, black_box(&headers), b"", now)));
        });
        group.bench_function("rate-limits", |b| {
            b.iter(|| rate_limits::RateLimit::new(black_box(&headers)))
        });
        group.finish();
    }
    let headers = headers(&[("retry-after", "30")]);
    let hubspot = Policy::for_provider("hubspot").expect("in the table");
    c.bench_function("header-only 429, hubspot's policy", |b| {
        b.iter(|| hubspot.read(&Signal::new(429, black_box(&headers), b"", now)));
    });
}

fn success(c: &mut Criterion) {
    let now: Timestamp = NOW.parse().expect("a time");
    let headers = headers(&[
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "4999"),
        ("x-ratelimit-reset", "1796040042"),
    ]);
    let policy = Policy::new();
    let mut group = c.benchmark_group("success");
    group.bench_function("frigg-core", |b| {
        b.iter(|| policy.read(&Signal::new(200, black_box(&headers), b"{}", now)));
    });
    group.bench_function("frigg-core, read() by name", |b| {
        b.iter(|| frigg_core::rate_limit::read(200, black_box(&headers), b"{}", now, Some("github")));
    });
    group.bench_function("rate-limits", |b| {
        b.iter(|| rate_limits::RateLimit::new(black_box(&headers)))
    });
    group.finish();
}

/// Bodies of 10 KB: one long text, and many small values.
fn bodies(c: &mut Criterion) {
    let long = format!(
        r#"{{"error":{{"message":"{}"}},"retry_after":30}}"#,
        "lorem ipsum ".repeat(850)
    );
    let item = r#"{"index":17,"field":"properties.email","code":"INVALID_EMAIL","message":"not a valid address","in":"body"}"#;
    let dense = format!(
        r#"{{"status":"error","errors":[{}],"retry_after":30}}"#,
        vec![item; 92].join(",")
    );
    let now: Timestamp = NOW.parse().expect("a time");
    let headers = headers(&[]);
    let policy = Policy::new();
    for (name, body) in [("one long text", long), ("many small values", dense)] {
        assert!((9_800..10_500).contains(&body.len()), "{}", body.len());
        let wait = policy
            .read(&Signal::new(429, &headers, body.as_bytes(), now))
            .hint()
            .and_then(|hint| hint.wait);
        assert_eq!(wait, Some(Duration::from_secs(30)));
        c.bench_function(&format!("10 KB JSON body, {name}"), |b| {
            b.iter(|| policy.read(&Signal::new(429, &headers, black_box(body.as_bytes()), now)));
        });
    }
}

criterion_group!(benches, header_only, success, bodies);
criterion_main!(benches);
