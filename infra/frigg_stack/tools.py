"""The AWS CLI, cargo-lambda and cfn-lint: the machine's own, else those of a virtual environment below `.local/`."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

from . import StackError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Which requirements file a program comes from.
SOURCES = {"aws": "deploy", "cargo-lambda": "deploy", "cfn-lint": "lint"}
COMPLETE = "complete"


def tool(name):
    """The path of a program: one of SOURCES."""
    found = shutil.which(name)
    if found and _runs(found):
        return found
    return os.path.join(_environment(SOURCES[name]), "bin", name)


def with_tools():
    """An environment in which `cargo lambda` finds itself and zig, its linker."""
    folder = os.path.dirname(tool("cargo-lambda"))
    return {**os.environ, "PATH": folder + os.pathsep + os.environ.get("PATH", "")}


def _runs(program):
    # A version manager's shim can be there for a program that is not.
    done = subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def _environment(source):
    requirements = os.path.join(ROOT, "infra", "requirements", f"{source}.txt")
    base = os.environ.get("FRIGG_LOCAL_DIR") or os.path.join(ROOT, ".local")
    os.makedirs(base, exist_ok=True)
    with open(requirements, "rb") as file:
        digest = hashlib.sha256(file.read() + sys.version.encode()).hexdigest()[:10]
    folder = os.path.join(os.path.abspath(base), f"venv-{source}-{digest}")
    if not os.path.exists(os.path.join(folder, COMPLETE)):
        with open(folder + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(os.path.join(folder, COMPLETE)):
                _make(folder, requirements)
    return folder


def _make(folder, requirements):
    print(f"stack: installing what {os.path.relpath(requirements, ROOT)} lists into {folder} (once)", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        import ensurepip  # noqa: F401 (Debian's python3 comes without it)
    except ImportError:
        raise StackError(
            "this Python has no `venv` module with pip: install it (Debian, Ubuntu: apt-get install python3-venv)"
        ) from None
    pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
    for what, command in (
        ("make a virtual environment", [sys.executable, "-m", "venv", folder]),
        ("install the tools", [*pip, "install", "--quiet", "-r", requirements]),
    ):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            raise StackError(f"failed to {what} ({' '.join(command)}):\n{done.stdout.strip()}")
    with open(os.path.join(folder, COMPLETE), "w"):
        pass
