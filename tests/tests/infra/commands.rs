//! `make deploy` and its kin on an emulator: what they do, and what they say when they cannot.

use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use frigg_tests::emulator::Emulator;
use reqwest::Method;
use tempfile::TempDir;
use tokio::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs `make` with a service name of its own, and a package that needs no building.
pub(crate) struct Commands {
    pub(crate) emulator: &'static Emulator,
    service: String,
    folder: TempDir,
}

impl Commands {
    pub(crate) async fn new() -> Result<Self> {
        let emulator = Emulator::shared().await?;
        let commands = Self {
            emulator,
            service: emulator.unique("c"),
            folder: tempfile::tempdir()?,
        };
        commands.package("exec sleep 60").await?;
        Ok(commands)
    }

    /// Makes a package whose program is this script.
    pub(crate) async fn package(&self, script: &str) -> Result<()> {
        std::fs::write(
            self.folder.path().join("bootstrap"),
            format!("#!/bin/sh\n{script}\n"),
        )?;
        let mut zip = Command::new("python3");
        zip.args(["-m", "zipfile", "-c", "package.zip", "bootstrap"])
            .current_dir(self.folder.path());
        ensure!(zip.status().await?.success(), "failed to zip");
        Ok(())
    }

    fn zip(&self) -> PathBuf {
        self.folder.path().join("package.zip")
    }

    pub(crate) fn make(&self, target: &str, stage: &str) -> Command {
        let mut make = Command::new("make");
        make.args(["--silent", target])
            .arg(format!("STAGE={stage}"))
            .arg(format!("SERVICE={}", self.service))
            .current_dir(ROOT)
            .stdin(std::process::Stdio::null())
            .envs(self.emulator.environment())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("PACKAGE", self.zip())
            .env("YES", "1")
            .env_remove("AWS_PROFILE")
            .env_remove("LOSE_MESSAGES");
        make
    }

    fn stack(&self) -> String {
        format!("{}-dev", self.service)
    }

    async fn exists(&self) -> Result<bool> {
        let path = format!("/2015-03-31/functions/{}/configuration", self.stack());
        Ok(self
            .emulator
            .lambda(Method::GET, &path, None, "read the function")
            .await
            .is_ok())
    }
}

pub(crate) async fn succeeds(mut command: Command) -> Result<String> {
    let output = command.output().await.context("failed to run make")?;
    ensure!(output.status.success(), "{}", said(&output));
    Ok(said(&output))
}

/// Asserts that it fails and says all of `texts`. Returns all that it says.
pub(crate) async fn fails(mut command: Command, texts: &[&str]) -> Result<String> {
    let output = command.output().await.context("failed to run make")?;
    let said = said(&output);
    ensure!(!output.status.success(), "{said}");
    for text in texts {
        ensure!(said.contains(text), "no {text:?} in {said}");
    }
    ensure!(!said.contains("Traceback"), "{said}");
    Ok(said)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test]
async fn a_stage_is_deployed_updated_and_destroyed() -> Result<()> {
    let commands = Commands::new().await?;
    let said = succeeds(commands.make("deploy", "dev")).await?;
    for text in [
        "account 000000000000",
        "region us-east-1",
        &format!("create the stack {}", commands.stack()),
        "is CREATE_COMPLETE",
        "QueueUrl",
    ] {
        ensure!(said.contains(text), "no {text:?} in {said}");
    }
    ensure!(commands.exists().await?);
    // The same again changes nothing, new code updates.
    succeeds(commands.make("deploy", "dev")).await?;
    commands.package("exec sleep 61").await?;
    let said = succeeds(commands.make("deploy", "dev")).await?;
    ensure!(
        said.contains("update the stack") && said.contains("is UPDATE_COMPLETE"),
        "{said}"
    );
    let said = succeeds(commands.make("destroy", "dev")).await?;
    ensure!(said.contains("is gone"), "{said}");
    ensure!(!commands.exists().await?);
    Ok(())
}

#[tokio::test]
async fn messages_that_wait_keep_a_stack_from_being_destroyed() -> Result<()> {
    let commands = Commands::new().await?;
    succeeds(commands.make("deploy", "dev")).await?;
    let url = format!(
        "{}/000000000000/{}",
        commands.emulator.endpoint(),
        commands.stack()
    );
    let send = commands.emulator.sqs().send_message().queue_url(&url);
    send.message_body("{}").delay_seconds(600).send().await?;
    fails(
        commands.make("destroy", "dev"),
        &["1 in ", &url, "Nothing was deleted", "LOSE_MESSAGES=1"],
    )
    .await?;
    ensure!(commands.exists().await?);
    let mut anyway = commands.make("destroy", "dev");
    anyway.env("LOSE_MESSAGES", "1");
    let said = succeeds(anyway).await?;
    ensure!(
        said.contains("lose 1 messages") && !commands.exists().await?,
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_is_said_and_nothing_is_done() -> Result<()> {
    let commands = Commands::new().await?;
    for target in ["deploy", "deploy-code"] {
        let texts = ["no stage 'nope'", "dev, prod", "infra/stages/dev.json"];
        fails(commands.make(target, "nope"), &texts).await?;
        fails(commands.make(target, "../dev"), &["no stage '../dev'"]).await?;
        let mut nobody = commands.make(target, "dev");
        nobody
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY");
        fails(nobody, &["no AWS credentials", "aws configure"]).await?;
        let mut nowhere = commands.make(target, "dev");
        nowhere.env_remove("AWS_REGION").env_remove("AWS_DEFAULT_REGION");
        fails(nowhere, &["no region is set", "AWS_REGION"]).await?;
    }
    let mut unasked = commands.make("deploy", "dev");
    unasked.env_remove("YES");
    fails(
        unasked,
        &[
            "About to, in account 000000000000",
            "YES=1",
            "Nothing was changed",
        ],
    )
    .await?;
    fails(
        commands.make("deploy-code", "dev"),
        &["there is no stack", "make deploy STAGE=dev"],
    )
    .await?;
    fails(
        commands.make("destroy", "dev"),
        &["there is no stack", "nothing was deleted"],
    )
    .await?;
    let mut unbuilt = commands.make("deploy", "dev");
    unbuilt.env("PACKAGE", "/nowhere/package.zip");
    fails(unbuilt, &["PACKAGE names /nowhere/package.zip"]).await?;
    ensure!(!commands.exists().await?);
    Ok(())
}

#[tokio::test]
async fn a_stack_whose_creation_failed_is_left_alone() -> Result<()> {
    let commands = Commands::new().await?;
    let template =
        r#"{"Resources":{"Queue":{"Type":"AWS::SQS::Queue","Properties":{"VisibilityTimeout":"x"}}}}"#;
    let status = commands
        .emulator
        .create_stack(&commands.stack(), template)
        .await?;
    ensure!(status == "ROLLBACK_COMPLETE", "{status}");
    let name = commands.stack();
    let texts = [
        name.as_str(),
        "ROLLBACK_COMPLETE",
        "Nothing was changed",
        "describe-stack-events",
        "delete-stack",
    ];
    fails(commands.make("deploy", "dev"), &texts).await?;
    fails(commands.make("deploy-code", "dev"), &texts).await?;
    ensure!(commands.emulator.stack_status(&name).await? == "ROLLBACK_COMPLETE");
    Ok(())
}

#[tokio::test]
async fn a_stack_that_was_planned_and_not_made_is_left_alone() -> Result<()> {
    let commands = Commands::new().await?;
    let name = commands.stack();
    let status = commands.emulator.plan_stack(&name).await?;
    ensure!(status == "REVIEW_IN_PROGRESS", "{status}");
    let texts = [
        name.as_str(),
        "REVIEW_IN_PROGRESS",
        "holds nothing",
        "Nothing was changed",
        "delete-stack",
    ];
    fails(commands.make("deploy", "dev"), &texts).await?;
    ensure!(commands.emulator.stack_status(&name).await? == "REVIEW_IN_PROGRESS");
    succeeds(commands.make("destroy", "dev")).await?;
    Ok(())
}

#[tokio::test]
async fn a_region_without_the_scheduler_is_named() -> Result<()> {
    let commands = Commands::new().await?;
    // Everything answers but the scheduler.
    let mut deploy = commands.make("deploy", "dev");
    deploy
        .env("AWS_ENDPOINT_URL_SCHEDULER", "http://127.0.0.1:9")
        .env("AWS_MAX_ATTEMPTS", "1");
    let texts = [
        "EventBridge Scheduler does not answer in us-east-1",
        "\"Scheduler\": \"no\"",
        "infra/stages/dev.json",
    ];
    fails(deploy, &texts).await?;
    ensure!(!commands.exists().await?);
    Ok(())
}
