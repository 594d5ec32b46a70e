"""`make verify-aws`: puts one limited message back in each way, in stacks made for the run, and destroys them.

The worker is the example `limited_until`: a message names the time until which it is limited, so no provider is needed.
"""

import datetime
import json
import os
import secrets
import signal
import subprocess
import time

from . import StackError
from .ask import ask
from .aws import Aws, Refused
from .deploy import TEMPLATE, upload
from .judge import Check, Message, Seen, judge, moment
from .package import TARGETS, missing_target, package
from .stack import describe, outputs, reasons
from .tools import ROOT

WORKER = "limited_until"
# Visibility is six times the function's timeout, 60 s: less than the waits below, so that what keeps a message hidden is
# what the function set.
COMMON = {"FunctionTimeout": "10", "MaxDelaySeconds": "60", "MaximumConcurrency": "2", "LogRetentionDays": "1"}
STAGES = {"schedules": {}, "hides": {"Scheduler": "no"}, "fifo": {"Fifo": "yes"}}
MESSAGES = (
    Message("delay", "schedules", 58, "delay"),
    Message("schedule", "schedules", 90, "schedule"),
    Message("visibility", "hides", 90, "visibility"),
    Message("fifo", "fifo", 90, "visibility"),
)
QUEUES = ("QueueUrl", "DeadLetterQueueUrl", "ScheduleDeadLetterQueueUrl")
VISIBLE, HIDDEN, DELAYED = (f"ApproximateNumberOfMessages{what}" for what in ("", "NotVisible", "Delayed"))
# How long a message is looked for where it must wait, and how long after the last was sent all must have run: schedules
# come up to a minute late. PATIENCE multiplies both.
LOOK_SECONDS = 45
RUN_SECONDS = 270
# CloudTrail's history is late by minutes.
TRAIL_SECONDS = 900
STACK_SECONDS = 1200
PAUSE_SECONDS = 10


def verify():
    aws = Aws()
    run = time.strftime("%m%d%H%M%S", time.gmtime()) + secrets.token_hex(2)
    service = f"frigg-verify-{run}"
    emulator = bool(os.environ.get("AWS_ENDPOINT_URL"))
    bucket = os.environ.get("CODE_BUCKET") or f"frigg-code-{aws.account}-{aws.region}"
    architecture = "x86_64" if missing_target(TARGETS["arm64"]) else "arm64"
    ask(
        f"create the stacks {', '.join(f'{service}-{stage}' for stage in STAGES)} ({architecture})",
        f"put their package into the bucket {bucket}, made if need be",
        f"send {len(MESSAGES)} messages; that and waiting for CloudTrail takes up to half an hour and costs less than a cent",
        "delete the stacks with all that is in them, and the package, whatever comes of it",
        where=aws.where(),
    )
    path = package(WORKER, architecture)
    signal.signal(signal.SIGTERM, _interrupt)
    since = datetime.datetime.now(datetime.timezone.utc)
    checks, stacks, key = [], {}, None
    try:
        key = upload(aws, bucket, service, path)
        _deploy(aws, service, stacks, {**COMMON, "Architecture": architecture, "CodeBucket": bucket, "CodeKey": key})
        checks += _recursion(aws, stacks, emulator)
        checks += _doctor(aws, stacks, emulator)
        seen = _send_and_watch(aws, stacks)
        checks += judge(MESSAGES, seen)
    except (StackError, KeyboardInterrupt) as error:
        checks.append(Check("the run came to its end", False, str(error) or "interrupted"))
    finally:
        checks += _destroy(aws, service, stacks, bucket, key)
    if all(check.well is not False for check in checks):
        checks += _trail(aws, stacks["schedules"], since, emulator)
    else:
        checks.append(Check("CloudTrail", None, "not asked: the run failed before"))
    return _report(run, aws, checks)


def _interrupt(*_):
    raise KeyboardInterrupt


def _deploy(aws, service, stacks, parameters):
    """All stacks at once. What has been begun is in `stacks`, whatever comes of it."""
    for stage, own in STAGES.items():
        name = f"{service}-{stage}"
        given = {"Service": service, "Stage": stage, **parameters, **own}
        stacks[stage] = {"name": name}
        print(f"creating {name}", flush=True)
        aws.run(f"create the stack {name}", "cloudformation", "create-stack", "--stack-name", name, "--template-body",
                f"file://{TEMPLATE}", "--capabilities", "CAPABILITY_IAM", "--parameters",
                json.dumps([{"ParameterKey": k, "ParameterValue": v} for k, v in given.items()]))
    for stack in stacks.values():
        found = _ended(aws, stack["name"])
        if not found or found["StackStatus"] != "CREATE_COMPLETE":
            why = "".join(f"; {reason}" for reason in reasons(aws, stack["name"]))
            raise StackError(f"{stack['name']} is {found['StackStatus'] if found else 'gone'}{why}")
        stack.update(outputs(found))


def _ended(aws, name):
    """The stack once nothing is in progress; None when there is none."""
    deadline = time.time() + STACK_SECONDS
    while True:
        found = describe(aws, name)
        if not found or not found["StackStatus"].endswith("_IN_PROGRESS"):
            return None if not found or found["StackStatus"] == "DELETE_COMPLETE" else found
        if time.time() > deadline:
            raise StackError(f"{name} is still {found['StackStatus']} after {STACK_SECONDS // 60} minutes")
        time.sleep(3)


def _recursion(aws, stacks, emulator):
    """Whether the function may send to its own queue for more than about 16 rounds."""
    if emulator:
        return [Check("RecursiveLoop", None, "an emulator's CloudFormation leaves it out")]
    checks = []
    for stack in stacks.values():
        name = stack["FunctionName"]
        found = aws.call("read the recursion setting", "lambda", "get-function-recursion-config", "--function-name", name)
        value = found.get("RecursiveLoop")
        checks.append(Check(f"RecursiveLoop of {name}", value == "Allow", f"{value}"))
    return checks


def _doctor(aws, stacks, emulator):
    """What `frigg doctor` says of a stack that has just been made: nothing is to be mended."""
    if emulator:
        return [Check("doctor", None, "it would miss RecursiveLoop, which an emulator's CloudFormation leaves out")]
    return [doctor(stack["name"], aws.region) for stack in stacks.values()]


def doctor(name, region):
    command = ["cargo", "run", "--quiet", "-p", "frigg-cli", "--", "doctor", "--stack", name, "--region", region]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = " ".join(done.stdout.split())
    return Check(f"doctor of {name}", done.returncode == 0, said or f"it exits with {done.returncode}")


def _send_and_watch(aws, stacks):
    seen = Seen({stage: stack["QueueArn"] for stage, stack in stacks.items()})
    start = int(time.time() * 1000) - 60_000
    patience = float(os.environ.get("PATIENCE", "1"))
    for message in MESSAGES:
        stack = stacks[message.stage]
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=message.wait)
        text = until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        group = ["--message-group-id", message.name] if message.stage == "fifo" else []
        sent = aws.call(f"send {message.name}", "sqs", "send-message", "--queue-url", stack["QueueUrl"], "--message-body",
                        json.dumps({"id": message.name, "until": text}), *group)
        seen.sent[message.name] = (sent["MessageId"], moment(text))
        print(f"sent {message.name}: limited until {until:%H:%M:%S} UTC", flush=True)
        # Each is looked for at once, before the next is sent: its wait may be short for a slow machine.
        deadline = time.time() + patience * LOOK_SECONDS
        while not _waits(aws, message, stack, seen) and time.time() < deadline:
            time.sleep(1)
    deadline = time.time() + patience * RUN_SECONDS
    while True:
        late = time.time() > deadline
        for stage, stack in stacks.items():
            seen.lines[stage] = _log(aws, stack, start)
        if late or seen.all_ran(MESSAGES):
            for stage, stack in stacks.items():
                seen.left[stage] = {queue: sum(_counts(aws, stack[queue]).values()) for queue in QUEUES if queue in stack}
            group = stacks["schedules"]["ScheduleGroup"]
            found = aws.call("list schedules", "scheduler", "list-schedules", "--group-name", group)
            seen.waiting = [schedule["Name"] for schedule in found["Schedules"]]
            if late or not (seen.waiting or any(any(left.values()) for left in seen.left.values())):
                return seen
        time.sleep(PAUSE_SECONDS)


def _waits(aws, message, stack, seen):
    """Whether a message is seen where it waits: in the schedule group, delayed or hidden in the queue."""
    if message.mechanism == "schedule":
        name = f"frigg-defer-{seen.sent[message.name][0]}"
        try:
            seen.schedule = aws.call("read the schedule", "scheduler", "get-schedule", "--name", name, "--group-name",
                                     stack["ScheduleGroup"])
        except Refused as refused:
            if not refused.has("ResourceNotFound"):
                raise
        return seen.schedule is not None
    counts = _counts(aws, stack["QueueUrl"])
    seen.while_waiting[message.name] = counts[DELAYED if message.mechanism == "delay" else HIDDEN]
    return seen.while_waiting[message.name] > 0


def _counts(aws, url):
    found = aws.call("count messages", "sqs", "get-queue-attributes", "--queue-url", url, "--attribute-names",
                     VISIBLE, HIDDEN, DELAYED)
    return {name: int(found["Attributes"][name]) for name in (VISIBLE, HIDDEN, DELAYED)}


def _log(aws, stack, start):
    """The lines of a function's log that are JSON objects."""
    found = aws.call("read the log", "logs", "filter-log-events", "--log-group-name", stack["LogGroup"], "--start-time",
                     str(start))
    text = "\n".join(event["message"] for event in found.get("events", []))
    return [line for line in map(_json, text.splitlines()) if isinstance(line, dict)]


def _json(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


def _destroy(aws, service, stacks, bucket, key):
    """Deletes what the run made. What cannot be deleted is a failed check, with the command that does it."""
    checks = []
    names = [stack["name"] for stack in stacks.values()]

    def attempt(what, mend, step):
        try:
            step()
        except StackError as error:
            checks.append(Check(f"{what} is deleted", False, f"{error}. Delete it: {mend}"))
        except KeyboardInterrupt:
            raise StackError(f"interrupted while deleting: see whether {', '.join(names)} are gone in {aws.region}") from None

    def gone(name):
        left = _ended(aws, name)
        if left:
            raise StackError("; ".join([f"it is {left['StackStatus']}", *reasons(aws, name)]))

    delete = f"aws cloudformation delete-stack --region {aws.region} --stack-name"
    for name in names:
        print(f"deleting {name}", flush=True)
        attempt(name, f"{delete} {name}",
                lambda: aws.run(f"delete {name}", "cloudformation", "delete-stack", "--stack-name", name))
    for name in names:
        attempt(name, f"{delete} {name}", lambda: gone(name))
    if key:
        attempt(key, f"aws s3 rm s3://{bucket}/{key}",
                lambda: aws.run(f"delete {key}", "s3api", "delete-object", "--bucket", bucket, "--key", key))
    return checks or [Check("everything is deleted", True, f"{len(stacks)} stacks and the package")]


def _trail(aws, stack, since, emulator):
    """Whether CloudTrail has the schedule's creation, by the function, and no refusal."""
    deadline = time.time() + (0 if emulator else TRAIL_SECONDS)
    function, group = stack["FunctionName"], stack["ScheduleGroup"]
    if not emulator:
        print(f"waiting for CloudTrail, at most {TRAIL_SECONDS // 60} minutes", flush=True)
    try:
        while True:
            made = [event for event in _events(aws, "EventName", "CreateSchedule", since) if group in json.dumps(event)]
            if made or time.time() > deadline:
                break
            time.sleep(30)
        own = _events(aws, "Username", function, since)
    except (StackError, KeyboardInterrupt) as error:
        return [Check("CloudTrail", False, str(error) or "interrupted")]
    if emulator and not made:
        return [Check("CloudTrail", None, "the emulator does not record the scheduler's calls by name")]
    refused = [f"{event['eventName']}: {event['errorCode']}" for event in [*made, *own] if event.get("errorCode")]
    return [
        Check("CloudTrail has one CreateSchedule", len(made) == 1, f"{len(made)} in the group {group}"),
        Check("CloudTrail has no refusal", not refused, ", ".join(refused) or f"none of {function}"),
    ]


def _events(aws, attribute, value, since):
    found = aws.call("look up events", "cloudtrail", "lookup-events", "--lookup-attributes",
                     f"AttributeKey={attribute},AttributeValue={value}", "--start-time", str(since.timestamp()))
    return [json.loads(event["CloudTrailEvent"]) for event in found.get("Events", [])]


def _report(run, aws, checks):
    """Writes and prints what was found. Raises when a check failed."""
    failed = sum(check.well is False for check in checks)
    skipped = sum(check.well is None for check in checks)
    result = f"{failed} of {len(checks)} checks failed" if failed else f"all is well, {skipped} checks skipped"
    words = {True: "ok", False: "FAILED", None: "skipped"}
    lines = [f"# verify-aws {run}: {result}", "", f"{aws.where()}, {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}", "",
             "| check | | seen |", "|---|---|---|"]
    lines += [f"| {check.name} | {words[check.well]} | {check.text} |".replace("\n", " ") for check in checks]
    path = os.path.join(ROOT, "target", "verify-aws", f"{run}.md")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines) + f"\n\nreport: {os.path.relpath(path, ROOT)}", flush=True)
    if failed:
        raise StackError(result)
