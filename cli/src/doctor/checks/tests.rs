//! A healthy worker gives no finding, and each thing that is wrong with it gives just one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check;
use crate::doctor::facts::{Facts, Found, Function, Mapping, Queue, Redrive, Role, Table};
use crate::doctor::finding::{Finding, Level};
use crate::doctor::policy::Policy;

const QUEUE: &str = "arn:aws:sqs:eu-west-1:1:jobs";
const DEAD: &str = "arn:aws:sqs:eu-west-1:1:jobs-dead-letters";
const SCHEDULE_DEAD: &str = "arn:aws:sqs:eu-west-1:1:jobs-schedule-dead-letters";
const SCHEDULER_ROLE: &str = "arn:aws:iam::1:role/scheduler";
const TOPIC: &str = "arn:aws:sns:eu-west-1:1:users";
const BUS: &str = "arn:aws:events:eu-west-1:1:event-bus/users";
const KEY: &str = "arn:aws:kms:eu-west-1:1:key/k";

fn policy(statements: &Value) -> Policy {
    Policy::parse(&json!({ "Statement": statements }).to_string())
}

fn function_policy() -> Value {
    json!([
        { "Effect": "Allow", "Action": ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:SendMessage",
          "sqs:ChangeMessageVisibility", "sqs:GetQueueUrl"], "Resource": QUEUE },
        { "Effect": "Allow", "Action": ["sqs:SendMessage", "sqs:GetQueueUrl"], "Resource": DEAD },
        { "Effect": "Allow", "Action": ["scheduler:CreateSchedule", "scheduler:GetSchedule"],
          "Resource": "arn:aws:scheduler:eu-west-1:1:schedule/jobs-schedules/*" },
        { "Effect": "Allow", "Action": "iam:PassRole", "Resource": SCHEDULER_ROLE,
          "Condition": { "StringEquals": { "iam:PassedToService": "scheduler.amazonaws.com" } } },
        { "Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:UpdateItem"],
          "Resource": [table_arn("jobs-gate"), table_arn("jobs-state")] },
        { "Effect": "Allow", "Action": "sns:Publish", "Resource": TOPIC },
        { "Effect": "Allow", "Action": "events:PutEvents", "Resource": BUS },
    ])
}

fn table_arn(name: &str) -> String {
    format!("arn:aws:dynamodb:eu-west-1:1:table/{name}")
}

fn tables() -> BTreeMap<String, Found<Table>> {
    let table = |name: &str| Table {
        arn: table_arn(name),
        key: vec![("pk".to_owned(), "HASH".to_owned(), "S".to_owned())],
        ttl: Some("ttl".to_owned()),
    };
    ["jobs-gate", "jobs-state"]
        .map(|name| (name.to_owned(), Found::Here(table(name))))
        .into()
}

fn gate_table(facts: &mut Facts) -> &mut Table {
    let Some(Found::Here(table)) = facts.tables.get_mut("jobs-gate") else {
        panic!("a healthy worker has it")
    };
    table
}

fn scheduler_policy() -> Value {
    json!([{ "Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [QUEUE, SCHEDULE_DEAD] }])
}

fn queue(arn: &str) -> Queue {
    Queue {
        url: format!(
            "https://sqs.eu-west-1.amazonaws.com/1/{}",
            arn.rsplit(':').next().unwrap()
        ),
        arn: arn.to_owned(),
        visibility: 1800,
        retention: 1_209_600,
        redrive: None,
        key: None,
    }
}

fn healthy() -> Facts {
    let trust = json!({ "Effect": "Allow", "Principal": { "Service": "scheduler.amazonaws.com" }, "Action": "sts:AssumeRole",
        "Condition": { "StringEquals": { "aws:SourceAccount": "1",
            "aws:SourceArn": "arn:aws:scheduler:eu-west-1:1:schedule-group/jobs-schedules" } } });
    let variables = [
        ("SCHEDULER_ROLE_ARN", SCHEDULER_ROLE),
        ("SCHEDULE_GROUP_NAME", "jobs-schedules"),
        ("FRIGG_SCHEDULE_DLQ_ARN", SCHEDULE_DEAD),
        ("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "3"),
        ("FRIGG_GATE_TABLE", "jobs-gate"),
        ("FRIGG_STATE_TABLE", "jobs-state"),
        ("FRIGG_WARNINGS_TOPIC", TOPIC),
        ("FRIGG_WARNINGS_BUS", "users"),
    ];
    Facts {
        region: "eu-west-1".to_owned(),
        function: Some(Function {
            name: "jobs".to_owned(),
            timeout: 300,
            role_arn: "arn:aws:iam::1:role/function".to_owned(),
            variables: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }),
        mappings: Some(vec![Mapping {
            uuid: "u-1".to_owned(),
            queue_arn: QUEUE.to_owned(),
            state: "Enabled".to_owned(),
            response_types: vec!["ReportBatchItemFailures".to_owned()],
            window: 0,
            maximum_concurrency: Some(20),
        }]),
        recursive_loop: Some("Allow".to_owned()),
        reserved: Some(None),
        queue: Some(Queue {
            redrive: Some(Redrive {
                target: DEAD.to_owned(),
                receives: 3,
            }),
            ..queue(QUEUE)
        }),
        dead_letters: Some(Found::Here(queue(DEAD))),
        schedule_dead_letters: Some(Found::Here(queue(SCHEDULE_DEAD))),
        group_exists: Some(true),
        function_role: Some(Found::Here(Role {
            arn: "arn:aws:iam::1:role/function".to_owned(),
            policies: vec![policy(&function_policy())],
            ..Role::default()
        })),
        scheduler_role: Some(Found::Here(Role {
            arn: SCHEDULER_ROLE.to_owned(),
            trust: policy(&trust),
            policies: vec![policy(&scheduler_policy())],
            boundary: None,
        })),
        tables: tables(),
        announcements: [(TOPIC, TOPIC), ("users", BUS)]
            .map(|(name, arn)| (name.to_owned(), Found::Here(arn.to_owned())))
            .into(),
        gaps: Vec::new(),
    }
}

/// The same worker on a FIFO queue, and so without schedules.
fn healthy_fifo() -> Facts {
    let mut facts = healthy();
    let fifo = |arn: &str| format!("{arn}.fifo");
    let function = function(&mut facts);
    function.variables.retain(|name, _| !name.contains("SCHEDULE"));
    set(function, "FRIGG_QUEUE_MAX_RECEIVE_COUNT", "33");
    queue_of(&mut facts).arn = fifo(QUEUE);
    queue_of(&mut facts).redrive = Some(Redrive {
        target: fifo(DEAD),
        receives: 33,
    });
    mapping(&mut facts).queue_arn = fifo(QUEUE);
    facts.dead_letters = Some(Found::Here(queue(&fifo(DEAD))));
    (
        facts.schedule_dead_letters,
        facts.group_exists,
        facts.scheduler_role,
    ) = (None, None, None);
    let policies = function_policy().to_string();
    let policies = policies
        .replace(DEAD, "DEAD")
        .replace(QUEUE, &fifo(QUEUE))
        .replace("DEAD", &fifo(DEAD));
    role(&mut facts.function_role).policies = vec![policy(&policies.parse().unwrap())];
    facts
}

fn function(facts: &mut Facts) -> &mut Function {
    facts.function.as_mut().unwrap()
}

fn set(function: &mut Function, name: &str, value: &str) {
    function.variables.insert(name.to_owned(), value.to_owned());
}

fn variable(facts: &mut Facts, name: &str, value: &str) {
    set(function(facts), name, value);
}

fn mapping(facts: &mut Facts) -> &mut Mapping {
    facts.mappings.as_mut().unwrap().first_mut().unwrap()
}

fn queue_of(facts: &mut Facts) -> &mut Queue {
    facts.queue.as_mut().unwrap()
}

fn receives(facts: &mut Facts, receives: u32) {
    queue_of(facts).redrive.as_mut().unwrap().receives = receives;
    variable(facts, "FRIGG_QUEUE_MAX_RECEIVE_COUNT", &receives.to_string());
}

fn here<T>(found: &mut Option<Found<T>>) -> &mut T {
    match found {
        Some(Found::Here(thing)) => thing,
        _ => panic!("not here"),
    }
}

fn role(found: &mut Option<Found<Role>>) -> &mut Role {
    here(found)
}

/// Takes an action out of all statements of a policy.
fn without(statements: Value, action: &str) -> Vec<Policy> {
    let mut statements = statements;
    for statement in statements.as_array_mut().unwrap() {
        let actions = match statement["Action"].take() {
            Value::Array(actions) => actions,
            one => vec![one],
        };
        statement["Action"] = actions.into_iter().filter(|one| one != action).collect();
    }
    vec![policy(&statements)]
}

/// A customer's key on the queue, with the rights for the roles that are named.
fn encrypt(facts: &mut Facts, function: bool, scheduler: bool) {
    queue_of(facts).key = Some(KEY.to_owned());
    let rights = policy(
        &json!([{ "Effect": "Allow", "Action": ["kms:GenerateDataKey", "kms:Decrypt"], "Resource": KEY }]),
    );
    if function {
        role(&mut facts.function_role).policies.push(rights.clone());
    }
    if scheduler {
        role(&mut facts.scheduler_role).policies.push(rights);
    }
}

fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = check(facts);
    findings.retain(|finding| finding.level != Level::Pass);
    findings
}

#[test]
fn a_healthy_worker_gives_no_finding() {
    type Change = fn(&mut Facts);
    let same: [Change; 8] = [
        |_| {},
        |facts| encrypt(facts, true, true),
        |facts| queue_of(facts).key = Some("alias/aws/sqs".to_owned()),
        |facts| facts.reserved = Some(Some(20)),
        |facts| function(facts).variables.clear(),
        // A key by its id is the same key.
        |facts| {
            encrypt(facts, true, true);
            queue_of(facts).key = Some("k".to_owned());
        },
        |facts| {
            role(&mut facts.function_role).boundary = Some(policy(
                &json!([{ "Effect": "Allow", "Action": "*", "Resource": "*" }]),
            ))
        },
        |facts| variable(facts, "FRIGG_QUEUE_MAX_DEFERRALS", " 50 "),
    ];
    for (index, change) in same.iter().enumerate() {
        let mut facts = healthy();
        change(&mut facts);
        assert_eq!(findings(&facts), [], "change {index}");
    }
    assert_eq!(findings(&healthy_fifo()), []);
    // Whatever could not be looked at is not judged.
    let unseen = Facts {
        function: healthy().function,
        queue: healthy().queue,
        ..Facts::default()
    };
    assert_eq!(findings(&unseen), []);
    assert_eq!(check(&Facts::default()), []);
}

#[test]
fn each_fault_gives_just_its_finding() {
    use Level::{Fail, Warn};
    type Case = (&'static str, Level, &'static [&'static str], fn(&mut Facts));
    let cases: &[Case] = &[
        (
            "tables",
            Fail,
            &["jobs-gate of FRIGG_GATE_TABLE does not exist", "create-table"],
            |f| {
                f.tables.insert("jobs-gate".to_owned(), Found::Missing);
            },
        ),
        ("tables", Fail, &["jobs-state of FRIGG_STATE_TABLE"], |f| {
            f.tables.insert("jobs-state".to_owned(), Found::Missing);
        }),
        ("tables", Fail, &["only key of jobs-gate is not pk"], |f| {
            gate_table(f)
                .key
                .push(("sk".to_owned(), "RANGE".to_owned(), "S".to_owned()))
        }),
        ("tables", Fail, &["only key of jobs-gate is not pk"], |f| {
            gate_table(f).key[0].2 = "N".to_owned()
        }),
        (
            "tables",
            Warn,
            &["jobs-gate has no time to live", "update-time-to-live"],
            |f| gate_table(f).ttl = None,
        ),
        ("tables", Warn, &["jobs-gate has no time to live"], |f| {
            gate_table(f).ttl = Some("expires".to_owned())
        }),
        (
            "tables",
            Fail,
            &["dynamodb:UpdateItem on arn:aws:dynamodb:eu-west-1:1:table/jobs-gate"],
            |f| {
                let statements = json!([{ "Effect": "Deny", "Action": "dynamodb:UpdateItem", "Resource": table_arn("jobs-gate") }]);
                role(&mut f.function_role).policies.push(policy(&statements));
            },
        ),
        (
            "warnings",
            Fail,
            &["FRIGG_WARNINGS_TOPIC is set, and FRIGG_STATE_TABLE is not"],
            |f| {
                function(f).variables.remove("FRIGG_STATE_TABLE");
                function(f).variables.remove("FRIGG_WARNINGS_BUS");
            },
        ),
        (
            "warnings",
            Fail,
            &["users of FRIGG_WARNINGS_BUS does not exist"],
            |f| {
                f.announcements.insert("users".to_owned(), Found::Missing);
            },
        ),
        (
            "warnings",
            Fail,
            &["sns:Publish on arn:aws:sns:eu-west-1:1:users"],
            |f| {
                let statements = json!([{ "Effect": "Deny", "Action": "sns:Publish", "Resource": TOPIC }]);
                role(&mut f.function_role).policies.push(policy(&statements));
            },
        ),
        (
            "warnings",
            Fail,
            &["events:PutEvents on arn:aws:events:eu-west-1:1:event-bus/users"],
            |f| {
                let statements = json!([{ "Effect": "Deny", "Action": "events:*", "Resource": "*" }]);
                role(&mut f.function_role).policies.push(policy(&statements));
            },
        ),
        (
            "mapping",
            Fail,
            &["no event source mapping", "create-event-source-mapping"],
            |f| f.mappings = Some(vec![]),
        ),
        ("mapping", Warn, &["u-1 is Disabled", "--enabled"], |f| {
            mapping(f).state = "Disabled".to_owned()
        }),
        (
            "reports-failures",
            Fail,
            &["u-1", "ReportBatchItemFailures", "lost"],
            |f| mapping(f).response_types.clear(),
        ),
        (
            "recursive-loop",
            Fail,
            &["Terminate", "16", "--recursive-loop Allow"],
            |f| f.recursive_loop = Some("Terminate".to_owned()),
        ),
        ("concurrency", Fail, &["20", "10", "MaximumConcurrency=10"], |f| {
            f.reserved = Some(Some(10))
        }),
        ("concurrency", Fail, &["delete-function-concurrency"], |f| {
            f.reserved = Some(Some(1))
        }),
        ("concurrency", Fail, &["is 0"], |f| f.reserved = Some(Some(0))),
        (
            "concurrency",
            Warn,
            &["no maximum concurrency", "MaximumConcurrency=10"],
            |f| {
                f.reserved = Some(Some(10));
                mapping(f).maximum_concurrency = None;
            },
        ),
        (
            "visibility",
            Fail,
            &["299 s", "\"VisibilityTimeout\":\"1800\""],
            |f| queue_of(f).visibility = 299,
        ),
        ("visibility", Warn, &["300 s", "1800"], |f| {
            queue_of(f).visibility = 300
        }),
        ("visibility", Warn, &["1830"], |f| mapping(f).window = 30),
        ("retention", Warn, &["93600", "1209600"], |f| {
            queue_of(f).retention = 93_600
        }),
        ("retention", Fail, &["90000 s"], |f| {
            queue_of(f).retention = 90_000;
            function(f).variables.remove("SCHEDULER_ROLE_ARN");
        }),
        (
            "redrive",
            Fail,
            &["no redrive policy", "jobs-dead-letters"],
            |f| queue_of(f).redrive = None,
        ),
        (
            "redrive",
            Fail,
            &["does not exist", "create-queue --queue-name jobs-dead-letters"],
            |f| f.dead_letters = Some(Found::Missing),
        ),
        ("redrive", Warn, &["after 2 receives", "3"], |f| receives(f, 2)),
        ("redrive", Warn, &["after 1 receive,", "throttling"], |f| {
            receives(f, 1)
        }),
        ("dead-letter-retention", Fail, &["345600", "1209600"], |f| {
            here(&mut f.dead_letters).retention = 345_600
        }),
        (
            "schedule-group",
            Fail,
            &["create-schedule-group --name jobs-schedules"],
            |f| f.group_exists = Some(false),
        ),
        ("scheduler-role", Fail, &["no role that exists"], |f| {
            f.scheduler_role = Some(Found::Missing)
        }),
        (
            "scheduler-role",
            Fail,
            &["may not assume scheduler", "update-assume-role-policy"],
            |f| role(&mut f.scheduler_role).trust = Policy::default(),
        ),
        ("scheduler-role", Fail, &["schedules of others"], |f| {
            variable(f, "SCHEDULE_GROUP_NAME", "others");
            let all = function_policy().to_string().replace("jobs-schedules", "others");
            role(&mut f.function_role).policies = vec![policy(&all.parse().unwrap())];
        }),
        (
            "schedule-rights",
            Fail,
            &["iam:PassRole on", "PassedToService"],
            |f| {
                role(&mut f.function_role).policies = without(function_policy(), "iam:PassRole");
            },
        ),
        (
            "schedule-rights",
            Fail,
            &["scheduler:CreateSchedule on arn:aws:scheduler:eu-west-1:1:schedule/jobs-schedules/*"],
            |f| {
                role(&mut f.function_role).policies = without(function_policy(), "scheduler:CreateSchedule");
            },
        ),
        ("schedule-rights", Warn, &["conditions"], |f| {
            let all = function_policy()
                .to_string()
                .replace("iam:PassedToService", "aws:PrincipalTag/team");
            role(&mut f.function_role).policies = vec![policy(&all.parse().unwrap())];
        }),
        (
            "scheduler-send",
            Fail,
            &["sqs:SendMessage on arn:aws:sqs:eu-west-1:1:jobs"],
            |f| {
                let all = scheduler_policy()
                    .to_string()
                    .replace(&format!("\"{QUEUE}\","), "");
                role(&mut f.scheduler_role).policies = vec![policy(&all.parse().unwrap())];
            },
        ),
        (
            "schedule-dead-letters",
            Fail,
            &["jobs-schedule-dead-letters"],
            |f| {
                let all = scheduler_policy().to_string().replace(SCHEDULE_DEAD, QUEUE);
                role(&mut f.scheduler_role).policies = vec![policy(&all.parse().unwrap())];
            },
        ),
        (
            "schedule-dead-letters",
            Warn,
            &["FRIGG_SCHEDULE_DLQ_ARN is not set"],
            |f| {
                function(f).variables.remove("FRIGG_SCHEDULE_DLQ_ARN");
            },
        ),
        ("schedule-dead-letters", Fail, &["does not exist"], |f| {
            f.schedule_dead_letters = Some(Found::Missing)
        }),
        ("schedule-dead-letters", Fail, &["a FIFO queue"], |f| {
            variable(f, "FRIGG_SCHEDULE_DLQ_ARN", "arn:aws:sqs:eu-west-1:1:x.fifo")
        }),
        (
            "function-rights",
            Fail,
            &["sqs:ChangeMessageVisibility on"],
            |f| {
                role(&mut f.function_role).policies =
                    without(function_policy(), "sqs:ChangeMessageVisibility");
            },
        ),
        ("function-rights", Fail, &["sqs:SendMessage"], |f| {
            let bound = json!([{ "Effect": "Allow", "NotAction": "sqs:SendMessage", "Resource": "*" }]);
            role(&mut f.function_role).boundary = Some(policy(&bound));
        }),
        ("function-rights", Fail, &["does not exist"], |f| {
            f.function_role = Some(Found::Missing)
        }),
        (
            "key",
            Fail,
            &["function may not do kms:GenerateDataKey, kms:Decrypt on"],
            |f| encrypt(f, false, true),
        ),
        (
            "key",
            Fail,
            &["scheduler may not do kms:GenerateDataKey, kms:Decrypt on"],
            |f| encrypt(f, true, false),
        ),
        (
            "key",
            Fail,
            &["function may not do", "scheduler may not do", "&&"],
            |f| encrypt(f, false, false),
        ),
        ("key", Warn, &["alias"], |f| {
            queue_of(f).key = Some("alias/mine".to_owned())
        }),
        ("local-endpoint", Fail, &["IS_OFFLINE", "\"true\""], |f| {
            variable(f, "IS_OFFLINE", "true")
        }),
        ("local-endpoint", Fail, &["AWS_ENDPOINT_URL"], |f| {
            variable(f, "AWS_ENDPOINT_URL", "http://localhost:4566")
        }),
        (
            "variables",
            Warn,
            &["FRIGG_QUEUE_MAX_DEFERRALS", "\"many\"", "30"],
            |f| variable(f, "FRIGG_QUEUE_MAX_DEFERRALS", "many"),
        ),
        ("variables", Warn, &["FRIGG_CONCURRENCY"], |f| {
            variable(f, "FRIGG_CONCURRENCY", "0")
        }),
        (
            "variables",
            Warn,
            &["FRIGG_QUEUE_MAX_RECEIVE_COUNT is 5", "after 3"],
            |f| variable(f, "FRIGG_QUEUE_MAX_RECEIVE_COUNT", "5"),
        ),
        (
            "variables",
            Warn,
            &["FRIGG_QUEUE_RETENTION_SECONDS is 345600", "1209600 s"],
            |f| variable(f, "FRIGG_QUEUE_RETENTION_SECONDS", "345600"),
        ),
        ("variables", Fail, &["SCHEDULER_ROLE_ARN", "\"scheduler\""], |f| {
            variable(f, "SCHEDULER_ROLE_ARN", "scheduler");
            let all = function_policy().to_string().replace(SCHEDULER_ROLE, "scheduler");
            role(&mut f.function_role).policies = vec![policy(&all.parse().unwrap())];
        }),
    ];
    for (check, level, texts, fault) in cases {
        let mut facts = healthy();
        fault(&mut facts);
        assert_just(&findings(&facts), check, *level, texts);
    }
}

#[test]
fn fifo_faults_give_just_their_finding() {
    use Level::{Fail, Warn};
    type Case = (&'static str, Level, &'static [&'static str], fn(&mut Facts));
    let cases: &[Case] = &[
        ("fifo", Warn, &["SCHEDULER_ROLE_ARN"], |f| {
            variable(f, "SCHEDULER_ROLE_ARN", SCHEDULER_ROLE)
        }),
        ("fifo", Fail, &["FRIGG_COMPAT"], |f| {
            variable(f, "FRIGG_COMPAT", "1")
        }),
        (
            "redrive",
            Fail,
            &["after 32 receives", "30 deferrals", "33"],
            |f| receives(f, 32),
        ),
        ("retention", Fail, &["60000 s"], |f| {
            queue_of(f).retention = 60_000
        }),
    ];
    for (check, level, texts, fault) in cases {
        let mut facts = healthy_fifo();
        fault(&mut facts);
        assert_just(&findings(&facts), check, *level, texts);
    }
}

fn assert_just(findings: &[Finding], check: &str, level: Level, texts: &[&str]) {
    let [finding] = findings else {
        panic!("{check}: {findings:#?}");
    };
    assert_eq!((finding.check, finding.level), (check, level), "{finding:#?}");
    let all = format!("{} | {} | {}", finding.what, finding.why, finding.fix);
    for text in texts {
        assert!(all.contains(text), "no {text:?} in {all}");
    }
    assert!(!finding.why.is_empty() && !finding.fix.is_empty(), "{finding:#?}");
}
