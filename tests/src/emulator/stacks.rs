//! The stack that users deploy: `infra/template.yaml`, as CloudFormation makes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use super::{ACCOUNT, Bootstrap, Emulator, Function, Queue};
use crate::wait::wait_for;

/// Where packages are put.
const BUCKET: &str = "frigg-tests-code";

/// A stack to deploy.
#[derive(Clone, Debug)]
pub struct StackSpec {
    bootstrap: Bootstrap,
    parameters: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
    over_http: bool,
}

impl StackSpec {
    /// The template with its defaults, with a service name of its own, for this machine's architecture.
    #[must_use]
    pub fn new(bootstrap: Bootstrap) -> Self {
        let architecture = if cfg!(target_arch = "aarch64") {
            "arm64"
        } else {
            "x86_64"
        };
        Self {
            bootstrap,
            parameters: [("Architecture".to_owned(), architecture.to_owned())].into(),
            variables: BTreeMap::new(),
            over_http: false,
        }
    }

    /// Without the queues' policies, which take TLS calls only: an emulator that enforces policies would refuse everybody
    /// over HTTP.
    #[must_use]
    pub fn over_http(mut self) -> Self {
        self.over_http = true;
        self
    }

    /// A parameter of the template.
    #[must_use]
    pub fn with(mut self, parameter: &str, value: impl Into<String>) -> Self {
        self.parameters.insert(parameter.to_owned(), value.into());
        self
    }

    /// A variable of the function that the template does not know: what a test's worker is told.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }
}

/// A stack that came up.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// The template's outputs.
    pub outputs: BTreeMap<String, String>,
}

impl Stack {
    /// One output.
    ///
    /// # Errors
    ///
    /// When the stack has no such output.
    pub fn output(&self, name: &str) -> Result<&str> {
        let value = self.outputs.get(name);
        value
            .map(String::as_str)
            .with_context(|| format!("the stack has no output {name}: {:?}", self.outputs))
    }

    /// The worker.
    ///
    /// # Errors
    ///
    /// When the stack names none.
    pub fn function(&self, emulator: &Emulator) -> Result<Function> {
        let name = self.output("FunctionName")?.to_owned();
        let arn = format!("arn:aws:lambda:{}:{ACCOUNT}:function:{name}", super::REGION);
        ensure!(emulator.runs_lambda(), "{} runs no functions", emulator.flavour());
        Ok(Function { name, arn })
    }

    /// The queue, with its dead-letter queue.
    ///
    /// # Errors
    ///
    /// When the stack names none.
    pub fn queue(&self) -> Result<Queue> {
        let dead_letters = self.outputs.get("DeadLetterQueueUrl").map(|url| {
            let name = url.rsplit('/').next().unwrap_or_default();
            Box::new(Queue {
                name: name.to_owned(),
                arn: format!("arn:aws:sqs:{}:{ACCOUNT}:{name}", super::REGION),
                url: url.clone(),
                dead_letters: None,
            })
        });
        let arn = self.output("QueueArn")?.to_owned();
        Ok(Queue {
            name: arn.rsplit(':').next().unwrap_or_default().to_owned(),
            url: self.output("QueueUrl")?.to_owned(),
            arn,
            dead_letters,
        })
    }
}

/// The template's text.
///
/// # Errors
///
/// When it cannot be read.
pub fn template() -> Result<String> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/template.yaml"));
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// The template without its resources of this type.
fn without(template: &str, resource_type: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for line in template.lines() {
        let begins_resource = line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':');
        match kept.last_mut() {
            Some(block) if !begins_resource => {
                block.push('\n');
                block.push_str(line);
            }
            _ => kept.push(line.to_owned()),
        }
    }
    kept.retain(|block| !block.contains(&format!("Type: {resource_type}\n")));
    kept.join("\n")
}

impl Emulator {
    /// Deploys `infra/template.yaml` and waits until it is complete. What the emulator's CloudFormation leaves out
    /// (`RecursiveLoop`) is set by its own API.
    ///
    /// # Errors
    ///
    /// When the emulator refuses, or the stack fails.
    pub async fn deploy_stack(&self, spec: &StackSpec) -> Result<Stack> {
        let service = self.unique("s");
        let key = format!("{service}.zip");
        self.upload(&key, &spec.bootstrap).await?;
        let name = format!("{service}-stack");
        let parameters = [
            ("Service", service.as_str()),
            ("CodeBucket", BUCKET),
            ("CodeKey", &key),
        ];
        let given = spec.parameters.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let mut template = template()?;
        if spec.over_http {
            template = without(&template, "AWS::SQS::QueuePolicy");
        }
        let mut fields = vec![
            ("Action".to_owned(), "CreateStack"),
            ("StackName".to_owned(), &name),
            ("TemplateBody".to_owned(), &template),
            ("Capabilities.member.1".to_owned(), "CAPABILITY_IAM"),
        ];
        for (index, (name, value)) in (1..).zip(parameters.into_iter().chain(given)) {
            fields.push((format!("Parameters.member.{index}.ParameterKey"), name));
            fields.push((format!("Parameters.member.{index}.ParameterValue"), value));
        }
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        self.cloudformation(&fields, "create the stack").await?;
        let (status, answer) = self.ended(&name).await?;
        if status != "CREATE_COMPLETE" {
            let ask = [("Action", "DescribeStackEvents"), ("StackName", name.as_str())];
            let events = self.cloudformation(&ask, "read the stack's events").await?;
            bail!(
                "the stack is {status}: {:?}",
                texts(&events, "ResourceStatusReason")
            );
        }
        let outputs = texts(&answer, "OutputKey")
            .into_iter()
            .zip(texts(&answer, "OutputValue"));
        let stack = Stack {
            name,
            outputs: outputs.collect(),
        };
        self.complete(&stack, spec).await?;
        Ok(stack)
    }

    /// Makes a stack of this template. Returns the status in which that ends.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_stack(&self, name: &str, template: &str) -> Result<String> {
        let fields = [
            ("Action", "CreateStack"),
            ("StackName", name),
            ("TemplateBody", template),
        ];
        self.cloudformation(&fields, "create the stack").await?;
        Ok(self.ended(name).await?.0)
    }

    /// Plans a stack with a queue, as a deployment does that is broken off before it begins. Returns the status.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn plan_stack(&self, name: &str) -> Result<String> {
        let fields = [
            ("Action", "CreateChangeSet"),
            ("StackName", name),
            ("ChangeSetName", "plan"),
            ("ChangeSetType", "CREATE"),
            (
                "TemplateBody",
                r#"{"Resources":{"Queue":{"Type":"AWS::SQS::Queue"}}}"#,
            ),
        ];
        self.cloudformation(&fields, "plan the stack").await?;
        self.stack_status(name).await
    }

    /// A stack's status.
    ///
    /// # Errors
    ///
    /// When the emulator refuses, or there is no such stack.
    pub async fn stack_status(&self, name: &str) -> Result<String> {
        let ask = [("Action", "DescribeStacks"), ("StackName", name)];
        let answer = self.cloudformation(&ask, "read the stack").await?;
        texts(&answer, "StackStatus")
            .pop()
            .with_context(|| format!("no status in {answer}"))
    }

    /// The names of all stacks.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn stack_names(&self) -> Result<Vec<String>> {
        let ask = [("Action", "DescribeStacks")];
        let answer = self.cloudformation(&ask, "list the stacks").await?;
        Ok(texts(&answer, "StackName"))
    }

    /// Waits until nothing is in progress. Returns the status and the description.
    async fn ended(&self, name: &str) -> Result<(String, String)> {
        let what = format!("the stack {name} is made");
        wait_for(Duration::from_secs(60), &what, async || {
            let ask = [("Action", "DescribeStacks"), ("StackName", name)];
            let answer = self.cloudformation(&ask, "read the stack").await?;
            let status = texts(&answer, "StackStatus").pop().unwrap_or_default();
            Ok((!status.ends_with("IN_PROGRESS")).then_some((status, answer)))
        })
        .await
    }

    /// Deletes a stack and waits until it is gone.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn delete_stack(&self, stack: &Stack) -> Result<()> {
        let ask = [("Action", "DeleteStack"), ("StackName", stack.name.as_str())];
        self.cloudformation(&ask, "delete the stack").await?;
        wait_for(
            Duration::from_secs(30),
            &format!("the stack {} is gone", stack.name),
            async || {
                let ask = [
                    ("Action", "DescribeStacks"),
                    ("StackName", stack.name.as_str()),
                    ("Version", "2010-05-15"),
                ];
                let answer = self.api().query("cloudformation", &ask).await?;
                let gone = !answer.status.is_success() || answer.body.contains("DELETE_COMPLETE");
                Ok(gone.then_some(()))
            },
        )
        .await
    }

    /// What the emulator's CloudFormation does not do, and the variables that only a test has.
    async fn complete(&self, stack: &Stack, spec: &StackSpec) -> Result<()> {
        let function = stack.output("FunctionName")?;
        let template = template()?;
        if let Some(value) = template
            .split("RecursiveLoop:")
            .nth(1)
            .and_then(|rest| rest.lines().next())
        {
            let path = format!("/2024-08-31/functions/{function}/recursion-config");
            let body = json!({ "RecursiveLoop": value.trim() }).to_string();
            self.lambda(Method::PUT, &path, Some(body), "set recursion")
                .await?;
        }
        let tables = ["GateTable", "StateTable"].map(|output| stack.output(output));
        if template.contains("TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }") {
            for table in tables.into_iter().flatten() {
                let on = json!({ "AttributeName": "ttl", "Enabled": true });
                let request = json!({ "TableName": table, "TimeToLiveSpecification": on });
                self.dynamodb("UpdateTimeToLive", &request).await?;
            }
        }
        if !spec.variables.is_empty() {
            let path = format!("/2015-03-31/functions/{function}/configuration");
            let configuration = self.lambda(Method::GET, &path, None, "read the function").await?;
            let mut variables = configuration["Environment"]["Variables"].clone();
            for (name, value) in &spec.variables {
                variables[name] = json!(value);
            }
            let body = json!({ "Environment": { "Variables": variables } });
            self.lambda(Method::PUT, &path, Some(body.to_string()), "set variables")
                .await?;
        }
        Ok(())
    }

    async fn upload(&self, key: &str, bootstrap: &Bootstrap) -> Result<()> {
        let bytes = STANDARD
            .decode(bootstrap.zip_base64())
            .context("a package is base64")?;
        let api = self.api();
        // Making it twice is no error.
        api.put("s3", &format!("/{BUCKET}"), Vec::new()).await?;
        let put = api.put("s3", &format!("/{BUCKET}/{key}"), bytes).await?;
        put.success("upload the package").map(drop)
    }

    async fn cloudformation(&self, fields: &[(&str, &str)], what: &str) -> Result<String> {
        let fields = [fields, &[("Version", "2010-05-15")]].concat();
        let answer = self.api().query("cloudformation", &fields).await?;
        Ok(answer.success(what)?.body)
    }
}

/// The texts of all elements of this name. The emulator's answers are flat and simple.
fn texts(xml: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let pieces = xml.split(&open).skip(1);
    pieces
        .filter_map(|piece| piece.split(&close).next())
        .map(|text| {
            text.replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&amp;", "&")
        })
        .collect()
}
