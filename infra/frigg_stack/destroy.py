"""Destroys a stage. Messages that wait in it would go with it, so they are counted first."""

import os

from . import StackError
from .ask import ask
from .aws import Aws, Refused
from .stack import describe, in_progress, name_of, reasons, resources

COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")


def destroy(service, stage):
    aws = Aws()
    name = name_of(service, stage)
    found = describe(aws, name)
    if not found:
        raise StackError(f"there is no stack {name} in {aws.region} of account {aws.account}: nothing was deleted")
    if in_progress(found):
        raise StackError(f"the stack {name} is {found['StackStatus']}: somebody works on it. Nothing was deleted, wait"
                         " until it is done")
    waiting = _waiting(aws, name)
    if waiting and os.environ.get("LOSE_MESSAGES") != "1":
        lines = "".join(f"\n  {count} in {place}" for place, count in waiting.items())
        raise StackError(f"the stack {name} holds messages that would be lost with it:{lines}\nNothing was deleted. Let them"
                         " run or move them away, or say LOSE_MESSAGES=1")
    lost = [f"lose {count} messages in {place}" for place, count in waiting.items()]
    ask(f"delete the stack {name} with its queues, schedules, function and logs", *lost, where=aws.where())
    aws.run(f"delete the stack {name}", "cloudformation", "delete-stack", "--stack-name", name)
    try:
        aws.run("wait for the deletion", "cloudformation", "wait", "stack-delete-complete", "--stack-name",
                found["StackId"])
    except Refused as refused:
        lines = "".join(f"\n  {reason}" for reason in reasons(aws, name))
        raise StackError(f"{refused}{lines}") from None
    print(f"{name} is gone. The packages stay in their bucket.")


def _waiting(aws, name):
    """How many messages wait in the queues that the stack made, and as schedules. A half-made stack has no outputs, but may
    have queues."""
    waiting = {}
    for url in resources(aws, name, "AWS::SQS::Queue"):
        found = aws.call("count messages", "sqs", "get-queue-attributes", "--queue-url", url, "--attribute-names", *COUNTS)
        waiting[url] = sum(int(count) for count in found.get("Attributes", {}).values())
    for group in resources(aws, name, "AWS::Scheduler::ScheduleGroup"):
        found = aws.call("count schedules", "scheduler", "list-schedules", "--group-name", group)
        waiting[f"the schedule group {group}"] = len(found.get("Schedules", []))
    return {place: count for place, count in waiting.items() if count}
