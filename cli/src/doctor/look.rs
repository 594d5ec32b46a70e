//! Reads the facts from AWS. A call that is refused leaves a gap, and the others go on.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::facts::{Facts, Found, Function, Mapping, Queue, Redrive, Role, Table, role_name};
use super::finding::Gap;
use super::policy::Policy;
use crate::aws::{Aws, Refusal, decode, encode, xml_texts};

/// What to look at.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Name or ARN.
    pub function: String,
    /// Name, URL or ARN.
    pub queue: String,
}

/// The function and the queue of a stack, by its outputs `FunctionName` and `QueueArn`.
///
/// # Errors
///
/// When there is no such stack, or it is half made.
pub(crate) async fn target_of_stack(aws: &Aws, stack: &str) -> Result<Target> {
    let ask = [
        ("Action", "DescribeStacks"),
        ("Version", "2010-05-15"),
        ("StackName", stack),
    ];
    let region = aws.region();
    let xml = match aws.query("cloudformation", &ask).await {
        Ok(xml) => xml,
        Err(refusal) if refusal.is_missing() => {
            bail!("there is no stack {stack} in {region}: name another with --stack or --region")
        }
        Err(refusal) if refusal.is_denied() => {
            bail!("not allowed to read the stack {stack} (cloudformation:DescribeStacks): {refusal}")
        }
        Err(refusal) => bail!("failed to read the stack {stack} in {region}: {refusal}"),
    };
    let status = xml_texts(&xml, "StackStatus").pop().unwrap_or_default();
    let (keys, values) = (xml_texts(&xml, "OutputKey"), xml_texts(&xml, "OutputValue"));
    let output = |name: &str| {
        let at = keys.iter().position(|key| key == name)?;
        values.get(at).cloned()
    };
    match (output("FunctionName"), output("QueueArn")) {
        (Some(function), Some(queue)) => Ok(Target { function, queue }),
        _ => bail!(
            "the stack {stack} is {status} and names no function and queue: it is half made or not a worker's. See why with \
             `aws cloudformation describe-stack-events --region {region} --stack-name {stack}`, or pass --function and --queue"
        ),
    }
}

/// Reads everything.
///
/// # Errors
///
/// When the function or the queue cannot be read at all: then there is nothing to judge.
pub(crate) async fn look(aws: &Aws, target: &Target) -> Result<Facts> {
    let mut look = Look {
        aws,
        gaps: Vec::new(),
    };
    let function = look.function(&target.function).await?;
    let queue = look.queue_url(&target.queue).await?;
    let queue = match look.queue(&queue).await {
        Ok(queue) => queue,
        Err(refusal) => bail!("failed to read the queue {}: {refusal}", target.queue),
    };
    let dead_letters = match &queue.redrive {
        Some(redrive) => look.queue_by_arn(&redrive.target).await,
        None => None,
    };
    let schedules = function.variable("SCHEDULER_ROLE_ARN").map(str::to_owned);
    let schedule_dead_letters = match function.variable("FRIGG_SCHEDULE_DLQ_ARN") {
        Some(arn) => look.queue_by_arn(arn).await,
        None => None,
    };
    let mut tables = BTreeMap::new();
    for name in ["FRIGG_GATE_TABLE", "FRIGG_STATE_TABLE"]
        .into_iter()
        .filter_map(|name| function.variable(name))
    {
        if let Some(table) = look.table(name).await {
            tables.insert(name.to_owned(), table);
        }
    }
    let mut announcements = BTreeMap::new();
    for variable in ["FRIGG_WARNINGS_TOPIC", "FRIGG_WARNINGS_BUS"] {
        let Some(name) = function.variable(variable) else {
            continue;
        };
        let found = match variable {
            "FRIGG_WARNINGS_TOPIC" => look.topic(name).await,
            _ => look.bus(name).await,
        };
        announcements.extend(found.map(|found| (name.to_owned(), found)));
    }
    let (mut group_exists, mut scheduler_role) = (None, None);
    if let Some(role) = schedules {
        let group = function
            .variable("SCHEDULE_GROUP_NAME")
            .unwrap_or(super::DEFAULT_GROUP);
        group_exists = look.group(group).await;
        scheduler_role = look.role(&role).await;
    }
    Ok(Facts {
        region: aws.region().to_owned(),
        mappings: look.mappings(&function.name).await,
        recursive_loop: look.recursive_loop(&function.name).await,
        reserved: look.reserved(&function.name).await,
        function_role: look.role(&function.role_arn).await,
        function: Some(function),
        queue: Some(queue),
        dead_letters,
        schedule_dead_letters,
        group_exists,
        scheduler_role,
        tables,
        announcements,
        gaps: look.gaps,
    })
}

struct Look<'a> {
    aws: &'a Aws,
    gaps: Vec<Gap>,
}

impl Look<'_> {
    fn gap(&mut self, permission: &'static str, resource: &str, refusal: &Refusal) {
        let reason = if refusal.is_denied() {
            format!("you lack {permission}: {}", refusal.message)
        } else {
            refusal.to_string()
        };
        self.gaps.push(Gap {
            permission,
            resource: resource.to_owned(),
            reason,
        });
    }

    async fn function(&self, name: &str) -> Result<Function> {
        let path = format!("/2015-03-31/functions/{}/configuration", encode(name));
        let region = self.aws.region();
        let found = match self.aws.get("lambda", &path).await {
            Ok(found) => found,
            Err(refusal) if refusal.is_missing() => {
                bail!("there is no function {name} in {region}: name another with --function or --region")
            }
            Err(refusal) if refusal.is_denied() => {
                bail!("not allowed to read the function {name} (lambda:GetFunctionConfiguration): {refusal}")
            }
            Err(refusal) => bail!("failed to read the function {name}: {refusal}"),
        };
        let variables = found["Environment"]["Variables"].as_object();
        Ok(Function {
            name: text(&found["FunctionName"]),
            timeout: number(&found["Timeout"]).unwrap_or(3),
            role_arn: text(&found["Role"]),
            variables: variables
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
        })
    }

    async fn mappings(&mut self, function: &str) -> Option<Vec<Mapping>> {
        let mut mappings = Vec::new();
        let mut marker = String::new();
        loop {
            let path = format!(
                "/2015-03-31/event-source-mappings/?FunctionName={}{marker}",
                encode(function)
            );
            let page = match self.aws.get("lambda", &path).await {
                Ok(page) => page,
                Err(refusal) => {
                    self.gap("lambda:ListEventSourceMappings", function, &refusal);
                    return None;
                }
            };
            let all = page["EventSourceMappings"].as_array().into_iter().flatten();
            mappings.extend(all.map(|mapping| {
                let types = mapping["FunctionResponseTypes"].as_array();
                Mapping {
                    uuid: text(&mapping["UUID"]),
                    queue_arn: text(&mapping["EventSourceArn"]),
                    state: text(&mapping["State"]),
                    response_types: types.into_iter().flatten().map(text).collect(),
                    window: number(&mapping["MaximumBatchingWindowInSeconds"]).unwrap_or_default(),
                    maximum_concurrency: number(&mapping["ScalingConfig"]["MaximumConcurrency"]),
                }
            }));
            match page["NextMarker"].as_str().filter(|next| !next.is_empty()) {
                Some(next) => marker = format!("&Marker={}", encode(next)),
                None => return Some(mappings),
            }
        }
    }

    async fn recursive_loop(&mut self, function: &str) -> Option<String> {
        let path = format!("/2024-08-31/functions/{}/recursion-config", encode(function));
        match self.aws.get("lambda", &path).await {
            Ok(found) => Some(text(&found["RecursiveLoop"])),
            Err(refusal) => {
                self.gap("lambda:GetFunctionRecursionConfig", function, &refusal);
                None
            }
        }
    }

    async fn reserved(&mut self, function: &str) -> Option<Option<u32>> {
        let path = format!("/2019-09-30/functions/{}/concurrency", encode(function));
        match self.aws.get("lambda", &path).await {
            Ok(found) => Some(number(&found["ReservedConcurrentExecutions"])),
            Err(refusal) => {
                self.gap("lambda:GetFunctionConcurrency", function, &refusal);
                None
            }
        }
    }

    async fn queue_url(&self, queue: &str) -> Result<String> {
        if queue.contains("://") {
            return Ok(queue.to_owned());
        }
        match self.url_of(queue).await {
            Ok(url) => Ok(url),
            Err(refusal) if refusal.is_missing() => bail!(
                "there is no queue {queue} in {}: name another with --queue or --region",
                self.aws.region()
            ),
            Err(refusal) => bail!("failed to find the queue {queue} (sqs:GetQueueUrl): {refusal}"),
        }
    }

    /// By name or ARN.
    async fn url_of(&self, queue: &str) -> Result<String, Refusal> {
        let parts: Vec<_> = queue.split(':').collect();
        let ask = match parts.as_slice() {
            [.., account, name] if parts.len() == 6 => {
                json!({ "QueueName": name, "QueueOwnerAWSAccountId": account })
            }
            _ => json!({ "QueueName": queue }),
        };
        let found = self.aws.json("sqs", "AmazonSQS.GetQueueUrl", &ask).await?;
        Ok(text(&found["QueueUrl"]))
    }

    async fn queue(&self, url: &str) -> Result<Queue, Refusal> {
        let ask = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
        let found = self.aws.json("sqs", "AmazonSQS.GetQueueAttributes", &ask).await?;
        let attribute = |name: &str| found["Attributes"][name].as_str();
        let seconds = |name: &str| attribute(name).and_then(|text| text.parse().ok());
        let redrive = attribute("RedrivePolicy").and_then(|text| serde_json::from_str::<Value>(text).ok());
        Ok(Queue {
            url: url.to_owned(),
            arn: attribute("QueueArn").unwrap_or_default().to_owned(),
            visibility: seconds("VisibilityTimeout").unwrap_or(30),
            retention: seconds("MessageRetentionPeriod").unwrap_or(345_600),
            redrive: redrive.map(|redrive| Redrive {
                target: text(&redrive["deadLetterTargetArn"]),
                receives: number(&redrive["maxReceiveCount"]).unwrap_or_default(),
            }),
            key: attribute("KmsMasterKeyId").map(str::to_owned),
        })
    }

    async fn queue_by_arn(&mut self, arn: &str) -> Option<Found<Queue>> {
        let read = match self.url_of(arn).await {
            Ok(url) => self.queue(&url).await,
            Err(refusal) => Err(refusal),
        };
        match read {
            Ok(queue) => Some(Found::Here(queue)),
            Err(refusal) if refusal.is_missing() => Some(Found::Missing),
            Err(refusal) => {
                self.gap("sqs:GetQueueAttributes", arn, &refusal);
                None
            }
        }
    }

    async fn group(&mut self, group: &str) -> Option<bool> {
        let path = format!("/schedule-groups/{}", encode(group));
        match self.aws.get("scheduler", &path).await {
            Ok(_) => Some(true),
            Err(refusal) if refusal.is_missing() => Some(false),
            Err(mut refusal) => {
                if refusal.status == 0 {
                    let region = self.aws.region();
                    refusal.message = format!(
                        "{} (is there an EventBridge Scheduler in {region}?)",
                        refusal.message
                    );
                }
                self.gap("scheduler:GetScheduleGroup", group, &refusal);
                None
            }
        }
    }

    async fn topic(&mut self, arn: &str) -> Option<Found<String>> {
        let ask = [
            ("Action", "GetTopicAttributes"),
            ("Version", "2010-03-31"),
            ("TopicArn", arn),
        ];
        let answer = self.aws.query("sns", &ask).await;
        self.found("sns:GetTopicAttributes", arn, answer.map(|_| arn.to_owned()))
    }

    async fn bus(&mut self, bus: &str) -> Option<Found<String>> {
        let ask = json!({ "Name": bus });
        let answer = self.aws.json("events", "AWSEvents.DescribeEventBus", &ask).await;
        self.found(
            "events:DescribeEventBus",
            bus,
            answer.map(|found| text(&found["Arn"])),
        )
    }

    fn found<T>(
        &mut self,
        permission: &'static str,
        resource: &str,
        answer: Result<T, Refusal>,
    ) -> Option<Found<T>> {
        match answer {
            Ok(thing) => Some(Found::Here(thing)),
            Err(refusal) if refusal.is_missing() || refusal.code == "NotFound" => Some(Found::Missing),
            Err(refusal) => {
                self.gap(permission, resource, &refusal);
                None
            }
        }
    }

    async fn table(&mut self, name: &str) -> Option<Found<Table>> {
        let ask = json!({ "TableName": name });
        let described = match self
            .aws
            .json("dynamodb", "DynamoDB_20120810.DescribeTable", &ask)
            .await
        {
            Ok(found) => found["Table"].clone(),
            Err(refusal) if refusal.is_missing() => return Some(Found::Missing),
            Err(refusal) => {
                self.gap("dynamodb:DescribeTable", name, &refusal);
                return None;
            }
        };
        let ttl = match self
            .aws
            .json("dynamodb", "DynamoDB_20120810.DescribeTimeToLive", &ask)
            .await
        {
            Ok(found) => found["TimeToLiveDescription"].clone(),
            Err(refusal) => {
                self.gap("dynamodb:DescribeTimeToLive", name, &refusal);
                return None;
            }
        };
        let types = described["AttributeDefinitions"].as_array().into_iter().flatten();
        let types: BTreeMap<_, _> = types
            .map(|one| (text(&one["AttributeName"]), text(&one["AttributeType"])))
            .collect();
        let key = described["KeySchema"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| {
                let name = text(&one["AttributeName"]);
                let kind = types.get(&name).cloned().unwrap_or_default();
                (name, text(&one["KeyType"]), kind)
            });
        let on = matches!(ttl["TimeToLiveStatus"].as_str(), Some("ENABLED" | "ENABLING"));
        Some(Found::Here(Table {
            arn: text(&described["TableArn"]),
            key: key.collect(),
            ttl: on.then(|| text(&ttl["AttributeName"])),
        }))
    }

    async fn role(&mut self, arn: &str) -> Option<Found<Role>> {
        if !arn.contains(":role/") {
            return Some(Found::Missing);
        }
        match self.read_role(arn).await {
            Ok(role) => Some(Found::Here(role)),
            Err((_, refusal)) if refusal.is_missing() => Some(Found::Missing),
            Err((permission, refusal)) => {
                self.gap(permission, arn, &refusal);
                None
            }
        }
    }

    async fn read_role(&self, arn: &str) -> Result<Role, (&'static str, Refusal)> {
        let name = role_name(arn);
        let role = self.iam("iam:GetRole", "GetRole", &[("RoleName", name)]).await?;
        let trust = xml_texts(&role, "AssumeRolePolicyDocument").pop();
        let mut policies = Vec::new();
        let inline = self
            .iam_all(
                "iam:ListRolePolicies",
                "ListRolePolicies",
                ("RoleName", name),
                "member",
            )
            .await?;
        for policy in inline {
            let fields = [("RoleName", name), ("PolicyName", policy.as_str())];
            let found = self.iam("iam:GetRolePolicy", "GetRolePolicy", &fields).await?;
            policies.extend(xml_texts(&found, "PolicyDocument").pop());
        }
        let attached = self
            .iam_all(
                "iam:ListAttachedRolePolicies",
                "ListAttachedRolePolicies",
                ("RoleName", name),
                "PolicyArn",
            )
            .await?;
        for policy in attached {
            policies.extend(self.managed(&policy).await?);
        }
        let boundary = match xml_texts(&role, "PermissionsBoundaryArn").pop() {
            Some(arn) => self.managed(&arn).await?,
            None => None,
        };
        let parse = |text: &String| Policy::parse(&decode(text));
        Ok(Role {
            arn: arn.to_owned(),
            trust: trust.as_ref().map(parse).unwrap_or_default(),
            policies: policies.iter().map(parse).collect(),
            boundary: boundary.as_ref().map(parse),
        })
    }

    async fn managed(&self, arn: &str) -> Result<Option<String>, (&'static str, Refusal)> {
        let policy = self
            .iam("iam:GetPolicy", "GetPolicy", &[("PolicyArn", arn)])
            .await?;
        let version = xml_texts(&policy, "DefaultVersionId").pop().unwrap_or_default();
        let fields = [("PolicyArn", arn), ("VersionId", version.as_str())];
        let version = self
            .iam("iam:GetPolicyVersion", "GetPolicyVersion", &fields)
            .await?;
        Ok(xml_texts(&version, "Document").pop())
    }

    async fn iam(
        &self,
        permission: &'static str,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, (&'static str, Refusal)> {
        let fields = [&[("Action", action), ("Version", "2010-05-08")], fields].concat();
        let answer = self.aws.query("iam", &fields).await;
        answer.map_err(|refusal| (permission, refusal))
    }

    /// All pages of a list: the texts of the elements `name`.
    async fn iam_all(
        &self,
        permission: &'static str,
        action: &str,
        field: (&str, &str),
        name: &str,
    ) -> Result<Vec<String>, (&'static str, Refusal)> {
        let mut all = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let mut fields = vec![field];
            fields.extend(marker.as_deref().map(|marker| ("Marker", marker)));
            let page = self.iam(permission, action, &fields).await?;
            all.extend(xml_texts(&page, name));
            marker = xml_texts(&page, "Marker")
                .pop()
                .filter(|marker| !marker.is_empty());
            if marker.is_none() {
                return Ok(all);
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A number, or a text with one: templates make texts of numbers.
fn number(value: &Value) -> Option<u32> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u32::try_from(number).ok()
}
