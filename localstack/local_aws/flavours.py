"""The emulators that run without Docker, and what differs between them."""

import os
from dataclasses import dataclass, field
from typing import Callable

REGION = "us-east-1"
ACCOUNT = "000000000000"


@dataclass(frozen=True)
class Flavour:
    name: str
    health_path: str
    # Seconds until it must answer. LocalStack loads for a while.
    start_timeout: int
    # (virtual environment's bin folder, port) -> command line
    command: Callable[[str, int], list]
    # (port, temp folder) -> variables beside those of `clean_environment`
    environment: Callable[[int, str], dict] = field(default=lambda port, folder: {})


FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour(
            name="ministack",
            health_path="/_ministack/health",
            start_timeout=60,
            command=lambda bin, port: [f"{bin}/ministack"],
            environment=lambda port, folder: {
                "GATEWAY_PORT": str(port),
                "BIND_HOST": "127.0.0.1",
                "MINISTACK_HOST": "127.0.0.1",
                "LAMBDA_EXECUTOR": "local",
                # It would listen on fixed ports for these.
                "IOT_MTLS_ENABLED": "0",
                "SFTP_ENABLED": "0",
            },
        ),
        Flavour(
            name="localstack",
            health_path="/_localstack/health",
            start_timeout=180,
            command=lambda bin, port: [f"{bin}/python", "-m", "localstack.runtime.main"],
            environment=lambda port, folder: {
                "GATEWAY_SERVER": "hypercorn",
                "GATEWAY_LISTEN": f"127.0.0.1:{port}",
                "LOCALSTACK_HOST": f"127.0.0.1:{port}",
                "SQS_ENDPOINT_STRATEGY": "path",
                "FILESYSTEM_ROOT": os.path.join(folder, "fs"),
                # No usage reports, no certificate download, no DNS server.
                "DISABLE_EVENTS": "1",
                "SKIP_SSL_CERT_DOWNLOAD": "1",
                "DNS_ADDRESS": "0",
            },
        ),
        Flavour(
            name="moto",
            health_path="/moto-api/",
            start_timeout=60,
            command=lambda bin, port: [f"{bin}/moto_server", "-H", "127.0.0.1", "-p", str(port)],
            # moto's own default is another account than the other two have.
            environment=lambda port, folder: {"MOTO_ACCOUNT_ID": ACCOUNT},
        ),
    )
}


def credentials(endpoint):
    """What every client of the emulator, and every function in it, is given."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }


def clean_environment(flavour, port, folder):
    """The emulator's whole environment.

    Nothing is inherited: functions that the emulator runs see the emulator's environment, so a variable of the
    caller's shell (a log level, a proxy, real credentials) would reach them. `AWS_ENDPOINT_URL` points at the
    emulator itself for the same reason: it is how a function finds its queue.
    """
    return {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # The emulators sweep a Docker daemon for leftovers of their own if they find one. Not ours to touch.
        "DOCKER_HOST": f"unix://{folder}/no-docker.sock",
        **credentials(f"http://127.0.0.1:{port}"),
        **flavour.environment(port, folder),
    }
