//! `frigg doctor` against the stack of `infra/template.yaml` on an emulator: healthy it gives no finding, and with one
//! setting broken just the one about that setting.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use aws_sdk_sqs::types::QueueAttributeName;
use frigg_tests::emulator::{Bootstrap, Emulator, EmulatorOptions, Stack, StackSpec};
use reqwest::Method;
use serde_json::{Value, json};

const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/k";

/// A stack, and the doctor for it.
struct Patient {
    emulator: &'static Emulator,
    stack: Stack,
}

impl Patient {
    async fn new(parameters: &[(&str, &str)]) -> Result<Self> {
        let emulator = Emulator::shared().await?;
        let mut spec = StackSpec::new(nothing()?);
        for (name, value) in parameters {
            spec = spec.with(name, *value);
        }
        let stack = emulator.deploy_stack(&spec).await?;
        Ok(Self { emulator, stack })
    }

    async fn standard() -> Result<Self> {
        Self::new(&[]).await
    }

    /// Runs the doctor; asserts that all that it has to say is `check` with `level`, and gives that finding.
    async fn has_just(&self, check: &str, level: &str) -> Result<Value> {
        let (status, report) = self.doctor().await?;
        let findings = troubles(&report);
        ensure!(
            findings.len() == 1 && findings[0]["check"] == check && findings[0]["level"] == level,
            "not just {level} {check}: {findings:#?}"
        );
        assert_eq!(status, i32::from(level == "fail"), "{report:#}");
        assert_eq!(report["gaps"], json!([]));
        Ok(findings[0].clone())
    }

    async fn is_healthy(&self) -> Result<()> {
        let (status, report) = self.doctor().await?;
        assert_eq!((status, troubles(&report)), (0, vec![]), "{report:#}");
        assert_eq!(report["gaps"], json!([]));
        Ok(())
    }

    async fn doctor(&self) -> Result<(i32, Value)> {
        let output = frigg(self.emulator, &["doctor", "--json", "--stack", &self.stack.name]).await?;
        let report = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("no report: {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok((output.status.code().unwrap_or(-1), report))
    }

    fn function(&self) -> Result<&str> {
        self.stack.output("FunctionName")
    }

    async fn mapping(&self) -> Result<String> {
        let path = format!(
            "/2015-03-31/event-source-mappings/?FunctionName={}",
            self.function()?
        );
        let list = self
            .emulator
            .lambda(Method::GET, &path, None, "list mappings")
            .await?;
        let uuid = list["EventSourceMappings"][0]["UUID"].as_str();
        Ok(uuid.context("no mapping")?.to_owned())
    }

    async fn change_mapping(&self, change: Value) -> Result<String> {
        let uuid = self.mapping().await?;
        let path = format!("/2015-03-31/event-source-mappings/{uuid}");
        self.emulator
            .lambda(Method::PUT, &path, Some(change.to_string()), "change the mapping")
            .await?;
        Ok(uuid)
    }

    async fn recursion(&self, setting: &str) -> Result<()> {
        let path = format!("/2024-08-31/functions/{}/recursion-config", self.function()?);
        let body = json!({ "RecursiveLoop": setting });
        self.emulator
            .lambda(Method::PUT, &path, Some(body.to_string()), "set recursion")
            .await
            .map(drop)
    }

    async fn reserve(&self, concurrency: u32) -> Result<()> {
        let path = format!("/2017-10-31/functions/{}/concurrency", self.function()?);
        let body = json!({ "ReservedConcurrentExecutions": concurrency });
        self.emulator
            .lambda(Method::PUT, &path, Some(body.to_string()), "reserve concurrency")
            .await
            .map(drop)
    }

    /// Sets a variable of the function, or takes it away.
    async fn variable(&self, name: &str, value: Option<&str>) -> Result<()> {
        let path = format!("/2015-03-31/functions/{}/configuration", self.function()?);
        let found = self
            .emulator
            .lambda(Method::GET, &path, None, "read the function")
            .await?;
        let mut variables = found["Environment"]["Variables"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        variables.remove(name);
        variables.extend(value.map(|value| (name.to_owned(), json!(value))));
        let body = json!({ "Environment": { "Variables": variables } });
        self.emulator
            .lambda(Method::PUT, &path, Some(body.to_string()), "set a variable")
            .await
            .map(drop)
    }

    async fn attribute(&self, url: &str, name: QueueAttributeName, value: &str) -> Result<()> {
        let set = self.emulator.sqs().set_queue_attributes().queue_url(url);
        set.attributes(name, value).send().await?;
        Ok(())
    }

    async fn queue_attribute(&self, name: QueueAttributeName, value: &str) -> Result<()> {
        self.attribute(self.stack.output("QueueUrl")?, name, value).await
    }

    async fn retention(&self, seconds: &str) -> Result<()> {
        self.queue_attribute(QueueAttributeName::MessageRetentionPeriod, seconds)
            .await?;
        self.variable("FRIGG_QUEUE_RETENTION_SECONDS", Some(seconds))
            .await
    }

    async fn redrive(&self, dead_letters: &str, receives: u32) -> Result<()> {
        let policy = json!({ "deadLetterTargetArn": dead_letters, "maxReceiveCount": receives }).to_string();
        self.queue_attribute(QueueAttributeName::RedrivePolicy, &policy)
            .await?;
        let receives = receives.to_string();
        self.variable("FRIGG_QUEUE_MAX_RECEIVE_COUNT", Some(&receives))
            .await
    }

    /// Changes the text of the one policy of the role that the output `role` names.
    async fn change_policy(&self, role: &str, policy: &str, change: impl Fn(&str) -> String) -> Result<()> {
        let role = role_name(self.stack.output(role)?);
        let get = [
            ("Action", "GetRolePolicy"),
            ("RoleName", role),
            ("PolicyName", policy),
        ];
        let xml = self.emulator.iam(&get, "read a policy").await?;
        let text = between(&xml, "<PolicyDocument>", "</PolicyDocument>")?;
        let text = text.replace("&quot;", "\"").replace("&amp;", "&");
        let text = if text.starts_with('%') {
            decode(&text)
        } else {
            text
        };
        let text = serde_json::from_str::<Value>(&text)?.to_string();
        let changed = change(&text);
        ensure!(changed != text, "nothing changed: {text}");
        let put = [
            ("Action", "PutRolePolicy"),
            ("RoleName", role),
            ("PolicyName", policy),
            ("PolicyDocument", &changed),
        ];
        self.emulator.iam(&put, "change a policy").await.map(drop)
    }

    async fn without_action(&self, action: &str) -> Result<()> {
        let action = format!("\"{action}\"");
        self.change_policy("FunctionRoleArn", "work", |text| {
            text.replace(&action, "\"x:Nothing\"")
        })
        .await
    }
}

fn troubles(report: &Value) -> Vec<Value> {
    let findings = report["findings"].as_array().into_iter().flatten();
    findings
        .filter(|finding| finding["level"] != "pass")
        .cloned()
        .collect()
}

/// A function that does nothing: the doctor only looks.
fn nothing() -> Result<Bootstrap> {
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(&script, "#!/bin/sh\nexec sleep 60\n")?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Bootstrap::package(&script)
}

async fn frigg(emulator: &Emulator, args: &[&str]) -> Result<Output> {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_frigg"));
    command
        .args(args)
        .env_clear()
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(emulator.environment());
    command.output().await.context("failed to run frigg")
}

fn role_name(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap()
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Result<&'a str> {
    let rest = text.split(from).nth(1).context("not there")?;
    rest.split(to).next().context("not there")
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        bytes.extend(rest[..at].bytes());
        bytes.push(u8::from_str_radix(&rest[at + 1..at + 3], 16).unwrap());
        rest = &rest[at + 3..];
    }
    bytes.extend(rest.bytes());
    String::from_utf8(bytes).unwrap()
}

fn says(finding: &Value, texts: &[&str]) {
    let all = finding.to_string();
    for text in texts {
        assert!(all.contains(text), "no {text:?} in {all}");
    }
}

#[tokio::test]
async fn a_healthy_stack_gives_no_finding() -> Result<()> {
    let same = [
        vec![],
        vec![("Scheduler", "no")],
        vec![("Fifo", "yes")],
        vec![("KmsKeyArn", KEY)],
        vec![
            ("FunctionTimeout", "30"),
            ("BatchWindow", "60"),
            ("MaxDeferrals", "100"),
        ],
    ];
    for parameters in same {
        Patient::new(&parameters)
            .await?
            .is_healthy()
            .await
            .with_context(|| format!("{parameters:?}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn it_looks_at_a_function_and_a_queue_without_a_stack() -> Result<()> {
    let patient = Patient::standard().await?;
    let (url, arn) = (
        patient.stack.output("QueueUrl")?,
        patient.stack.output("QueueArn")?,
    );
    for queue in [url, arn, arn.rsplit(':').next().unwrap()] {
        let args = ["doctor", "--function", patient.function()?, "--queue", queue];
        let output = frigg(patient.emulator, &args).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(
            text.ends_with("20 right, 0 to think about, 0 to mend\n"),
            "{text}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_mapping_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let path = format!("/2015-03-31/event-source-mappings/{}", patient.mapping().await?);
    patient
        .emulator
        .lambda(Method::DELETE, &path, None, "delete the mapping")
        .await?;
    patient.has_just("mapping", "fail").await.map(drop)
}

#[tokio::test]
async fn a_disabled_mapping_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient.change_mapping(json!({ "Enabled": false })).await?;
    patient.has_just("mapping", "warn").await.map(drop)
}

#[tokio::test]
async fn infra_02_unreported_failures_are_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient.is_healthy().await?;
    let uuid = patient
        .change_mapping(json!({ "FunctionResponseTypes": [] }))
        .await?;
    let finding = patient.has_just("reports-failures", "fail").await?;
    says(&finding, &[&uuid, "ReportBatchItemFailures", "deleted", "lost"]);
    Ok(())
}

#[tokio::test]
async fn infra_03_recursion_detection_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient.is_healthy().await?;
    patient.recursion("Terminate").await?;
    let finding = patient.has_just("recursive-loop", "fail").await?;
    says(
        &finding,
        &["put-function-recursion-config", "--recursive-loop Allow"],
    );
    Ok(())
}

#[tokio::test]
async fn infra_06_spent_receives_are_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let dead = format!("{}-dead-letters", patient.stack.output("QueueArn")?);
    patient.reserve(20).await?;
    patient.is_healthy().await?;
    patient.redrive(&dead, 1).await?;
    let finding = patient.has_just("redrive", "warn").await?;
    says(&finding, &["throttling", "3 or more"]);
    patient.redrive(&dead, 3).await?;
    patient.reserve(10).await?;
    patient.has_just("concurrency", "fail").await?;
    patient.change_mapping(json!({ "ScalingConfig": {} })).await?;
    let finding = patient.has_just("concurrency", "warn").await?;
    says(&finding, &["no maximum concurrency"]);
    Ok(())
}

#[tokio::test]
async fn a_short_visibility_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient
        .queue_attribute(QueueAttributeName::VisibilityTimeout, "1799")
        .await?;
    patient.has_just("visibility", "warn").await?;
    patient
        .queue_attribute(QueueAttributeName::VisibilityTimeout, "60")
        .await?;
    patient.has_just("visibility", "fail").await.map(drop)
}

#[tokio::test]
async fn a_short_retention_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient.retention("3600").await?;
    patient.has_just("retention", "warn").await?;
    let patient = Patient::new(&[("Scheduler", "no")]).await?;
    patient.retention("3600").await?;
    patient.has_just("retention", "fail").await.map(drop)
}

#[tokio::test]
async fn a_missing_redrive_policy_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient
        .queue_attribute(QueueAttributeName::RedrivePolicy, "")
        .await?;
    patient.has_just("redrive", "fail").await.map(drop)
}

#[tokio::test]
async fn a_missing_dead_letter_queue_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let url = patient.stack.output("DeadLetterQueueUrl")?;
    patient
        .emulator
        .sqs()
        .delete_queue()
        .queue_url(url)
        .send()
        .await?;
    let finding = patient.has_just("redrive", "fail").await?;
    says(&finding, &["does not exist"]);
    Ok(())
}

#[tokio::test]
async fn a_short_dead_letter_retention_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let url = patient.stack.output("DeadLetterQueueUrl")?;
    patient
        .attribute(url, QueueAttributeName::MessageRetentionPeriod, "345600")
        .await?;
    patient.has_just("dead-letter-retention", "fail").await.map(drop)
}

#[tokio::test]
async fn a_missing_schedule_group_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let group = patient.stack.output("ScheduleGroup")?;
    let delete = patient.emulator.scheduler().delete_schedule_group();
    delete.name(group).send().await?;
    let finding = patient.has_just("schedule-group", "fail").await?;
    says(&finding, &[group, "create-schedule-group"]);
    Ok(())
}

#[tokio::test]
async fn a_role_that_the_scheduler_cannot_assume_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let role = role_name(patient.stack.output("SchedulerRoleArn")?);
    let trust = json!({ "Version": "2012-10-17", "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "lambda.amazonaws.com" }, "Action": "sts:AssumeRole" },
    ] });
    let update = [
        ("Action", "UpdateAssumeRolePolicy"),
        ("RoleName", role),
        ("PolicyDocument", &trust.to_string()),
    ];
    patient.emulator.iam(&update, "change the trust").await?;
    patient.has_just("scheduler-role", "fail").await?;
    let arn = "arn:aws:iam::000000000000:role/nobody";
    patient
        .change_policy("FunctionRoleArn", "work", |text| {
            text.replace(patient.stack.output("SchedulerRoleArn").unwrap(), arn)
        })
        .await?;
    patient.variable("SCHEDULER_ROLE_ARN", Some(arn)).await?;
    let finding = patient.has_just("scheduler-role", "fail").await?;
    says(&finding, &["no role that exists", arn]);
    Ok(())
}

#[tokio::test]
async fn a_role_that_cannot_be_handed_over_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient.without_action("iam:PassRole").await?;
    let finding = patient.has_just("schedule-rights", "fail").await?;
    says(&finding, &["iam:PassRole on", "put-role-policy"]);
    Ok(())
}

#[tokio::test]
async fn a_role_that_cannot_make_schedules_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient.without_action("scheduler:CreateSchedule").await?;
    patient.has_just("schedule-rights", "fail").await.map(drop)
}

#[tokio::test]
async fn a_scheduler_that_cannot_send_is_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let queue = format!("\"{}\"", patient.stack.output("QueueArn")?);
    patient
        .change_policy("SchedulerRoleArn", "send", |text| {
            text.replace(&queue, "\"arn:aws:sqs:::other\"")
        })
        .await?;
    patient.has_just("scheduler-send", "fail").await.map(drop)
}

#[tokio::test]
async fn undeliverable_schedules_without_a_place_are_found() -> Result<()> {
    let patient = Patient::standard().await?;
    let dead = patient.stack.output("QueueArn")?.to_owned() + "-schedule-dead-letters";
    patient
        .change_policy("SchedulerRoleArn", "send", |text| {
            text.replace(&dead, "arn:aws:sqs:::other")
        })
        .await?;
    patient.has_just("schedule-dead-letters", "fail").await?;
    patient.variable("FRIGG_SCHEDULE_DLQ_ARN", None).await?;
    patient.has_just("schedule-dead-letters", "warn").await.map(drop)
}

#[tokio::test]
async fn missing_rights_on_the_queue_are_found() -> Result<()> {
    let patient = Patient::standard().await?;
    patient.without_action("sqs:ChangeMessageVisibility").await?;
    let finding = patient.has_just("function-rights", "fail").await?;
    says(&finding, &["sqs:ChangeMessageVisibility on"]);
    Ok(())
}

#[tokio::test]
async fn infra_04_missing_rights_on_the_key_are_found() -> Result<()> {
    for (output, policy) in [("FunctionRoleArn", "work"), ("SchedulerRoleArn", "send")] {
        let patient = Patient::new(&[("KmsKeyArn", KEY)]).await?;
        patient.is_healthy().await?;
        patient
            .change_policy(output, policy, |text| text.replace("kms:Decrypt", "kms:Sign"))
            .await?;
        let finding = patient.has_just("key", "fail").await?;
        says(
            &finding,
            &["kms:Decrypt", KEY, role_name(patient.stack.output(output)?)],
        );
    }
    Ok(())
}

#[tokio::test]
async fn variables_that_cannot_be_are_found() -> Result<()> {
    let patient = Patient::standard().await?;
    for (name, bad, good, check, level) in [
        (
            "FRIGG_QUEUE_MAX_DEFERRALS",
            "many",
            Some("30"),
            "variables",
            "warn",
        ),
        ("FRIGG_MAX_DELAY_SECONDS", "10", None, "variables", "warn"),
        (
            "FRIGG_QUEUE_MAX_RECEIVE_COUNT",
            "5",
            Some("3"),
            "variables",
            "warn",
        ),
        (
            "FRIGG_QUEUE_RETENTION_SECONDS",
            "345600",
            Some("1209600"),
            "variables",
            "warn",
        ),
        (
            "AWS_ENDPOINT_URL",
            "http://localhost:4566",
            None,
            "local-endpoint",
            "fail",
        ),
    ] {
        patient.variable(name, Some(bad)).await?;
        let finding = patient.has_just(check, level).await?;
        says(&finding, &[name, bad]);
        patient.variable(name, good).await?;
    }
    patient.is_healthy().await
}

#[tokio::test]
async fn a_fifo_queue_with_settings_of_a_standard_one_is_found() -> Result<()> {
    let patient = Patient::new(&[("Fifo", "yes")]).await?;
    let dead = patient
        .stack
        .output("QueueArn")?
        .replace(".fifo", "-dead-letters.fifo");
    patient.redrive(&dead, 32).await?;
    patient.has_just("redrive", "fail").await?;
    patient.redrive(&dead, 33).await?;
    patient
        .variable("SCHEDULER_ROLE_ARN", Some("arn:aws:iam::000000000000:role/r"))
        .await?;
    patient.has_just("fifo", "warn").await?;
    patient.variable("SCHEDULER_ROLE_ARN", None).await?;
    patient.variable("FRIGG_COMPAT", Some("1")).await?;
    patient.has_just("fifo", "fail").await.map(drop)
}

#[tokio::test]
async fn what_may_not_be_looked_at_is_named_and_the_rest_goes_on() -> Result<()> {
    let options = EmulatorOptions::default().with_variable("AUTH", "true");
    let emulator = Emulator::start_with(options).await?;
    let stack = emulator
        .deploy_stack(&StackSpec::new(nothing()?).over_http())
        .await?;
    let function = stack.output("FunctionName")?;
    let create = [("Action", "CreateUser"), ("UserName", "auditor")];
    emulator.iam(&create, "create a user").await?;
    let may = json!({ "Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Resource": "*",
        "Action": ["cloudformation:DescribeStacks", "lambda:GetFunctionConfiguration", "lambda:ListEventSourceMappings",
            "sqs:GetQueueUrl", "sqs:GetQueueAttributes"],
    }] });
    let put = [
        ("Action", "PutUserPolicy"),
        ("UserName", "auditor"),
        ("PolicyName", "look"),
        ("PolicyDocument", &may.to_string()),
    ];
    emulator.iam(&put, "let the user look").await?;
    let key = [("Action", "CreateAccessKey"), ("UserName", "auditor")];
    let key = emulator.iam(&key, "make a key").await?;
    let path = format!("/2015-03-31/event-source-mappings/?FunctionName={function}");
    let list = emulator.lambda(Method::GET, &path, None, "list mappings").await?;
    let uuid = list["EventSourceMappings"][0]["UUID"]
        .as_str()
        .context("no mapping")?;
    let path = format!("/2015-03-31/event-source-mappings/{uuid}");
    let none = json!({ "FunctionResponseTypes": [] });

    let run = async || {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_frigg"));
        command
            .args(["doctor", "--json", "--stack", &stack.name])
            .env_clear()
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(emulator.environment())
            .env(
                "AWS_ACCESS_KEY_ID",
                between(&key, "<AccessKeyId>", "</AccessKeyId>")?,
            )
            .env(
                "AWS_SECRET_ACCESS_KEY",
                between(&key, "<SecretAccessKey>", "</SecretAccessKey>")?,
            );
        let output = command.output().await?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        anyhow::Ok((output.status.code(), report))
    };
    let (status, report) = run().await?;
    let gaps = report["gaps"].as_array().context("no gaps")?;
    let lacks: Vec<_> = gaps
        .iter()
        .map(|gap| gap["permission"].as_str().unwrap())
        .collect();
    assert_eq!(
        lacks,
        [
            "dynamodb:DescribeTable",
            "dynamodb:DescribeTable",
            "scheduler:GetScheduleGroup",
            "iam:GetRole",
            "lambda:GetFunctionRecursionConfig",
            "lambda:GetFunctionConcurrency",
            "iam:GetRole"
        ],
        "{report:#}"
    );
    for gap in gaps {
        says(gap, &["you lack ", gap["permission"].as_str().unwrap()]);
    }
    assert_eq!((status, troubles(&report)), (Some(2), vec![]), "{report:#}");

    // What can be seen is still judged, and outweighs what cannot.
    emulator
        .lambda(Method::PUT, &path, Some(none.to_string()), "change the mapping")
        .await?;
    let (status, report) = run().await?;
    assert_eq!(status, Some(1), "{report:#}");
    assert_eq!(troubles(&report)[0]["check"], "reports-failures");
    emulator.stop().await
}

#[tokio::test]
async fn what_is_not_there_is_said_and_no_report_made() -> Result<()> {
    let emulator = Emulator::shared().await?;
    let patient = Patient::standard().await?;
    let (function, queue) = (patient.function()?, patient.stack.output("QueueArn")?);
    for (args, text) in [
        (
            vec!["--stack", "nothing"],
            "there is no stack nothing in us-east-1",
        ),
        (
            vec!["--function", "nobody", "--queue", queue],
            "there is no function nobody in us-east-1",
        ),
        (
            vec!["--function", function, "--queue", "nowhere"],
            "there is no queue nowhere in us-east-1",
        ),
    ] {
        let output = frigg(emulator, &[&["doctor"], args.as_slice()].concat()).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(text) && output.stdout.is_empty(), "{said}");
    }
    Ok(())
}
