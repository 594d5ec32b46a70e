//! What IAM policies allow, as far as it can be told from their text.
//!
//! Reading the policies takes `iam:Get…` and `iam:List…`, which auditors have, and gives the same answer on an emulator.
//! A condition on something that is not known here makes the answer [`Answer::Unsure`], never a wrong yes.

use serde_json::Value;

/// Whether a request is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A statement allows it and none denies it.
    Yes,
    /// None allows it, or one denies it.
    No,
    /// It depends on a condition that cannot be judged.
    Unsure,
}

/// A policy document.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    statements: Vec<Value>,
}

impl Policy {
    /// Reads a document. One that is no policy allows nothing.
    pub(crate) fn parse(text: &str) -> Policy {
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        Policy {
            statements: list(&document["Statement"]).cloned().collect(),
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// `sqs:SendMessage`
    pub action: &'a str,
    /// The ARN; empty in a trust policy, which has none.
    pub resource: &'a str,
    /// The service that asks, in a trust policy.
    pub service: Option<&'a str>,
    /// Condition keys with their values.
    pub context: &'a [(&'a str, &'a str)],
}

impl<'a> Request<'a> {
    /// A request without context.
    pub(crate) fn new(action: &'a str, resource: &'a str) -> Request<'a> {
        Request {
            action,
            resource,
            service: None,
            context: &[],
        }
    }
}

/// Whether `policies` together allow `request`.
pub(crate) fn allows(policies: &[Policy], request: &Request<'_>) -> Answer {
    let mut allowed = Answer::No;
    let mut perhaps_denied = false;
    for statement in policies.iter().flat_map(|policy| &policy.statements) {
        let applies = applies(statement, request);
        match (statement["Effect"].as_str(), applies) {
            (_, Answer::No) => {}
            (Some("Deny"), Answer::Yes) => return Answer::No,
            (Some("Deny"), _) => perhaps_denied = true,
            (_, Answer::Yes) => allowed = Answer::Yes,
            (_, Answer::Unsure) if allowed == Answer::No => allowed = Answer::Unsure,
            _ => {}
        }
    }
    match allowed {
        Answer::Yes if perhaps_denied => Answer::Unsure,
        answer => answer,
    }
}

fn applies(statement: &Value, request: &Request<'_>) -> Answer {
    let any = |patterns: &Value, text: &str, fold: bool| {
        list(patterns).filter_map(Value::as_str).any(|pattern| {
            if fold {
                matches(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase())
            } else {
                matches(pattern, text)
            }
        })
    };
    let named = |yes: &str, no: &str, text: &str, fold: bool| match statement.get(no) {
        Some(patterns) => !any(patterns, text, fold),
        None => any(&statement[yes], text, fold),
    };
    if !named("Action", "NotAction", request.action, true) {
        return Answer::No;
    }
    match request.service {
        Some(service) => {
            let principal = &statement["Principal"];
            if principal != "*" && !any(&principal["Service"], service, true) {
                return Answer::No;
            }
        }
        None if !named("Resource", "NotResource", request.resource, false) => return Answer::No,
        None => {}
    }
    conditions(&statement["Condition"], request.context)
}

/// All conditions must hold.
fn conditions(condition: &Value, context: &[(&str, &str)]) -> Answer {
    let mut answer = Answer::Yes;
    for (operator, keys) in condition.as_object().into_iter().flatten() {
        for (key, wanted) in keys.as_object().into_iter().flatten() {
            let known = context.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
            match known.map(|(_, value)| holds(operator, wanted, value)) {
                Some(Answer::Yes) => {}
                Some(Answer::No) => return Answer::No,
                Some(Answer::Unsure) | None => answer = Answer::Unsure,
            }
        }
    }
    answer
}

fn holds(operator: &str, wanted: &Value, value: &str) -> Answer {
    let operator = operator.strip_suffix("IfExists").unwrap_or(operator);
    let same: fn(&str, &str) -> bool = match operator {
        "StringEquals" | "StringNotEquals" => |wanted, value| wanted == value,
        "StringEqualsIgnoreCase" | "Bool" => |wanted, value| wanted.eq_ignore_ascii_case(value),
        "StringLike" | "StringNotLike" | "ArnLike" | "ArnEquals" | "ArnNotLike" | "ArnNotEquals" => matches,
        _ => return Answer::Unsure,
    };
    let found = list(wanted).any(|wanted| match wanted {
        Value::String(wanted) => same(wanted, value),
        other => same(&other.to_string(), value),
    });
    if found != operator.contains("Not") {
        Answer::Yes
    } else {
        Answer::No
    }
}

/// One or several, as policies have it.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Array(values) => values.as_slice(),
        Value::Null => &[],
        one => std::slice::from_ref(one),
    }
    .iter()
}

/// `*` stands for any text, `?` for one character.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns_match_as_in_iam() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("*", "a", true),
            ("sqs:*", "sqs:SendMessage", true),
            ("sqs:S?nd*", "sqs:SendMessage", true),
            ("sqs:Send", "sqs:SendMessage", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("a?", "a", false),
            ("", "", true),
            ("", "a", false),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn answers_follow_the_statements() {
        let pass = |condition: Value| json!({ "Effect": "Allow", "Action": "iam:PassRole", "Resource": "r", "Condition": condition });
        let to = |service: &str| json!({ "StringEquals": { "iam:PassedToService": service } });
        let deny = json!({ "Effect": "Deny", "Action": "*", "Resource": "*" });
        let deny_if = |condition: Value| json!({ "Effect": "Deny", "Action": "*", "Resource": "*", "Condition": condition });
        let allow =
            json!({ "Effect": "Allow", "Action": ["s3:Get*", "IAM:passrole"], "Resource": ["x", "*"] });
        let untls = json!({ "Bool": { "aws:SecureTransport": false } });
        for (statements, want) in [
            (json!([]), Answer::No),
            (json!([allow]), Answer::Yes),
            (allow.clone(), Answer::Yes),
            (json!([allow, deny]), Answer::No),
            (json!([deny, allow]), Answer::No),
            (json!([pass(to("scheduler.amazonaws.com"))]), Answer::Yes),
            (json!([pass(to("lambda.amazonaws.com"))]), Answer::No),
            (
                json!([pass(
                    json!({ "StringLike": { "IAM:passedtoservice": ["a", "sched*"] } })
                )]),
                Answer::Yes,
            ),
            (
                json!([pass(
                    json!({ "StringNotEquals": { "iam:PassedToService": "scheduler.amazonaws.com" } })
                )]),
                Answer::No,
            ),
            (
                json!([pass(json!({ "StringEquals": { "aws:PrincipalTag/x": "y" } }))]),
                Answer::Unsure,
            ),
            (
                json!([pass(json!({ "DateLessThan": { "iam:PassedToService": "y" } }))]),
                Answer::Unsure,
            ),
            (
                json!([
                    allow,
                    pass(json!({ "StringEquals": { "aws:PrincipalTag/x": "y" } }))
                ]),
                Answer::Yes,
            ),
            (json!([allow, deny_if(untls.clone())]), Answer::Yes),
            (
                json!([
                    allow,
                    deny_if(json!({ "StringEquals": { "aws:SourceVpc": "v" } }))
                ]),
                Answer::Unsure,
            ),
            (
                json!([{ "Effect": "Allow", "NotAction": "s3:*", "Resource": "r" }]),
                Answer::Yes,
            ),
            (
                json!([{ "Effect": "Allow", "NotAction": "iam:*", "Resource": "r" }]),
                Answer::No,
            ),
            (
                json!([{ "Effect": "Allow", "Action": "*", "NotResource": "r" }]),
                Answer::No,
            ),
            (
                json!([{ "Effect": "Allow", "Action": "iam:PassRole", "Resource": "R" }]),
                Answer::No,
            ),
        ] {
            let policy = Policy::parse(&json!({ "Statement": statements }).to_string());
            let request = Request {
                context: &[
                    ("iam:PassedToService", "scheduler.amazonaws.com"),
                    ("aws:SecureTransport", "true"),
                ],
                ..Request::new("iam:PassRole", "r")
            };
            assert_eq!(allows(&[policy], &request), want, "{statements}");
        }
        assert_eq!(
            allows(&[Policy::parse("no JSON")], &Request::new("a:b", "r")),
            Answer::No
        );
    }

    #[test]
    fn a_trust_policy_names_who_may() {
        let trust = |principal: Value, condition: Value| {
            let statement = json!({ "Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole", "Condition": condition });
            Policy::parse(&json!({ "Statement": statement }).to_string())
        };
        let group = |account: &str| json!({ "StringEquals": { "aws:SourceAccount": account }, "ArnLike": { "aws:SourceArn": "arn:g*" } });
        for (policy, want) in [
            (
                trust(json!({ "Service": "scheduler.amazonaws.com" }), Value::Null),
                Answer::Yes,
            ),
            (
                trust(json!({ "Service": ["a", "scheduler.amazonaws.com"] }), group("1")),
                Answer::Yes,
            ),
            (
                trust(json!({ "Service": "scheduler.amazonaws.com" }), group("2")),
                Answer::No,
            ),
            (
                trust(json!({ "Service": "lambda.amazonaws.com" }), Value::Null),
                Answer::No,
            ),
            (trust(json!({ "AWS": "*" }), Value::Null), Answer::No),
            (trust(json!("*"), Value::Null), Answer::Yes),
        ] {
            let request = Request {
                service: Some("scheduler.amazonaws.com"),
                context: &[("aws:SourceAccount", "1"), ("aws:SourceArn", "arn:group")],
                ..Request::new("sts:AssumeRole", "")
            };
            assert_eq!(
                allows(std::slice::from_ref(&policy), &request),
                want,
                "{policy:?}"
            );
        }
    }
}
