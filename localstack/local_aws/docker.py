"""LocalStack in a container, where a Docker engine answers."""

import os
import subprocess

from . import LocalAwsError
from .paths import COMPOSE

PROJECT = "frigg-local-aws"


def engine_answers():
    try:
        done = subprocess.run(["docker", "info"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def up(port):
    """Returns the endpoint when the container is healthy and its ready hooks have run."""
    _compose(port, "up", "--detach", "--wait")
    return f"http://127.0.0.1:{port}"


def down(port):
    _compose(port, "down", "--volumes")


def _compose(port, *arguments):
    command = ["docker", "compose", "--file", COMPOSE, "--project-name", PROJECT, *arguments]
    # docker's progress goes to stderr, so stdout stays clean for the export lines
    done = subprocess.run(command, env={**os.environ, "FRIGG_LOCAL_PORT": str(port)}, stdout=2)
    if done.returncode != 0:
        raise LocalAwsError(f"`{' '.join(command)}` failed")
