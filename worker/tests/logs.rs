//! The log: one line per outcome, in Frigg's words, each line one JSON object.

#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use frigg_worker::core::rate_limit::Reason;
use frigg_worker::ports::{CallError, CallErrorKind};
use frigg_worker::testing::{
    Call, FakeRunState, FakeScheduler, FakeSqs, Logs, PLANTED_SECRET, clock_from, event, message,
};
use frigg_worker::{Config, HandlerError, Job, Options, RateLimited, Scheduling, Worker, handler_fn, log};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

fn start() -> Timestamp {
    "2026-09-28T12:00:00Z".parse().unwrap()
}

/// Refuses, fails or works as the body says, and writes a line of its own.
async fn act(job: Job<Value>) -> Result<(), HandlerError> {
    let message = job.message;
    tracing::warn!(level = 7, "the handler's own line");
    let limit = match &message["wait"] {
        Value::Null => None,
        Value::Number(wait) => Some(RateLimited::until(
            start() + Duration::from_secs(wait.as_u64().unwrap()),
        )),
        _ => Some(RateLimited::without_time()),
    };
    if let Some(limit) = limit {
        return Err(limit
            .with_reason(Reason::Daily)
            .with_module("hubspot")
            .with_status(429)
            .into());
    }
    match (message["error"].as_str(), message["halt"].as_str()) {
        (Some(text), _) => Err(text.into()),
        (_, Some(text)) => Err(HandlerError::permanent(text)),
        _ => Ok(()),
    }
}

/// Which calls fail.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Url,
    Send,
    Schedule,
    Conflict,
    Visibility,
    ScheduleAndVisibility,
    State,
}

struct Row {
    name: &'static str,
    body: &'static str,
    arn: Option<&'static str>,
    fault: Fault,
    schedules: bool,
}

const JOBS: &str = "arn:aws:sqs:eu-west-1:111111111111:jobs";
/// Put back as often as the cap allows.
const CAPPED: &str =
    r#"{"wait":60,"_frigg":{"deferrals":30,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"d"}}"#;

impl Row {
    fn new(name: &'static str, body: &'static str) -> Row {
        Row {
            name,
            body,
            arn: Some(JOBS),
            fault: Fault::None,
            schedules: false,
        }
    }
    fn fault(self, fault: Fault) -> Row {
        Row { fault, ..self }
    }
    fn schedules(self) -> Row {
        Row {
            schedules: true,
            ..self
        }
    }
    fn arn(self, arn: Option<&'static str>) -> Row {
        Row { arn, ..self }
    }

    /// Runs the row's message, on this receive of three.
    async fn run(&self, frigg: bool, receive: u32) -> (bool, Vec<Value>, Logs) {
        let mut config = Config::default();
        if frigg {
            config.options = Options::frigg();
        }
        config.options.max_receive_count = Some(3);
        config.scheduling = self.schedules.then(|| Scheduling {
            role_arn: "arn:aws:iam::111111111111:role/scheduler".to_owned(),
            group: "schedules".to_owned(),
            dead_letter_arn: None,
        });
        let (sqs, scheduler) = (FakeSqs::default(), FakeScheduler::default());
        let fault = self.fault;
        let fail = move |call: &Call, _| {
            let (hit, kind) = match (fault, call) {
                (Fault::Url, Call::QueueUrl { .. })
                | (Fault::Send, Call::SendBatch(..) | Call::Send(..))
                | (Fault::Schedule | Fault::ScheduleAndVisibility, Call::CreateSchedule(_))
                | (Fault::Visibility | Fault::ScheduleAndVisibility, Call::ChangeVisibilityBatch(..)) => {
                    (true, CallErrorKind::Unavailable)
                }
                (Fault::Conflict, Call::CreateSchedule(_)) => (true, CallErrorKind::Conflict),
                _ => (false, CallErrorKind::Refused),
            };
            hit.then(|| CallError::new(kind, Some("Fault"), "told to\nfail"))
        };
        sqs.calls.fail(fail);
        scheduler.calls.fail(fail);
        let states = if fault == Fault::State {
            FakeRunState::failing("no\nstore")
        } else {
            FakeRunState::default()
        };
        // A secret before everything else, but where there is nothing else.
        let body = match self.body.strip_prefix('{') {
            Some(rest) if rest != "}" => format!("{{\"token\":\"{PLANTED_SECRET}\",{rest}"),
            _ => self.body.to_owned(),
        };
        let mut record: SqsMessage = message("m-1", body);
        record.event_source_arn = self.arn.map(str::to_owned);
        record
            .attributes
            .insert("ApproximateReceiveCount".to_owned(), receive.to_string());
        let (logs, guard) = Logs::capture();
        let worker = Worker::new(handler_fn(act), config)
            .with_sqs(Arc::new(sqs))
            .with_scheduler(Arc::new(scheduler))
            .with_run_state(Arc::new(states))
            .with_clock(clock_from(start()));
        let deadline = Instant::now() + Duration::from_secs(900);
        let response = worker.handle(event(vec![record]), deadline).await.unwrap();
        drop(guard);
        let outcomes = logs.events().into_iter().filter(|line| {
            let name = line["eventName"].as_str().unwrap_or_default();
            name.starts_with("frigg.worker.record_")
        });
        (response.batch_item_failures.is_empty(), outcomes.collect(), logs)
    }
}

/// Level and event, whether the record is acknowledged, and a field.
type Want = (&'static str, &'static str, bool, Option<(&'static str, Value)>);

/// Every row of the table of outcomes: for Frigg's options and for ours, on the first receive and on the last.
#[tokio::test(start_paused = true)]
async fn one_line_per_outcome() {
    let capped = CAPPED;
    let skipped = |why: &str| Some(("deferral", json!({ "skipped": why })));
    let failed_call = |why: &str| {
        Some((
            "deferral",
            json!({ "skipped": why, "cause": "Fault: told to fail" }),
        ))
    };
    let by = |mechanism: &str| Some(("mechanism", json!(mechanism)));
    let same = |want: Want| [want.clone(), want.clone(), want.clone(), want];
    let not_acked = |event: &'static str, field: Option<(&'static str, Value)>| -> [Want; 2] {
        [
            ("WARN", event, false, field.clone()),
            ("ERROR", "record_lost_rate_limited", false, field),
        ]
    };
    let deferred = |mechanism: &str| -> Want { ("WARN", "record_deferred", true, by(mechanism)) };
    let both = |[first, last]: [Want; 2]| [first.clone(), last.clone(), first, last];
    // Frigg first, Frigg last, ours first, ours last.
    let apart = |[f, fl]: [Want; 2], [o, ol]: [Want; 2]| [f, fl, o, ol];
    let extended = || not_acked("record_visibility_extended", by("visibility"));
    let rows: Vec<(Row, [Want; 4])> = vec![
        (
            Row::new("done", "{}"),
            same(("DEBUG", "record_succeeded", true, None)),
        ),
        (
            Row::new("no JSON", "{no"),
            same(("WARN", "record_failed", false, Some(("deferral", Value::Null)))),
        ),
        (
            Row::new("ordinary", r#"{"error":"broken"}"#),
            same(("WARN", "record_failed", false, Some(("deferral", Value::Null)))),
        ),
        (
            Row::new("halt", r#"{"halt":"gone"}"#),
            same(("ERROR", "record_halted", true, None)),
        ),
        (
            Row::new("no time", r#"{"wait":"?"}"#),
            apart(
                not_acked("record_failed", skipped("no_retry_at")),
                // A daily limit without a time is waited for an hour.
                [extended()[0].clone(), deferred("delay")],
            ),
        ),
        (
            Row::new("no ARN", r#"{"wait":60}"#).arn(None),
            both(not_acked("record_failed", skipped("no_event_source"))),
        ),
        (
            Row::new("FIFO", r#"{"wait":60}"#).arn(Some("arn:aws:sqs:eu-west-1:111111111111:jobs.fifo")),
            apart(not_acked("record_failed", skipped("no_event_source")), extended()),
        ),
        (
            Row::new("past a cap", capped),
            both(not_acked(
                "record_deferral_capped",
                Some(("maxDeferrals", json!(30))),
            )),
        ),
        (Row::new("short wait", r#"{"wait":60}"#), same(deferred("delay"))),
        (
            Row::new("send fails", r#"{"wait":60}"#).fault(Fault::Send),
            apart(not_acked("record_failed", failed_call("send_failed")), extended()),
        ),
        (
            Row::new("URL look-up fails", r#"{"wait":60}"#).fault(Fault::Url),
            apart(
                not_acked("record_failed", failed_call("send_failed")),
                not_acked("record_failed", failed_call("visibility_failed")),
            ),
        ),
        (
            Row::new("long wait", r#"{"wait":7200}"#).schedules(),
            same(deferred("schedule")),
        ),
        (
            Row::new("a schedule's name is taken", r#"{"wait":7200}"#)
                .schedules()
                .fault(Fault::Conflict),
            apart(
                [deferred("schedule"), deferred("schedule")],
                // It is not this message's; a hop does not spend the last receive.
                [extended()[0].clone(), deferred("delay")],
            ),
        ),
        (
            Row::new("schedule fails", r#"{"wait":7200}"#)
                .schedules()
                .fault(Fault::Schedule),
            apart(extended(), [extended()[0].clone(), deferred("delay")]),
        ),
        (
            Row::new("no scheduler", r#"{"wait":7200}"#),
            apart(extended(), [extended()[0].clone(), deferred("delay")]),
        ),
        (
            Row::new("visibility fails", r#"{"wait":7200}"#).fault(Fault::Visibility),
            apart(
                not_acked("record_failed", failed_call("visibility_failed")),
                [deferred("delay"), deferred("delay")],
            ),
        ),
        (
            Row::new("schedule and visibility fail", r#"{"wait":7200}"#)
                .schedules()
                .fault(Fault::ScheduleAndVisibility),
            apart(
                not_acked("record_failed", failed_call("visibility_failed")),
                [deferred("delay"), deferred("delay")],
            ),
        ),
        (
            Row::new("the hook fails", r#"{"wait":60}"#).fault(Fault::State),
            same(deferred("delay")),
        ),
    ];
    for (row, wants) in rows {
        for ((frigg, receive), (level, name, acked, field)) in [(true, 1), (true, 3), (false, 1), (false, 3)]
            .into_iter()
            .zip(wants)
        {
            let at = format!("{} (frigg: {frigg}, receive {receive})", row.name);
            let (ack, outcomes, logs) = row.run(frigg, receive).await;
            assert_eq!(outcomes.len(), 1, "{at}: {logs:#?}");
            let line = &outcomes[0];
            assert_eq!(
                (&line["level"], &line["eventName"]),
                (&json!(level), &json!(format!("frigg.worker.{name}"))),
                "{at}: {line}"
            );
            assert_eq!(ack, acked, "{at}");
            if let Some((key, value)) = field {
                assert_eq!(line[key], value, "{at}: {line}");
            }
            let state_failed = logs.of_event("frigg.worker.rate_limit_state_failed");
            assert_eq!(state_failed.len(), usize::from(row.fault == Fault::State), "{at}");
            for (text, line) in logs.lines().iter().zip(logs.events()) {
                assert!(!text.contains(['\n', '\r']), "{at}: {text}");
                let own = line["message"] == "the handler's own line";
                // A queue's own line belongs to no record.
                let of_queue = !line["queue"].is_null();
                if !of_queue {
                    assert_eq!(
                        (&line["messageId"], &line["receiveCount"]),
                        (&json!("m-1"), &json!(receive)),
                        "{at}: {text}"
                    );
                }
                let event = line["eventName"].as_str().unwrap_or_default();
                assert!(own || event.starts_with("frigg.worker."), "{at}: {text}");
                assert!(own || line["logger"] == "frigg.worker", "{at}: {text}");
                assert_eq!(text.matches(r#""level":"#).count(), 1, "{at}: {text}");
            }
            assert_eq!(
                logs.lines().len(),
                logs.events().len(),
                "{at}: every line is JSON"
            );
        }
    }
}

/// The fields that all lines of a limited record share.
#[tokio::test(start_paused = true)]
async fn details_of_a_limited_record() {
    for (body, schedules) in [
        (r#"{"wait":60}"#, false),
        (r#"{"wait":7200}"#, true),
        (r#"{"wait":7200}"#, false),
    ] {
        let row = Row::new("details", body);
        let row = if schedules { row.schedules() } else { row };
        for frigg in [true, false] {
            let (_, outcomes, _) = row.run(frigg, 1).await;
            let line = &outcomes[0];
            let wait = if body.contains("7200") { 7200 } else { 60 };
            let retry_at = if wait == 60 {
                "2026-09-28T12:01:00.000Z"
            } else {
                "2026-09-28T14:00:00.000Z"
            };
            let want = json!({
                "waitMs": wait * 1000, "retryAt": retry_at, "deferrals": 1,
                "firstDeferredAt": "2026-09-28T12:00:00.000Z", "reason": "daily", "module": "hubspot", "statusCode": 429,
            });
            for (key, value) in want.as_object().unwrap() {
                assert_eq!(line[key], *value, "{key} of {line}");
            }
            assert_eq!(line["error"]["type"], "RateLimitError");
            assert!(
                line["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("rate limited (daily)")
            );
        }
    }
    let capped = CAPPED;
    let (_, outcomes, _) = Row::new("capped", capped).run(false, 1).await;
    let line = &outcomes[0];
    assert_eq!(
        (&line["maxDeferrals"], &line["maxDeferredMs"]),
        (&json!(30), &json!(93_600_000))
    );
    assert_eq!(
        (&line["deferredMs"], &line["deferrals"]),
        (&json!(3_660_000), &json!(31))
    );
}

#[tokio::test(start_paused = true)]
async fn texts_are_cut_and_stay_on_their_line() {
    // JSON text of an error, and what its line says.
    let long = format!(r#"{{"error":"{}"}}"#, "ü".repeat(2000));
    let rows = [
        (
            r#"{"error":"one\ntwo\r\nthree\u0000\u001b[31m\u0085\u2028\u2029end"}"#.to_owned(),
            Some("one two  three  [31m   end"),
        ),
        (long, None),
    ];
    for (body, want) in rows {
        let body: &'static str = Box::leak(body.into_boxed_str());
        let (_, outcomes, logs) = Row::new("text", body).run(false, 1).await;
        let text = outcomes[0]["error"]["message"].as_str().unwrap();
        match want {
            Some(want) => assert_eq!(text, want),
            None => assert_eq!((text.len(), text.chars().all(|c| c == 'ü')), (1024, true)),
        }
        assert!(
            logs.lines()
                .iter()
                .all(|line| !line.contains(['\n', '\r', '\u{0}', '\u{1b}', '\u{2028}']))
        );
    }
}

// ---- levels, in a process of its own: variables and the log are the process's

#[tokio::test(start_paused = true)]
#[ignore = "run by the test below, in a process of its own"]
#[allow(clippy::print_stdout)]
async fn child() {
    // The test harness leaves a line open.
    println!();
    log::init(|name| std::env::var(name).ok());
    // Logs of one's own come first: a second start changes nothing.
    log::init(|_| Some("trace".to_owned()));
    let worker = Worker::new(handler_fn(act), Config::default())
        .with_sqs(Arc::new(FakeSqs::default()))
        .with_clock(clock_from(start()));
    let batch = ["{}", r#"{"error":"e"}"#, r#"{"halt":"h"}"#].map(|body| message("m-1", body));
    let deadline = Instant::now() + Duration::from_secs(900);
    worker.handle(event(batch.to_vec()), deadline).await.unwrap();
}

/// Variables, outcomes that are written, whether the handler's WARN is, and how many settings are bad.
type LevelRow<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], bool, usize);

#[test]
fn levels_come_from_the_environment() {
    let all = ["record_failed", "record_halted", "record_succeeded"];
    let warn = &all[..2];
    let rows: [LevelRow<'_>; 10] = [
        (&[], warn, true, 0),
        (&[("RUST_LOG", "debug")], &all, true, 0),
        (&[("RUST_LOG", "warn")], warn, true, 0),
        (&[("AWS_LAMBDA_LOG_LEVEL", "WARN")], warn, true, 0),
        (&[("AWS_LAMBDA_LOG_LEVEL", "DEBUG")], &all, true, 0),
        (&[("AWS_LAMBDA_LOG_LEVEL", "FATAL")], &all[1..2], false, 0),
        (
            &[("RUST_LOG", "debug"), ("AWS_LAMBDA_LOG_LEVEL", "ERROR")],
            &all,
            true,
            0,
        ),
        (&[("RUST_LOG", "off,logs=warn")], &[], true, 0),
        (&[("AWS_LAMBDA_LOG_LEVEL", "LOUD")], warn, true, 1),
        (
            &[("RUST_LOG", "a=b=c"), ("AWS_LAMBDA_LOG_LEVEL", " ")],
            warn,
            true,
            1,
        ),
    ];
    for (variables, outcomes, own, bad) in rows {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env_clear();
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{variables:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| line.starts_with('{'));
        let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |name: &str| {
            let name = format!("frigg.worker.{name}");
            lines.iter().filter(|line| line["eventName"] == *name).count()
        };
        for name in all {
            assert_eq!(
                of(name),
                usize::from(outcomes.contains(&name)),
                "{name} with {variables:?}: {text}"
            );
        }
        assert_eq!(of("bad_setting"), bad, "{variables:?}: {text}");
        let own_lines: Vec<_> = lines
            .iter()
            .filter(|line| line["message"] == "the handler's own line")
            .collect();
        assert_eq!(own_lines.len(), if own { 3 } else { 0 }, "{variables:?}: {text}");
        for line in lines
            .iter()
            .filter(|line| line["eventName"] != "frigg.worker.bad_setting")
        {
            assert_eq!(
                (&line["messageId"], &line["receiveCount"]),
                (&json!("m-1"), &json!(1)),
                "{variables:?}: {line}"
            );
        }
    }
}
