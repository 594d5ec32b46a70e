"""A stack's state: what there is, and what may be done to it."""

from . import StackError
from .aws import Refused

# Nothing goes on from these but by a person's decision.
STUCK = {
    "REVIEW_IN_PROGRESS": "its creation was planned and not begun, so it holds nothing (unless somebody is just at it)",
    "ROLLBACK_COMPLETE": "its creation failed and was undone, so it holds nothing",
    "ROLLBACK_FAILED": "its creation failed, and so did undoing it",
    "CREATE_FAILED": "its creation failed",
    "DELETE_FAILED": "its deletion failed",
    "UPDATE_ROLLBACK_FAILED": "an update failed, and so did undoing it",
}


def name_of(service, stage):
    return f"{service}-{stage}"


def describe(aws, name):
    """The stack as CloudFormation has it, or None."""
    try:
        found = aws.call(f"read the stack {name}", "cloudformation", "describe-stacks", "--stack-name", name)
    except Refused as refused:
        if refused.has("does not exist"):
            return None
        raise
    return found["Stacks"][0]


def outputs(stack):
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def in_progress(stack):
    """Whether something works on it."""
    return stack["StackStatus"].endswith("_IN_PROGRESS") and stack["StackStatus"] not in STUCK


def resources(aws, name, kind):
    """The physical ids of a stack's resources of a type that are there, whatever state the stack is in."""
    found = aws.call(f"list what is in the stack {name}", "cloudformation", "list-stack-resources", "--stack-name", name)
    return [resource["PhysicalResourceId"] for resource in found.get("StackResourceSummaries", [])
            if resource["ResourceType"] == kind and resource.get("PhysicalResourceId")
            and resource["ResourceStatus"] != "DELETE_COMPLETE"]


def must_be_free(aws, name, stack):
    """Raises when something else works on the stack, or when it is stuck. Deletes nothing."""
    status = stack["StackStatus"]
    events = f"aws cloudformation describe-stack-events --region {aws.region} --stack-name {name}"
    if in_progress(stack):
        raise StackError(f"the stack {name} is {status}: somebody works on it. Wait until it is done ({events})")
    if status in STUCK:
        mend = (f"aws cloudformation continue-update-rollback --region {aws.region} --stack-name {name}"
                if status == "UPDATE_ROLLBACK_FAILED" else
                f"aws cloudformation delete-stack --region {aws.region} --stack-name {name}")
        raise StackError(
            f"the stack {name} is {status}: {STUCK[status]}. Nothing was changed. See why with `{events}`, then run `{mend}`"
            " and try again"
        )


def reasons(aws, name):
    """Why a stack failed: the first reasons, in order."""
    try:
        found = aws.call("read the stack's events", "cloudformation", "describe-stack-events", "--stack-name", name)
    except StackError:
        return []
    failed = [event for event in found["StackEvents"]
              if event["ResourceStatus"].endswith("FAILED") and event.get("ResourceStatusReason")]
    return [f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}" for event in reversed(failed)][:5]
