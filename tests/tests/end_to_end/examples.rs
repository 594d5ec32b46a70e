//! The example programs, run as a reader would run them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use frigg_tests::emulator::QueueSpec;
use frigg_tests::provider::{ProviderConfig, Rule, ThrottlingProvider, Window};
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn contact_sync_fetches_every_contact_and_none_early() -> Result<()> {
    let window = Window::rolling(3, Duration::from_secs(3));
    let provider =
        ThrottlingProvider::start(ProviderConfig::default().with_rule("acme", Rule::window(window))).await?;
    let mut rig = Rig::new(QueueSpec::standard("contacts"), 30).await?;
    rig.set("PROVIDER_URL", provider.url());
    let bodies: Vec<_> = (1..=8)
        .map(|id| json!({ "account": "acme", "id": id }).to_string())
        .collect();
    rig.send_batch(&bodies).await?;
    let mut worker = rig.poll_with(env!("CARGO_BIN_EXE_contact-sync"))?;
    rig.is_empty().await?;
    worker.kill().await?;

    let mut contacts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for call in provider.calls_of("acme") {
        contacts.entry(call.path.clone()).or_default().push(call);
    }
    let want: Vec<_> = (1..=8).map(|id| format!("/acme/contacts/{id}")).collect();
    assert_eq!(contacts.keys().cloned().collect::<Vec<_>>(), want);
    for (contact, calls) in &contacts {
        assert_eq!(
            calls.iter().filter(|call| call.accepted).count(),
            1,
            "{contact}: {calls:?}"
        );
        for pair in calls.windows(2) {
            assert!(
                Some(pair[1].at) >= pair[0].retry_at,
                "{contact} was called early: {calls:?}"
            );
        }
    }
    assert!(provider.calls_of("acme").len() > 8, "some were refused");
    assert!(!worker.events("frigg.worker.record_deferred").is_empty());
    rig.ends_empty().await
}
