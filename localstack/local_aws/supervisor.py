"""One emulator process, from start to end.

The supervisor stays in front of the emulator for as long as it runs, because an emulator must never outlive its user: a
test that is killed cannot clean up. It ends the emulator when it gets SIGTERM, SIGINT or SIGHUP, when its standard
input closes (`until_stdin_closes`: the pipe's other end is in the test process, and the kernel closes it whatever
happens there), when `parent` is gone, and when the emulator ends by itself. If the supervisor itself is killed, the
kernel ends the emulator (Linux).
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from . import LocalAwsError, api, ports, venv
from .flavours import clean_environment
from .paths import PROVISION

ATTEMPTS = 3
# Functions get this long to end by themselves.
GRACE_SECONDS = 3


class Emulator:
    """A started emulator: `endpoint`, `pid`; `stop()` ends it with everything that it started."""

    def __init__(self, flavour, port, lock, bin_folder, log_path, variables):
        self.flavour = flavour
        self.endpoint = f"http://127.0.0.1:{port}"
        self._port_lock = lock
        self._bin = bin_folder
        self.folder = tempfile.mkdtemp(prefix="frigg-local-aws-")
        self._environment = {**clean_environment(flavour, port, self.folder), **variables}
        self.log_path = log_path or os.path.join(self.folder, "emulator.log")
        with open(self.log_path, "wb") as log:
            # Its own session: the whole group can be ended, and a Ctrl-C in the terminal reaches the supervisor only.
            self._process = subprocess.Popen(
                flavour.command(bin_folder, port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_end_with_parent(),
            )
        self.pid = self._process.pid

    def ended(self):
        return self._process.poll() is not None

    def wait_until_up(self, stop):
        """True when it answers, False when it ended first."""
        deadline = time.monotonic() + self.flavour.start_timeout
        while not stop.is_set():
            if self.ended():
                return False
            if api.answers(self.endpoint + self.flavour.health_path):
                return True
            if time.monotonic() > deadline:
                raise LocalAwsError(
                    f"{self.flavour.name} did not answer within {self.flavour.start_timeout} s:\n{self.log_tail()}"
                )
            stop.wait(0.1)
        return False

    def provision(self):
        done = subprocess.run(
            [os.path.join(self._bin, "python"), PROVISION],
            env={**self._environment, **{k: v for k, v in os.environ.items() if k.startswith("FRIGG_LOCAL_")}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise LocalAwsError(f"failed to provision:\n{done.stdout.strip()}")

    def log_tail(self, lines=30):
        try:
            with open(self.log_path, errors="replace") as log:
                return "".join(log.readlines()[-lines:]).rstrip()
        except OSError:
            return "(no log)"

    def stop(self):
        for sign, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
            try:
                os.killpg(self.pid, sign)
            except ProcessLookupError:
                break
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and _group_alive(self._process):
                time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._port_lock.close()


def supervise(flavour, *, on_ready, port=None, preferred_port=None, provision=True, log_path=None,
              variables=None, until_stdin_closes=False, parent=None):
    """Starts the emulator, calls `on_ready(emulator)`, and returns when it has ended. Returns the exit status."""
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, lambda *_: stop.set())
    bin_folder = venv.ensure(flavour.name)
    emulator = _start(flavour, port, preferred_port, bin_folder, log_path, variables or {}, stop)
    if emulator is None:
        return 0
    try:
        if provision:
            emulator.provision()
        on_ready(emulator)
        if until_stdin_closes:
            threading.Thread(target=_watch_stdin, args=(stop,), daemon=True).start()
        while not stop.wait(0.25):
            if emulator.ended():
                raise LocalAwsError(f"{flavour.name} ended unexpectedly:\n{emulator.log_tail()}")
            if parent is not None and not alive(parent):
                break
    finally:
        emulator.stop()
    return 0


def _start(flavour, port, preferred_port, bin_folder, log_path, variables, stop):
    for attempt in range(1, ATTEMPTS + 1):
        claimed, lock = ports.claim(port, preferred_port)
        emulator = Emulator(flavour, claimed, lock, bin_folder, log_path, variables)
        try:
            up = emulator.wait_until_up(stop)
        except BaseException:
            emulator.stop()
            raise
        if up:
            return emulator
        tail = emulator.log_tail()
        emulator.stop()
        if stop.is_set():
            return None
        # Somebody else's program may have taken the port meanwhile.
        if port or attempt == ATTEMPTS:
            raise LocalAwsError(f"{flavour.name} ended while it started:\n{tail}")
    raise AssertionError("unreachable")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _group_alive(process):
    process.poll()  # reaps it, else it counts as alive
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _watch_stdin(stop):
    try:
        while sys.stdin.buffer.raw.read(1024):
            pass
    except (OSError, ValueError):
        pass
    stop.set()


def _end_with_parent():
    """Linux's parent-death signal, for the case that the supervisor is killed."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    pr_set_pdeathsig = 1
    return lambda: prctl(pr_set_pdeathsig, signal.SIGKILL)
