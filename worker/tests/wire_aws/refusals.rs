//! Answers that emulators do not give, as AWS spells them, and what the runtime makes of them.

use frigg_worker::AwsSqs;
use frigg_worker::ports::{CallError, CallErrorKind, SendRequest, Sqs as _, VisibilityRequest};
use serde_json::json;

use super::{Answer, ok, sqs_error, wire};

const URL: &str = "https://sqs.eu-west-1.amazonaws.com/111111111111/jobs";
const TOO_LONG: &str = "Value 43000 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the \
                        message is beyond the limit [43200 seconds].";
const NOT_AVAILABLE: &str = "Value AQEB for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
                             available for visibility timeout change.";
const DELAY: &str =
    "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.";

/// SQS's throttling in three spellings, and its broken moments: all tried three times by the SDK itself.
#[tokio::test(start_paused = true)]
async fn refusals_of_a_whole_call() {
    use CallErrorKind::{HandleLost, Refused, Unavailable};
    let rows = [
        (
            sqs_error(
                400,
                "InvalidParameterValue",
                Some("InvalidParameterValue;Sender"),
                DELAY,
            ),
            Refused,
            "InvalidParameterValue",
            1,
        ),
        (
            sqs_error(400, "InvalidParameterValue", None, TOO_LONG),
            Refused,
            "InvalidParameterValue",
            1,
        ),
        (
            sqs_error(400, "InvalidParameterValue", None, NOT_AVAILABLE),
            HandleLost,
            "InvalidParameterValue",
            1,
        ),
        (
            sqs_error(
                400,
                "BatchRequestTooLong",
                Some("AWS.SimpleQueueService.BatchRequestTooLong;Sender"),
                "Batch requests cannot be longer than 1048576 bytes. You have sent 1048600 bytes.",
            ),
            Refused,
            "AWS.SimpleQueueService.BatchRequestTooLong",
            1,
        ),
        (
            sqs_error(
                400,
                "QueueDoesNotExist",
                Some("AWS.SimpleQueueService.NonExistentQueue;Sender"),
                "The specified queue does not exist.",
            ),
            Refused,
            "AWS.SimpleQueueService.NonExistentQueue",
            1,
        ),
        (
            sqs_error(
                400,
                "KmsAccessDenied",
                Some("KMS.AccessDeniedException;Sender"),
                "The ciphertext refers to a key that you may not use.",
            ),
            Refused,
            "KMS.AccessDeniedException",
            1,
        ),
        (
            sqs_error(403, "AccessDenied", Some("AccessDenied;Sender"), "not authorized"),
            Refused,
            "AccessDenied",
            1,
        ),
        (
            sqs_error(
                400,
                "MessageNotInflight",
                Some("AWS.SimpleQueueService.MessageNotInflight;Sender"),
                "",
            ),
            HandleLost,
            "AWS.SimpleQueueService.MessageNotInflight",
            1,
        ),
        (
            sqs_error(400, "MessageNotInflight", None, ""),
            HandleLost,
            "MessageNotInflight",
            1,
        ),
        (
            sqs_error(
                404,
                "ReceiptHandleIsInvalid",
                Some("ReceiptHandleIsInvalid;Sender"),
                "The input receipt handle is invalid.",
            ),
            HandleLost,
            "ReceiptHandleIsInvalid",
            1,
        ),
        (
            sqs_error(
                400,
                "RequestThrottled",
                Some("RequestThrottled;Sender"),
                "Rate exceeded",
            ),
            Unavailable,
            "RequestThrottled",
            3,
        ),
        (
            sqs_error(403, "RequestThrottled", None, "Rate exceeded"),
            Unavailable,
            "RequestThrottled",
            3,
        ),
        (
            sqs_error(400, "ThrottlingException", None, "Rate exceeded"),
            Unavailable,
            "ThrottlingException",
            3,
        ),
        (
            sqs_error(
                400,
                "KmsThrottled",
                Some("KMS.ThrottlingException;Sender"),
                "Rate exceeded",
            ),
            Unavailable,
            "KMS.ThrottlingException",
            1,
        ),
        (
            sqs_error(
                500,
                "InternalFailure",
                Some("InternalFailure;Receiver"),
                "We are sorry",
            ),
            Unavailable,
            "InternalFailure",
            3,
        ),
        (
            sqs_error(503, "ServiceUnavailable", None, "busy"),
            Unavailable,
            "ServiceUnavailable",
            3,
        ),
    ];
    for (answer, kind, code, attempts) in rows {
        let error = send_batch([answer.clone(), answer.clone(), answer.clone()]).await;
        let (error, made) = (error.0.unwrap_err(), error.1);
        assert_eq!(
            (error.kind, error.code.as_deref()),
            (kind, Some(code)),
            "{answer:?}"
        );
        assert_eq!(made, attempts, "attempts at {code}");
    }
}

type Results = Result<Vec<Result<(), CallError>>, CallError>;

async fn send_batch(answers: impl IntoIterator<Item = Answer>) -> (Results, usize) {
    let (aws, wire) = wire(answers);
    let copies = [
        SendRequest::new("{}", 0),
        SendRequest::new("{}", 0),
        SendRequest::new("{}", 0),
    ];
    let results = AwsSqs::new(aws).send_batch(URL, &copies).await;
    (results, wire.requests().len())
}

/// A proxy's page, or nothing: no code, and no panic. The status decides.
#[tokio::test(start_paused = true)]
async fn answers_that_are_not_sqss() {
    for (status, kind) in [
        (502, CallErrorKind::Unavailable),
        (429, CallErrorKind::Unavailable),
        (404, CallErrorKind::Refused),
    ] {
        for body in ["<html>no JSON</html>", ""] {
            let answer = Answer {
                status,
                query_error: None,
                error_type: None,
                body: body.to_owned(),
            };
            let (results, _) = send_batch([answer.clone(), answer.clone(), answer]).await;
            let error = results.unwrap_err();
            assert_eq!((error.kind, error.code), (kind, None), "{status} {body:?}");
        }
    }
    // A 200 that cannot be read confirms nothing.
    let answer = Answer {
        body: "<html>".to_owned(),
        ..ok(json!({}))
    };
    let (results, _) = send_batch([answer.clone(), answer.clone(), answer]).await;
    assert_eq!(results.unwrap_err().kind, CallErrorKind::Unavailable);
    // An answer without the lists confirms no entry either.
    let (results, _) = send_batch([ok(json!({}))]).await;
    let all_open = results.unwrap();
    assert_eq!(all_open.len(), 3);
    assert!(all_open.iter().all(Result::is_err), "{all_open:?}");
}

#[tokio::test(start_paused = true)]
async fn the_sdk_tries_again_by_itself() {
    let throttled = || sqs_error(400, "RequestThrottled", None, "Rate exceeded");
    let sent = ok(json!({ "Successful": [
        { "Id": "0", "MessageId": "a", "MD5OfMessageBody": "x" },
        { "Id": "1", "MessageId": "b", "MD5OfMessageBody": "x" },
        { "Id": "2", "MessageId": "c", "MD5OfMessageBody": "x" },
    ], "Failed": [] }));
    let (results, made) = send_batch([throttled(), throttled(), sent]).await;
    assert_eq!((results.unwrap(), made), (vec![Ok(()); 3], 3));
}

/// What the entries of a 200 answer say, one by one.
#[tokio::test(start_paused = true)]
async fn entries_of_an_answer() {
    use CallErrorKind::{HandleLost, Refused, Unavailable};
    let failed = |code: &str, sender: bool, message: Option<&str>| {
        let mut entry = json!({ "Id": "1", "Code": code, "SenderFault": sender });
        if let Some(message) = message {
            entry["Message"] = message.into();
        }
        entry
    };
    let rows = [
        (failed("MessageNotInflight", true, None), HandleLost),
        (
            failed("AWS.SimpleQueueService.MessageNotInflight", true, None),
            HandleLost,
        ),
        (
            failed(
                "ReceiptHandleIsInvalid",
                true,
                Some("The input receipt handle is invalid."),
            ),
            HandleLost,
        ),
        (
            failed("InvalidParameterValue", true, Some(NOT_AVAILABLE)),
            HandleLost,
        ),
        (failed("InvalidParameterValue", true, Some(TOO_LONG)), Refused),
        (failed("InvalidParameterValue", true, Some(DELAY)), Refused),
        (failed("InvalidMessageContents", true, None), Refused),
        (failed("InternalError", false, None), Unavailable),
        (failed("RequestThrottled", true, None), Unavailable),
    ];
    for (entry, kind) in rows {
        let answer = json!({ "Successful": [{ "Id": "0" }, { "Id": "2" }], "Failed": [entry] });
        let (aws, _wire) = wire([ok(answer)]);
        let change = VisibilityRequest {
            receipt_handle: "h".to_owned(),
            seconds: 43_000,
        };
        let changes = [change.clone(), change.clone(), change];
        let results = AwsSqs::new(aws).change_visibility_batch(URL, &changes).await;
        let results = results.unwrap();
        assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())), "{entry}");
        let error = results[1].clone().unwrap_err();
        assert_eq!(
            (error.kind, error.code.as_deref()),
            (kind, entry["Code"].as_str())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_is_not_confirmed_is_not_done() {
    let done = |id: &str| json!({ "Id": id, "MessageId": "x", "MD5OfMessageBody": "x" });
    let broken = |id: &str| json!({ "Id": id, "Code": "InternalError", "SenderFault": false });
    // What is in the two lists, and which of the three entries are done.
    let rows = [
        (json!([done("0"), done("1")]), json!([]), [true, true, false]),
        (json!([done("2")]), json!([broken("0")]), [false, false, true]),
        // In both lists: not done.
        (
            json!([done("0"), done("1"), done("2")]),
            json!([broken("1")]),
            [true, false, true],
        ),
        // Ids that nobody gave.
        (
            json!([done("3"), done("-1"), done("x"), done("")]),
            json!([broken("9")]),
            [false; 3],
        ),
        (json!([done("1"), done("1")]), json!([]), [false, true, false]),
    ];
    for (successful, failed, want) in rows {
        let answer = json!({ "Successful": successful, "Failed": failed });
        let (results, _) = send_batch([ok(answer.clone())]).await;
        let got: Vec<bool> = results.unwrap().iter().map(Result::is_ok).collect();
        assert_eq!(got, want, "{answer}");
    }
}

/// No answer to the question is no success.
#[tokio::test(start_paused = true)]
async fn a_success_without_its_result() {
    let (aws, _wire) = wire([ok(json!({}))]);
    let error = AwsSqs::new(aws).send(URL, &SendRequest::new("{}", 0)).await;
    assert_eq!(error.unwrap_err().kind, CallErrorKind::Unavailable);
}
