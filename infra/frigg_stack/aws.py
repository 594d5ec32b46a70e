"""Calls of the AWS CLI, and what its refusals mean."""

import json
import os
import subprocess

from . import StackError
from .tools import tool

NO_CREDENTIALS = ("Unable to locate credentials", "NoCredentials", "could not be found", "Token has expired",
                  "ExpiredToken", "InvalidClientTokenId", "SSO session", "SignatureDoesNotMatch")
NO_ENDPOINT = ("Could not connect to the endpoint", "Invalid endpoint", "EndpointConnectionError")


class Refused(StackError):
    """AWS said no; `text` is its answer."""

    def __init__(self, what, text):
        super().__init__(f"failed to {what}: {text}")
        self.text = text

    def has(self, *words):
        return any(word in self.text for word in words)


class Aws:
    """An account and a region."""

    def __init__(self):
        self._program = tool("aws")
        self.region = self._region()
        try:
            identity = self.call("learn who you are", "sts", "get-caller-identity")
        except Refused as refused:
            if refused.has(*NO_CREDENTIALS):
                raise StackError(
                    "there are no AWS credentials that work: run `aws configure` or `aws sso login`, or set AWS_PROFILE"
                    f" ({refused.text})"
                ) from None
            raise
        self.account, self.arn = identity["Account"], identity["Arn"]

    def _region(self):
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            if os.environ.get(name):
                return os.environ[name]
        found = subprocess.run([self._program, "configure", "get", "region"], stdout=subprocess.PIPE, text=True)
        if not found.stdout.strip():
            raise StackError("no region is set: set AWS_REGION, or run `aws configure`")
        return found.stdout.strip()

    def run(self, what, *arguments):
        """The text that a command prints."""
        command = [self._program, *arguments, "--region", self.region]
        # Not every version of the CLI, and not for every service, reads the variables itself.
        endpoint = os.environ.get(f"AWS_ENDPOINT_URL_{arguments[0].upper()}") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint:
            command += ["--endpoint-url", endpoint]
        environment = {**os.environ, "AWS_PAGER": "", "AWS_MAX_ATTEMPTS": os.environ.get("AWS_MAX_ATTEMPTS", "3")}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        if done.returncode != 0:
            raise Refused(what, done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def call(self, what, *arguments):
        """The JSON that a command prints."""
        text = self.run(what, *arguments, "--output", "json")
        return json.loads(text) if text.strip() else {}

    def where(self):
        emulator = os.environ.get("AWS_ENDPOINT_URL")
        place = f", which is {emulator}" if emulator else ""
        return f"account {self.account} ({self.arn}), region {self.region}{place}"
