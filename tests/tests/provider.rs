//! The throttling provider over HTTP, with a clock that the test moves.

use std::time::Duration;

use anyhow::Result;
use frigg_tests::clock::Clock;
use frigg_tests::provider::{Canned, KeyBy, ProviderConfig, Rule, ThrottlingProvider, Window};
use jiff::Timestamp;
use serde_json::{Value, json};

const NOON: i64 = 1_790_596_800; // 2026-09-28T12:00:00Z

struct Bench {
    provider: ThrottlingProvider,
    clock: Clock,
    client: reqwest::Client,
}

impl Bench {
    async fn new(config: ProviderConfig) -> Result<Self> {
        let clock = Clock::manual(Timestamp::from_second(NOON)?);
        let provider =
            ThrottlingProvider::start_on(([127, 0, 0, 1], 0).into(), config, clock.clone()).await?;
        Ok(Self {
            provider,
            clock,
            client: reqwest::Client::builder().no_proxy().build()?,
        })
    }

    async fn get(&self, path: &str) -> Result<(u16, Option<String>, Value)> {
        let response = self.client.get(self.provider.url_of(path)).send().await?;
        let retry_after = response
            .headers()
            .get("retry-after")
            .map(|value| value.to_str())
            .transpose()?;
        let retry_after = retry_after.map(str::to_owned);
        Ok((response.status().as_u16(), retry_after, response.json().await?))
    }

    fn after(&self, milliseconds: u64) -> Timestamp {
        self.clock.at(Duration::from_millis(milliseconds))
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[tokio::test]
async fn a_full_window_says_when_to_come_back_and_means_it() -> Result<()> {
    let rule = Rule::window(Window::rolling(2, ms(10_000)));
    let bench = Bench::new(ProviderConfig::default().with_default(rule)).await?;
    assert_eq!(bench.get("acme/contacts/1").await?.0, 200);
    bench.clock.advance(ms(2_500));
    assert_eq!(bench.get("acme/contacts/2").await?.0, 200);
    let (status, retry_after, body) = bench.get("acme/contacts/3?token=secret").await?;
    assert_eq!(
        (status, retry_after.as_deref()),
        (429, Some("8")),
        "7.5 s, rounded up"
    );
    assert_eq!(body["policyName"], "TEN_SECONDLY_ROLLING");
    assert_eq!(
        bench.get("other/contacts/1").await?.0,
        200,
        "another key has its own window"
    );
    bench.clock.advance(ms(8_000));
    assert_eq!(bench.get("acme/contacts/3").await?.0, 200);

    let calls = bench.provider.calls_of("acme");
    assert_eq!(calls.len(), 4);
    let refused = &calls[2];
    assert!(!refused.accepted);
    assert_eq!(refused.path, "/acme/contacts/3", "no query in the record");
    assert_eq!((refused.at, refused.since_start), (bench.after(2_500), ms(2_500)));
    assert_eq!(
        (refused.retry_after, refused.retry_at),
        (Some(8), Some(bench.after(10_500)))
    );
    assert_eq!(calls[3].at, bench.after(10_500));
    Ok(())
}

#[tokio::test]
async fn a_spent_daily_limit_is_told_by_name_and_ends_when_told() -> Result<()> {
    let rule = Rule::open().closed_on_first_call(ms(72_000));
    let bench = Bench::new(ProviderConfig::default().with_rule("daily-*", rule)).await?;
    bench.clock.advance(ms(1_000));
    let (status, retry_after, body) = bench.get("daily-eu/contacts/1").await?;
    assert_eq!(
        (status, retry_after.as_deref(), &body["policyName"]),
        (429, Some("72"), &json!("DAILY"))
    );
    bench.clock.advance(ms(72_000));
    assert_eq!(bench.get("daily-eu/contacts/1").await?.0, 200);
    let closed = bench.provider.closed();
    assert_eq!(closed.len(), 1);
    assert_eq!(
        (closed[0].from, closed[0].until),
        (bench.after(1_000), bench.after(73_000))
    );
    Ok(())
}

#[tokio::test]
async fn a_test_closes_a_key_and_lays_out_answers() -> Result<()> {
    let bench = Bench::new(ProviderConfig::default()).await?;
    bench.provider.close_for("acme", ms(1_500));
    assert_eq!(bench.get("acme/x").await?.1.as_deref(), Some("2"));
    let answer = Canned::status(503)
        .with_header("Retry-After", "5")
        .with_body("{}");
    bench.provider.answer_next("acme", answer);
    assert_eq!(bench.get("acme/x").await?, (503, Some("5".to_owned()), json!({})));
    assert_eq!(bench.provider.calls()[1].retry_at, Some(bench.after(5_000)));
    bench.clock.advance(ms(1_500));
    assert_eq!(bench.get("acme/x").await?.0, 200);
    bench.provider.forget_calls();
    assert!(bench.provider.calls().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_key_can_be_a_header() -> Result<()> {
    let config = ProviderConfig::default()
        .with_key_by(KeyBy::Header("x-api-key".to_owned()))
        .with_default(Rule::window(Window::fixed(1, ms(1_000))));
    let bench = Bench::new(config).await?;
    for (key, expected) in [("a", 200), ("b", 200), ("a", 429)] {
        let request = bench
            .client
            .get(bench.provider.url_of("same"))
            .header("x-api-key", key);
        assert_eq!(request.send().await?.status().as_u16(), expected, "key {key}");
    }
    Ok(())
}

#[tokio::test]
async fn people_read_the_record_as_json_and_close_a_key_by_hand() -> Result<()> {
    let bench = Bench::new(ProviderConfig::default()).await?;
    let close = json!({ "key": "acme", "until": bench.after(60_000) });
    let closing = bench
        .client
        .post(bench.provider.url_of("_admin/close"))
        .json(&close);
    assert_eq!(closing.send().await?.status().as_u16(), 204);
    bench.get("acme/contacts/7").await?;
    let (_, _, calls) = bench.get("_admin/calls").await?;
    assert_eq!(calls.as_array().map(Vec::len), Some(1), "looking is no call");
    assert_eq!(
        (&calls[0]["path"], &calls[0]["retry_after"]),
        (&json!("/acme/contacts/7"), &json!(60))
    );
    let (_, _, closed) = bench.get("_admin/closed").await?;
    assert_eq!(closed[0]["until"], json!("2026-09-28T12:01:00Z"));
    Ok(())
}
