//! What a queue can bring, and an environment.

use frigg_worker::testing::message;
use frigg_worker::{Config, HandlerError, Job, Worker, handler_fn};
use serde::Deserialize;

use crate::support::*;

const NONE: [&str; 0] = [];

#[derive(Deserialize)]
struct Sync {
    #[expect(dead_code, reason = "only its decoding is tested")]
    id: u64,
    #[expect(dead_code, reason = "only its decoding is tested")]
    mode: Option<Mode>,
}

#[derive(Deserialize)]
enum Mode {
    Full,
    Delta,
}

fn typed() -> impl frigg_worker::Handler<Message = Sync, Error = HandlerError> {
    handler_fn(|_: Job<Sync>| async { Ok(()) })
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_decode_fails_alone() {
    let rig = Rig::new(&[]);
    let mut batch_of = messages(4);
    batch_of[1].body = Some("not json".to_owned());
    batch_of[2].body = None;
    batch_of[3].body = Some("null".to_owned());
    assert_eq!(batch(&rig.worker(typed()), batch_of).await, ["m2", "m3", "m4"]);
    for line in rig.logs.of_event("frigg.worker.record_failed") {
        assert_eq!(line["error"]["type"], "DecodeError");
    }
}

#[tokio::test(start_paused = true)]
async fn security_05() {
    let secret = "s3cr3t-9f";
    let bodies = [
        r#"{"id":"s3cr3t-9f","mode":"Full"}"#,
        r#"{"id":1,"mode":"s3cr3t-9f"}"#,
        "s3cr3t-9f not json",
        r#"{"id":1,"s3cr3t-9f":true,"mode":"Full"}"#,
    ];
    let records = || {
        let all = bodies.iter().enumerate();
        all.map(|(i, body)| message(&format!("m{i}"), *body))
            .collect::<Vec<_>>()
    };
    let rig = Rig::new(&[]);
    assert_eq!(batch(&rig.worker(typed()), records()).await, ["m0", "m1", "m2"]);
    for line in rig.logs.of_event("frigg.worker.record_failed") {
        assert!(line["messageId"].is_string() && line["receiveCount"] == 1);
        assert!(
            line["error"]["message"]
                .as_str()
                .unwrap()
                .contains("line 1, column"),
            "{line}"
        );
    }
    assert!(!rig.logs.lines().concat().contains(secret));

    let rig = Rig::new(&[]).with_dead_letters(3, "arn:aws:sqs:eu-west-1:111111111111:dead");
    assert_eq!(batch(&rig.worker(typed()), records()).await, NONE);
    assert_eq!(rig.sent().len(), 3);
    for copy in rig.sent() {
        assert!(!format!("{:?}", copy.attributes).contains(secret));
    }
    assert!(!rig.logs.lines().concat().contains(secret));
}

#[tokio::test(start_paused = true)]
async fn a_forged_envelope_is_ignored_with_one_warning() {
    let forged = [
        "null",
        "7",
        r#""text""#,
        "[]",
        r#"{"deferrals":-1}"#,
        r#"{"deferrals":"many"}"#,
        r#"{"deferrals":1.5}"#,
        r#"{"firstDeferredAt":"yesterday"}"#,
        r#"{"firstDeferredAt":"2027-09-28T12:00:00.000Z"}"#,
        r#"{"deferralId":""}"#,
        r#"{"deferralId":{}}"#,
        r#"{"retryAt":"soon"}"#,
        r#"{"deferrals":1,"firstDeferredAt":"2026-09-28T12:00:00.000Z","retryAt":"2027-11-02T12:00:00.000Z"}"#,
        r#"{"deferrals":1,"firstDeferredAt":"2026-01-01T12:00:00.000Z"}"#,
    ];
    for envelope in forged {
        let rig = Rig::new(&[]);
        let record = message("m1", format!(r#"{{"a":1,"_frigg":{envelope}}}"#));
        let record = with_attribute(record, "SentTimestamp", "1790596800000");
        assert_eq!(rig.run(vec![record], |_| Ok(())).await, NONE, "{envelope}");
        assert_eq!(rig.lines(), ["envelope_ignored"], "{envelope}");
        let seen = rig.seen();
        assert_eq!(
            (seen[0].body.as_str(), seen[0].delivery.deferrals),
            (r#"{"a":1}"#, 0),
            "{envelope}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_honest_envelope_with_odd_values_counts() {
    for (envelope, deferrals) in [
        (
            r#"{"deferrals":4000000000,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"x"}"#,
            4_000_000_000,
        ),
        (
            r#"{"deferrals":2,"firstDeferredAt":"2026-09-28T11:00:00.000Z","retryAt":"2026-09-28T11:59:59.000Z"}"#,
            2,
        ),
        ("{}", 0),
    ] {
        let rig = Rig::new(&[]);
        let record = message("m1", format!(r#"{{"_frigg":{envelope}}}"#));
        assert_eq!(rig.run(vec![record], |_| Ok(())).await, NONE);
        assert_eq!(
            (rig.seen()[0].delivery.deferrals, rig.lines()),
            (deferrals, vec![]),
            "{envelope}"
        );
    }
    let rig = Rig::new(&[]);
    let record = message(
        "m1",
        r#"{"_frigg":{"deferrals":4294967295,"firstDeferredAt":"2026-09-28T11:00:00.000Z"}}"#,
    );
    assert_eq!(rig.run(vec![record], |_| limited(30)).await, ["m1"]);
    assert_eq!(rig.lines(), ["record_deferral_capped"]);
}

#[tokio::test(start_paused = true)]
async fn arns_and_receive_counts_of_all_kinds() {
    let url = |region: &str| format!("https://sqs.{region}.amazonaws.com/111111111111/jobs");
    for (arn, sent_to) in [
        (None, None),
        (Some(""), None),
        (Some("jobs"), None),
        (Some("arn:aws:sns:eu-west-1:111111111111:jobs"), None),
        (
            Some("arn:aws-cn:sqs:cn-north-1:111111111111:jobs"),
            Some(url("cn-north-1")),
        ),
        (
            Some("arn:aws-us-gov:sqs:us-gov-west-1:111111111111:jobs"),
            Some(url("us-gov-west-1")),
        ),
    ] {
        let rig = Rig::new(&[]);
        let mut record = message("m1", "{}");
        record.event_source_arn = arn.map(str::to_owned);
        let failures = rig.run(vec![record], |_| limited(30)).await;
        assert_eq!(failures.is_empty(), sent_to.is_some(), "{arn:?}");
        assert_eq!(rig.sqs.calls.sent().pop().map(|(url, _)| url), sent_to, "{arn:?}");
        if sent_to.is_none() {
            assert_eq!(
                rig.line("record_failed")["deferral"]["skipped"],
                "no_event_source"
            );
        }
    }
    for (text, want) in [
        ("0", None),
        ("-1", None),
        ("many", None),
        ("99999999999999", Some(u32::MAX)),
        ("2", Some(2)),
    ] {
        let rig = Rig::new(&[("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "3")]);
        let record = with_attribute(message("m1", "{}"), "ApproximateReceiveCount", text);
        assert_eq!(rig.run(vec![record], |_| Ok(())).await, NONE);
        assert_eq!(rig.seen()[0].delivery.receive_count, want, "{text}");
    }
}

#[test]
fn variables_that_are_no_numbers_leave_their_defaults() {
    for (name, default) in [
        ("FRIGG_CONCURRENCY", "10"),
        ("FRIGG_BATCH_SECONDS", "300"),
        ("FRIGG_DRAIN_SECONDS", "30"),
        ("FRIGG_QUEUE_MAX_DEFERRALS", "30"),
        ("FRIGG_QUEUE_MAX_DEFERRED_MS", "93600000"),
        ("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "unknown"),
        ("FRIGG_MAX_DELAY_SECONDS", "900"),
    ] {
        for value in ["0", "-1", "1.5", "ten"] {
            let (config, bad) = Config::from_variables(|asked| (asked == name).then(|| value.to_owned()));
            assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
            let told: Vec<_> = bad
                .iter()
                .map(|bad| (bad.name, bad.value.as_str(), bad.default.as_str()))
                .collect();
            assert_eq!(told, [(name, value, default)]);
        }
        let (_, bad) = Config::from_variables(|asked| (asked == name).then(|| "  ".to_owned()));
        assert_eq!(bad, [], "blank is unset");
    }
}

#[tokio::test]
async fn without_a_queue_url_there_is_nothing_to_poll() {
    let worker = Worker::new(typed(), Config::default());
    let error = worker.poll_until(std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("queue URL"), "{error}");
    // The start names the variable. (No test sets it, nor Lambda's.)
    if std::env::var_os("FRIGG_QUEUE_URL").is_none() && std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        let error = Worker::from_env(typed()).await.unwrap_err();
        assert!(error.to_string().contains("FRIGG_QUEUE_URL"), "{error}");
    }
}

/// The check that every test with captured lines makes when it ends.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "a secret is logged")]
async fn a_secret_that_is_logged_fails_the_test() {
    let rig = Rig::new(&[]);
    rig.run(messages(1), |job| {
        tracing::info!("{}", job.message.0);
        Ok(())
    })
    .await;
}
