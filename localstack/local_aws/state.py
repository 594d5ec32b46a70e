"""What `up` leaves behind for `env`, `down` and the next `up`: one JSON file below `.local/`."""

import contextlib
import fcntl
import json
import os

from .paths import local_folder
from .supervisor import alive


def _path():
    return os.path.join(local_folder(), "state.json")


@contextlib.contextmanager
def exclusive():
    """One `up` or `down` at a time."""
    with open(os.path.join(local_folder(), "up.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read():
    """The state, or None. A file whose process is gone counts as none and is removed."""
    try:
        with open(_path()) as file:
            state = json.load(file)
    except (OSError, ValueError):
        return None
    if state["flavour"] != "docker" and not _is_ours(state["pid"]):
        remove()
        return None
    return state


def write(state):
    draft = _path() + ".new"
    with open(draft, "w") as file:
        json.dump(state, file, indent=2)
    os.replace(draft, _path())


def remove():
    with contextlib.suppress(FileNotFoundError):
        os.remove(_path())


def _is_ours(pid):
    """The id could belong to another program by now."""
    if not alive(pid):
        return False
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"local-aws" in file.read()
    except OSError:
        return True  # no /proc here: the id has to do
