//! Mutated responses through every parser and policy, on stable Rust.
//!
//! Runs for a second by default; `FUZZ_SECONDS=300 cargo test -p frigg-core --test fuzz` takes its time. The seeds are the
//! responses of real providers in `tests/cases`, so a mutation starts next to something that a server sends. A finding is
//! printed with the seed of its random numbers, which `FUZZ_SEED` repeats.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use frigg_core::rate_limit::{Clock, MAX_WAIT, Parser, Policy, Signal, providers};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

/// Pieces that mean something to the reader.
const PIECES: &[&str] = &[
    "0",
    "-1",
    "1e9",
    "999999999999",
    "1796040000",
    "1796040000000",
    "18446744073709551616",
    "0.5",
    ".",
    ",",
    ";",
    "=",
    "\"",
    "\\",
    "ms",
    "6m0s",
    "GMT",
    "EST",
    "Mon, ",
    "T12:00",
    "Z",
    "+0100",
    "r=0",
    "t=5",
    "w=60",
    "remaining=0",
    "reset=9",
    "{",
    "}",
    "[",
    "]",
    ":",
    "null",
    "retry_after",
    "rate limit exceeded",
    "try again in ",
    "wait ",
    "until ",
    "é",
    "\u{feff}",
    "<Code>",
];

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] = self.next() as u8,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                3 => {
                    let copy = bytes[at.saturating_sub(self.below(8))..at].to_vec();
                    bytes.splice(at..at, copy);
                }
                _ => drop(bytes.splice(at..at, PIECES[self.below(PIECES.len())].bytes())),
            }
        }
    }
}

struct Seed {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

fn seeds() -> Vec<Seed> {
    let cases = support::load("responses.jsonl").unwrap_or_default();
    let seed = |case: &serde_json::Value| Seed {
        status: case["status"].as_u64().unwrap_or(429) as u16,
        headers: support::headers(&case["headers"])
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body: support::body(&case["body"]),
    };
    let mut seeds: Vec<Seed> = cases.iter().map(seed).collect();
    seeds.push(Seed {
        status: 429,
        headers: vec![("retry-after".to_owned(), b"5".to_vec())],
        body: b"{}".to_vec(),
    });
    seeds
}

fn one_round(random: &mut Random, seeds: &[Seed], policies: &[Policy], now: Timestamp) {
    let seed = &seeds[random.below(seeds.len())];
    let other = &seeds[random.below(seeds.len())];
    let mut headers = HeaderMap::new();
    let donated = other.headers.iter().take(random.below(3));
    for (name, value) in seed.headers.iter().chain(donated) {
        let (mut name, mut value) = (name.clone().into_bytes(), value.clone());
        if random.below(8) == 0 {
            random.mutate(&mut name);
        }
        if random.below(2) == 0 {
            random.mutate(&mut value);
        }
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&name), HeaderValue::from_bytes(&value)) {
            headers.append(name, value);
        }
    }
    let mut body = seed.body.clone();
    if random.below(2) == 0 {
        random.mutate(&mut body);
    }
    let status = if random.below(4) == 0 {
        100 + random.below(900) as u16
    } else {
        seed.status
    };
    let signal = Signal::new(status, &headers, &body, now);

    for parser in Parser::DEFAULT.iter().chain(Parser::FRIGG) {
        for clock in [Clock::local(now), Clock::of_response(now, &headers)] {
            if let Some(hint) = parser.read(&signal, clock) {
                assert!(hint.wait.is_some_and(|wait| wait <= MAX_WAIT), "{hint:?}");
            }
        }
    }
    // The generic policies each time, and three of the table's.
    for at in [
        0,
        1,
        2,
        random.below(policies.len()),
        random.below(policies.len()),
        random.below(policies.len()),
    ] {
        let answer = policies[at].read(&signal);
        assert!(!policies[at].explain(&signal).is_empty());
        assert_eq!(answer, policies[at].read(&signal), "one response, two readings");
        if let Some(error) = answer.into_error() {
            assert!(error.limit().retry_at.is_none_or(|at| at > now), "{error:?}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time that a run takes, no decision")]
fn mutated_responses_are_read_without_a_finding() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let limit = Duration::from_secs(setting("FUZZ_SECONDS").unwrap_or(1));
    let start = setting("FUZZ_SEED").unwrap_or(1);
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().expect("a time");
    let seeds = seeds();
    let mut policies = vec![
        Policy::new(),
        Policy::new().with_success_bodies(),
        Policy::frigg(),
    ];
    policies.extend(providers::all().map(|provider| provider.policy()));

    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < limit {
        let seed = start.wrapping_add(rounds);
        let round = || {
            one_round(
                &mut Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
                &seeds,
                &policies,
                now,
            )
        };
        if catch_unwind(AssertUnwindSafe(round)).is_err() {
            panic!("a finding: FUZZ_SEED={seed}");
        }
        rounds += 1;
    }
    println!("fuzz: {rounds} responses, no finding");
}
