"""A free port of 127.0.0.1 that no other emulator of ours picks before ours listens on it."""

import fcntl
import os
import socket
import tempfile

from . import LocalAwsError


def _free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return None
        return probe.getsockname()[1]


def claim(wanted=None, preferred=None):
    """Returns (port, lock). Keep the lock for as long as the port is used.

    Between finding a port free and the emulator's listening on it, a second emulator that starts at the same moment
    could find the same one; the first would then answer the second's health checks.
    """
    folder = os.path.join(tempfile.gettempdir(), f"frigg-local-aws-ports-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    candidates = [wanted] if wanted else [preferred] * bool(preferred) + [0] * 50
    for candidate in candidates:
        port = _free(candidate)
        if port is None:
            continue
        lock = open(os.path.join(folder, str(port)), "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return port, lock
        except BlockingIOError:
            lock.close()
    raise LocalAwsError(f"port {wanted} of 127.0.0.1 is taken" if wanted else "no free port on 127.0.0.1")
