"""The subcommands.

    local-aws up      start local AWS, provision it, print `export` lines (again: prints the same)
    local-aws env     print the lines of the one that runs
    local-aws down    stop it
    local-aws run     one emulator in the foreground, for tests: prints one line of JSON when it is ready
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

from . import LocalAwsError, docker, report, state, venv
from .flavours import FLAVOURS
from .paths import local_folder
from .supervisor import alive, supervise

DEFAULT_PORT = 4566


def main():
    options = _parser().parse_args()
    try:
        return options.command(options)
    except LocalAwsError as error:
        print(f"local-aws: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser():
    parser = argparse.ArgumentParser(
        prog="local-aws", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="start local AWS and print `export` lines")
    up.add_argument("--flavour", choices=["auto", "docker", *FLAVOURS], default="auto",
                    help="auto (the default): docker where an engine answers, else ministack")
    up.add_argument("--port", type=int, help=f"default: {DEFAULT_PORT}, or any free one when that is taken")
    up.set_defaults(command=_up)

    commands.add_parser("env", help="print the `export` lines of the one that runs").set_defaults(command=_env)
    commands.add_parser("down", help="stop it").set_defaults(command=_down)

    run = commands.add_parser("run", help="one emulator in the foreground, on any free port")
    run.add_argument("--flavour", choices=list(FLAVOURS), default="ministack")
    run.add_argument("--port", type=int, help="default: any free one")
    run.add_argument("--no-provision", action="store_true", help="no queue, role and group")
    run.add_argument("--log", help="the emulator's output goes to this file (default: its temp folder)")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                     help="a variable of the emulator's environment, and so of the functions that it runs")
    run.add_argument("--until-stdin-closes", action="store_true", help="end when standard input ends")
    run.add_argument("--parent-pid", type=int, help="end when this process is gone")
    run.add_argument("--state", action="store_true", help=argparse.SUPPRESS)
    run.set_defaults(command=_run)
    return parser


def _up(options):
    with state.exclusive():
        running = state.read()
        if running is None:
            flavour = options.flavour
            if flavour == "auto":
                flavour = "docker" if docker.engine_answers() else "ministack"
            running = _start_docker(options.port) if flavour == "docker" else _start(flavour, options.port)
        elif options.flavour not in ("auto", running["flavour"]):
            raise LocalAwsError(f"{running['flavour']} is up already: `local-aws down` first")
        elif options.port and f":{options.port}" not in running["endpoint"]:
            raise LocalAwsError(f"it is up already at {running['endpoint']}: `local-aws down` first")
    print(f"local-aws: {running['flavour']} at {running['endpoint']}", file=sys.stderr)
    return _env(options)


def _start(flavour, port):
    # Here rather than in the supervisor, so that its progress is seen.
    venv.ensure(flavour)
    log = os.path.join(local_folder(), f"{flavour}.log")
    errors = os.path.join(local_folder(), "supervisor.log")
    command = [sys.executable, sys.argv[0], "run", "--state", "--flavour", flavour, "--log", log]
    if port:
        command += ["--port", str(port)]
    with open(errors, "wb") as stderr:
        # Its own session: it stays when the terminal goes.
        supervisor = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
    try:
        while supervisor.poll() is None:
            running = state.read()
            if running is not None and running["pid"] == supervisor.pid:
                return running
            time.sleep(0.05)
    except KeyboardInterrupt:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait(timeout=20)
        raise
    with open(errors, errors="replace") as file:
        message = file.read().strip()
    raise LocalAwsError(message.removeprefix("local-aws: ") or f"it ended while it started, see {log}")


def _start_docker(port):
    port = port or DEFAULT_PORT
    running = {"flavour": "docker", "endpoint": docker.up(port), "port": port, "pid": 0}
    state.write(running)
    return running


def _env(_options):
    running = state.read()
    if running is None:
        raise LocalAwsError("it is not up: `local-aws up` starts it")
    try:
        values = report.variables(running["endpoint"])
    except OSError as error:
        raise LocalAwsError(f"{running['flavour']} at {running['endpoint']} does not answer: {error}") from None
    sys.stdout.write(report.exports(values))
    return 0


def _down(_options):
    with state.exclusive():
        running = state.read()
        if running is None:
            print("local-aws: it is not up", file=sys.stderr)
            return 0
        if running["flavour"] == "docker":
            docker.down(running["port"])
        else:
            _end(running["pid"])
        state.remove()
    return 0


def _end(pid):
    for sign, seconds in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not alive(pid):
                return
            time.sleep(0.05)


def _run(options):
    flavour = FLAVOURS[options.flavour]

    def on_ready(emulator):
        facts = {
            "flavour": flavour.name,
            "endpoint": emulator.endpoint,
            "pid": os.getpid(),
            "emulator_pid": emulator.pid,
            "log": emulator.log_path,
        }
        if options.state:
            state.write(facts)
        else:
            print(json.dumps(facts), flush=True)

    try:
        return supervise(
            flavour,
            on_ready=on_ready,
            port=options.port,
            preferred_port=DEFAULT_PORT if options.state else None,
            provision=not options.no_provision,
            log_path=options.log,
            variables=dict(variable.split("=", 1) for variable in options.set),
            until_stdin_closes=options.until_stdin_closes,
            parent=options.parent_pid,
        )
    finally:
        if options.state:
            state.remove()
