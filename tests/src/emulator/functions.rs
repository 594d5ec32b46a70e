//! Lambda functions and their event source mappings, by Lambda's REST API.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use super::bootstrap::Bootstrap;
use super::queues::Queue;
use super::{ACCOUNT, Emulator};
use crate::secrets;
use crate::wait::wait_until;

const FUNCTIONS: &str = "/2015-03-31/functions";
/// Stands in the request where the deployment package goes.
const ZIP_FILE: &str = "<deployment package>";
const MAPPINGS: &str = "/2015-03-31/event-source-mappings/";

/// A function to deploy.
#[derive(Clone, Debug)]
pub struct FunctionSpec {
    name: String,
    bootstrap: Bootstrap,
    variables: BTreeMap<String, String>,
    timeout_seconds: u32,
    memory_mb: u32,
    role: String,
}

impl FunctionSpec {
    /// A function that runs this program: timeout 30 s, 256 MB. Its name is made unique.
    #[must_use]
    pub fn new(name: impl Into<String>, bootstrap: Bootstrap) -> Self {
        Self {
            name: name.into(),
            bootstrap,
            variables: BTreeMap::new(),
            timeout_seconds: 30,
            memory_mb: 256,
            role: format!("arn:aws:iam::{ACCOUNT}:role/frigg-tests-function"),
        }
    }

    /// An environment variable.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The timeout in seconds.
    #[must_use]
    pub fn with_timeout(mut self, seconds: u32) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    /// The memory in MB.
    #[must_use]
    pub fn with_memory(mut self, megabytes: u32) -> Self {
        self.memory_mb = megabytes;
        self
    }

    /// The execution role's ARN. Default: one that does not exist, which no emulator minds.
    #[must_use]
    pub fn with_role(mut self, arn: impl Into<String>) -> Self {
        self.role = arn.into();
        self
    }
}

/// A deployed function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
}

/// A queue that feeds a function.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Its id.
    pub uuid: String,
}

impl Emulator {
    /// Deploys a function and waits until it is active.
    ///
    /// # Errors
    ///
    /// When the emulator runs no functions, or refuses.
    pub async fn deploy(&self, spec: &FunctionSpec) -> Result<Function> {
        ensure!(self.runs_lambda(), "{} runs no functions", self.flavour());
        let name = self.unique(&spec.name);
        let body = json!({
            "FunctionName": name,
            "Runtime": "provided.al2023",
            "Handler": "bootstrap",
            "Role": spec.role,
            "Code": { "ZipFile": ZIP_FILE },
            "Timeout": spec.timeout_seconds,
            "MemorySize": spec.memory_mb,
            "Environment": { "Variables": spec.variables },
        });
        // Base64 is the same in JSON. Put in as it is: serialising 60 MB takes a dev build seconds.
        let body = body
            .to_string()
            .replacen(ZIP_FILE, spec.bootstrap.zip_base64(), 1);
        let created = self
            .lambda(Method::POST, FUNCTIONS, Some(body), "deploy the function")
            .await?;
        let arn = text(&created, "FunctionArn")?;
        let path = format!("{FUNCTIONS}/{name}/configuration");
        wait_until(
            Duration::from_secs(30),
            &format!("the function {name} is active"),
            async || {
                let configuration = self.lambda(Method::GET, &path, None, "read the function").await?;
                Ok(configuration["State"] == "Active")
            },
        )
        .await?;
        Ok(Function { name, arn })
    }

    /// Feeds a function from a queue, in batches of up to `batch_size` (1–10), with `ReportBatchItemFailures`.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn map_queue(&self, function: &Function, queue: &Queue, batch_size: u32) -> Result<Mapping> {
        let body = json!({
            "EventSourceArn": queue.arn,
            "FunctionName": function.name,
            "BatchSize": batch_size,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        });
        let created = self
            .lambda(Method::POST, MAPPINGS, Some(body.to_string()), "map the queue")
            .await?;
        let uuid = text(&created, "UUID")?;
        let path = format!("{MAPPINGS}{uuid}");
        wait_until(
            Duration::from_secs(30),
            "the event source mapping is enabled",
            async || {
                let mapping = self.lambda(Method::GET, &path, None, "read the mapping").await?;
                Ok(mapping["State"] == "Enabled")
            },
        )
        .await?;
        Ok(Mapping { uuid })
    }

    /// Calls a function directly and returns what it answers.
    ///
    /// # Errors
    ///
    /// When the call fails. A function's own error is an answer.
    pub async fn invoke(&self, function: &Function, event: &Value) -> Result<Value> {
        let path = format!("{FUNCTIONS}/{}/invocations", function.name);
        self.lambda(Method::POST, &path, Some(event.to_string()), "call the function")
            .await
    }

    /// Ends a mapping.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn delete_mapping(&self, mapping: &Mapping) -> Result<()> {
        let path = format!("{MAPPINGS}{}", mapping.uuid);
        self.lambda(Method::DELETE, &path, None, "delete the mapping")
            .await
            .map(drop)
    }

    /// Deletes a function; its processes end.
    ///
    /// # Errors
    ///
    /// When the emulator refuses, or the function's log shows a [planted secret](secrets).
    pub async fn delete_function(&self, function: &Function) -> Result<()> {
        let lines = self.logs(function).await?;
        secrets::none_shown(lines.iter().map(|line| &*line.text))?;
        let path = format!("{FUNCTIONS}/{}", function.name);
        self.lambda(Method::DELETE, &path, None, "delete the function")
            .await
            .map(drop)
    }

    /// The ids of a function's processes (Linux).
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn function_processes(&self, function: &Function) -> Result<Vec<u32>> {
        let wanted = format!("AWS_LAMBDA_FUNCTION_NAME={}", function.name);
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").context("failed to list the processes")? {
            let entry = entry.context("failed to list the processes")?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // One that just ended, or is not ours, cannot be read.
            let Ok(environment) = std::fs::read(entry.path().join("environ")) else {
                continue;
            };
            if environment
                .split(|&byte| byte == 0)
                .any(|variable| variable == wanted.as_bytes())
            {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Kills a function's processes at once, as when its machine dies. Returns how many there were (Linux).
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read, or `kill` does not run.
    pub fn kill_function(&self, function: &Function) -> Result<usize> {
        let processes = self.function_processes(function)?;
        for id in &processes {
            std::process::Command::new("kill")
                .args(["-9", &id.to_string()])
                .status()
                .context("failed to kill")?;
        }
        Ok(processes.len())
    }

    /// A call of Lambda's API, for what has no helper of its own. `what` completes "failed to …".
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn lambda(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        what: &str,
    ) -> Result<Value> {
        let answer = self
            .api()
            .rest("lambda", method, path, body)
            .await?
            .success(what)?;
        if answer.body.is_empty() {
            Ok(Value::Null)
        } else {
            answer.json()
        }
    }
}

fn text(value: &Value, field: &str) -> Result<String> {
    let text = value[field]
        .as_str()
        .with_context(|| format!("no {field} in {value}"))?;
    Ok(text.to_owned())
}
