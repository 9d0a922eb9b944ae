"""Cost of TLS 1.3: broker CPU time per GB for produce and fetch of 1 MB batches over TLS.

Compared in the same run with Apache Kafka over TLS, and with the smallest uvloop loop that moves the same bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import psutil

from bench import bare_tls, kcat
from bench.harness import GB, HOST, Broker, Context, Row, create_topic, free_port, median, settle, spread
from bench.produce import BARE_RUNS, LARGE, PARTITIONS
from moldau.security.certificates import new_authority, new_certificate
from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars
from tests.compat.apache_kafka.processes import ApacheKafka

LIMIT_TO_KAFKA = 0.5
LIMIT_TO_BARE = 1.3
KAFKA_WARM_UPS = 3
KAFKA_JVM_FLAGS = (
    "-Xms1G",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
"""As in Kafka's start script. The tests of compatibility switch the optimising compiler off, and with it the AES
instructions: then TLS costs Kafka several times as much."""


class Files(NamedTuple):
    """The certificate of the servers, and that of the authority that clients trust."""

    server: Path
    authority: Path

    def server_settings(self) -> dict[str, str]:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.server)}

    def client_settings(self) -> tuple[str, ...]:
        return ("security.protocol=ssl", f"ssl.ca.location={self.authority}")


class Server(NamedTuple):
    """A server to measure: its addresses without and with TLS, its process, and where it keeps its data."""

    name: str
    plain: str
    tls: str
    pid: int
    data: Path

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system


def make_files(directory: Path) -> Files:
    now = datetime.now(UTC)
    authority = new_authority("bench", now)
    files = Files(directory / "server.pem", directory / "ca.pem")
    files.server.write_text(new_certificate(authority, "server", now, hosts=[HOST, "localhost"]).pem)
    files.authority.write_text(authority.certificate)
    return files


def run(context: Context) -> Iterator[Row]:
    with context.scratch("tls") as directory:
        files = make_files(directory)
        port = free_port()
        broker = Broker(
            directory / "moldau",
            [f"{name}={value}" for name, value in files.server_settings().items()],
            other_listeners=[f"SSL://{HOST}:{port}"],
        )
        with broker, _kafka(context, directory, files) as kafka:
            broker.start()
            moldau = Server("Moldau", broker.address, f"{HOST}:{port}", broker.pid, broker.data)
            yield from _compare(context, files, moldau, kafka)


@contextlib.contextmanager
def _kafka(context: Context, directory: Path, files: Files) -> Iterator[Server]:
    try:
        jars = replace(fetch_jars(), jvm_flags=KAFKA_JVM_FLAGS)
    except JarsUnavailableError as error:
        raise RuntimeError(f"Apache Kafka could not be fetched: {error}") from error
    home, port = directory / "kafka", free_port()
    home.mkdir()
    kafka = ApacheKafka(jars, home, files.server_settings(), other_listeners={"SSL": f"{HOST}:{port}"})
    with kafka:
        server = Server("Kafka", kafka.bootstrap, f"{HOST}:{port}", kafka.pid, kafka.data)
        for turn in range(KAFKA_WARM_UPS):  # the JVM compiles its hot methods only after some load
            context.say(f"warming up Kafka, {turn + 1} of {KAFKA_WARM_UPS}")
            _measure(context, files, server, f"warm-up-{turn}")
        yield server


class Costs(NamedTuple):
    """CPU seconds per GB."""

    produce: float
    fetch: float
    bytes: int


def _measure(context: Context, files: Files, server: Server, topic: str) -> Costs:
    lines = context.lines(context.sized(4_000_000, 2_000_000))
    create_topic(server.plain, topic, PARTITIONS)
    settle()
    before = server.cpu_seconds()
    kcat.produce(server.tls, topic, lines, (*LARGE.settings, *files.client_settings()))
    produced = server.cpu_seconds()
    found = kcat.stored(server.data, topic)
    settle()
    began = server.cpu_seconds()
    kcat.consume(server.tls, topic, files.client_settings())
    fetched = server.cpu_seconds()
    return Costs((produced - before) / found.bytes * GB, (fetched - began) / found.bytes * GB, found.bytes)


def _compare(context: Context, files: Files, moldau: Server, kafka: Server) -> Iterator[Row]:
    ours, theirs = [], []
    bare_receive: list[float] = []
    bare_send: list[float] = []
    _measure(context, files, moldau, "warm-up")
    for turn in range(context.repeats):
        topic = f"tls-{turn}"
        ours.append(_measure(context, files, moldau, topic))
        theirs.append(_measure(context, files, kafka, topic))
        segments, size = kcat.segments(moldau.data, topic), ours[-1].bytes
        with context.scratch("bare") as directory:
            for _ in range(BARE_RUNS):
                bare_receive.append(bare_tls.receive_seconds(size, directory, files.server) / size * GB)
                bare_send.append(bare_tls.send_seconds(segments, files.server) / size * GB)
        context.say(
            f"TLS, CPU s/GB: produce {ours[-1].produce:.2f} (Kafka {theirs[-1].produce:.2f}, bare "
            f"{median(bare_receive):.2f}), fetch {ours[-1].fetch:.2f} (Kafka {theirs[-1].fetch:.2f}, bare "
            f"{median(bare_send):.2f})"
        )
    for what, bare in (("produce", bare_receive), ("fetch", bare_send)):
        mine = [getattr(cost, what) for cost in ours]
        others = [getattr(cost, what) for cost in theirs]
        note = f"{median(mine):.2f} ({spread(mine)}) against {{:.2f}} ({{}}) CPU s/GB, TLS 1.3, 1 MB batches"
        name = f"TLS {what}: broker CPU"
        yield Row(
            f"{name}, Kafka over TLS",
            median(mine) / median(others),
            "x Kafka",
            LIMIT_TO_KAFKA,
            note=note.format(median(others), spread(others)),
        )
        yield Row(
            f"{name}, bare TLS loop",
            median(mine) / median(bare),
            "x bare",
            LIMIT_TO_BARE,
            note=note.format(median(bare), spread(bare)),
        )
