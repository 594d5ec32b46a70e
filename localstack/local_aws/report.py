"""What the shell is told: `export` lines for a worker, an SDK or the AWS CLI."""

import shlex

from . import api
from .flavours import credentials

QUEUE = "frigg-queue"
DEAD_LETTERS = "frigg-dead-letters"
ROLE = "frigg-scheduler-role"
GROUP = "frigg-integration-schedules"


def variables(endpoint):
    return {
        **credentials(endpoint),
        "FRIGG_QUEUE_URL": api.queue_url(endpoint, QUEUE),
        "FRIGG_SCHEDULE_DLQ_ARN": api.queue_arn(DEAD_LETTERS),
        "SCHEDULER_ROLE_ARN": api.role_arn(ROLE),
        "SCHEDULE_GROUP_NAME": GROUP,
    }


def exports(values):
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())
