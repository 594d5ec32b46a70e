//! Putting messages back: by which way, with what, and what happens when a call fails.

use frigg_worker::ports::{CallError, CallErrorKind, QueueAttributes};
use frigg_worker::testing::{Call, message};
use frigg_worker::{Config, Options};
use serde_json::{Value, json};

use crate::queue_model::{Model, poll_for};
use crate::support::*;

const NONE: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn deferral_01() {
    let three = ("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "3");
    type Row<'a> = (
        &'a str,
        &'a [(&'a str, &'a str)],
        u32,
        Option<&'a str>,
        &'a [u32],
        &'a [u32],
    );
    let rows: [Row<'_>; 5] = [
        ("a", &[ROLE, three], 1, Some("2026-09-29T03:08:44Z"), &[], &[]),
        ("b", &[three], 1, None, &[900], &[]),
        ("c", &[three], 3, None, &[900], &[]),
        ("d", &[three, ("FRIGG_COMPAT", "1")], 1, None, &[], &[42_000]),
        (
            "on the last receive, a wait that visibility reaches",
            &[three],
            3,
            None,
            &[900],
            &[],
        ),
    ];
    for (what, environment, count, at, delays, hidden) in rows {
        let wait = if what.starts_with("on") { 7200 } else { 54_524 };
        let rig = Rig::new(environment);
        let failures = rig
            .run(vec![received(message("m1", "{}"), count)], move |_| limited(wait))
            .await;
        let schedules: Vec<String> = rig
            .scheduler
            .calls
            .schedules()
            .iter()
            .map(|s| s.at.to_string())
            .collect();
        assert_eq!(schedules, Vec::from_iter(at), "{what}");
        let sent: Vec<u32> = rig.sent().iter().map(|copy| copy.delay_seconds).collect();
        assert_eq!(sent, delays, "{what}");
        let changes: Vec<u32> = rig.hidden().into_iter().map(|(_, seconds)| seconds).collect();
        assert_eq!(
            (changes.as_slice(), failures.len()),
            (hidden, hidden.len()),
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_copy_is_delayed_for_longer_than_its_queue_keeps_it() {
    for (keeps, delay) in [(60, 30), (600, 300), (1800, 900), (345_600, 900)] {
        let rig = Rig::new(&[("FRIGG_RELAY", "1")]);
        rig.sqs.set_attributes(QueueAttributes {
            retention: Some(seconds(keeps)),
            ..QueueAttributes::default()
        });
        assert_eq!(rig.run(messages(1), |_| limited(900)).await, NONE);
        assert_eq!(rig.sent()[0].delay_seconds, delay, "{keeps}");
    }
}

#[tokio::test(start_paused = true)]
async fn deferral_05() {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let model = Model::new(
        rig.clock.clone(),
        QueueAttributes {
            max_receive_count: Some(3),
            ..Model::attributes()
        },
    );
    model.put(r#"{"id":1}"#);
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let clock = rig.clock.clone();
    let handler = rig.handler(
        move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0..5 => Err(frigg_worker::RateLimited::after(clock.now(), seconds(60)).into()),
            5 => broken(),
            _ => Ok(()),
        },
    );
    poll_for(seconds(3600), rig.worker_on(handler, model.shared())).await;
    let counts: Vec<u32> = rig
        .seen()
        .iter()
        .map(|seen| seen.delivery.receive_count.unwrap())
        .collect();
    let deferrals: Vec<u32> = rig.seen().iter().map(|seen| seen.delivery.deferrals).collect();
    assert_eq!(counts, [1, 1, 1, 1, 1, 1, 2]);
    assert_eq!(deferrals, [0, 1, 2, 3, 4, 5, 5]);
    assert_eq!((model.dead(), model.left()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn deferral_06() {
    let rig = Rig::new(&[("FRIGG_QUEUE_MAX_DEFERRALS", "3")]);
    let worker = rig.worker(rig.handler(|_| limited(1)));
    let mut current = with_user_attributes(message("m1", "hello"), 10);
    for round in 1..=3 {
        assert_eq!(batch(&worker, vec![current.clone()]).await, NONE);
        let copy = rig.sent().pop().unwrap();
        assert_eq!((deferrals(&copy), copy.attributes.len()), (round, 10));
        tokio::time::advance(seconds(u64::from(copy.delay_seconds))).await;
        current.message_id = Some(format!("copy-{round}"));
        current.body = Some(copy.body);
    }
    assert_eq!(batch(&worker, vec![current]).await, ["copy-3"]);
    assert_eq!(rig.sent().len(), 3);
    assert_eq!(rig.line("record_deferral_capped")["level"], "WARN");
    let seen = rig.seen();
    assert_eq!(seen.len(), 4);
    assert!(
        seen.iter()
            .all(|seen| seen.body == "hello" && seen.delivery.message_attributes.len() == 10)
    );
    assert!(
        seen[1..]
            .iter()
            .all(|seen| seen.delivery.deferral_id.as_deref() == Some("m1"))
    );
}

#[tokio::test(start_paused = true)]
async fn deferral_07() {
    let text = r#"{"id":1724442618569203714, "amount":1.10,"big":1e400,"a":1,"a":2,"s":"\u00e9\/"}"#;
    let rig = Rig::new(&[]);
    assert_eq!(rig.run(vec![message("m1", text)], |_| limited(30)).await, NONE);
    let sent = rig.sent()[0].body.clone();
    let rest = sent.strip_prefix(&text[..text.len() - 1]).unwrap();
    assert!(
        rest.starts_with(r#","_frigg":{"deferrals":1,"#) && rest.ends_with("}}"),
        "{rest}"
    );
}

#[tokio::test(start_paused = true)]
async fn deferral_08() {
    let text = r#"{"Type":"Notification","MessageId":"a","Message":"{\"id\":7}","MessageAttributes":{"k":{"Type":"String","Value":"v"}}}"#;
    let rig = Rig::new(&[]);
    let worker = rig.worker(rig.handler(|job| {
        if job.delivery.deferrals == 0 {
            limited(30)
        } else {
            Ok(())
        }
    }));
    batch(&worker, vec![message("m1", text)]).await;
    let body = rig.sent()[0].body.clone();
    let json: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&json["Message"], json["MessageAttributes"].get("_frigg")),
        (&json!(r#"{"id":7}"#), None)
    );
    tokio::time::advance(seconds(30)).await;
    assert_eq!(batch(&worker, vec![message("m2", body)]).await, NONE);
    assert_eq!(rig.seen()[1].body, text);
}

#[tokio::test(start_paused = true)]
async fn deferral_09() {
    let bodies = [r#"{"note":"a\u0001b"}"#, r#"{"note":"fine"}"#];
    let records = || vec![message("m1", bodies[0]), message("m2", bodies[1])];
    let rig = Rig::new(&[]);
    rig.sqs.calls.fail(|call, entry| match call {
        Call::SendBatch(_, entries) => entries
            .get(entry)
            .filter(|copy| copy.body.contains(|c: char| c < ' '))
            .map(|_| refused("InvalidMessageContents", "a control character")),
        _ => None,
    });
    assert_eq!(rig.run(records(), |_| limited(30)).await, NONE);
    assert!(rig.sent()[0].body.starts_with(r#"{"note":"a\u0001b","_frigg""#));

    let rig = Rig::new(&[]);
    rig.sqs.calls.fail(|call, entry| {
        (matches!(call, Call::SendBatch(..)) && entry == 0).then(|| refused("InvalidMessageContents", "odd"))
    });
    assert_eq!(rig.run(records(), |_| limited(30)).await, ["m1"]);
    assert_eq!(rig.hidden(), [("receipt-m1".to_owned(), 30)]);
}

#[tokio::test(start_paused = true)]
async fn deferral_12() {
    for visibility_too in [false, true] {
        let rig = Rig::new(&[]);
        rig.sqs.calls.fail(move |call, entry| {
            let whole = entry == usize::MAX;
            let fails = match call {
                Call::SendBatch(..) => whole,
                Call::ChangeVisibilityBatch(..) => whole && visibility_too,
                _ => false,
            };
            fails.then(throttled)
        });
        assert_eq!(rig.run(messages(10), |_| limited(30)).await.len(), 10);
        assert!(rig.hidden().iter().all(|(_, seconds)| *seconds == 30));
        assert_eq!(rig.hidden().len(), 10);
        let event = if visibility_too {
            "record_failed"
        } else {
            "record_visibility_extended"
        };
        assert_eq!(rig.lines(), vec![event; 10]);
        for line in rig.logs.of_event("frigg.worker.record_failed") {
            assert_eq!(line["deferral"]["skipped"], "visibility_failed");
            assert!(
                line["deferral"]["cause"]
                    .as_str()
                    .unwrap()
                    .contains("RequestThrottled")
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deferral_15() {
    let rig = Rig::new(&[("AWS_REGION", "eu-west-1")]);
    let record = on_queue(message("m1", "{}"), "arn:aws:sqs:eu-central-1:111111111111:jobs");
    assert_eq!(rig.run(vec![record], |_| limited(30)).await, NONE);
    let want = Call::QueueUrl {
        name: "jobs".to_owned(),
        owner: Some("111111111111".to_owned()),
        region: "eu-central-1".to_owned(),
    };
    assert_eq!(rig.count(|call| *call == want), 1);
    let (url, _) = rig.sqs.calls.sent().remove(0);
    assert_eq!(url, "https://sqs.eu-central-1.amazonaws.com/111111111111/jobs");
}

#[tokio::test(start_paused = true)]
async fn performance_01() {
    let rig = Rig::new(&[("FRIGG_QUEUE_URL", URL)]);
    let model = Model::new(rig.clock.clone(), Model::attributes());
    for i in 0..100 {
        model.put(&format!(r#"{{"id":{i}}}"#));
    }
    let clock = rig.clock.clone();
    let until = start() + seconds(600);
    let handler = rig.handler(move |_| if clock.now() < until { limited(600) } else { Ok(()) });
    poll_for(seconds(900), rig.worker_on(handler, model.shared())).await;
    let seen = rig.seen();
    let early = seen.iter().filter(|seen| seen.at < until).count();
    assert_eq!((seen.len(), early), (200, 100));
    assert_eq!((model.sends(), model.left()), (vec![10; 10], 0));
    let between = |at: &jiff::Timestamp| *at > start() + seconds(1) && *at < until;
    assert!(
        !model.received_at().iter().any(between),
        "nothing is received before its time"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_is_sent_one_by_one() {
    let rig = Rig::new(&[]);
    rig.sqs.calls.fail(|call, entry| match call {
        Call::SendBatch(..) if entry == usize::MAX => Some(refused("BatchRequestTooLong", "too long")),
        Call::Send(_, copy) if copy.body.contains(r#""id":2"#) => {
            Some(refused("InvalidParameterValue", "odd"))
        }
        _ => None,
    });
    assert_eq!(rig.run(messages(3), |_| limited(30)).await, ["m2"]);
    assert_eq!(
        (rig.sent().len(), rig.hidden()),
        (2, vec![("receipt-m2".to_owned(), 30)])
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_handle_is_reported_failed_and_not_copied() {
    let rig = Rig::new(&[]);
    rig.sqs.calls.fail(|call, entry| {
        (matches!(call, Call::ChangeVisibilityBatch(..)) && entry == 0)
            .then(|| CallError::new(CallErrorKind::HandleLost, Some("MessageNotInflight"), "gone"))
    });
    assert_eq!(rig.run(messages(1), |_| limited(7200)).await, ["m1"]);
    assert_eq!(rig.sent(), []);
}

#[tokio::test(start_paused = true)]
async fn a_message_before_its_time_goes_back_uncounted() {
    let body = r#"{"a":1,"_frigg":{"deferrals":2,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"x","retryAt":"2026-09-28T12:00:45.000Z"}}"#;
    let rig = Rig::new(&[]);
    assert_eq!(rig.run(vec![message("m1", body)], |_| Ok(())).await, NONE);
    assert_eq!(rig.seen().len(), 0);
    assert_eq!(
        (rig.sent()[0].delay_seconds, rig.sent()[0].body.as_str()),
        (45, body)
    );
    assert_eq!(rig.line("record_early")["level"], "INFO");
    let mut rig = Rig::new(&[]);
    rig.config = Config::default();
    rig.config.options = Options::frigg();
    assert_eq!(rig.run(vec![message("m1", body)], |_| Ok(())).await, NONE);
    assert_eq!(rig.seen().len(), 1, "Frigg knows no such thing");
}
