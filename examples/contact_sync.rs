//! A worker that fetches contacts from a CRM, and lets the CRM say when.
//!
//! Each message names an account and a contact: `{"account":"acme","id":7}`. `PROVIDER_URL` says where the CRM is.
//! When it answers 429, the message goes back to the queue and comes again when the CRM will have it.

use frigg_requester::Requester;
use frigg_worker::{Handler, HandlerError, Job, Worker};
use serde::Deserialize;

struct ContactSync {
    crm: Requester,
}

#[derive(Deserialize)]
struct SyncContact {
    account: String,
    id: u64,
}

impl Handler for ContactSync {
    type Message = SyncContact;
    type Error = HandlerError;

    async fn handle(&self, job: Job<SyncContact>) -> Result<(), HandlerError> {
        let SyncContact { account, id } = &job.message;
        // A refusal travels through `?` and puts the message back until its time; a 404 ends it; a 500 is tried again.
        self.crm.get(&format!("/{account}/contacts/{id}")).send().await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("PROVIDER_URL").map_err(|_| "PROVIDER_URL is not set: where is the CRM?")?;
    let crm = Requester::new(url)?;
    Ok(Worker::from_env(ContactSync { crm }).await?.run().await?)
}
