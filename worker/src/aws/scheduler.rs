//! EventBridge Scheduler.

use aws_sdk_scheduler::Client;
use aws_sdk_scheduler::types::{
    ActionAfterCompletion, DeadLetterConfig, FlexibleTimeWindow, FlexibleTimeWindowMode, RetryPolicy, Target,
};
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::{Aws, PerRegion, call_error};
use crate::ports::{CallError, CallErrorKind, ScheduleRequest, Scheduler};

/// An event that cannot be delivered is tried again for an hour, ten times, and then goes to the dead-letter queue. The
/// service's own default is a day and 185 times: by then the message has been overtaken.
const MAX_EVENT_AGE_SECONDS: i32 = 3600;
const MAX_ATTEMPTS: i32 = 10;

/// [`Scheduler`] by the AWS SDK.
#[derive(Debug, Default)]
pub struct AwsScheduler {
    aws: Aws,
    clients: PerRegion<Client>,
}

impl AwsScheduler {
    /// Builds its clients when they are first needed.
    pub fn new(aws: Aws) -> Self {
        AwsScheduler {
            aws,
            clients: PerRegion::default(),
        }
    }

    async fn client(&self, region: &str) -> Client {
        self.clients.get(&self.aws, Some(region), Client::new).await
    }
}

impl Scheduler for AwsScheduler {
    fn create<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let build = |error: aws_sdk_scheduler::error::BuildError| {
                CallError::new(CallErrorKind::Refused, None, error.to_string())
            };
            let dead_letters = request
                .dead_letter_arn
                .as_ref()
                .map(|arn| DeadLetterConfig::builder().arn(arn).build());
            let retries = RetryPolicy::builder()
                .maximum_event_age_in_seconds(MAX_EVENT_AGE_SECONDS)
                .maximum_retry_attempts(MAX_ATTEMPTS)
                .build();
            let target = Target::builder()
                .arn(request.target.arn())
                .role_arn(&request.role_arn)
                .input(&request.input)
                .retry_policy(retries)
                .set_dead_letter_config(dead_letters)
                .build()
                .map_err(build)?;
            let window = FlexibleTimeWindow::builder()
                .mode(FlexibleTimeWindowMode::Off)
                .build()
                .map_err(build)?;
            let call = self.client(&request.region).await.create_schedule();
            let call = call
                .name(&request.name)
                .group_name(&request.group)
                .schedule_expression(expression(request.at))
                .schedule_expression_timezone("UTC")
                .flexible_time_window(window)
                .action_after_completion(ActionAfterCompletion::Delete)
                .target(target);
            let sent = call.send().await.map_err(|error| call_error(&error));
            sent.map(drop).map_err(|error| CallError {
                message: without_values(&error.message, &request.input),
                ..error
            })
        })
    }

    fn is_same<'a>(&'a self, request: &'a ScheduleRequest) -> BoxFuture<'a, Result<bool, CallError>> {
        Box::pin(async move {
            let call = self.client(&request.region).await.get_schedule();
            let call = call.name(&request.name).group_name(&request.group);
            let found = call.send().await.map_err(|error| call_error(&error))?;
            Ok(found.schedule_expression() == Some(&expression(request.at))
                && found.target().is_some_and(|target| {
                    target.arn() == request.target.arn() && target.input() == Some(&request.input)
                }))
        })
    }
}

/// A validation error can cite what it refuses (`Value '…' at 'target.input' failed to satisfy …`), whole or cut. The
/// input is a body, which belongs in no log.
fn without_values(message: &str, input: &str) -> String {
    let message = if input.is_empty() {
        message.to_owned()
    } else {
        message.replace(input, "…")
    };
    let (mut out, mut rest) = (String::new(), &message[..]);
    while let Some((before, after)) = rest.split_once("Value '") {
        let Some((_, behind)) = after.split_once("' at '") else {
            break;
        };
        out.push_str(before);
        out.push_str("Value '…' at '");
        rest = behind;
    }
    out + rest
}

/// `at(yyyy-mm-ddThh:mm:ss)`
fn expression(at: Timestamp) -> String {
    format!("at({})", at.strftime("%Y-%m-%dT%H:%M:%S"))
}
