"""Smaller demo without Spark: one broker and our clients send and receive records and compare a checksum."""

from __future__ import annotations

import tempfile
import time
import zlib
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from moldau.cli.demonstration.processes import DemoError, broker

TOPIC: Final = "demo"
PARTITIONS: Final = 6
RECORD_BYTES: Final = 100
IDLE_TIMEOUT_S: Final = 30.0
REPORT_EVERY: Final = 10_000


class Tally:
    """Counts and sums up records independently of their order, because partitions arrive interleaved."""

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


def run_quick_demo(console: Console, records: int) -> int:
    with tempfile.TemporaryDirectory(prefix="moldau-demo-") as data:
        console.print(
            "[bold]Moldau demo[/]: one broker, one producer, one consumer; every record is written and read back"
        )
        started = time.perf_counter()
        try:
            with broker(Path(data)) as address:
                console.print(f"broker ready on {address} after {time.perf_counter() - started:.2f} s")
                sent = _produce(console, address, records)
                received = _consume(console, address, records)
        except DemoError as error:
            console.print(f"[red]the demo failed:[/] {error}")
            return 1
    return _report(console, records, sent, received)


def _produce(console: Console, address: str, records: int) -> Tally:
    from moldau import Admin, Producer
    from moldau.client.admin.topics import NewTopic

    with Admin(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
    tally = Tally()
    failures: list[BaseException] = []

    def delivered(_metadata: object, error: BaseException | None) -> None:
        if error is not None:
            failures.append(error)

    filler = b"." * RECORD_BYTES
    started = time.perf_counter()
    with _progress(console) as progress, Producer(bootstrap_servers=address, linger_ms=20) as producer:
        task = progress.add_task("writing", total=records)
        for number in range(records):
            value = (b"record %d " % number + filler)[:RECORD_BYTES]
            tally.add(value)
            producer.send(TOPIC, value, on_delivery=delivered)
            if number % REPORT_EVERY == 0:
                progress.update(task, completed=number)
        producer.flush()
        progress.update(task, completed=records)
    tally.seconds = time.perf_counter() - started
    if failures:
        raise DemoError(f"{len(failures)} records failed; the first error: {failures[0]}")
    return tally


def _consume(console: Console, address: str, records: int) -> Tally:
    from moldau import Consumer

    tally = Tally()
    started = time.perf_counter()
    with (
        _progress(console) as progress,
        Consumer(TOPIC, bootstrap_servers=address, group_id="demo", auto_offset_reset="earliest") as consumer,
    ):
        task = progress.add_task("reading", total=records)
        while tally.count < records:
            found = consumer.poll(timeout=IDLE_TIMEOUT_S, max_records=REPORT_EVERY)
            if not found:
                raise DemoError(f"only {tally.count} of {records} records came back within {IDLE_TIMEOUT_S:.0f} s")
            for record in found:
                tally.add(record.value)
            progress.update(task, completed=tally.count)
    tally.seconds = time.perf_counter() - started
    return tally


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _report(console: Console, records: int, sent: Tally, received: Tally) -> int:
    table = Table(show_header=True, header_style="bold")
    for column in ("", "records", "rate", "checksum"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("written", f"{sent.count:,}", sent.rate, f"{sent.checksum:#x}")
    table.add_row("read", f"{received.count:,}", received.rate, f"{received.checksum:#x}")
    console.print(table)
    console.print("(the rates include creating each record and its checksum in Python)")
    if (sent.count, sent.checksum) != (received.count, received.checksum) or sent.count != records:
        console.print("[red]the records read are not the records written[/]")
        return 1
    console.print(
        "[green]every record came back, byte for byte.[/] Next: [bold]moldau up[/], then point any Kafka client at it."
    )
    return 0
