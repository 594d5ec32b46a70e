"""The command line."""

import argparse
import os
import subprocess
import sys

from . import StackError
from .deploy import TEMPLATE, deploy, deploy_code
from .destroy import destroy
from .package import TARGETS, missing_target, package
from .tools import ROOT, tool
from .verify import verify


def main():
    parser = argparse.ArgumentParser(prog="infra/stack", description="Packages, deploys and destroys a worker's stack.")
    parser.add_argument("--worker", default="contact_sync", help="the program to deploy (default: the example)")
    parser.add_argument("--service", default="frigg", help="part of every name (default: frigg)")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("package", help="build zip files for arm64 and x86_64")
    build.add_argument("--architecture", choices=sorted(TARGETS), help="for one only")
    for name, text in (
        ("deploy", "package, upload, deploy, print what there is"),
        ("deploy-code", "new code for the deployed function, quickly"),
        ("destroy", "delete the stack"),
    ):
        commands.add_parser(name, help=text).add_argument("stage")
    commands.add_parser("verify", help="put messages back in every way, in stacks made for it and deleted after it")
    commands.add_parser("lint", help="cfn-lint on the template")
    given = parser.parse_args()
    try:
        if given.command == "package":
            _package(given.worker, given.architecture)
        elif given.command == "lint":
            return subprocess.run([tool("cfn-lint"), "--template", TEMPLATE]).returncode
        elif given.command == "verify":
            verify()
        elif given.command == "deploy":
            deploy(given.service, given.stage, given.worker)
        elif given.command == "deploy-code":
            deploy_code(given.service, given.stage, given.worker)
        else:
            destroy(given.service, given.stage)
    except StackError as error:
        print(f"stack: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstack: interrupted. What AWS was told to do goes on there", file=sys.stderr)
        return 130
    return 0


def _package(worker, only):
    """Without a choice: for every architecture that can be built for. The others are named."""
    built = []
    for architecture in [only] if only else TARGETS:
        missing = missing_target(TARGETS[architecture])
        if missing and not only:
            print(f"stack: not for {architecture}: {missing}", file=sys.stderr)
            continue
        built.append(package(worker, architecture))
    if not built:
        raise StackError("nothing was built")
    for path in built:
        print(f"{os.path.relpath(path, ROOT)}  {os.path.getsize(path) / 1e6:.1f} MB")
