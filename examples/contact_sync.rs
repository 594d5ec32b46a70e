//! A worker that fetches contacts from a CRM, and lets the CRM say when.
//!
//! Each message names an account and a contact: `{"account":"acme","id":7}`. `PROVIDER_URL` says where the CRM is.
//! When it answers 429, the message goes back to the queue and comes again when the CRM will have it.

use frigg_worker::{HandlerError, Job, Worker, handler_fn};
use serde::Deserialize;

#[derive(Deserialize)]
struct SyncContact {
    account: String,
    id: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crm = reqwest::Client::new();
    let url = std::env::var("PROVIDER_URL").map_err(|_| "PROVIDER_URL is not set: where is the CRM?")?;
    let handler = handler_fn(move |job: Job<SyncContact>| {
        let SyncContact { account, id } = job.message;
        let call = crm
            .get(format!("{url}/{account}/contacts/{id}"))
            // In the CRM's logs and in ours, a call and its message can be told to belong together.
            .header("x-request-id", &job.delivery.message_id);
        async move {
            let response = call.send().await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = response.bytes().await?;
            // One `?` puts the message back until the provider's time.
            frigg_worker::read_limit(status.as_u16(), &headers, &body, None).check()?;
            if status.is_client_error() {
                return Err(HandlerError::permanent(format!("the CRM answers {status}")));
            }
            if !status.is_success() {
                return Err(format!("the CRM answers {status}").into());
            }
            Ok::<(), HandlerError>(())
        }
    });
    Ok(Worker::from_env(handler).await?.run().await?)
}
