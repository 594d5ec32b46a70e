//! What the queue is asked, and how often.

use frigg_worker::ports::QueueAttributes;
use frigg_worker::testing::{Call, message};

use crate::support::*;

const NONE: [&str; 0] = [];

fn asks(rig: &Rig) -> (usize, usize) {
    (
        rig.count(|call| matches!(call, Call::QueueUrl { .. })),
        rig.count(|call| matches!(call, Call::QueueAttributes)),
    )
}

#[tokio::test(start_paused = true)]
async fn successes_and_plain_errors_ask_nothing() {
    let rig = Rig::new(&[]);
    rig.run(messages(10), |job| {
        if job.delivery.message_id == "m3" {
            broken()
        } else {
            Ok(())
        }
    })
    .await;
    assert_eq!(rig.sqs.calls.made(), []);
}

#[tokio::test(start_paused = true)]
async fn long_waits_and_permanent_failures_ask_once() {
    for wait in [7200, 0] {
        let rig = Rig::new(&[]);
        let worker = rig.worker(rig.handler(move |_| if wait == 0 { permanent() } else { limited(wait) }));
        for _ in 0..3 {
            batch(&worker, messages(10)).await;
        }
        assert_eq!(asks(&rig), (1, 1), "{wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn short_waits_ask_where_the_queue_is_and_nothing_else() {
    // A queue may keep messages for a minute only: a longer delay has to fit that.
    for (wait, attributes) in [(30, 0), (31, 1)] {
        let rig = Rig::new(&[]);
        let worker = rig.worker(rig.handler(move |_| limited(wait)));
        for _ in 0..3 {
            batch(&worker, messages(10)).await;
        }
        assert_eq!(asks(&rig), (1, attributes), "{wait}");
        assert_eq!(rig.sent().len(), 30);
    }
}

#[tokio::test(start_paused = true)]
async fn where_url_and_retention_are_told_a_delayed_copy_asks_nothing() {
    for (url, retention, asked) in [
        (URL, "1209600", (0, 0)),
        (URL, "86400", (0, 0)),
        (URL, "", (0, 1)),
        (
            "https://sqs.eu-west-1.amazonaws.com/111111111111/another",
            "1209600",
            (1, 0),
        ),
    ] {
        let rig = Rig::new(&[
            ("FRIGG_QUEUE_URL", url),
            ("FRIGG_QUEUE_RETENTION_SECONDS", retention),
        ]);
        let worker = rig.worker(rig.handler(|_| limited(900)));
        batch(&worker, messages(10)).await;
        assert_eq!(asks(&rig), asked, "{url} {retention}");
        assert_eq!(rig.sent().len(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_not_delayed_past_half_of_the_retention_that_is_told() {
    for (wait, copies) in [(300, 1), (301, 0)] {
        let rig = Rig::new(&[("FRIGG_QUEUE_RETENTION_SECONDS", "600")]);
        let worker = rig.worker(rig.handler(move |_| limited(wait)));
        batch(&worker, messages(1)).await;
        assert_eq!(rig.sent().len(), copies, "{wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_fails_asks_for_the_other_ways() {
    let rig = Rig::new(&[]);
    rig.sqs
        .calls
        .fail(|call, _| matches!(call, Call::SendBatch(..)).then(throttled));
    rig.run(messages(10), |_| limited(30)).await;
    assert_eq!(asks(&rig), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_second_receive_asks_for_the_last_one() {
    let rig = Rig::new(&[]);
    rig.sqs.set_attributes(QueueAttributes {
        max_receive_count: Some(2),
        ..QueueAttributes::default()
    });
    rig.run(vec![received(message("m1", "{}"), 2)], |_| Ok(())).await;
    assert_eq!(asks(&rig), (1, 1));
    assert!(rig.seen()[0].delivery.is_last_attempt());
    let rig = Rig::new(&[("FRIGG_QUEUE_MAX_RECEIVE_COUNT", "2")]);
    rig.run(vec![received(message("m1", "{}"), 2)], |_| Ok(())).await;
    assert_eq!(asks(&rig), (0, 0), "the environment says it");
    assert!(rig.seen()[0].delivery.is_last_attempt());
}

#[tokio::test(start_paused = true)]
async fn a_url_look_up_that_fails_is_made_again() {
    let rig = Rig::new(&[]);
    let first = std::sync::atomic::AtomicBool::new(true);
    rig.sqs.calls.fail(move |call, _| {
        let fails =
            matches!(call, Call::QueueUrl { .. }) && first.swap(false, std::sync::atomic::Ordering::SeqCst);
        fails.then(throttled)
    });
    let worker = rig.worker(rig.handler(|job| match job.message.0.as_str() {
        "short" => limited(30),
        _ => limited(7200),
    }));
    let wait = async |how: &str| batch(&worker, vec![message("m1", how)]).await;
    // The look-up for the attributes fails, the one for the call works.
    assert_eq!(wait("long").await, ["m1"]);
    assert_eq!((asks(&rig), rig.hidden().len()), ((2, 0), 1));
    assert_eq!(wait("long").await, ["m1"]);
    assert_eq!(wait("short").await, NONE);
    assert_eq!(asks(&rig), (2, 0));
    tokio::time::advance(seconds(60)).await;
    assert_eq!(wait("long").await, ["m1"]);
    assert_eq!(
        asks(&rig),
        (2, 1),
        "what the queue did not tell is asked again after a minute"
    );
}
