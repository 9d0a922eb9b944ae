"""A real S3 server for tests: versitygw on a directory, bound to 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

ACCESS_KEY = "moldau-test"
SECRET_KEY = "moldau-test-secret"
BUCKET = "lake"


@dataclass(frozen=True)
class S3Server:
    url: str
    directory: Path
    """The objects are files here."""

    @property
    def options(self) -> dict[str, Any]:
        """Options of fsspec."""
        return {"key": ACCESS_KEY, "secret": SECRET_KEY, "client_kwargs": {"endpoint_url": self.url}}

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of Confluent's S3 sink."""
        return {
            "s3.bucket.name": BUCKET,
            "s3.region": "us-east-1",
            "store.url": self.url,
            "aws.access.key.id": ACCESS_KEY,
            "aws.secret.access.key": SECRET_KEY,
        }


@contextlib.contextmanager
def running_s3_server(directory: Path) -> Iterator[S3Server]:
    """A server with one bucket."""
    bucket = directory / BUCKET
    bucket.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["versitygw", "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(directory)]
    environment = {**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    with (directory.parent / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: accepts(port), "the S3 server accepts connections")
        yield S3Server(f"http://127.0.0.1:{port}", bucket)
    finally:
        process.terminate()
        process.wait(10)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
