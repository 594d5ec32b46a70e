//! The adapters: the only place that names a type of the AWS SDK.
//!
//! Nothing is built before the first call needs it: configuration, credentials and TLS roots cost start-up time that a
//! batch without deferrals should not pay.

mod announce;
#[cfg(feature = "dynamodb")]
mod gate;
mod scheduler;
mod sqs;
#[cfg(feature = "dynamodb")]
mod state;
#[cfg(feature = "dynamodb")]
mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::{RetryConfig, RetryMode};
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider, SharedHttpClient};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use tokio::sync::{Mutex, OnceCell};

#[cfg(feature = "eventbridge")]
pub use announce::EventBus;
#[cfg(feature = "sns")]
pub use announce::Topic;
#[cfg(feature = "dynamodb")]
pub use gate::DynamoGate;
pub use scheduler::AwsScheduler;
pub use sqs::AwsSqs;
#[cfg(feature = "dynamodb")]
pub use state::DynamoState;

use crate::ports::{CallError, CallErrorKind};

/// One attempt of a call; the SDK makes up to three.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The SDK's configuration, read once and on first use.
///
/// `AWS_ENDPOINT_URL` and all else that the SDK reads counts. Frigg's `AWS_ENDPOINT`, or `IS_OFFLINE`, means a local
/// endpoint (default `http://localhost:4566`) with fixed test credentials.
#[derive(Debug, Clone, Default)]
pub struct Aws {
    config: Arc<OnceCell<SdkConfig>>,
}

impl Aws {
    /// From the environment, when it is first needed.
    pub fn from_env() -> Self {
        Self::default()
    }

    /// With this configuration, for tests and for callers who have one.
    pub fn with_config(config: SdkConfig) -> Self {
        Aws {
            config: Arc::new(OnceCell::new_with(Some(config))),
        }
    }

    /// HTTPS by rustls and ring, for a configuration of one's own: the SDK's default, AWS-LC, would be a megabyte and a
    /// half of every worker.
    pub fn https_client() -> SharedHttpClient {
        let ring = Provider::Rustls(CryptoMode::Ring);
        aws_smithy_http_client::Builder::new()
            .tls_provider(ring)
            .build_https()
    }

    async fn config(&self) -> &SdkConfig {
        self.config.get_or_init(load).await
    }
}

/// The local endpoint that Frigg's variables mean.
fn local_endpoint(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let default = || "http://localhost:4566".to_owned();
    variable("AWS_ENDPOINT").or_else(|| variable("IS_OFFLINE").map(|_| default()))
}

async fn load() -> SdkConfig {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let timeouts = TimeoutConfig::builder()
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .timeout_config(timeouts)
        .http_client(Aws::https_client());
    if let Some(endpoint) = local_endpoint(variable) {
        let credentials = Credentials::new("test", "test", None, None, "local");
        loader = loader
            .endpoint_url(endpoint)
            .credentials_provider(SharedCredentialsProvider::new(credentials));
    }
    if variable("AWS_REGION")
        .or(variable("AWS_DEFAULT_REGION"))
        .is_none()
    {
        // The profile's region would be asked for next, then the metadata service, which may not answer for seconds.
        loader = loader.region(Region::new("us-east-1"));
    }
    let config = loader.load().await;
    if variable("AWS_RETRY_MODE").is_some() {
        return config;
    }
    // Calls that AWS throttles are made more slowly from then on, all of them; else each only repeats itself.
    let retries = config
        .retry_config()
        .cloned()
        .unwrap_or_else(RetryConfig::standard);
    let adaptive = retries.with_retry_mode(RetryMode::Adaptive);
    config.into_builder().retry_config(adaptive).build()
}

/// One client per region, kept.
struct PerRegion<C>(Mutex<HashMap<String, C>>);

impl<C> Default for PerRegion<C> {
    fn default() -> Self {
        PerRegion(Mutex::default())
    }
}

impl<C> fmt::Debug for PerRegion<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerRegion")
    }
}

impl<C: Clone> PerRegion<C> {
    /// The region's client. Without a region: the configuration's own.
    async fn get(&self, aws: &Aws, region: Option<&str>, build: fn(&SdkConfig) -> C) -> C {
        let config = aws.config().await;
        let region = region
            .or(config.region().map(Region::as_ref))
            .unwrap_or("us-east-1")
            .to_owned();
        let mut clients = self.0.lock().await;
        let make = || build(&config.to_builder().region(Region::new(region.clone())).build());
        clients.entry(region.clone()).or_insert_with(make).clone()
    }
}

/// What an SDK error means to the runtime.
fn call_error<E>(error: &SdkError<E>) -> CallError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let SdkError::ServiceError(service) = error else {
        let kind = match error {
            SdkError::ConstructionFailure(_) => CallErrorKind::Refused,
            _ => CallErrorKind::Unavailable,
        };
        return CallError::new(kind, None, crate::error::chain(error));
    };
    let code = service.err().code();
    let message = service.err().message().unwrap_or("no message");
    let kind = kind_of(code.unwrap_or_default(), message, service.raw().status().as_u16());
    CallError::new(kind, code, message)
}

/// Codes come bare or with a prefix (`AWS.SimpleQueueService.MessageNotInflight`).
fn kind_of(code: &str, message: &str, status: u16) -> CallErrorKind {
    let code = code.rsplit(['.', '#']).next().unwrap_or_default();
    let text = message.to_ascii_lowercase();
    let handle = text.contains("receipt handle") || text.contains("receipthandle");
    match code {
        "MessageNotInflight" | "ReceiptHandleIsInvalid" => CallErrorKind::HandleLost,
        "InvalidParameterValue" if handle => CallErrorKind::HandleLost,
        "ConflictException" => CallErrorKind::Conflict,
        _ if code.contains("Throttl") || status == 429 || status >= 500 => CallErrorKind::Unavailable,
        // A success that cannot be read: it may have been done, so it must not be done again one by one.
        _ if status < 300 => CallErrorKind::Unavailable,
        _ => CallErrorKind::Refused,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn friggs_variables_mean_a_local_endpoint() {
        for (variables, want) in [
            (&[][..], None),
            (&[("AWS_ENDPOINT", "http://a:1")][..], Some("http://a:1")),
            (&[("IS_OFFLINE", "true")][..], Some("http://localhost:4566")),
            (
                &[("IS_OFFLINE", "1"), ("AWS_ENDPOINT", "http://a:1")][..],
                Some("http://a:1"),
            ),
            (&[("AWS_ENDPOINT_URL", "http://a:1")][..], None),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(local_endpoint(variable).as_deref(), want, "{variables:?}");
        }
    }

    #[tokio::test]
    async fn a_client_is_built_once_per_region_and_when_it_is_needed() {
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let build: fn(&SdkConfig) -> String = |config| {
            BUILT.fetch_add(1, Ordering::Relaxed);
            config.region().map(ToString::to_string).unwrap_or_default()
        };
        let config = SdkConfig::builder().region(Region::new("us-east-1")).build();
        let (aws, clients) = (Aws::with_config(config), PerRegion::default());
        for (region, want) in [
            (Some("eu-west-1"), "eu-west-1"),
            (None, "us-east-1"),
            (Some("us-east-1"), "us-east-1"),
            (Some("eu-west-1"), "eu-west-1"),
        ] {
            assert_eq!(clients.get(&aws, region, build).await, want);
        }
        assert_eq!(BUILT.load(Ordering::Relaxed), 2);

        // Adapters of an environment read nothing of it before the first call.
        let aws = Aws::from_env();
        let _adapters = (AwsSqs::new(aws.clone()), AwsScheduler::new(aws.clone()));
        assert!(aws.config.get().is_none());
    }

    #[test]
    fn codes_are_told_apart_in_both_spellings() {
        for (code, message, status, want) in [
            ("MessageNotInflight", "", 400, CallErrorKind::HandleLost),
            (
                "AWS.SimpleQueueService.MessageNotInflight",
                "",
                400,
                CallErrorKind::HandleLost,
            ),
            ("ReceiptHandleIsInvalid", "", 404, CallErrorKind::HandleLost),
            (
                "InvalidParameterValue",
                "Reason: The receipt handle has expired.",
                400,
                CallErrorKind::HandleLost,
            ),
            (
                "InvalidParameterValue",
                "Value AQEB for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available \
                 for visibility timeout change.",
                400,
                CallErrorKind::HandleLost,
            ),
            (
                "InvalidParameterValue",
                "Total VisibilityTimeout for the message is beyond …",
                400,
                CallErrorKind::Refused,
            ),
            ("RequestThrottled", "", 403, CallErrorKind::Unavailable),
            ("ThrottlingException", "", 429, CallErrorKind::Unavailable),
            ("InternalError", "", 500, CallErrorKind::Unavailable),
            ("ConflictException", "", 409, CallErrorKind::Conflict),
            ("ServiceQuotaExceededException", "", 402, CallErrorKind::Refused),
            ("BatchRequestTooLong", "", 400, CallErrorKind::Refused),
        ] {
            assert_eq!(kind_of(code, message, status), want, "{code}");
        }
    }
}
