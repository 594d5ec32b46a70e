"""Stages: `infra/stages/<stage>.json` holds a stage's parameters of the template."""

import json
import os
import re

from . import StackError
from .tools import ROOT

FOLDER = os.path.join(ROOT, "infra", "stages")


def known():
    return sorted(name[:-5] for name in os.listdir(FOLDER) if name.endswith(".json"))


def parameters(stage):
    """A stage's parameters. A stage without a file is a slip of the pen, not a new stage."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", stage) or stage not in known():
        raise StackError(
            f"there is no stage {stage!r}: the stages are {', '.join(known())}. To add one, copy infra/stages/dev.json to"
            " infra/stages/<stage>.json (small letters, digits and hyphens, at most 20)"
        )
    path = os.path.join(FOLDER, f"{stage}.json")
    try:
        with open(path) as file:
            found = json.load(file)
    except ValueError as error:
        raise StackError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(value, (str, int)) for value in found.values()):
        raise StackError(f"{path} must be one JSON object of parameter names and values")
    return {name: str(value) for name, value in found.items()}
