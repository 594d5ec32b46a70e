"""What a Frigg worker needs: a queue with a dead-letter queue, the scheduler's role, the schedule group.

Runs in three places: as a ready hook inside LocalStack's container (which execs it, so there is no `__main__` and no
arguments), and as a program in the virtual environment of the emulators that run without Docker. It needs botocore
only, which all of them bring. Running it again changes nothing.
"""

import json
import os

import botocore.session

QUEUE = os.environ.get("FRIGG_LOCAL_QUEUE", "frigg-queue")
DEAD_LETTERS = os.environ.get("FRIGG_LOCAL_DEAD_LETTER_QUEUE", "frigg-dead-letters")
ROLE = os.environ.get("FRIGG_LOCAL_ROLE", "frigg-scheduler-role")
GROUP = os.environ.get("SCHEDULE_GROUP_NAME", "frigg-integration-schedules")
# Six times a function timeout of 30 s, as AWS asks of a queue in front of a function.
VISIBILITY_SECONDS = "180"
MAX_RECEIVES = "3"
# SQS's longest: a deferred message must not expire while it waits.
RETENTION_SECONDS = "1209600"


def client(service):
    session = botocore.session.Session()
    return session.create_client(
        service,
        region_name=os.environ.get("AWS_REGION", "us-east-1"),
        endpoint_url=os.environ.get("AWS_ENDPOINT_URL", "http://localhost:4566"),
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def unless(codes, call, **arguments):
    """Makes the call; an error that says the thing is there already is fine."""
    try:
        call(**arguments)
    except Exception as error:
        code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
        if code not in codes:
            raise


def queue(sqs, name, attributes):
    unless(
        ("QueueAlreadyExists", "QueueNameExists"),
        sqs.create_queue,
        QueueName=name,
        Attributes={"MessageRetentionPeriod": RETENTION_SECONDS, **attributes},
    )
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def provision():
    sqs, iam, scheduler = client("sqs"), client("iam"), client("scheduler")
    dead_letters = queue(sqs, DEAD_LETTERS, {})
    redrive = {"deadLetterTargetArn": dead_letters, "maxReceiveCount": MAX_RECEIVES}
    main = queue(sqs, QUEUE, {"VisibilityTimeout": VISIBILITY_SECONDS, "RedrivePolicy": json.dumps(redrive)})
    trust = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
    send = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [main, dead_letters]}
    unless(
        ("EntityAlreadyExists",),
        iam.create_role,
        RoleName=ROLE,
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
    )
    iam.put_role_policy(
        RoleName=ROLE,
        PolicyName="send-to-queue",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [send]}),
    )
    unless(("ConflictException",), scheduler.create_schedule_group, Name=GROUP)


provision()
