//! `frigg doctor`: looks at a deployed worker and says what would lose messages.
//!
//! [`look`] reads the facts, [`checks`] judge them, [`report`] tells. What cannot be looked at, for want of a permission
//! or of an API, is a [`Gap`](finding::Gap), and the other checks go on.

pub(crate) mod checks;
pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod look;
pub(crate) mod policy;
pub(crate) mod report;

use anyhow::{Result, bail};
use clap::Args;

use crate::aws::Aws;
use look::Target;
use report::Report;

/// Where schedules are made when `SCHEDULE_GROUP_NAME` is not set.
const DEFAULT_GROUP: &str = "frigg-integration-schedules";

/// The command line.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A stack that was made from infra/template.yaml
    #[arg(long, conflicts_with_all = ["function", "queue"], required_unless_present_all = ["function", "queue"])]
    stack: Option<String>,
    /// The function: its name or ARN
    #[arg(long, requires = "queue")]
    function: Option<String>,
    /// The queue: its name, URL or ARN
    #[arg(long, requires = "function")]
    queue: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Show what is right, too
    #[arg(long, short)]
    verbose: bool,
    /// AWS region; default: AWS_REGION, else the profile's
    #[arg(long)]
    region: Option<String>,
    /// Profile of the AWS configuration
    #[arg(long)]
    profile: Option<String>,
}

/// Looks, judges, prints. Returns the exit status.
///
/// # Errors
///
/// When it could not look at all.
pub(crate) async fn run(args: DoctorArgs) -> Result<u8> {
    let aws = Aws::load(args.region, args.profile).await?;
    let target = match (args.stack, args.function, args.queue) {
        (Some(stack), ..) => look::target_of_stack(&aws, &stack).await?,
        (None, Some(function), Some(queue)) => Target { function, queue },
        _ => bail!("name a stack with --stack, or a function and a queue with --function and --queue"),
    };
    let facts = look::look(&aws, &target).await?;
    let report = Report {
        function: target.function,
        queue: target.queue,
        region: aws.region().to_owned(),
        findings: checks::check(&facts),
        gaps: facts.gaps,
    };
    let text = if args.json {
        report.json()
    } else {
        report.text(args.verbose)
    };
    crate::print(&text);
    Ok(report.status())
}
