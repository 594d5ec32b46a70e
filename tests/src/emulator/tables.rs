//! DynamoDB tables: create, put, read.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Emulator;

impl Emulator {
    /// Creates a table as the template does: partition key `pk`, on-demand. Returns its name.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_table(&self, name: &str) -> Result<String> {
        let name = self.unique(name);
        let request = json!({
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": "S" }],
            "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
        });
        self.dynamodb("CreateTable", &request).await?;
        Ok(name)
    }

    /// Puts an item in DynamoDB's own JSON: `{"pk":{"S":"a"}}`.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn put_item(&self, table: &str, item: &Value) -> Result<()> {
        let request = json!({ "TableName": table, "Item": item });
        self.dynamodb("PutItem", &request).await.map(drop)
    }

    /// An item, in DynamoDB's own JSON; null where there is none.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn get_item(&self, table: &str, pk: &str) -> Result<Value> {
        let request = json!({ "TableName": table, "Key": { "pk": { "S": pk } }, "ConsistentRead": true });
        Ok(self.dynamodb("GetItem", &request).await?["Item"].take())
    }

    pub(super) async fn dynamodb(&self, operation: &str, request: &Value) -> Result<Value> {
        let target = format!("DynamoDB_20120810.{operation}");
        let answer = self.api().json("dynamodb", &target, request).await?;
        answer.success(operation)?.json().context("DynamoDB answers JSON")
    }
}
