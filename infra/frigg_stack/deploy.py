"""Deploys a stage: package, upload, stack, outputs."""

import hashlib
import os
import subprocess
import tempfile
import time
import zipfile

from . import StackError, stages
from .ask import ask
from .aws import NO_ENDPOINT, Aws, Refused
from .package import must_build_for, package
from .stack import describe, must_be_free, name_of, outputs, reasons
from .tools import ROOT, tool, with_tools

TEMPLATE = os.path.join(ROOT, "infra", "template.yaml")


def deploy(service, stage, worker):
    parameters = stages.parameters(stage)
    aws = Aws()
    name = name_of(service, stage)
    found = describe(aws, name)
    if found:
        must_be_free(aws, name, found)
    if parameters.get("Scheduler", "yes") == "yes" and parameters.get("Fifo", "no") == "no":
        _needs_scheduler(aws, stage)
    architecture = parameters.get("Architecture", "arm64")
    must_build_for(architecture)
    bucket = os.environ.get("CODE_BUCKET") or f"frigg-code-{aws.account}-{aws.region}"
    ask(
        f"{'update' if found else 'create'} the stack {name} with the worker {worker} ({architecture})",
        f"put its package into the bucket {bucket}, made if need be",
        where=aws.where(),
    )
    path = package(worker, architecture)
    key = upload(aws, bucket, service, path)
    overrides = {"Service": service, "Stage": stage, "CodeBucket": bucket, "CodeKey": key, **parameters}
    command = ["cloudformation", "deploy", "--stack-name", name, "--template-file", TEMPLATE,
               "--capabilities", "CAPABILITY_IAM", "--no-fail-on-empty-changeset",
               "--parameter-overrides", *(f"{name}={value}" for name, value in overrides.items())]
    try:
        _twice(lambda: aws.run(f"deploy the stack {name}", *command))
    except Refused as refused:
        lines = "".join(f"\n  {reason}" for reason in reasons(aws, name))
        raise StackError(f"{refused}{lines}\nThe stack is as CloudFormation left it; nothing else was deleted.") from None
    stack = describe(aws, name)
    print(f"\n{name} is {stack['StackStatus']}")
    for output, value in outputs(stack).items():
        print(f"  {output:<28} {value}")
    print(f"\nLook it over: cargo run -p frigg-cli -- doctor --stack {name} --region {aws.region}")


def deploy_code(service, stage, worker):
    """New code for a function that is deployed, and nothing else."""
    parameters = stages.parameters(stage)
    aws = Aws()
    name = name_of(service, stage)
    found = describe(aws, name)
    if not found:
        raise StackError(f"there is no stack {name} in {aws.region}: run `make deploy STAGE={stage}` first")
    must_be_free(aws, name, found)
    function = outputs(found).get("FunctionName")
    if not function:
        raise StackError(f"the stack {name} is {found['StackStatus']} and names no function: run `make deploy STAGE={stage}`")
    ask(f"replace the code of the function {function} with the worker {worker}; the template's next update brings back"
        " what it knows", where=aws.where())
    path = package(worker, parameters.get("Architecture", "arm64"))
    with tempfile.TemporaryDirectory() as folder:
        # cargo-lambda takes a program, and makes a package of it itself.
        with zipfile.ZipFile(path) as file:
            binary = file.extract("bootstrap", folder)
        command = [tool("cargo-lambda"), "lambda", "deploy", "--region", aws.region, "--binary-path", binary, function]
        if os.environ.get("AWS_ENDPOINT_URL"):
            command += ["--endpoint-url", os.environ["AWS_ENDPOINT_URL"]]
        if subprocess.run(command, cwd=ROOT, env=with_tools()).returncode != 0:
            raise StackError(f"failed to deploy the code of {function} ({' '.join(command)})")


def _needs_scheduler(aws, stage):
    try:
        aws.call("ask the scheduler", "scheduler", "list-schedule-groups", "--max-results", "1")
    except Refused as refused:
        if refused.has(*NO_ENDPOINT):
            raise StackError(
                f"EventBridge Scheduler does not answer in {aws.region}, it may not exist there. Choose another region, or"
                f" set \"Scheduler\": \"no\" in infra/stages/{stage}.json ({refused.text})"
            ) from None
        # Who may not ask may still be allowed to deploy.


def upload(aws, bucket, service, path):
    """The key is the content's: what has not changed deploys nothing, what has changed is new."""
    with open(path, "rb") as file:
        key = f"{service}/{hashlib.sha256(file.read()).hexdigest()[:32]}.zip"
    try:
        aws.run("look for the bucket", "s3api", "head-bucket", "--bucket", bucket)
    except Refused as refused:
        if not refused.has("404", "Not Found", "NoSuchBucket"):
            raise StackError(f"the bucket {bucket} cannot be used: {refused.text}. Name another with CODE_BUCKET") from None
        place = [] if aws.region == "us-east-1" else ["--create-bucket-configuration", f"LocationConstraint={aws.region}"]
        aws.run(f"make the bucket {bucket}", "s3api", "create-bucket", "--bucket", bucket, *place)
        aws.run("close the bucket to the public", "s3api", "put-public-access-block", "--bucket", bucket,
                "--public-access-block-configuration",
                "BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true")
    aws.run("upload the package", "s3api", "put-object", "--bucket", bucket, "--key", key, "--body", path)
    return key


def _twice(call):
    """Two deployments that begin within a second can collide."""
    try:
        return call()
    except Refused as refused:
        if not refused.has("AlreadyExistsException", "ChangeSetNotFound", "in progress"):
            raise
        time.sleep(3)
        return call()
