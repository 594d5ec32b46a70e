//! The straightforward loop outside Lambda: receive ten, handle them, delete them one by one.

use aws_sdk_sqs::{Client, Error};
use frigg_bench::{Task, client, queue_url};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = client().await;
    let url = queue_url()?;
    loop {
        round(&client, &url).await?;
    }
}

async fn round(client: &Client, url: &str) -> Result<(), Error> {
    let receive = client
        .receive_message()
        .queue_url(url)
        .max_number_of_messages(10)
        .wait_time_seconds(20);
    for message in receive.send().await?.messages.unwrap_or_default() {
        let task = serde_json::from_str::<Task>(message.body().unwrap_or_default());
        if let Ok(task) = task
            && task.run().await.is_ok()
        {
            let handle = message.receipt_handle().unwrap_or_default();
            client
                .delete_message()
                .queue_url(url)
                .receipt_handle(handle)
                .send()
                .await?;
        }
    }
    Ok(())
}
