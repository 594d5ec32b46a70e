"""A worker as a zip file for the runtime provided.al2023."""

import json
import os
import shutil
import subprocess

from . import StackError
from .tools import ROOT, tool, with_tools

# Programs that are built with a feature only.
FEATURES = {"frigg-worker": "frigg-worker/http-worker"}
TARGETS = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}


def package(worker, architecture):
    """Builds `worker` and returns the path of the zip file."""
    given = os.environ.get("PACKAGE")
    if given:
        if not os.path.isfile(given):
            raise StackError(f"PACKAGE names {given}, which is no file")
        return given
    must_build_for(architecture)
    target = TARGETS[architecture]
    # Its package alone: the features that others of the workspace want are not for a function.
    # Zig links against the glibc of Amazon Linux, whatever this machine has. COMPILER=cargo leaves it out.
    command = [tool("cargo-lambda"), "lambda", "build", "--release", "--output-format", "zip",
               "--package", _package_of(worker), "--bin", worker, "--target", target if os.environ.get("COMPILER") else f"{target}.2.34"]
    if os.environ.get("COMPILER"):
        command += ["--compiler", os.environ["COMPILER"]]
    if worker in FEATURES:
        command += ["--features", FEATURES[worker]]
    environment = {**with_tools(), "AWS_LC_SYS_NO_JITTER_ENTROPY": "1"}
    if subprocess.run(command, cwd=ROOT, env=environment).returncode != 0:
        raise StackError(f"{worker} does not build for {architecture} ({' '.join(command)})")
    built = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "lambda", worker, "bootstrap.zip")
    kept = os.path.join(os.path.dirname(built), f"{worker}-{architecture}.zip")
    shutil.move(built, kept)
    return kept


def must_build_for(architecture):
    """Raises where a package for it cannot be built."""
    missing = None if os.environ.get("PACKAGE") else missing_target(TARGETS[architecture])
    if missing:
        other = "x86_64" if architecture == "arm64" else "arm64"
        raise StackError(f"cannot build for {architecture}: {missing}, or set \"Architecture\": \"{other}\" in the stage's file."
                         " Nothing was changed")


def _package_of(worker):
    """The workspace's package that has this program."""
    found = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], stdout=subprocess.PIPE, text=True,
                           cwd=ROOT)
    if found.returncode != 0:
        raise StackError("failed to read the workspace (cargo metadata)")
    programs = {target["name"]: package["name"] for package in json.loads(found.stdout)["packages"]
                for target in package["targets"] if "bin" in target["kind"]}
    if worker not in programs:
        raise StackError(f"there is no program {worker}: the programs are {', '.join(sorted(programs))}")
    return programs[worker]


def missing_target(target):
    """Why a target cannot be built for; None when it can."""
    found = subprocess.run(["rustc", "--print", "target-libdir", "--target", target], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, cwd=ROOT)
    folder = found.stdout.strip()
    if found.returncode == 0 and os.path.isdir(folder) and any(n.startswith("libstd-") for n in os.listdir(folder)):
        return None
    return f"Rust's target {target} is not installed, run `rustup target add {target}`"
