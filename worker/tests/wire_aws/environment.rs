//! What the environment says about endpoints, seen by a process of its own: variables belong to the whole process.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use frigg_worker::core::delivery::QueueArn;
use frigg_worker::ports::{ScheduleRequest, ScheduleTarget, Scheduler as _, Sqs as _};
use frigg_worker::{Aws, AwsScheduler, AwsSqs};

/// One request, as text.
fn serve(listener: &TcpListener, body: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    let complete = |request: &[u8]| {
        let text = String::from_utf8_lossy(request).to_ascii_lowercase();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.split_once("content-length: ").map(|(_, rest)| rest);
        let length = length
            .and_then(|rest| rest.lines().next()?.parse().ok())
            .unwrap_or(0);
        (body.len() >= length).then_some(())
    };
    while complete(&request).is_none() {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the request ends early");
        request.extend_from_slice(&piece[..count]);
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).unwrap();
    String::from_utf8(request).unwrap()
}

/// Runs [`child`] with these variables and no others. `{}` in a value is the address of the endpoint that answers.
fn requests_of_child(variables: &[(&str, &str)]) -> [String; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "environment::child", "--ignored"])
        .env_clear();
    for (name, value) in variables {
        command.env(name, value.replace("{}", &address));
    }
    let mut child = command.spawn().unwrap();
    let of_sqs = serve(&listener, r#"{"QueueUrl":"http://127.0.0.1/1/jobs"}"#);
    let of_scheduler = serve(&listener, r#"{"ScheduleArn":"arn"}"#);
    assert!(child.wait().unwrap().success());
    [of_sqs, of_scheduler]
}

#[tokio::test]
#[ignore = "run by the tests here, in a process of its own"]
async fn child() {
    let aws = Aws::from_env();
    let queue = QueueArn::parse("arn:aws:sqs:eu-west-1:111111111111:jobs").unwrap();
    AwsSqs::new(aws.clone()).queue_url(&queue, true).await.unwrap();
    let request = ScheduleRequest {
        name: "n".to_owned(),
        group: "g".to_owned(),
        at: "2026-09-28T23:00:00Z".parse().unwrap(),
        region: "eu-west-1".to_owned(),
        target: ScheduleTarget::Queue(queue.as_str().to_owned()),
        role_arn: "arn:aws:iam::111111111111:role/scheduler".to_owned(),
        input: "{}".to_owned(),
        dead_letter_arn: None,
    };
    AwsScheduler::new(aws).create(&request).await.unwrap();
}

/// The access key with which a request was signed.
fn signer(request: &str) -> &str {
    let (_, rest) = request.split_once("Credential=").unwrap();
    rest.split('/').next().unwrap()
}

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "AKIDENV"),
    ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
];

#[test]
fn aws_endpoint_url_is_called_with_the_environments_credentials() {
    let mut variables = vec![("AWS_ENDPOINT_URL", "http://{}"), ("AWS_REGION", "eu-central-1")];
    variables.extend(KEYS);
    for request in requests_of_child(&variables) {
        assert_eq!(signer(&request), "AKIDENV");
        // The region is the queue's.
        assert!(request.contains("/eu-west-1/"), "{request}");
    }
}

#[test]
fn friggs_aws_endpoint_is_called_with_test_credentials() {
    for more in [&[][..], &KEYS[..], &[("IS_OFFLINE", "true")][..]] {
        let mut variables = vec![("AWS_ENDPOINT", "http://{}")];
        variables.extend(more);
        for request in requests_of_child(&variables) {
            assert_eq!(signer(&request), "test", "{more:?}");
        }
    }
}
