//! The documented function, with all records handled and all limited ones sent back at once: as fast as hand-written
//! code gets, at a call and a connection each.

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_sqs::Client;
use frigg_bench::{Limited, Task, client, queue_url};
use futures_util::future::join_all;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};

async fn process(client: &Client, url: &str, record: &SqsMessage) -> Result<(), Error> {
    let body = record.body.as_deref().unwrap_or_default();
    let task: Task = serde_json::from_str(body)?;
    if let Err(Limited { seconds }) = task.run().await {
        let send = client.send_message().queue_url(url).message_body(body);
        send.delay_seconds(seconds.cast_signed()).send().await?;
    }
    Ok(())
}

async fn handle(client: &Client, url: &str, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, Error> {
    let records = &event.payload.records;
    let results = join_all(records.iter().map(|record| process(client, url, record))).await;
    let mut response = SqsBatchResponse::default();
    for (record, result) in records.iter().zip(results) {
        if result.is_err() {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = record.message_id.clone().unwrap_or_default();
            response.batch_item_failures.push(failure);
        }
    }
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = &client().await;
    let url = &queue_url()?;
    run(service_fn(move |event| handle(client, url, event))).await
}
