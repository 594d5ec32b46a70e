//! The program `explain`, run on raw responses.

#![allow(clippy::expect_used)]

use std::io::Write;
use std::process::{Command, Stdio};

/// Status, standard output, standard error.
fn run(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_explain"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("to start it");
    // It may end before it reads, when an argument is wrong.
    let _ = child.stdin.take().expect("its input").write_all(input);
    let output = child.wait_with_output().expect("to end");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const AT: &str = "--received-at";
const NOON: &str = "2026-11-30T12:00:00Z";

#[test]
fn it_explains_what_curl_prints() {
    let limited = b"HTTP/2 429 \r\ncontent-type: text/plain\r\nretry-after: 30\r\n\r\nslow down\n";
    let (status, out, err) = run(&[AT, NOON], limited);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    for part in [
        "A rate limit",
        "in 30 s, not before 2026-11-30T12:00:30.000Z",
        "`retry-after: 30`",
    ] {
        assert!(out.contains(part), "{part:?} is not in {out}");
    }
}

#[test]
fn a_provider_may_be_named() {
    let refused = b"HTTP/1.1 403 Forbidden\n\n[{\"errorCode\":\"REQUEST_LIMIT_EXCEEDED\",\"message\":\"TotalRequests\"}]";
    let (status, out, _) = run(&["salesforce", AT, NOON], refused);
    assert_eq!(status, Some(0));
    assert!(
        out.contains("a rule for salesforce") && out.contains("Which limit: daily"),
        "{out}"
    );
}

#[test]
fn the_last_response_counts() {
    let redirected = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 302 Found\r\nlocation: /x\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n";
    let (status, out, _) = run(&[AT, NOON], redirected);
    assert_eq!(status, Some(0));
    assert!(out.contains("404"), "{out}");
}

#[test]
fn bad_input_is_a_clear_error_and_status_2() {
    let fine: &[u8] = b"HTTP/1.1 429\n\n";
    let table: &[(&[&str], &[u8], &str)] = &[
        (&[], b"", "no input"),
        (&[], b" \n\n", "no input"),
        (&[], b"{\"error\":1}", "must be a status line"),
        (&[], b"HTTP/1.1\n\n", "no status"),
        (&[], b"HTTP/1.1 abc\n\n", "no status"),
        (&[], b"HTTP/1.1 99\n\n", "no status"),
        (&[], b"HTTP/1.1 429\nretry-after 5\n\n", "line 2 is no header"),
        (
            &[],
            b"HTTP/1.1 429\nretry-after: 5\nbad name: 5\n\n",
            "line 3 is no header",
        ),
        (&[], b"HTTP/1.1 429\nx: \x01\n\n", "line 2 is no header"),
        (&["nobody"], fine, "no provider \"nobody\""),
        (&["github", "gitlab"], fine, "unexpected argument \"gitlab\""),
        (&["--verbose"], fine, "unexpected argument"),
        (&[AT], fine, "needs a time"),
        (&[AT, "noon"], fine, "is no time"),
    ];
    for (arguments, input, part) in table {
        let (status, out, err) = run(arguments, input);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{arguments:?} {err}");
        assert!(err.contains(part), "{part:?} is not in {err}");
    }
}
