//! The state table: what each process waits for, and what its users are told.
//!
//! | attribute | |
//! |---|---|
//! | `pk` | `process#<id>`, `integration#<id>` |
//! | `status`, `mechanism`, `retryAt`, `reason`, `module`, `deferrals`, `deferralId`, `updatedAt` | Frigg's `context.rateLimit` of a process; the times are ISO text with milliseconds, which sorts as the times do |
//! | `warnings`, `revision` | an integration's warnings, as JSON, and how often they were written |
//! | `ttl` | seconds since 1970 |

use frigg_core::rate_limit::Reason;
use frigg_core::time::{iso, parse_iso};
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::Aws;
use super::table::{Item, Table, conditional, number, read, read_text, text, ttl};
use crate::clock::Clock;
use crate::error::BoxError;
use crate::run_state::{CLEARS_WITHIN, Mechanism, RunState, State, Status, process_id};
use crate::warnings::{Stored, WarningStore};

/// Frigg's run state, and the warnings of integrations, in a DynamoDB table: partition key `pk` (text), time to live
/// `ttl`, on-demand. Every change of a state is one conditional update: of two workers in the same instant, the later
/// time stands.
///
/// It needs `dynamodb:GetItem` and `dynamodb:UpdateItem` on the table.
#[derive(Debug)]
pub struct DynamoState {
    table: Table,
    clock: Clock,
}

impl DynamoState {
    /// The table of this name. Calls nothing.
    pub fn new(aws: Aws, table: impl Into<String>, clock: Clock) -> Self {
        DynamoState {
            table: Table::new(aws, table.into()),
            clock,
        }
    }

    /// What a process waits for, and when that was written; `None` when it does not wait.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn state(&self, process: &str) -> Result<Option<(State, Timestamp)>, BoxError> {
        Ok(state(&self.table.get(&process_key(process)).await?))
    }
}

fn process_key(id: &str) -> String {
    format!("process#{id}")
}

fn integration_key(id: &str) -> String {
    format!("integration#{id}")
}

impl RunState for DynamoState {
    fn record<'a>(&'a self, body: &'a str, state: &'a State) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let Some(process) = process_id(body) else {
                return Ok(());
            };
            let now = self.clock.now();
            // `status`, `module` and `ttl` are words of DynamoDB's own.
            let module = if state.module.is_some() {
                "SET #module = :module, "
            } else {
                "REMOVE #module SET "
            };
            let mut call = self.table.update(&process_key(&process)).await;
            if state.status == Status::Waiting {
                // In Frigg's table: nothing there, or a wait that is not strictly later. What is no state is nothing.
                call = call
                    .condition_expression(
                        "attribute_not_exists(#status) OR NOT #status IN (:waiting, :exhausted) OR (#status = :waiting AND \
                         (NOT attribute_type(retryAt, :text) OR retryAt <= :retryAt))",
                    )
                    .expression_attribute_values(":waiting", text(Status::Waiting.as_str()))
                    .expression_attribute_values(":exhausted", text(Status::Exhausted.as_str()))
                    .expression_attribute_values(":text", text("S"));
            }
            if let Some(module) = &state.module {
                call = call.expression_attribute_values(":module", text(module));
            }
            let call = call
                .update_expression(format!(
                    "{module}#status = :status, mechanism = :mechanism, retryAt = :retryAt, reason = :reason, \
                     deferrals = :deferrals, deferralId = :deferralId, updatedAt = :updatedAt, #ttl = :ttl"
                ))
                .expression_attribute_names("#status", "status")
                .expression_attribute_names("#module", "module")
                .expression_attribute_names("#ttl", "ttl")
                .expression_attribute_values(":status", text(state.status.as_str()))
                .expression_attribute_values(":mechanism", text(state.mechanism.as_str()))
                .expression_attribute_values(":retryAt", text(iso(state.retry_at)))
                .expression_attribute_values(":reason", text(state.reason.frigg_name()))
                .expression_attribute_values(":deferrals", number(state.deferrals))
                .expression_attribute_values(":deferralId", text(&state.deferral_id))
                .expression_attribute_values(":updatedAt", text(iso(now)))
                .expression_attribute_values(":ttl", ttl(state.retry_at.max(now)));
            conditional(call).await.map(drop)
        })
    }

    fn clear<'a>(&'a self, body: &'a str, deferral_id: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let Some(process) = process_id(body) else {
                return Ok(());
            };
            let now = self.clock.now();
            let soon = now.checked_add(CLEARS_WITHIN).unwrap_or(now);
            let call = self.table.update(&process_key(&process)).await;
            let call = call
                .update_expression(
                    "SET updatedAt = :updatedAt REMOVE #status, #module, mechanism, retryAt, reason, deferrals, deferralId",
                )
                .condition_expression("#status = :waiting AND (deferralId = :deferralId OR retryAt <= :soon)")
                .expression_attribute_names("#status", "status")
                .expression_attribute_names("#module", "module")
                .expression_attribute_values(":updatedAt", text(iso(now)))
                .expression_attribute_values(":waiting", text(Status::Waiting.as_str()))
                .expression_attribute_values(":deferralId", text(deferral_id))
                .expression_attribute_values(":soon", text(iso(soon)));
            conditional(call).await.map(drop)
        })
    }
}

impl WarningStore for DynamoState {
    fn read<'a>(&'a self, integration: &'a str) -> BoxFuture<'a, Result<Stored, BoxError>> {
        Box::pin(async move {
            let item = self.table.get(&integration_key(integration)).await?;
            Ok(Stored {
                warnings: read_text(&item, "warnings").unwrap_or_default().to_owned(),
                revision: read(&item, "revision").unwrap_or_default(),
            })
        })
    }

    fn write<'a>(
        &'a self,
        integration: &'a str,
        stored: &'a Stored,
    ) -> BoxFuture<'a, Result<bool, BoxError>> {
        Box::pin(async move {
            let call = self.table.update(&integration_key(integration)).await;
            let call = call
                .update_expression("SET warnings = :warnings, revision = :next")
                .condition_expression(
                    "attribute_not_exists(revision) OR NOT attribute_type(revision, :number) OR revision = :revision",
                )
                .expression_attribute_values(":warnings", text(&stored.warnings))
                .expression_attribute_values(":number", text("N"))
                .expression_attribute_values(":revision", number(stored.revision))
                .expression_attribute_values(":next", number(stored.revision + 1));
            Ok(conditional(call).await?.is_ok())
        })
    }
}

/// An item of another shape counts as none.
fn state(item: &Item) -> Option<(State, Timestamp)> {
    let state = State {
        status: Status::from_name(read_text(item, "status")?)?,
        mechanism: Mechanism::from_name(read_text(item, "mechanism")?)?,
        retry_at: parse_iso(read_text(item, "retryAt")?)?,
        reason: read_text(item, "reason")
            .and_then(Reason::from_name)
            .unwrap_or_default(),
        module: read_text(item, "module").map(str::to_owned),
        deferrals: read(item, "deferrals")?,
        deferral_id: read_text(item, "deferralId")?.to_owned(),
    };
    Some((state, parse_iso(read_text(item, "updatedAt")?)?))
}
