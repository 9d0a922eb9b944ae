"""A standalone cluster of Spark on 127.0.0.1, from the PySpark package."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import wait_until

START_TIMEOUT_S = 120


def environment() -> dict[str, str]:
    python = str(Path(sys.executable))
    return {
        **os.environ,
        "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }


def spark_class(*arguments: str) -> list[str]:
    import pyspark

    return [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]


@contextlib.contextmanager
def daemon(log: Path, *arguments: str, ready: str) -> Iterator[str]:
    """Start a process of a cluster and return the match in its log when it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(spark_class(*arguments), stdout=output, stderr=output, env=environment())
    try:

        def found() -> re.Match[str] | None:
            text = log.read_text(errors="replace")
            assert process.poll() is None, text
            return re.search(ready, text)

        yield wait_until(found, f"{ready!r} in {log}", START_TIMEOUT_S)[0]
    finally:
        process.terminate()
        process.wait(START_TIMEOUT_S)


@contextlib.contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """One master and two workers of one core each. Returns the master's address."""
    master_class, worker_class = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    with contextlib.ExitStack() as stack:
        started = daemon(directory / "master.log", master_class, *place, "--port", "0", ready=r"spark://127[\d.]+:\d+")
        address = stack.enter_context(started)
        for number in range(2):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker-{number}"))
            log = directory / f"worker-{number}.log"
            stack.enter_context(daemon(log, worker_class, *place, *size, address, ready="Successfully registered"))
        yield address
