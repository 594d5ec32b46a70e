"""The emulator's virtual environment: made once per requirements file, safe when several processes ask at once."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

from . import LocalAwsError
from .paths import local_folder, requirements

COMPLETE = "complete"


def ensure(flavour_name):
    """Returns the environment's bin folder, making the environment first if need be."""
    wanted = requirements(flavour_name)
    with open(wanted, "rb") as file:
        digest = hashlib.sha256(file.read() + sys.version.encode()).hexdigest()[:10]
    folder = os.path.join(local_folder(), f"venv-{flavour_name}-{digest}")
    if not os.path.exists(os.path.join(folder, COMPLETE)):
        with open(folder + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(os.path.join(folder, COMPLETE)):
                _make(flavour_name, wanted, folder)
    return os.path.join(folder, "bin")


def _make(flavour_name, wanted, folder):
    print(f"local-aws: installing {flavour_name} into {folder} (once)", file=sys.stderr, flush=True)
    # One that an earlier attempt left half done.
    shutil.rmtree(folder, ignore_errors=True)
    try:
        import ensurepip  # noqa: F401 (Debian's python3 comes without it)
    except ImportError:
        raise LocalAwsError(
            "this Python has no `venv` module with pip: install it (Debian, Ubuntu: apt-get install python3-venv)"
        ) from None
    pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
    for what, command in (
        ("make a virtual environment", [sys.executable, "-m", "venv", folder]),
        ("install the packages", [*pip, "install", "--quiet", "--no-compile", "--no-deps", "-r", wanted]),
        ("check the packages", [*pip, "check"]),
    ):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            raise LocalAwsError(f"failed to {what} ({' '.join(command)}):\n{done.stdout.strip()}")
    with open(os.path.join(folder, COMPLETE), "w"):
        pass
