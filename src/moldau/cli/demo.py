"""`moldau demo`:

a broker in a process of its own, a real client (librdkafka), every record there and back, and a checksum.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TOPIC = "demo"
PARTITIONS = 6
RECORD_BYTES = 100
START_TIMEOUT_S = 20.0
IDLE_TIMEOUT_S = 30.0
POLL_RECORDS = 10_000


class DemoError(Exception):
    """What went wrong, for a person."""


def run_demo(records: int) -> int:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        print("moldau: the demo needs a Kafka client: pip install confluent-kafka", file=sys.stderr)
        return 1
    from rich.console import Console

    console = Console()
    with tempfile.TemporaryDirectory(prefix="moldau-demo-") as data:
        try:
            console.print("[bold]Moldau demo[/]: one broker, one unmodified Kafka client, every record there and back")
            started = time.perf_counter()
            with _broker(data) as address:
                console.print(f"broker ready on {address} after {time.perf_counter() - started:.2f} s")
                sent = _produce(console, address, records)
                received = _consume(console, address, records)
                return _report(console, records, sent, received)
        except DemoError as error:
            console.print(f"[red]demo failed:[/] {error}")
            return 1


@contextmanager
def _broker(data: str) -> Iterator[str]:
    """A broker process on a free port; stopped, cleanly, when the block ends."""
    command = [sys.executable, "-m", "moldau", "up", "--data", data, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment())
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = re.search(r"ready on (\S+)", line)
        if ready is None:
            raise DemoError(f"the broker did not start: {line.strip() or 'it ended without a word'}")
        yield ready[1]
    finally:
        process.send_signal(signal.SIGTERM)
        if process.wait(START_TIMEOUT_S) != 0:
            raise DemoError(f"the broker ended with exit code {process.returncode}")


class Tally:
    """Records counted and summed up, in an order that does not matter: partitions come back interleaved."""

    def __init__(self) -> None:
        self.count = 0
        self.checksum = 0
        self.seconds = 0.0

    def add(self, value: bytes) -> None:
        self.count += 1
        self.checksum += zlib.crc32(value)

    @property
    def rate(self) -> str:
        return f"{self.count / self.seconds:,.0f} records/s, {self.count * RECORD_BYTES / self.seconds / 1e6:,.0f} MB/s"


def _produce(console: Any, address: str, records: int) -> Tally:
    from confluent_kafka import KafkaException, Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": address})  # kept while its future is open: it cancels what it leaves
    try:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(START_TIMEOUT_S)
    except KafkaException as error:
        raise DemoError(f"topic {TOPIC!r} could not be created: {error}") from error
    tally = Tally()
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "on_delivery": delivered,
        }
    )
    filler = b"." * RECORD_BYTES
    started = time.perf_counter()
    with _progress(console) as progress:
        task = progress.add_task("writing", total=records)
        for number in range(records):
            value = (b"record %d " % number + filler)[:RECORD_BYTES]
            tally.add(value)
            while True:
                try:
                    producer.produce(TOPIC, value)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % POLL_RECORDS == 0:
                producer.poll(0)
                progress.update(task, completed=number)
        left = producer.flush(IDLE_TIMEOUT_S)
        progress.update(task, completed=records)
    tally.seconds = time.perf_counter() - started
    if failures or left:
        raise DemoError(f"{len(failures)} records failed ({failures[:1]}), {left} were not acknowledged")
    return tally


def _consume(console: Any, address: str, records: int) -> Tally:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    tally = Tally()
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "demo",
            "enable.auto.commit": False,
            "queued.min.messages": 500_000,
            "fetch.queue.backoff.ms": 1,  # its default makes a full queue wait for a second
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    started = time.perf_counter()
    try:
        with _progress(console) as progress:
            task = progress.add_task("reading", total=records)
            while tally.count < records:
                messages = consumer.consume(POLL_RECORDS, IDLE_TIMEOUT_S)
                if not messages:
                    raise DemoError(f"only {tally.count} of {records} records came back within {IDLE_TIMEOUT_S:.0f} s")
                for message in messages:
                    if message.error():
                        raise DemoError(str(message.error()))
                    tally.add(message.value() or b"")
                progress.update(task, completed=tally.count)
    finally:
        consumer.close()
    tally.seconds = time.perf_counter() - started
    return tally


def _progress(console: Any) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _report(console: Any, records: int, sent: Tally, received: Tally) -> int:
    from rich.table import Table

    table = Table(show_header=True, header_style="bold")
    for column in ("", "records", "rate", "checksum"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("written", f"{sent.count:,}", sent.rate, f"{sent.checksum:#x}")
    table.add_row("read", f"{received.count:,}", received.rate, f"{received.checksum:#x}")
    console.print(table)
    console.print("(the rates include the Python client, which is the slower side)")
    if (sent.count, sent.checksum) != (received.count, received.checksum) or sent.count != records:
        console.print("[red]the records read are not the records written[/]")
        return 1
    console.print(
        "[green]every record came back, byte for byte.[/] Next: [bold]moldau up[/], then point any Kafka client at it."
    )
    return 0


def _environment() -> dict[str, str]:
    """The environment for the broker of the demo: settings of the user's own broker must not reach it."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_") or name == "MOLDAU_PURE"
    }
