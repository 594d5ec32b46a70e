//! The scheduler's role and group, and the schedules in it.

use anyhow::{Context, Result};
use aws_sdk_scheduler::operation::get_schedule::GetScheduleOutput;
use serde_json::{Value, json};

use super::{ACCOUNT, Emulator};

impl Emulator {
    /// Creates a role that the scheduler may assume and that may send to every queue. Returns its ARN. The name is made
    /// unique.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_scheduler_role(&self, name: &str) -> Result<String> {
        let send = json!({ "Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*" });
        self.create_role(name, "scheduler.amazonaws.com", &send).await
    }

    /// Creates a role that `service` may assume, with one policy statement. Returns its ARN. The name is made unique.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_role(&self, name: &str, service: &str, statement: &Value) -> Result<String> {
        let name = self.unique(name);
        let trust =
            json!({ "Effect": "Allow", "Principal": { "Service": service }, "Action": "sts:AssumeRole" });
        let trust = json!({ "Version": "2012-10-17", "Statement": [trust] }).to_string();
        let policy = json!({ "Version": "2012-10-17", "Statement": [statement] }).to_string();
        let create = [
            ("Action", "CreateRole"),
            ("RoleName", &name),
            ("AssumeRolePolicyDocument", &trust),
        ];
        let attach = [
            ("Action", "PutRolePolicy"),
            ("RoleName", &name),
            ("PolicyName", "all"),
            ("PolicyDocument", &policy),
        ];
        for fields in [create.as_slice(), attach.as_slice()] {
            self.iam(fields, "create a role").await?;
        }
        Ok(format!("arn:aws:iam::{ACCOUNT}:role/{name}"))
    }

    /// A call of IAM's API, for what has no helper of its own. `what` completes "failed to …". Returns XML.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn iam(&self, fields: &[(&str, &str)], what: &str) -> Result<String> {
        let fields = [fields, &[("Version", "2010-05-08")]].concat();
        Ok(self.api().query("iam", &fields).await?.success(what)?.body)
    }

    /// Creates a schedule group. Returns its name, which is made unique.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn create_schedule_group(&self, name: &str) -> Result<String> {
        let name = self.unique(name);
        let create = self.scheduler().create_schedule_group().name(&name);
        create
            .send()
            .await
            .with_context(|| format!("failed to create the schedule group {name}"))?;
        Ok(name)
    }

    /// The names of a group's schedules.
    ///
    /// # Errors
    ///
    /// When the emulator refuses.
    pub async fn schedule_names(&self, group: &str) -> Result<Vec<String>> {
        let list = self.scheduler().list_schedules().group_name(group);
        let listed = list
            .send()
            .await
            .with_context(|| format!("failed to list the schedules of {group}"))?;
        Ok(listed
            .schedules
            .into_iter()
            .filter_map(|schedule| schedule.name)
            .collect())
    }

    /// One schedule, or none when there is no such.
    ///
    /// # Errors
    ///
    /// When the emulator refuses otherwise.
    pub async fn schedule(&self, group: &str, name: &str) -> Result<Option<GetScheduleOutput>> {
        match self
            .scheduler()
            .get_schedule()
            .group_name(group)
            .name(name)
            .send()
            .await
        {
            Ok(schedule) => Ok(Some(schedule)),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_resource_not_found_exception()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("failed to read the schedule {name}")),
        }
    }
}
