//! A function as AWS documents it for partial batch responses: nothing but `lambda_runtime`. A limited record fails.

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use frigg_bench::Task;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};

async fn process(record: &SqsMessage) -> Result<(), Error> {
    let task: Task = serde_json::from_str(record.body.as_deref().unwrap_or_default())?;
    task.run()
        .await
        .map_err(|limited| format!("limited for {} s", limited.seconds).into())
}

async fn handle(event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, Error> {
    let mut response = SqsBatchResponse::default();
    for record in event.payload.records {
        if process(&record).await.is_err() {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = record.message_id.unwrap_or_default();
            response.batch_item_failures.push(failure);
        }
    }
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run(service_fn(handle)).await
}
