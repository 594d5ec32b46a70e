//! A worker's table: which one, and calls to it.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::aws::{Aws, encode, xml_texts};

/// Where the worker is.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// A stack that was made from infra/template.yaml
    #[arg(long, global = true)]
    stack: Option<String>,
    /// The function: its name or ARN
    #[arg(long, global = true, conflicts_with = "stack")]
    function: Option<String>,
    /// The table itself
    #[arg(long, global = true, conflicts_with_all = ["stack", "function"])]
    table: Option<String>,
    /// AWS region; default: AWS_REGION, else the profile's
    #[arg(long, global = true)]
    region: Option<String>,
    /// Profile of the AWS configuration
    #[arg(long, global = true)]
    profile: Option<String>,
}

/// A table, and how to call it.
#[derive(Debug)]
pub(crate) struct Table {
    aws: Aws,
    /// Its name.
    pub name: String,
}

impl Table {
    /// The table that `variable` names: of this shell, or of the function.
    ///
    /// # Errors
    ///
    /// When none is named, or the function cannot be read.
    pub(crate) async fn find(args: TableArgs, variable: &str) -> Result<Table> {
        let set = std::env::var(variable).ok().filter(|name| !name.is_empty());
        let aws = Aws::load(args.region, args.profile).await?;
        let function = match (args.stack, args.function) {
            (Some(stack), _) => Some(function_of(&aws, &stack).await?),
            (None, function) => function,
        };
        let name = match (args.table, function) {
            (Some(table), _) => table,
            (None, Some(function)) => variable_of(&aws, &function, variable).await?,
            (None, None) => match set {
                Some(name) => name,
                None => bail!(
                    "name the worker with --stack or --function, or the table with --table or {variable}"
                ),
            },
        };
        Ok(Table { aws, name })
    }

    /// A call on the table: `operation` of DynamoDB, with `TableName` put in.
    ///
    /// # Errors
    ///
    /// When AWS refuses; the text names the table and the permission.
    pub(crate) async fn call(&self, operation: &str, mut request: Value) -> Result<Value> {
        request["TableName"] = json!(self.name);
        let target = format!("DynamoDB_20120810.{operation}");
        match self.aws.json("dynamodb", &target, &request).await {
            Ok(answer) => Ok(answer),
            Err(refusal) if refusal.is_missing() => {
                bail!(
                    "there is no table {} in {}: name another with --table or --region",
                    self.name,
                    self.aws.region()
                )
            }
            Err(refusal) => bail!(
                "failed to read or write {} (dynamodb:{operation}): {refusal}",
                self.name
            ),
        }
    }
}

async fn function_of(aws: &Aws, stack: &str) -> Result<String> {
    let ask = [
        ("Action", "DescribeStackResource"),
        ("Version", "2010-05-15"),
        ("StackName", stack),
        ("LogicalResourceId", "Function"),
    ];
    match aws.query("cloudformation", &ask).await {
        Ok(xml) => match xml_texts(&xml, "PhysicalResourceId").pop() {
            Some(function) => Ok(function),
            None => bail!("the stack {stack} has no function: is it a worker's?"),
        },
        Err(refusal) => bail!(
            "failed to find the function of the stack {stack} in {}: {refusal}",
            aws.region()
        ),
    }
}

async fn variable_of(aws: &Aws, function: &str, variable: &str) -> Result<String> {
    let path = format!("/2015-03-31/functions/{}/configuration", encode(function));
    let found = match aws.get("lambda", &path).await {
        Ok(found) => found,
        Err(refusal) => bail!(
            "failed to read the function {function} in {}: {refusal}",
            aws.region()
        ),
    };
    match found["Environment"]["Variables"][variable]
        .as_str()
        .filter(|name| !name.is_empty())
    {
        Some(name) => Ok(name.to_owned()),
        None => bail!("{function} has no {variable}: its workers share no such table"),
    }
}
