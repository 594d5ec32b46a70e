//! A real process under a fake Runtime API: what it posts, and that it lives on.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use frigg_worker::core::scope::Scope;
use frigg_worker::testing::FakeSqs;
use frigg_worker::{Clock, HandlerError, Job, RateLimited, Worker, handler_fn};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Barrier;

/// A test that waits longer than this for the process has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const IS_WORKER: &str = "OBEDIENT_PROCESS";

/// `response` or `error`, and the bytes posted there.
type Posted = (String, String);

struct Function {
    process: Child,
    posted: Receiver<Posted>,
    log: JoinHandle<Vec<String>>,
}

impl Function {
    /// Starts the worker and offers it these events, one after the other: the n-th with `n` times so much time.
    fn start(events: &[Value], time: Duration, log: &str) -> Function {
        Function::start_with(events, time, log, &[])
    }

    fn start_with(events: &[Value], time: Duration, log: &str, variables: &[(&str, &str)]) -> Function {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (posts, posted) = channel();
        let events = (1..).zip(events.iter().map(Value::to_string));
        let events = Arc::new(Mutex::new(events.collect::<Vec<_>>()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (events, posts) = (Arc::clone(&events), posts.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &events, time, &posts));
            }
        });
        let mut process = bootstrap()
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "obedient")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "group")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "stream")
            .env("AWS_REGION", "eu-west-1")
            .env("RUST_LOG", log)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Read at once: a full pipe would stop the process.
        let out = process.stdout.take().unwrap();
        let log = std::thread::spawn(move || log_lines(out));
        Function { process, posted, log }
    }

    fn next(&self) -> Posted {
        self.posted.recv_timeout(PATIENCE).unwrap()
    }

    /// The lines that it wrote, after it proved to be the process that was started.
    fn end(mut self) -> Vec<String> {
        assert!(self.process.try_wait().unwrap().is_none(), "the process ended");
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.log.join().unwrap()
    }
}

/// This very test program, told to be the worker.
fn bootstrap() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "obedient_process", "--nocapture"])
        .env_clear()
        .env(IS_WORKER, "1");
    command
}

/// Does what a message says. A test of its own only by name: it is the process that the others start.
#[test]
fn obedient_process() {
    if std::env::var_os(IS_WORKER).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(async {
        let worker = Worker::from_env(handler_fn(obey)).await?;
        worker.with_sqs(Arc::new(FakeSqs::default())).run().await
    });
    if let Err(error) = ended {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

#[derive(Deserialize)]
struct Order {
    #[expect(dead_code, reason = "a body without it does not decode")]
    id: u64,
    #[serde(default)]
    after_ms: u64,
    #[serde(default)]
    what: What,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum What {
    #[default]
    Ok,
    Error,
    Panic,
    Limited,
    /// Waits for three others, then tells what it knows of its invocation.
    Meet,
}

static MEETING: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(4));

async fn obey(job: Job<Order>) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(job.message.after_ms)).await;
    match job.message.what {
        What::Ok => Ok(()),
        What::Error => Err("told to fail".into()),
        What::Panic => panic!("told to panic"),
        What::Meet => {
            MEETING.wait().await;
            let left = Scope::current().time_left(Clock::system().now());
            tracing::info!(eventName = "app.met", left = left.unwrap_or_default().as_secs());
            Ok(())
        }
        What::Limited => Err(RateLimited::after(Clock::system().now(), Duration::from_secs(30)).into()),
    }
}

/// The log lines of an output that the test harness writes to as well.
fn log_lines(out: impl Read) -> Vec<String> {
    let lines = BufReader::new(out).lines().map(Result::unwrap);
    lines.filter(|line| line.starts_with('{')).collect()
}

fn serve(stream: TcpStream, events: &Mutex<Vec<(u32, String)>>, time: Duration, posts: &Sender<Posted>) {
    let mut reader = BufReader::new(stream);
    while let Some((method, path, body)) = read_request(&mut reader) {
        let answer = if method == "GET" {
            let event = {
                let mut events = events.lock().unwrap();
                (!events.is_empty()).then(|| events.remove(0))
            };
            // There is no more work: Lambda freezes the process in this call.
            let Some((number, event)) = event else {
                let _ = reader.read(&mut [0]);
                return;
            };
            let deadline = Clock::system().now() + time * number;
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 lambda-runtime-aws-request-id: request-{number}\r\nlambda-runtime-deadline-ms: {}\r\n\
                 lambda-runtime-invoked-function-arn: arn:aws:lambda:eu-west-1:111111111111:function:obedient\r\n\r\n{event}",
                event.len(),
                deadline.as_millisecond(),
            )
        } else {
            let kind = path.rsplit('/').next().unwrap().to_owned();
            posts.send((kind, body)).unwrap();
            "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned()
        };
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, String)> {
    let mut line = String::new();
    let mut next = |reader: &mut BufReader<TcpStream>| {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = next(reader)?;
    let (mut length, mut chunked) = (0, false);
    loop {
        let header = next(reader)?.to_ascii_lowercase();
        match header.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(("transfer-encoding", value)) => chunked = value.contains("chunked"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    while chunked {
        let size = usize::from_str_radix(&next(reader)?, 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).ok()?;
        body.extend(&chunk[..size]);
        chunked = size > 0;
    }
    let mut parts = first.split(' ').map(str::to_owned);
    Some((parts.next()?, parts.next()?, String::from_utf8(body).unwrap()))
}

fn record(id: Value, body: Value) -> Value {
    let body = if body.is_object() {
        body.to_string().into()
    } else {
        body
    };
    json!({
        "messageId": id, "receiptHandle": "r", "body": body, "messageAttributes": {}, "eventSource": "aws:sqs",
        "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": "1790596800000" },
        "eventSourceARN": "arn:aws:sqs:eu-west-1:111111111111:jobs",
    })
}

fn event(records: impl IntoIterator<Item = Value>) -> Value {
    json!({ "Records": records.into_iter().collect::<Vec<_>>() })
}

fn failed(ids: &[&str]) -> Posted {
    let failures: Vec<Value> = ids.iter().map(|id| json!({ "itemIdentifier": id })).collect();
    (
        "response".to_owned(),
        json!({ "batchItemFailures": failures }).to_string(),
    )
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn batch_01_the_bytes_of_the_answer() {
    let first = event([
        record(json!("id-1"), json!({ "id": 1 })),
        record(json!("id-2"), json!({ "id": 2, "what": "error" })),
        record(json!("id-3"), json!({ "id": 3, "what": "limited" })),
    ]);
    let function = Function::start(&[first, event([])], MINUTE, "info");
    let (kind, bytes) = function.next();
    assert_eq!(kind, "response");
    assert_eq!(bytes, r#"{"batchItemFailures":[{"itemIdentifier":"id-2"}]}"#);
    assert_eq!(function.next(), failed(&[]));
    let lines: Vec<Value> = function
        .end()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = lines
        .iter()
        .map(|line| (&line["eventName"], &line["messageId"]))
        .collect();
    for want in [
        (&json!("frigg.worker.record_failed"), &json!("id-2")),
        (&json!("frigg.worker.record_deferred"), &json!("id-3")),
    ] {
        assert!(names.contains(&want), "{lines:?}");
    }
    assert!(
        lines.iter().all(|line| line["requestId"] == "request-1"),
        "{lines:?}"
    );
}

#[test]
fn batch_02_a_record_without_an_id_fails_the_invocation() {
    let nameless = |id: Value| {
        let mut first = record(id.clone(), json!({ "id": 1 }));
        if id == json!("absent") {
            first.as_object_mut().unwrap().remove("messageId");
        }
        event([first, record(json!("id-2"), json!({ "id": 2 }))])
    };
    let events = [json!(""), Value::Null, json!("absent")].map(nameless);
    let function = Function::start(&events, MINUTE, "info");
    for _ in 0..3 {
        let (kind, body) = function.next();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(kind, "error");
        assert!(
            body["errorMessage"]
                .as_str()
                .unwrap()
                .contains("record 0 of 2 has no messageId"),
            "{body}"
        );
    }
    function.end();
}

#[test]
fn batch_05() {
    let first = event([
        record(json!("m1"), json!({ "id": 1 })),
        record(json!("m2"), json!("not json")),
        record(json!("m3"), Value::Null),
    ]);
    let second = event([record(json!("m4"), json!({ "id": 4 }))]);
    let function = Function::start(&[first, second], MINUTE, "debug");
    assert_eq!(function.next(), failed(&["m2", "m3"]));
    assert_eq!(function.next(), failed(&[]));
    let lines = function.end();
    let handled = |id: &str| {
        lines
            .iter()
            .any(|line| line.contains("record_succeeded") && line.contains(&format!(r#""messageId":"{id}""#)))
    };
    assert!(handled("m1") && handled("m4") && !handled("m2"), "{lines:?}");
}

#[test]
fn batch_06() {
    let ok = |id: &str| record(json!(id), json!({ "id": 1, "after_ms": 50 }));
    let panics = record(json!("m2"), json!({ "id": 2, "after_ms": 10, "what": "panic" }));
    let function = Function::start(
        &[event([ok("m1"), panics, ok("m3")]), event([ok("m4")])],
        MINUTE,
        "info",
    );
    assert_eq!(function.next(), failed(&["m2"]));
    assert_eq!(function.next(), failed(&[]));
    let lines = function.end();
    let failures: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("record_failed"))
        .collect();
    assert_eq!(failures.len(), 1, "{lines:?}");
    let line: Value = serde_json::from_str(failures[0]).unwrap();
    assert_eq!(
        (&line["messageId"], &line["error"]["type"]),
        (&json!("m2"), &json!("Panic"))
    );
    assert_eq!(line["error"]["message"], "the handler panicked: told to panic");
}

/// Lambda Managed Instances: the invocations that one process serves at the same time.
#[test]
fn invocations_at_once_share_no_line_and_no_deadline() {
    let of = |ids: [&str; 2]| event(ids.map(|id| record(json!(id), json!({ "id": 1, "what": "meet" }))));
    let variables = [("AWS_LAMBDA_MAX_CONCURRENCY", "2")];
    // One after the other, they would wait for each other until their deadlines.
    let function = Function::start_with(&[of(["a1", "a2"]), of(["b1", "b2"])], MINUTE, "debug", &variables);
    assert_eq!([function.next(), function.next()], [failed(&[]), failed(&[])]);
    let lines: Vec<Value> = function
        .end()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (id, request, left) in [
        ("a1", "request-1", 0..60),
        ("a2", "request-1", 0..60),
        ("b1", "request-2", 60..120),
        ("b2", "request-2", 60..120),
    ] {
        let own: Vec<&Value> = lines.iter().filter(|line| line["messageId"] == id).collect();
        let named = |name: &str| own.iter().filter(|line| line["eventName"] == name).count();
        assert_eq!(
            (named("app.met"), named("frigg.worker.record_succeeded")),
            (1, 1),
            "{id}: {lines:?}"
        );
        assert!(
            own.iter().all(|line| line["requestId"] == request),
            "{id}: {own:?}"
        );
        let met = own.iter().find(|line| line["eventName"] == "app.met").unwrap();
        assert!(left.contains(&met["left"].as_u64().unwrap()), "{met}");
    }
}

#[test]
fn batch_06_the_release_profile_unwinds() {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")).unwrap();
    let (_, profile) = manifest.split_once("[profile.release]\n").unwrap();
    let profile = profile.split("\n[").next().unwrap();
    assert!(
        profile.lines().any(|line| line.trim() == r#"panic = "unwind""#),
        "{profile}"
    );
    assert!(!manifest.contains(r#""abort""#));
}

#[test]
fn the_answer_is_there_before_lambdas_deadline() {
    let hangs = record(json!("m1"), json!({ "id": 1, "after_ms": 3_600_000 }));
    let done = record(json!("m2"), json!({ "id": 2 }));
    let function = Function::start(&[event([hangs, done])], Duration::from_secs(2), "info");
    assert_eq!(function.next(), failed(&["m1"]));
    function.end();
}

#[test]
fn security_05_no_body_is_logged_at_any_level() {
    let bodies = [
        json!({ "id": "s3cr3t-9f" }),
        json!({ "id": 1, "what": "s3cr3t-9f" }),
        json!("s3cr3t-9f not json"),
        json!({ "id": 1, "s3cr3t-9f": true }),
        json!({ "id": 1, "what": "limited", "token": "s3cr3t-9f" }),
    ];
    let records = bodies.into_iter().enumerate();
    let records = records.map(|(i, body)| record(json!(format!("m{i}")), body));
    let function = Function::start(&[event(records)], MINUTE, "trace");
    assert_eq!(function.next(), failed(&["m0", "m1", "m2"]));
    let lines = function.end();
    assert!(lines.len() > 4, "{lines:?}");
    let leaks: Vec<&String> = lines.iter().filter(|line| line.contains("s3cr3t-9f")).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
    for id in ["m0", "m1", "m2"] {
        let of = |line: &&String| {
            line.contains("record_failed") && line.contains(&format!(r#""messageId":"{id}""#))
        };
        let line = lines.iter().find(of).unwrap();
        assert!(
            line.contains(r#""receiveCount":1"#) && line.contains("line 1, column"),
            "{line}"
        );
    }
}

#[test]
fn a_bad_setting_is_one_warning_and_its_default_rules() {
    let mut process = bootstrap()
        .env("FRIGG_CONCURRENCY", "ten")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = log_lines(process.stdout.take().unwrap());
    let mut err = String::new();
    process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(!process.wait().unwrap().success());
    assert!(err.contains("FRIGG_QUEUE_URL"), "{err}");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(
        (&line["level"], &line["eventName"]),
        (&json!("WARN"), &json!("frigg.worker.bad_setting"))
    );
    let told = (&line["variable"], &line["value"], &line["default"]);
    assert_eq!(told, (&json!("FRIGG_CONCURRENCY"), &json!("ten"), &json!("10")));
}
