//! A gate in Redis instead of DynamoDB: another store is one file.
//!
//! `REDIS=localhost:6379 FRIGG_QUEUE_URL=… cargo run -p frigg-examples --bin redis_gate`. Each change is a script, which
//! Redis runs in one step. A key's entry is a hash with the times in microseconds since 1970; it expires by itself.
//!
//! The rules that it has to follow are tested on a Redis of yours (`redis-server --port 6379 --save ''` of Debian's
//! `redis-server` is one): `REDIS=localhost:6379 cargo test -p frigg-examples --bin redis_gate -- --ignored`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use frigg_worker::core::rate_limit::{Reason, Window};
use frigg_worker::gate::{Closure, Gate, GateStore, Line, Reservation};
use frigg_worker::{BoxError, Clock, HandlerError, Job, RateLimited, Worker, handler_fn};
use jiff::Timestamp;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Kept for so long after an entry's last time, in milliseconds: longer than any message waits.
const KEPT_MS: i64 = 8 * 86_400_000;

/// The later time wins. Text is compared as numbers: microseconds since 1970 are exact in a double for 280 years.
const CLOSE: &str = "
    local stored = tonumber(redis.call('HGET', KEYS[1], 'closedUntil') or '')
    if stored and stored >= tonumber(ARGV[1]) then return end
    redis.call('HSET', KEYS[1], 'closedUntil', ARGV[1], 'reason', ARGV[2], 'module', ARGV[3])
    if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'windowLimit', ARGV[4], 'windowMs', ARGV[5]) end
    redis.call('PEXPIREAT', KEYS[1], ARGV[6])";

/// The next slot of a line, or nothing when it is full.
const RESERVE: &str = "
    local from, before, gap = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
    local slot = math.max(from, tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '') or from)
    if slot >= before then return false end
    redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', slot + gap))
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', slot / 1000 + tonumber(ARGV[5])))
    return string.format('%.0f', slot)";

/// A [`GateStore`] in Redis.
#[derive(Debug)]
struct RedisGate {
    address: String,
    // One call at a time; a connection with an answer outstanding is dropped.
    connection: Mutex<Option<BufStream<TcpStream>>>,
}

impl RedisGate {
    /// A command and its answer, a list of texts. Use a client of the ecosystem when you need TLS or a password.
    async fn call(&self, words: &[&str]) -> Result<Vec<Option<String>>, BoxError> {
        let mut kept = self.connection.lock().await;
        let mut redis = match kept.take() {
            Some(redis) => redis,
            None => BufStream::new(TcpStream::connect(&self.address).await?),
        };
        let mut request = format!("*{}\r\n", words.len());
        words
            .iter()
            .for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        redis.write_all(request.as_bytes()).await?;
        redis.flush().await?;
        let (kind, first) = line(&mut redis).await?;
        let answer = match kind {
            '*' => {
                let mut list = Vec::new();
                for _ in 0..first.parse::<usize>().unwrap_or_default() {
                    let (_, length) = line(&mut redis).await?;
                    list.push(bulk(&mut redis, &length).await?);
                }
                list
            }
            '$' => vec![bulk(&mut redis, &first).await?],
            '-' => return Err(first.into()),
            _ => vec![Some(first)],
        };
        *kept = Some(redis);
        Ok(answer)
    }
}

async fn line(redis: &mut BufStream<TcpStream>) -> Result<(char, String), BoxError> {
    let mut line = String::new();
    redis.read_line(&mut line).await?;
    let mut chars = line.trim_end().chars();
    let kind = chars.next().ok_or("the connection was closed")?;
    Ok((kind, chars.as_str().to_owned()))
}

async fn bulk(redis: &mut BufStream<TcpStream>, length: &str) -> Result<Option<String>, BoxError> {
    // -1 is nothing.
    let Ok(length) = length.parse::<usize>() else {
        return Ok(None);
    };
    let mut text = vec![0; length + 2];
    redis.read_exact(&mut text).await?;
    text.truncate(length);
    Ok(Some(String::from_utf8(text)?))
}

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

impl GateStore for RedisGate {
    fn look<'a>(&'a self, key: &'a str) -> Answer<'a, Gate> {
        Box::pin(async move {
            let fields = [
                "closedUntil",
                "reason",
                "module",
                "windowLimit",
                "windowMs",
                "nextReturn",
                "nextCall",
            ];
            let values = self.call(&[&["HMGET", &name(key)], &fields[..]].concat()).await?;
            let text = |at: usize| values.get(at)?.as_deref().filter(|text| !text.is_empty());
            let time = |at| Timestamp::from_microsecond(text(at)?.parse().ok()?).ok();
            let window = || {
                let limit: NonZeroU32 = text(3)?.parse().ok()?;
                let per = Duration::from_millis(text(4)?.parse().ok()?);
                Some(Window { limit, per })
            };
            let mut gate = Gate::default();
            gate.closed_until = time(0);
            gate.reason = text(1).and_then(Reason::from_name).unwrap_or_default();
            gate.module = text(2).map(str::to_owned);
            gate.window = window();
            (gate.next_return, gate.next_call) = (time(5), time(6));
            Ok(gate)
        })
    }

    fn close<'a>(&'a self, key: &'a str, closure: &'a Closure) -> Answer<'a, ()> {
        Box::pin(async move {
            let window = closure
                .window
                .map(|window| (window.limit.to_string(), window.per.as_millis().to_string()));
            let (limit, per) = window.unwrap_or_default();
            let until = closure.until.as_microsecond().to_string();
            let expiry = closure.until.as_millisecond().saturating_add(KEPT_MS).to_string();
            let module = closure.module.as_deref().unwrap_or_default();
            let reason = closure.reason.as_str();
            self.call(&[
                "EVAL",
                CLOSE,
                "1",
                &name(key),
                &until,
                reason,
                module,
                &limit,
                &per,
                &expiry,
            ])
            .await?;
            Ok(())
        })
    }

    fn reserve<'a>(&'a self, key: &'a str, asked: &'a Reservation) -> Answer<'a, Option<Timestamp>> {
        Box::pin(async move {
            let line = match asked.line {
                Line::Return => "nextReturn",
                Line::Call => "nextCall",
            };
            let (from, before) = (
                asked.from.as_microsecond().to_string(),
                asked.before.as_microsecond().to_string(),
            );
            let (gap, kept) = (asked.gap.as_micros().to_string(), KEPT_MS.to_string());
            let answer = self
                .call(&[
                    "EVAL",
                    RESERVE,
                    "1",
                    &name(key),
                    line,
                    &from,
                    &before,
                    &gap,
                    &kept,
                ])
                .await?;
            let slot = answer.into_iter().next().flatten();
            slot.map(|slot| Ok(Timestamp::from_microsecond(slot.parse()?)?))
                .transpose()
        })
    }
}

/// Beside what else is in Redis.
fn name(key: &str) -> String {
    format!("frigg:gate:{key}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gate = RedisGate {
        address: std::env::var("REDIS")?,
        connection: Mutex::default(),
    };
    let handler = handler_fn(|job: Job<serde_json::Value>| async move {
        // Your work. When the provider refuses, say whose limit it was:
        match job.message["refusedForSeconds"].as_u64() {
            Some(seconds) => {
                let limited = RateLimited::after(Clock::system().now(), Duration::from_secs(seconds));
                Err(HandlerError::from(limited.with_scope_key("crm:app")))
            }
            None => Ok(()),
        }
    });
    let handler = handler.with_scope_key(|_| Some("crm:app".to_owned()));
    Ok(Worker::from_env(handler)
        .await?
        .with_gate(Arc::new(gate))
        .run()
        .await?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use frigg_worker::testing::FakeGate;
    use futures_util::future::join_all;

    use super::*;

    fn redis() -> RedisGate {
        RedisGate {
            address: std::env::var("REDIS").expect("REDIS=host:port"),
            connection: Mutex::default(),
        }
    }

    /// Of today: what is over for eight days, Redis forgets at once.
    fn at(ms: i64) -> Timestamp {
        let day = Clock::system().now().as_second() / 86_400 * 86_400_000;
        Timestamp::from_millisecond(day + ms).expect("a time of our days")
    }

    fn asked(line: Line, from: i64, before: i64) -> Reservation {
        Reservation {
            line,
            from: at(from),
            before: at(before),
            gap: Duration::from_micros(105_264),
        }
    }

    /// A key that nobody has used.
    fn fresh(name: &str) -> String {
        format!("{name} \u{e9}\r\n\"{}", Clock::system().now().as_nanosecond())
    }

    #[tokio::test]
    #[ignore = "needs a Redis, see above"]
    async fn it_follows_the_same_rules_as_the_fake() -> Result<(), BoxError> {
        let (store, fake, key) = (redis(), FakeGate::default(), fresh("rules"));
        assert_eq!(store.look(&key).await?, Gate::default());
        for (step, ms) in [5_000, 4_000, 5_000, 9_000, 0, -3_600_000]
            .into_iter()
            .enumerate()
        {
            let window = Window {
                limit: NonZeroU32::MIN,
                per: Duration::from_millis(1_500),
            };
            let closure = Closure {
                until: at(ms),
                reason: Reason::Daily,
                module: Some("crm".to_owned()),
                window: (step == 1 || step == 3).then_some(window),
            };
            store.close(&key, &closure).await?;
            fake.close(&key, &closure).await?;
            for asked in [
                asked(Line::Return, ms, ms + 3_600_000),
                asked(Line::Return, ms, ms + 3_600_000),
                asked(Line::Call, ms, ms + 100),
                asked(Line::Call, ms, ms + 100),
                asked(Line::Call, ms, ms),
            ] {
                let (got, want) = (
                    store.reserve(&key, &asked).await?,
                    fake.reserve(&key, &asked).await?,
                );
                assert_eq!(got, want, "step {step}: {asked:?}");
            }
            assert_eq!(store.look(&key).await?, fake.gate(&key), "step {step}");
        }
        Ok(())
    }

    #[tokio::test]
    #[ignore = "needs a Redis, see above"]
    async fn no_slot_is_given_twice() -> Result<(), BoxError> {
        let (stores, key) = ([redis(), redis(), redis()], fresh("race"));
        let asked = asked(Line::Return, 0, 3_600_000);
        let calls = (0..300).map(|n| stores[n % 3].reserve(&key, &asked));
        let slots: Vec<_> = join_all(calls).await.into_iter().collect::<Result<_, _>>()?;
        let slots: BTreeSet<_> = slots.into_iter().flatten().collect();
        let want = (0..300).map(|n| at(0) + asked.gap * n).collect();
        assert_eq!(slots, want);
        Ok(())
    }
}
