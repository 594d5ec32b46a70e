//! A DynamoDB table with the partition key `pk` (text), and `ttl` as its time to live.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, UpdateItemOutput};
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::OnceCell;

use super::{Aws, call_error};
use crate::error::BoxError;

/// An entry is kept for so long after its last time: longer than any message waits for one. It is told by its times
/// whether it still counts, so that it goes late matters to nobody.
const KEPT: SignedDuration = SignedDuration::from_hours(8 * 24);

pub(super) type Item = HashMap<String, AttributeValue>;

/// The table, and a client for it, built on first use.
pub(super) struct Table {
    aws: Aws,
    name: String,
    client: OnceCell<Client>,
}

impl Table {
    pub(super) fn new(aws: Aws, name: String) -> Self {
        Table {
            aws,
            name,
            client: OnceCell::new(),
        }
    }

    async fn client(&self) -> &Client {
        let build = async || Client::new(self.aws.config().await);
        self.client.get_or_init(build).await
    }

    /// `GetItem`, consistent.
    pub(super) async fn get(&self, pk: &str) -> Result<Item, BoxError> {
        let call = self.client().await.get_item().table_name(&self.name);
        let call = call.key("pk", text(pk)).consistent_read(true);
        let output = call.send().await.map_err(|error| call_error(&error))?;
        Ok(output.item.unwrap_or_default())
    }

    /// `UpdateItem`, to be completed.
    pub(super) async fn update(&self, pk: &str) -> UpdateItemFluentBuilder {
        let call = self.client().await.update_item().table_name(&self.name);
        call.key("pk", text(pk)).return_values(ReturnValue::UpdatedNew)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.name).finish()
    }
}

/// What was written; where the condition did not hold, what is stored, if the call asks for that.
pub(super) async fn conditional(call: UpdateItemFluentBuilder) -> Result<Result<Item, Item>, BoxError> {
    let error = match call.send().await {
        Ok(UpdateItemOutput { attributes, .. }) => return Ok(Ok(attributes.unwrap_or_default())),
        Err(error) => error,
    };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
            Ok(Err(failed.item.clone().unwrap_or_default()))
        }
        _ => Err(call_error(&error).into()),
    }
}

pub(super) fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(super) fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Microseconds since 1970: what DynamoDB can add to.
pub(super) fn micros(at: Timestamp) -> AttributeValue {
    number(at.as_microsecond())
}

/// `ttl` for an entry whose last time is `at`.
pub(super) fn ttl(at: Timestamp) -> AttributeValue {
    number(at.checked_add(KEPT).unwrap_or(Timestamp::MAX).as_second())
}

/// Attributes of another shape count as absent.
pub(super) fn read<T: std::str::FromStr>(item: &Item, name: &str) -> Option<T> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

pub(super) fn read_text<'i>(item: &'i Item, name: &str) -> Option<&'i str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

pub(super) fn read_time(item: &Item, name: &str) -> Option<Timestamp> {
    Timestamp::from_microsecond(read(item, name)?).ok()
}
