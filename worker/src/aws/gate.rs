//! The gate's table. Each change is one conditional update, which DynamoDB makes atomically.
//!
//! | attribute | |
//! |---|---|
//! | `pk` | the scope key |
//! | `closedUntil`, `nextReturn`, `nextCall` | microseconds since 1970 |
//! | `reason`, `module`, `windowLimit`, `windowMs` | of the limit that closed it |
//! | `ttl` | seconds since 1970 |

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use frigg_core::rate_limit::{Reason, Window};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use super::Aws;
use super::table::{Item, Table, conditional, micros, number, read, read_text, read_time, text, ttl};
use crate::error::BoxError;
use crate::gate::{Closure, Gate, GateStore, Line, Reservation};

/// Others reserve at the same time: an update that lost its race is tried again.
const ATTEMPTS: u32 = 6;
/// Of keys; then it begins anew to learn.
const MAX_SEEN: usize = 1024;
/// No message waits for longer than its cap, which is hours.
const LONGEST_LINE: SignedDuration = SignedDuration::from_hours(8 * 24);

/// A [`GateStore`] in a DynamoDB table: partition key `pk` (text), time to live `ttl`, on-demand.
///
/// It needs `dynamodb:GetItem` and `dynamodb:UpdateItem` on the table.
#[derive(Debug)]
pub struct DynamoGate {
    table: Table,
    /// How far lines have come at least, by key: what decides whether a line is begun or gone on with at first.
    seen: Mutex<HashMap<(Line, String), Timestamp>>,
}

impl DynamoGate {
    /// The table of this name. Calls nothing.
    pub fn new(aws: Aws, table: impl Into<String>) -> Self {
        DynamoGate {
            table: Table::new(aws, table.into()),
            seen: Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<(Line, String), Timestamp>> {
        // Nothing panics while it is held.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saw(&self, key: &str, asked: &Reservation, slot: Timestamp) {
        let mut seen = self.seen();
        if seen.len() >= MAX_SEEN {
            seen.clear();
        }
        let next = slot.checked_add(asked.gap).unwrap_or(Timestamp::MAX);
        seen.insert((asked.line, key.to_owned()), next);
    }

    /// The slot that is next in a line that has come so far already.
    async fn append(&self, key: &str, asked: &Reservation) -> Result<Append, BoxError> {
        let line = name(asked.line);
        let call = self.table.update(key).await;
        let call = call
            .update_expression(format!("SET {line} = {line} + :gap, #ttl = :ttl"))
            .condition_expression(format!("{line} >= :from AND {line} < :before"))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":gap", number(asked.gap.as_micros()))
            .expression_attribute_values(":ttl", ttl(asked.before.min(latest(asked.from))))
            .expression_attribute_values(":from", micros(asked.from))
            .expression_attribute_values(":before", micros(asked.before));
        let written = match conditional(call).await? {
            Ok(written) => written,
            Err(stored) if read_time(&stored, line).is_some_and(|next| next >= asked.before) => {
                return Ok(Append::Full);
            }
            Err(_) => return Ok(Append::Behind),
        };
        let next = read_time(&written, line).ok_or("the update told no slot")?;
        Ok(next.checked_sub(asked.gap).map_or(Append::Full, Append::At))
    }

    /// The first slot of a line that lies behind.
    async fn begin(&self, key: &str, asked: &Reservation) -> Result<Option<Timestamp>, BoxError> {
        let line = name(asked.line);
        let next = asked.from.checked_add(asked.gap).unwrap_or(Timestamp::MAX);
        let call = self.table.update(key).await;
        let call = call
            .update_expression(format!("SET {line} = :next, #ttl = :ttl"))
            .condition_expression(behind(line, ":from"))
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":next", micros(next))
            .expression_attribute_values(":ttl", ttl(next))
            .expression_attribute_values(":from", micros(asked.from))
            .expression_attribute_values(":number", text("N"))
            .expression_attribute_values(":max", micros(Timestamp::MAX));
        Ok(conditional(call).await?.ok().map(|_| asked.from))
    }
}

impl GateStore for DynamoGate {
    fn look<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Gate, BoxError>> {
        Box::pin(async move { Ok(gate(&self.table.get(key).await?)) })
    }

    fn close<'a>(&'a self, key: &'a str, closure: &'a Closure) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let mut set = "SET closedUntil = :until, reason = :reason, #ttl = :ttl".to_owned();
            let mut call = self.table.update(key).await;
            let mut also = |call: UpdateItemFluentBuilder, name: &str, value| {
                // `module` is a word of DynamoDB's own.
                set.push_str(&format!(", #{name} = :{name}"));
                let call = call.expression_attribute_names(format!("#{name}"), name);
                call.expression_attribute_values(format!(":{name}"), value)
            };
            if let Some(module) = &closure.module {
                call = also(call, "module", text(module));
            }
            if let Some(window) = &closure.window {
                call = also(call, "windowLimit", number(window.limit));
                call = also(call, "windowMs", number(window.per.as_millis()));
            }
            let call = call
                .update_expression(set)
                .condition_expression(behind("closedUntil", ":until"))
                .expression_attribute_names("#ttl", "ttl")
                .expression_attribute_values(":until", micros(closure.until))
                .expression_attribute_values(":reason", text(closure.reason.as_str()))
                .expression_attribute_values(":ttl", ttl(closure.until))
                .expression_attribute_values(":number", text("N"))
                .expression_attribute_values(":max", micros(Timestamp::MAX));
            // A condition that does not hold: a later time is there.
            conditional(call).await.map(drop)
        })
    }

    fn reserve<'a>(
        &'a self,
        key: &'a str,
        asked: &'a Reservation,
    ) -> BoxFuture<'a, Result<Option<Timestamp>, BoxError>> {
        Box::pin(async move {
            if asked.from >= asked.before {
                return Ok(None);
            }
            let next = self.seen().get(&(asked.line, key.to_owned())).copied();
            let mut begun = next.is_some_and(|next| next >= asked.from);
            for _ in 0..ATTEMPTS {
                let slot = if begun {
                    match self.append(key, asked).await? {
                        Append::At(slot) => Some(slot),
                        Append::Full => return Ok(None),
                        Append::Behind => None,
                    }
                } else {
                    self.begin(key, asked).await?
                };
                if let Some(slot) = slot {
                    self.saw(key, asked, slot);
                    return Ok(Some(slot));
                }
                // Another worker began it, or it has come to its end.
                begun = !begun;
            }
            Err("too many workers reserve slots of this key at once".into())
        })
    }
}

/// How an append went.
enum Append {
    /// This slot is taken.
    At(Timestamp),
    /// The line has come too far.
    Full,
    /// The line has not come so far, or there is none.
    Behind,
}

/// A line that goes on from `from` ends before this, by far.
fn latest(from: Timestamp) -> Timestamp {
    from.checked_add(LONGEST_LINE).unwrap_or(Timestamp::MAX)
}

fn name(line: Line) -> &'static str {
    match line {
        Line::Return => "nextReturn",
        Line::Call => "nextCall",
    }
}

/// The attribute is absent, no number, no time (`:max` is the last one), or less than `value`.
fn behind(name: &str, value: &str) -> String {
    format!(
        "attribute_not_exists({name}) OR NOT attribute_type({name}, :number) OR {name} > :max OR {name} < {value}"
    )
}

fn gate(item: &Item) -> Gate {
    let mut gate = Gate::default();
    gate.closed_until = read_time(item, "closedUntil");
    gate.reason = read_text(item, "reason")
        .and_then(Reason::from_name)
        .unwrap_or_default();
    gate.module = read_text(item, "module").map(str::to_owned);
    gate.window = read::<NonZeroU32>(item, "windowLimit")
        .zip(read(item, "windowMs").filter(|ms| *ms > 0))
        .map(|(limit, ms)| Window {
            limit,
            per: Duration::from_millis(ms),
        });
    gate.next_return = read_time(item, "nextReturn");
    gate.next_call = read_time(item, "nextCall");
    gate
}
