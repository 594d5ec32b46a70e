"""The few questions that are asked over HTTP, without an SDK."""

import json
import urllib.error
import urllib.request

from .flavours import ACCOUNT, REGION

# No proxy of the caller's shell between us and 127.0.0.1.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url):
    try:
        with _OPENER.open(url, timeout=5) as response:
            return response.status == 200
    except (OSError, urllib.error.URLError):
        return False


def queue_url(endpoint, name):
    """GetQueueUrl: each emulator spells queue URLs in its own way."""
    request = urllib.request.Request(
        endpoint,
        data=json.dumps({"QueueName": name}).encode(),
        headers={
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "AmazonSQS.GetQueueUrl",
            "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/sqs/aws4_request, "
            "SignedHeaders=host, Signature=0",
        },
    )
    with _OPENER.open(request, timeout=10) as response:
        return json.load(response)["QueueUrl"]


def role_arn(name):
    return f"arn:aws:iam::{ACCOUNT}:role/{name}"


def queue_arn(name):
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
