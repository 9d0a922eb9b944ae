"""Spark for a pipeline: a JVM with a Spark Connect server of its own, or the address of a server that runs.

Declarative pipelines need Spark Connect. PySpark can start a server in the process, on a fixed port. Here it gets a
free port on 127.0.0.1 and a token, so that several pipelines can run on a machine and nobody else can use it. The JVM
holds the lock of the project, and ends when this process ends. Its output goes to the log file of the project.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moldau.pipelines.errors import PipelineError
from moldau.pipelines.plain_words import reason_of
from moldau.pipelines.project import PipelineProject
from moldau.spark import sessions

TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
MODE_VARIABLE: Final = "SPARK_CONNECT_MODE_ENABLED"
SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

SESSION_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.connect.serverStacktrace.enabled": "false",
}


def server_settings(project: PipelineProject, master: str | None) -> dict[str, str]:
    """The settings of the JVM: those of the project override ours. Tables and their catalogue are in the storage, if
    that is a directory: a catalogue in memory would forget the tables of the last run, and Spark refuses to create a
    table where files of one are."""
    settings = {
        "spark.app.name": project.name,
        "spark.master": master or "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        "spark.sql.pipelines.execution.watchdog.minRetryTime": "1",
        "spark.sql.streaming.pollingDelay": "50ms",
        **SESSION_SETTINGS,
    }
    if (master or "local").startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(_cores(master)),
        }
    storage = project.local_storage
    if storage is not None:
        metastore = f"jdbc:derby:;databaseName={storage / 'metastore'};create=true"
        settings |= {
            "spark.sql.warehouse.dir": str(storage / "tables"),
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
            "spark.hadoop.hive.exec.scratchdir": str(storage / "scratch"),
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
            "spark.hadoop.hive.metastore.schema.verification": "false",
            JAVA_OPTIONS: f"-Dderby.stream.error.file={project.state / 'derby.log'}",
        }
    own = {name: value for name, value in project.configuration.items() if name.startswith("spark.")}
    if JAVA_OPTIONS in settings and JAVA_OPTIONS in own:
        own[JAVA_OPTIONS] = f"{settings[JAVA_OPTIONS]} {own[JAVA_OPTIONS]}"
    return {**settings, **own}


def _cores(master: str | None) -> int:
    inside = (master or "local[*]").partition("[")[2].rstrip("]").partition(",")[0]
    return int(inside) if inside.isdigit() else (os.cpu_count() or 1) if inside == "*" else 1


class PipelineSpark:
    """The server, and one session at a time. A session keeps every update in memory, so a new one replaces it from
    time to time (`renew`)."""

    def __init__(self, project: PipelineProject, log: Path, lock: int) -> None:
        self._project = project
        self._log = log
        self._lock = lock
        self._context: Any = None
        self._process: Any = None
        self._url = ""
        self.session: Any = None

    def start(self, master: str | None, remote: str | None) -> Any:
        self._url = remote if remote is not None else self._start_server(master)
        os.environ[MODE_VARIABLE] = "1"
        self.renew()
        return self.session

    def _start_server(self, master: str | None) -> str:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql.session import SparkSession

        # Before the JVM inherits the environment. The import has set the interpreter, unless one was chosen; its path
        # may not exist on the executors of a cluster.
        if (master or "local").startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        elif sessions._WAS_SET_HERE:
            os.environ.pop(sessions.PYTHON, None)
        os.environ[TOKEN_VARIABLE] = secrets.token_hex(16)
        conf = SparkConf(loadDefaults=False).setAll(list(server_settings(self._project, master).items()))
        with self._log.open("ab") as log:
            streams = {"stdout": log, "stderr": log, "pass_fds": (self._lock,)}
            try:
                gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
                self._process = gateway.proc
                on_ctrl_c = signal.getsignal(signal.SIGINT)
                self._context = SparkContext(gateway=gateway, conf=conf)
                signal.signal(signal.SIGINT, on_ctrl_c)  # Spark has put its own in place, which ends at once
                SparkSession(self._context)
            except PySparkRuntimeError as error:
                raise PipelineError(f"Spark did not start: {reason_of(str(error))}; see {self._log}") from error
            except Exception as error:
                if type(error).__module__.startswith("py4j"):
                    raise PipelineError(f"Spark did not start: {reason_of(str(error))}; see {self._log}") from error
                raise
        service = getattr(getattr(self._context._jvm, SERVICE), "MODULE$")
        return f"sc://localhost:{service.localPort()}"

    def renew(self) -> Any:
        """Use a new session, and release the one before."""
        from pyspark.sql.connect.session import SparkSession

        before = self.session
        builder = SparkSession.builder.remote(self._url)
        settings: Mapping[str, str] = {**SESSION_SETTINGS, **self._session_settings()}
        for name, value in settings.items():
            builder = builder.config(name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.session = builder.create()
        if before is not None:
            _close(before)
        return self.session

    def _session_settings(self) -> dict[str, str]:
        """Settings that a session may set. A server that runs elsewhere has its own for all others."""
        own = self._project.configuration.items()
        return {name: value for name, value in own if name.startswith("spark.sql.") and self._context is None}

    def kill(self) -> None:
        """End the JVM at once."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        if self.session is not None:
            _close(self.session)
            self.session = None
        if self._context is not None:
            with contextlib.suppress(Exception):
                self._context.stop()
            gateway, self._context = self._context._gateway, None
            with contextlib.suppress(Exception):
                gateway.shutdown()
            if self._process is not None:
                self._process.stdin.close()
                self._process.wait()


def _close(session: Any) -> None:
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.client.release_session()
        session.client.close()
