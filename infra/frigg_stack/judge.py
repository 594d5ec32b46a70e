"""What `make verify-aws` saw, and whether that is what must be."""

import dataclasses
import datetime
import re

# Later than this after its time is a fault. A schedule is delivered within 60 s.
LATEST_SECONDS = 90


@dataclasses.dataclass(frozen=True)
class Message:
    """A message to send: it is limited for `wait` seconds, and must be put back by `mechanism`."""

    name: str
    stage: str
    wait: int
    mechanism: str


@dataclasses.dataclass(frozen=True)
class Check:
    """`well` is None where nothing was looked at; `text` says why, or what was seen."""

    name: str
    well: bool | None
    text: str


class Seen:
    """What the looks showed."""

    def __init__(self, queues):
        self.queues = queues  # ARN by stage
        self.sent = {}  # (message id, limited until) by name
        self.lines = {}  # the function's log lines by stage
        self.while_waiting = {}  # how many messages its queue showed as delayed or hidden while a message waited, by name
        self.schedule = None  # as the scheduler had it
        self.left = {}  # how many messages are left, by stage and queue
        self.waiting = []  # names of the schedules that are left

    def runs(self, message):
        """When and as what the handler ran, in order: (time, message id, receive count)."""
        lines = [line for line in self.lines.get(message.stage, []) if line.get("id") == message.name and "at" in line]
        return sorted((moment(line["at"]), line.get("messageId"), line.get("receiveCount")) for line in lines)

    def all_ran(self, messages):
        return all(runs and runs[-1][0] >= self.sent[m.name][1] for m in messages for runs in [self.runs(m)])


def moment(text):
    """A timestamp as logs have it, to the microsecond."""
    seconds, fraction = re.fullmatch(r"(.{19})(?:\.(\d+))?(?:Z|\+00:00)", text).groups()
    at = datetime.datetime.fromisoformat(seconds + "+00:00")
    return at + datetime.timedelta(microseconds=int((fraction or "0").ljust(6, "0")[:6]))


def judge(messages, seen):
    checks = []
    for message in messages:
        checks += _message(message, seen)
        if message.mechanism == "schedule":
            checks += _schedule(message, seen)
    for stage in dict.fromkeys(message.stage for message in messages):
        checks += _stack(stage, [message for message in messages if message.stage == stage], seen)
    return checks


def _message(message, seen):
    name = message.name
    sent_as, until = seen.sent[name]
    runs = seen.runs(message)
    told = " and ".join(f"{at:%H:%M:%S.%f}"[:-3] for at, _, _ in runs) or "never"
    if not runs or runs[-1][0] < until:
        return [Check(f"{name}: comes back", False, f"limited until {until:%H:%M:%S}, ran {told}")]
    again = runs[-1]
    late = (again[0] - until).total_seconds()
    early = [at for at, _, _ in runs[1:] if at < until]
    checks = [
        Check(f"{name}: runs twice, not early", len(runs) == 2 and runs[0][0] < until and not early,
              f"limited until {until:%H:%M:%S.%f}"[:-3] + f", ran {told}"),
        Check(f"{name}: in time", late <= LATEST_SECONDS, f"{late:.1f} s late, {LATEST_SECONDS} s allowed"),
    ]
    put_back = [line for line in seen.lines[message.stage]
                if line.get("messageId") == sent_as and line.get("mechanism") and line.get("eventName")]
    ways = [line["mechanism"] for line in put_back]
    checks.append(Check(f"{name}: put back by {message.mechanism}", ways == [message.mechanism], ", ".join(ways) or "not told"))
    hidden = message.mechanism == "visibility"
    spent = f"received {again[2]} times as {'itself' if again[1] == sent_as else 'a copy'}"
    checks.append(Check(f"{name}: {'the message itself' if hidden else 'a copy, no receive spent'}",
                        (again[1] == sent_as, again[2]) == ((True, 2) if hidden else (False, 1)), spent))
    if hidden:
        gap = (again[0] - runs[0][0]).total_seconds()
        set_to = put_back[0].get("visibilityTimeout", 0) if put_back else 0
        checks.append(Check(f"{name}: a reported failure keeps the visibility that the function set",
                            set_to > 60 and gap >= set_to - 1 and len(runs) == 2,
                            f"set to {set_to} s, came back after {gap:.1f} s; the queue's own is 60 s"))
    if message.mechanism != "schedule":
        place, count = "hidden" if hidden else "delayed", seen.while_waiting.get(name, 0)
        checks.append(Check(f"{name}: seen in the queue, {place}", count >= 1, f"{count} {place}"))
    return checks


def _schedule(message, seen):
    sent_as, until = seen.sent[message.name]
    found = seen.schedule
    if not found:
        return [Check("schedule: seen in the group", False, f"frigg-defer-{sent_as} is not there")]
    up = until + datetime.timedelta(microseconds=-until.microsecond % 1_000_000)
    at, target = found["ScheduleExpression"], found["Target"]["Arn"]
    return [
        Check("schedule: seen in the group", True, found["Name"]),
        Check("schedule: at its second, rounded up", at == f"at({up:%Y-%m-%dT%H:%M:%S})", f"{at} for {until:%H:%M:%S.%f}"),
        Check("schedule: sends to the queue", target == seen.queues[message.stage], target),
        Check("schedule: deleted by itself", not seen.waiting and found.get("ActionAfterCompletion") == "DELETE",
              f"left: {', '.join(seen.waiting) or 'none'}"),
    ]


def _stack(stage, messages, seen):
    left = seen.left.get(stage, {})
    lines = seen.lines.get(stage, [])
    metrics = [line for line in lines if line.get("_aws")]
    deferred = {}
    for line in metrics:
        if line.get("Deferred"):
            deferred[line["Mechanism"]] = deferred.get(line["Mechanism"], 0) + line["Deferred"]
    must = {mechanism: [m.mechanism for m in messages].count(mechanism) for mechanism in {m.mechanism for m in messages}}
    done = sum(line.get("Succeeded", 0) for line in metrics)
    bad = [line.get("message") or line.get("eventName") or "?" for line in lines if line.get("level") == "ERROR"]
    return [
        Check(f"{stage}: queues are empty, nothing is dead", not any(left.values()),
              ", ".join(f"{queue[:-3]} {count}" for queue, count in left.items())),
        Check(f"{stage}: metrics in the log", deferred == must and done == len(messages), f"deferred {deferred}, succeeded {done}"),
        Check(f"{stage}: no error in the log", not bad, ", ".join(bad) or "none"),
    ]
