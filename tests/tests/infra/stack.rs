//! What the stack is made of, read back from the emulator.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use aws_sdk_sqs::types::QueueAttributeName;
use frigg_tests::emulator::{Emulator, QueueSpec, Stack, StackSpec};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::script;

pub(crate) const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/k";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

async fn deploy(parameters: &[(&str, &str)]) -> Result<(&'static Emulator, Stack)> {
    let emulator = Emulator::shared().await?;
    let mut spec = StackSpec::new(script("exec sleep 60")?);
    for (name, value) in parameters {
        spec = spec.with(name, *value);
    }
    let stack = emulator.deploy_stack(&spec).await?;
    Ok((emulator, stack))
}

/// The statements of the inline policy of the role that an output names.
pub(crate) async fn statements(
    emulator: &Emulator,
    stack: &Stack,
    output: &str,
    policy: &str,
) -> Result<Vec<Value>> {
    let arn = stack.output(output)?;
    let role = arn.rsplit('/').next().context("an ARN")?;
    let get = [
        ("Action", "GetRolePolicy"),
        ("RoleName", role),
        ("PolicyName", policy),
    ];
    let xml = emulator.iam(&get, "read a policy").await?;
    document(&xml, "PolicyDocument")?["Statement"]
        .as_array()
        .cloned()
        .context("no statements")
}

/// A policy document in an answer of IAM, which may encode it.
fn document(xml: &str, element: &str) -> Result<Value> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let rest = xml.split(&open).nth(1).context("no document")?;
    let text = rest.split(&close).next().context("no document")?;
    let text = text.replace("&quot;", "\"").replace("&amp;", "&");
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('%') {
        bytes.extend(rest[..at].bytes());
        bytes.push(u8::from_str_radix(&rest[at + 1..at + 3], 16)?);
        rest = &rest[at + 3..];
    }
    bytes.extend(rest.bytes());
    serde_json::from_slice(&bytes).with_context(|| format!("not JSON: {text}"))
}

/// One or several, as policies have it.
pub(crate) fn texts(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(values) => values
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        one => one.as_str().map(str::to_owned).into_iter().collect(),
    }
}

async fn function(emulator: &Emulator, stack: &Stack) -> Result<Value> {
    let path = format!(
        "/2015-03-31/functions/{}/configuration",
        stack.output("FunctionName")?
    );
    emulator
        .lambda(Method::GET, &path, None, "read the function")
        .await
}

async fn mapping(emulator: &Emulator, stack: &Stack) -> Result<Value> {
    let path = format!(
        "/2015-03-31/event-source-mappings/?FunctionName={}",
        stack.output("FunctionName")?
    );
    let list = emulator.lambda(Method::GET, &path, None, "list mappings").await?;
    let mappings = list["EventSourceMappings"].as_array().context("no list")?;
    ensure!(mappings.len() == 1, "{mappings:?}");
    Ok(mappings[0].clone())
}

fn template() -> Result<Value> {
    // The tags are of no interest here; what they stand before is.
    let text = frigg_tests::emulator::stacks::template()?;
    let program = "import json,re,sys\ntext=sys.stdin.read()\nprint(json.dumps(re.findall(r'^  ([A-Z]\\w+):\\n    Type: (AWS::\\S+)\\n((?:    .*\\n|\\n)*)', text, re.M)))";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    std::io::Write::write_all(&mut child.stdin.take().context("no input")?, text.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The text of a resource of the template.
fn resource(name: &str) -> Result<String> {
    let all = template()?;
    let found = all.as_array().into_iter().flatten().find(|one| one[0] == name);
    let found = found.with_context(|| format!("the template has no {name}"))?;
    Ok(format!(
        "Type: {}\n{}",
        found[1].as_str().unwrap_or_default(),
        found[2].as_str().unwrap_or_default()
    ))
}

#[test]
fn the_template_has_nothing_for_cfn_lint_to_say() -> Result<()> {
    let lint = Command::new(format!("{ROOT}/infra/stack")).arg("lint").output()?;
    let said = String::from_utf8_lossy(&lint.stdout).into_owned() + &String::from_utf8_lossy(&lint.stderr);
    ensure!(lint.status.success(), "{said}");
    let text = frigg_tests::emulator::stacks::template()?;
    ensure!(!text.contains("cfn-lint"), "rules are ignored");
    Ok(())
}

#[tokio::test]
async fn a_standard_stack_is_what_it_says() -> Result<()> {
    let (emulator, stack) = deploy(&[("BatchWindow", "20"), ("FunctionTimeout", "60")]).await?;
    let attributes = emulator.attributes(stack.output("QueueUrl")?).await?;
    let attribute = |name: QueueAttributeName| attributes.get(&name).map(String::as_str).unwrap_or_default();
    assert_eq!(
        attribute(QueueAttributeName::VisibilityTimeout),
        "380",
        "6 x 60 + 20"
    );
    assert_eq!(attribute(QueueAttributeName::MessageRetentionPeriod), "1209600");
    assert_eq!(attribute(QueueAttributeName::SqsManagedSseEnabled), "true");
    let redrive: Value = serde_json::from_str(attribute(QueueAttributeName::RedrivePolicy))?;
    let queue = stack.output("QueueArn")?;
    let dead = format!("{queue}-dead-letters");
    assert_eq!(redrive["deadLetterTargetArn"], *dead);
    assert!(redrive["maxReceiveCount"] == 3 || redrive["maxReceiveCount"] == "3");
    for output in ["QueueUrl", "DeadLetterQueueUrl", "ScheduleDeadLetterQueueUrl"] {
        let attributes = emulator.attributes(stack.output(output)?).await?;
        assert_eq!(attributes[&QueueAttributeName::MessageRetentionPeriod], "1209600");
        let policy: Value = serde_json::from_str(&attributes[&QueueAttributeName::Policy])?;
        let statement = &policy["Statement"][0];
        assert_eq!(
            (&statement["Effect"], &statement["Principal"]),
            (&json!("Deny"), &json!("*"))
        );
        assert_eq!(
            statement["Condition"],
            json!({ "Bool": { "aws:SecureTransport": "false" } })
        );
    }

    let function = function(emulator, &stack).await?;
    assert_eq!(function["Runtime"], "provided.al2023");
    assert_eq!(function["TracingConfig"]["Mode"], "Active");
    assert_eq!(function["LoggingConfig"]["LogFormat"], "JSON");
    assert_eq!(
        function["Environment"]["Variables"],
        json!({
            "FRIGG_QUEUE_URL": stack.output("QueueUrl")?,
            "FRIGG_QUEUE_RETENTION_SECONDS": "1209600",
            "FRIGG_MAX_DELAY_SECONDS": "900",
            "FRIGG_QUEUE_MAX_DEFERRALS": "30",
            "FRIGG_QUEUE_MAX_DEFERRED_MS": "93600000",
            "FRIGG_QUEUE_MAX_RECEIVE_COUNT": "3",
            "SCHEDULER_ROLE_ARN": stack.output("SchedulerRoleArn")?,
            "SCHEDULE_GROUP_NAME": stack.output("ScheduleGroup")?,
            "FRIGG_SCHEDULE_DLQ_ARN": format!("{queue}-schedule-dead-letters"),
            "FRIGG_GATE_TABLE": stack.output("GateTable")?,
            "FRIGG_STATE_TABLE": stack.output("StateTable")?,
            "FRIGG_PACE": "when-limited",
        })
    );
    let mapping = mapping(emulator, &stack).await?;
    assert_eq!(mapping["EventSourceArn"], queue);
    assert_eq!(
        mapping["FunctionResponseTypes"],
        json!(["ReportBatchItemFailures"])
    );
    assert_eq!(
        mapping["MaximumBatchingWindowInSeconds"]
            .to_string()
            .trim_matches('"'),
        "20"
    );

    // Deleted, nothing is left.
    emulator.delete_stack(&stack).await?;
    assert!(emulator.attributes(stack.output("QueueUrl")?).await.is_err());
    assert!(
        emulator
            .schedule_names(stack.output("ScheduleGroup")?)
            .await
            .is_ok_and(|names| names.is_empty())
    );
    Ok(())
}

#[tokio::test]
async fn a_fifo_stack_leaves_room_for_every_deferral() -> Result<()> {
    let settings = [("Fifo", "yes"), ("MaxDeferrals", "50"), ("SharedLimits", "no")];
    let (emulator, stack) = deploy(&settings).await?;
    assert!(stack.output("QueueArn")?.ends_with(".fifo"));
    assert!(stack.output("DeadLetterQueueUrl")?.ends_with(".fifo"));
    let redrive = emulator
        .attribute(stack.output("QueueUrl")?, QueueAttributeName::RedrivePolicy)
        .await?;
    let redrive: Value = serde_json::from_str(&redrive)?;
    assert_eq!(redrive["maxReceiveCount"].to_string().trim_matches('"'), "53");
    let variables = &function(emulator, &stack).await?["Environment"]["Variables"];
    assert_eq!(variables["FRIGG_QUEUE_MAX_RECEIVE_COUNT"], "53");
    for absent in [
        "SCHEDULER_ROLE_ARN",
        "FRIGG_GATE_TABLE",
        "FRIGG_STATE_TABLE",
        "FRIGG_PACE",
    ] {
        assert_eq!(variables[absent], Value::Null, "{absent}");
    }
    assert!(stack.output("GateTable").is_err(), "no table is made");
    without_scheduler(emulator, &stack).await
}

#[tokio::test]
async fn a_topic_and_a_bus_are_named_and_granted() -> Result<()> {
    let topic = "arn:aws:sns:us-east-1:123456789012:users";
    let bus = "arn:aws:events:us-east-1:123456789012:event-bus/users";
    let (emulator, stack) = deploy(&[("WarningsTopicArn", topic), ("WarningsBusArn", bus)]).await?;
    let variables = &function(emulator, &stack).await?["Environment"]["Variables"];
    assert_eq!(
        (
            &variables["FRIGG_WARNINGS_TOPIC"],
            &variables["FRIGG_WARNINGS_BUS"]
        ),
        (&json!(topic), &json!(bus))
    );
    let all = statements(emulator, &stack, "FunctionRoleArn", "work").await?;
    for (action, resource) in [("sns:Publish", topic), ("events:PutEvents", bus)] {
        let granted = all.iter().filter(|one| one["Action"] == action);
        let resources: Vec<_> = granted.map(|one| one["Resource"].clone()).collect();
        assert_eq!(resources, [json!(resource)], "{action}");
    }
    Ok(())
}

#[tokio::test]
async fn without_the_scheduler_nothing_speaks_of_it() -> Result<()> {
    let (emulator, stack) = deploy(&[("Scheduler", "no")]).await?;
    without_scheduler(emulator, &stack).await
}

async fn without_scheduler(emulator: &Emulator, stack: &Stack) -> Result<()> {
    assert!(
        !stack.outputs.keys().any(|name| name.contains("Schedule")),
        "{:?}",
        stack.outputs
    );
    let function = function(emulator, stack).await?;
    assert!(
        !function["Environment"].to_string().contains("SCHEDULE"),
        "{function}"
    );
    let statements = statements(emulator, stack, "FunctionRoleArn", "work").await?;
    let text = json!(statements).to_string();
    assert!(!text.contains("scheduler") && !text.contains("iam:"), "{text}");
    assert!(
        text.contains("sqs:ChangeMessageVisibility"),
        "whatever the parameters: {text}"
    );
    Ok(())
}

#[tokio::test]
async fn with_an_existing_queue_every_reference_follows() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let queue = emulator.create_queue(&QueueSpec::standard("existing")).await?;
    for scheduler in ["yes", "no"] {
        let (_, stack) = deploy(&[("ExistingQueueArn", &queue.arn), ("Scheduler", scheduler)]).await?;
        assert_eq!(stack.output("QueueArn")?, queue.arn);
        assert!(stack.output("QueueUrl")?.ends_with(&format!("/{}", queue.name)));
        assert!(stack.output("DeadLetterQueueUrl").is_err(), "no queue is made");
        let mapping = mapping(emulator, &stack).await?;
        assert_eq!(mapping["EventSourceArn"], queue.arn);
        let mut roles = vec![("FunctionRoleArn", "work")];
        if scheduler == "yes" {
            roles.push(("SchedulerRoleArn", "send"));
            assert_eq!(
                stack
                    .output("ScheduleDeadLetterQueueUrl")?
                    .matches("schedule-dead-letters")
                    .count(),
                1
            );
        } else {
            without_scheduler(emulator, &stack).await?;
        }
        for (output, policy) in roles {
            for statement in statements(emulator, &stack, output, policy).await? {
                let resources = texts(&statement["Resource"]);
                if texts(&statement["Action"])
                    .iter()
                    .any(|action| action.starts_with("sqs:"))
                {
                    assert!(resources.contains(&queue.arn), "{statement}");
                }
            }
        }
        let variables = &function(emulator, &stack).await?["Environment"]["Variables"];
        assert_eq!(
            variables["FRIGG_QUEUE_MAX_RECEIVE_COUNT"],
            Value::Null,
            "the queue tells its own"
        );
        emulator.delete_stack(&stack).await?;
        emulator
            .attributes(&queue.url)
            .await
            .context("the queue is not the stack's")?;
    }
    Ok(())
}

#[test]
fn infra_02_the_mapping_reports_failures() -> Result<()> {
    ensure!(resource("Mapping")?.contains("FunctionResponseTypes: [ReportBatchItemFailures]"));
    Ok(())
}

#[test]
fn infra_03_recursion_is_allowed_and_watched() -> Result<()> {
    ensure!(resource("Function")?.contains("RecursiveLoop: Allow"));
    let alarm = resource("RecursionAlarm")?;
    ensure!(
        alarm.contains("Namespace: AWS/Lambda") && alarm.contains("MetricName: RecursiveInvocationsDropped")
    );
    Ok(())
}

#[tokio::test]
async fn infra_04_both_roles_may_use_the_key() -> Result<()> {
    let kms = |statements: &[Value]| -> Vec<Value> {
        let of_key = |statement: &&Value| statement["Action"].to_string().contains("kms:");
        statements.iter().filter(of_key).cloned().collect()
    };
    for (parameters, key) in [(vec![("KmsKeyArn", KEY)], Some(KEY)), (vec![], None)] {
        let (emulator, stack) = deploy(&parameters).await?;
        for (output, policy) in [("FunctionRoleArn", "work"), ("SchedulerRoleArn", "send")] {
            let found = kms(&statements(emulator, &stack, output, policy).await?);
            let Some(key) = key else {
                assert_eq!(found, Vec::<Value>::new());
                continue;
            };
            assert_eq!(found.len(), 1, "{found:?}");
            let want: BTreeSet<_> = ["kms:Decrypt", "kms:GenerateDataKey"].map(str::to_owned).into();
            assert_eq!(texts(&found[0]["Action"]), want);
            assert_eq!(found[0]["Resource"], key);
        }
        for output in ["QueueUrl", "DeadLetterQueueUrl", "ScheduleDeadLetterQueueUrl"] {
            let attributes = emulator.attributes(stack.output(output)?).await?;
            let found = attributes.get(&QueueAttributeName::KmsMasterKeyId);
            assert_eq!(found.map(String::as_str), key, "{output}");
            let own = attributes.get(&QueueAttributeName::SqsManagedSseEnabled);
            assert_eq!(own.is_some_and(|own| own == "true"), key.is_none(), "{output}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn infra_06_the_mapping_limits_and_no_concurrency_is_reserved() -> Result<()> {
    ensure!(!resource("Function")?.contains("ReservedConcurrentExecutions"));
    let (emulator, stack) = deploy(&[("MaximumConcurrency", "20")]).await?;
    let mapping = mapping(emulator, &stack).await?;
    assert_eq!(mapping["ScalingConfig"], json!({ "MaximumConcurrency": 20 }));
    Ok(())
}

#[tokio::test]
async fn infra_07_each_role_has_its_own_work() -> Result<()> {
    let (emulator, stack) = deploy(&[]).await?;
    let (function, scheduler) = (
        stack.output("FunctionRoleArn")?,
        stack.output("SchedulerRoleArn")?,
    );
    assert_ne!(function, scheduler);
    let group = stack.output("ScheduleGroup")?;
    let queue = stack.output("QueueArn")?;

    let work = statements(emulator, &stack, "FunctionRoleArn", "work").await?;
    let find = |action: &str| {
        let mut with = work
            .iter()
            .filter(|statement| texts(&statement["Action"]).contains(action));
        let found = with.next().cloned().unwrap_or_default();
        assert_eq!(with.next(), None, "{action} twice");
        found
    };
    let schedule = find("scheduler:CreateSchedule");
    assert_eq!(
        texts(&schedule["Action"]),
        ["scheduler:CreateSchedule", "scheduler:GetSchedule"]
            .map(str::to_owned)
            .into()
    );
    assert_eq!(
        schedule["Resource"],
        format!("arn:aws:scheduler:us-east-1:000000000000:schedule/{group}/*")
    );
    let pass = find("iam:PassRole");
    assert_eq!(pass["Resource"], scheduler);
    assert_eq!(
        pass["Condition"],
        json!({ "StringEquals": { "iam:PassedToService": "scheduler.amazonaws.com" } })
    );
    for statement in &work {
        let actions = texts(&statement["Action"]);
        assert!(actions.iter().all(|action| !action.contains('*')), "{statement}");
        let anywhere = texts(&statement["Resource"]).contains("*");
        let tracing = actions.iter().all(|action| action.starts_with("xray:"));
        assert!(
            !anywhere || tracing,
            "X-Ray alone knows no resources: {statement}"
        );
    }

    let send = statements(emulator, &stack, "SchedulerRoleArn", "send").await?;
    assert_eq!(send.len(), 1, "{send:?}");
    assert_eq!(send[0]["Action"], "sqs:SendMessage");
    assert_eq!(
        texts(&send[0]["Resource"]),
        [queue.to_owned(), format!("{queue}-schedule-dead-letters")].into()
    );
    let role = scheduler.rsplit('/').next().context("an ARN")?;
    let get = [("Action", "GetRole"), ("RoleName", role)];
    let trust = document(
        &emulator.iam(&get, "read a role").await?,
        "AssumeRolePolicyDocument",
    )?;
    assert_eq!(
        trust["Statement"][0]["Principal"],
        json!({ "Service": "scheduler.amazonaws.com" })
    );
    assert_eq!(
        trust["Statement"][0]["Condition"],
        json!({ "StringEquals": {
            "aws:SourceAccount": "000000000000",
            "aws:SourceArn": format!("arn:aws:scheduler:us-east-1:000000000000:schedule-group/{group}"),
        } })
    );
    Ok(())
}
