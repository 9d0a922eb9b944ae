"""Command `moldau perf produce|consume|latency`: measures the speed of a cluster."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from moldau.cli.completion import group_names, topic_names
from moldau.cli.connection_options import (
    CONFIG_VARIABLE,
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    OutputOption,
    WaitOption,
    client_settings,
    require_listener,
)
from moldau.cli.latencies import MEGABYTE, Latencies, Rate, Reporter
from moldau.cli.output import EXIT_INTERRUPTED, Output, fail, one_line_errors, print_json
from moldau.cli.topics import assignments

if TYPE_CHECKING:
    from moldau.client.blocking.consumer import Consumer
    from moldau.client.blocking.producer import Producer
    from moldau.client.data_types import RecordMetadata
    from moldau.client.errors import MoldauError

app = typer.Typer(
    help="Measure the write rate, the read rate and the end-to-end latency of a cluster.", no_args_is_help=True
)

SENDS_A_LOOK = 1_000
"""The number of records sent between two checks of the clock."""

EVERY_RECORD_UP_TO = 100_000
SAMPLE_EVERY = 16
"""With more records than that, only every sixteenth is timed: timing a record costs ten times as much as sending it."""

RECORDS_A_POLL = 10_000
ROWS_A_POLL = 1_000_000
POLL_S = 0.5
LATENCY_TIMEOUT_S = 60.0

TopicOption = Annotated[str, typer.Option("--topic", help="The topic. It must exist.", autocompletion=topic_names)]
IntervalOption = Annotated[
    int, typer.Option("--reporting-interval", min=100, help="Milliseconds between two progress lines.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--producer.config",
        "--consumer.config",
        "--command-config",
        envvar=CONFIG_VARIABLE,
        metavar="FILE",
        help="A file with client settings, one NAME=VALUE per line.",
    ),
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--producer-props",
        "--consumer-props",
        "--command-property",
        "-X",
        metavar="NAME=VALUE",
        help=("A client setting. Can be repeated."),
    ),
]


def _say(line: str) -> None:
    """Print progress to standard error, so that programs can read the result from standard output."""
    print(line, file=sys.stderr, flush=True)


# -- produce -----------------------------------------------------------------------------------------------------------


@app.command()
def produce(
    topic: TopicOption,
    num_records: Annotated[int, typer.Option("--num-records", "-n", min=1, help="The number of records.")] = 1_000_000,
    record_size: Annotated[int, typer.Option("--record-size", min=1, help="The size of each record in bytes.")] = 100,
    throughput: Annotated[float, typer.Option(help="The largest number of records per second; -1 for no limit.")] = -1,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    producer_props: PropertyOption = None,
    producer_config: ConfigOption = None,
    reporting_interval: IntervalOption = 1_000,
    output: OutputOption = Output.TEXT,
) -> None:
    """Write records of random bytes as fast as possible. The latency is the time until the broker's acknowledgement.

    Example: moldau perf produce --topic bench --num-records 5000000 --record-size 100 -X linger.ms=5
    """
    with one_line_errors():
        from moldau.client.blocking.producer import Producer

        settings = client_settings(bootstrap, producer_config, "producer") | assignments(producer_props)
        with Producer(settings) as producer:
            require_listener(str(settings["bootstrap.servers"]), wait=wait)
            producer.partitions_for(topic)  # fetch the metadata before the measurement
            sending = Sending(producer, topic, num_records, record_size, throughput, reporting_interval / 1000)
            try:
                sending.run()
            except KeyboardInterrupt:
                raise typer.Exit(EXIT_INTERRUPTED) from None
    if output is Output.JSON:
        print_json({**sending.total, "failed": sending.failed, "latency": sending.latencies.as_json()})
    else:
        print(sending.summary)
    if sending.failed:
        fail(f"{sending.failed} timed records were not written: {sending.first_error}")


class Sending:
    """One run: sends records, measures latencies and reports."""

    def __init__(
        self, producer: Producer, topic: str, count: int, size: int, throughput: float, interval_s: float
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._count = count
        self._payload = os.urandom(size)
        self._throughput = throughput
        self._interval_s = interval_s
        self._sample_every = 1 if count <= EVERY_RECORD_UP_TO else SAMPLE_EVERY
        self.latencies = Latencies()
        self.failed = 0
        self.first_error: MoldauError | None = None
        self._fates: deque[float | MoldauError] = deque()
        self.total: dict[str, Any] = {}
        self.summary = ""

    def run(self) -> None:
        reporter = Reporter("sent", time.monotonic(), self._interval_s)
        sent = 0
        while sent < self._count and not self.failed:
            batch = min(SENDS_A_LOOK, self._count - sent)
            if self._throughput > 0:
                batch = min(batch, max(1, int(self._throughput / 100)))
            self._send(batch)
            sent += batch
            reporter.add(batch, batch * len(self._payload))
            self._take_stock()
            now = time.monotonic()
            if line := reporter.due(now):
                _say(
                    f"{line}, {self.latencies.mean_ms:.2f} ms avg latency, {self.latencies.max_ms:.2f} ms max latency."
                )
            if self._throughput > 0:
                ahead = reporter.total.began + sent / self._throughput - now
                if ahead > 0:
                    time.sleep(ahead)
        self._producer.flush()
        self._take_stock()
        now = time.monotonic()
        self.total = reporter.total.as_json(now)
        self.summary = f"{reporter.total.text('sent', now)}, {self.latencies}."

    def _send(self, count: int) -> None:
        send, topic, payload = self._producer.send, self._topic, self._payload
        between = self._sample_every - 1
        while count:
            send(topic, payload, on_delivery=partial(self._delivered, time.perf_counter()))
            plain = min(between, count - 1)
            for _ in range(plain):
                send(topic, payload)
            count -= plain + 1

    def _delivered(self, began: float, metadata: RecordMetadata | None, error: MoldauError | None) -> None:
        """Called in the client's thread, so it only stores the result."""
        self._fates.append(time.perf_counter() - began if error is None else error)

    def _take_stock(self) -> None:
        """Add the timed results since the last call to the statistics."""
        fates = self._fates
        while fates:
            fate = fates.popleft()
            if isinstance(fate, float):
                self.latencies.add(fate)
            else:
                self.failed += 1
                self.first_error = self.first_error or fate


# -- consume -----------------------------------------------------------------------------------------------------------


@app.command()
def consume(
    topic: TopicOption,
    num_records: Annotated[
        int, typer.Option("--num-records", "--messages", "-n", min=1, help="The number of records.")
    ] = 1_000_000,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group.", autocompletion=group_names)
    ] = None,
    from_latest: Annotated[
        bool, typer.Option("--from-latest", help="Read only records that are written from now on.")
    ] = False,
    arrow: Annotated[bool, typer.Option("--arrow", help="Read Arrow tables instead of records.")] = False,
    timeout_ms: Annotated[
        int, typer.Option("--timeout", min=1, help="Give up after this many milliseconds without a record.")
    ] = 10_000,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    consumer_props: PropertyOption = None,
    consumer_config: ConfigOption = None,
    reporting_interval: IntervalOption = 1_000,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read records as fast as possible. The last line has the columns of Kafka's tool.

    Example: moldau perf consume --topic bench --num-records 5000000
    """
    with one_line_errors():
        from moldau.client.blocking.consumer import Consumer

        settings = client_settings(bootstrap, consumer_config, "consumer")
        settings |= {"auto.offset.reset": "latest" if from_latest else "earliest", "max.poll.records": RECORDS_A_POLL}
        settings |= {"group.id": group} if group is not None else {"enable.auto.commit": False}
        settings |= assignments(consumer_props)
        with Consumer(topic, settings) as consumer:
            require_listener(str(settings["bootstrap.servers"]), wait=wait)
            reading = Receiving(consumer, num_records, timeout_ms / 1000, reporting_interval / 1000, arrow=arrow)
            try:
                reading.run()
            except KeyboardInterrupt:
                raise typer.Exit(EXIT_INTERRUPTED) from None
    if output is Output.JSON:
        print_json(reading.as_json())
    else:
        for line in reading.table():
            print(line)
    if reading.total.records < num_records:
        fail(f"only {reading.total.records} of {num_records} records arrived, and none in the last {timeout_ms} ms")


class Receiving:
    """One run: polls and counts. The time until the first record, for example for joining a group, is measured
    separately."""

    def __init__(
        self, consumer: Consumer, count: int, timeout_s: float, interval_s: float, *, arrow: bool = False
    ) -> None:
        self._consumer = consumer
        self._count = count
        self._timeout_s = timeout_s
        self._interval_s = interval_s
        self._poll: Callable[[int], tuple[int, int]] = self._poll_arrow if arrow else self._poll_records
        self.polls = Latencies()
        self.total = Rate(0.0)
        self.began_at = self.ended_at = 0.0
        self.first_s = 0.0
        self._ended = 0.0

    def run(self) -> None:
        began = heard = now = time.monotonic()
        self.began_at = time.time()
        reporter = Reporter("received", began, self._interval_s)
        self.total = reporter.total
        while self.total.records < self._count and now - heard < self._timeout_s:
            asked = time.perf_counter()
            records, size = self._poll(self._count - self.total.records)
            now = time.monotonic()
            if records:
                heard = now
                self.polls.add(time.perf_counter() - asked)
                self.first_s = self.first_s or now - began
                reporter.add(records, size)
            if line := reporter.due(now):
                _say(f"{line}.")
        self._ended = now
        self.ended_at = time.time()

    def _poll_records(self, wanted: int) -> tuple[int, int]:
        records = self._consumer.poll(POLL_S, min(wanted, RECORDS_A_POLL))
        size = 0
        for record in records:
            if record.value is not None:
                size += len(record.value)
        return len(records), size

    def _poll_arrow(self, wanted: int) -> tuple[int, int]:
        rows = self._consumer.poll_arrow(min(wanted, ROWS_A_POLL), POLL_S)
        return rows.num_rows, rows.column("value").nbytes

    def as_json(self) -> dict[str, Any]:
        return {
            **self.total.as_json(self._ended),
            "first_record_ms": round(self.first_s * 1000, 1),
            "poll": self.polls.as_json(),
        }

    def table(self) -> list[str]:
        """The result with Kafka's columns. `fetch` excludes the time before the first record."""
        total = self.total.as_json(self._ended)
        megabytes = self.total.bytes / MEGABYTE
        fetching_s = max(total["seconds"] - self.first_s, 1e-9)
        row = [
            _moment(self.began_at),
            _moment(self.ended_at),
            f"{megabytes:.4f}",
            f"{total['megabytes_per_second']:.4f}",
            str(self.total.records),
            f"{total['records_per_second']:.4f}",
            f"{self.first_s * 1000:.0f}",
            f"{fetching_s * 1000:.0f}",
            f"{megabytes / fetching_s:.4f}",
            f"{self.total.records / fetching_s:.4f}",
        ]
        return [f"polls: {self.polls}".replace("latency", "time"), CONSUME_COLUMNS, ", ".join(row)]


CONSUME_COLUMNS = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def _moment(seconds: float) -> str:
    milliseconds = int(seconds * 1000) % 1000
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}:{milliseconds:03d}"


# -- latency -----------------------------------------------------------------------------------------------------------


@app.command()
def latency(
    topic: TopicOption,
    num_records: Annotated[
        int, typer.Option("--num-records", "-n", min=1, help="The number of records, sent one after another.")
    ] = 10_000,
    record_size: Annotated[int, typer.Option("--record-size", min=16, help="The size of each record in bytes.")] = 100,
    acks: Annotated[str, typer.Option(help="1 or all. (0 cannot be measured.)")] = "1",
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: ConfigOption = None,
    reporting_interval: IntervalOption = 1_000,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send a record, wait until a consumer has received it, then send the next: the end-to-end latency.

    Example: moldau perf latency --topic bench --num-records 10000 --acks all
    """
    with one_line_errors():
        from moldau.client.blocking.consumer import Consumer
        from moldau.client.blocking.producer import Producer

        producing = client_settings(bootstrap, command_config, "producer")
        producing |= {"acks": acks, "linger.ms": 0, "enable.idempotence": acks == "all"}
        consuming = client_settings(bootstrap, command_config, "consumer")
        consuming |= {"fetch.max.wait.ms": 500, "enable.auto.commit": False}
        with Producer(producing) as producer, Consumer(consuming) as consumer:
            require_listener(producing["bootstrap.servers"], wait=wait)
            passing = Passing(producer, consumer, topic, record_size)
            try:
                passing.run(num_records, reporting_interval / 1000)
            except KeyboardInterrupt:
                raise typer.Exit(EXIT_INTERRUPTED) from None
    if output is Output.JSON:
        print_json({"records": passing.latencies.count, "latency": passing.latencies.as_json()})
    else:
        print(f"{passing.latencies.count} records passed on, {passing.latencies}.")


class Passing:
    """Sends one record at a time from a producer to a consumer, through partition 0."""

    def __init__(self, producer: Producer, consumer: Consumer, topic: str, size: int) -> None:
        self._producer = producer
        self._consumer = consumer
        self._topic = topic
        self._size = size
        self.latencies = Latencies()

    def run(self, count: int, interval_s: float) -> None:
        from moldau.client.data_types import TopicPartition

        partition = TopicPartition(self._topic, 0)
        self._consumer.assign([partition])
        self._consumer.seek_to_end(partition)
        self._consumer.position(partition)
        reporter = Reporter("passed on", time.monotonic(), interval_s)
        for _ in range(count):
            self._pass_one()
            reporter.add(1, self._size)
            if line := reporter.due(time.monotonic()):
                _say(f"{line}, {self.latencies}.")

    def _pass_one(self) -> None:
        payload = uuid4().bytes + bytes(self._size - 16)
        began = time.perf_counter()
        self._producer.send(self._topic, payload, partition=0).result()
        while True:
            for record in self._consumer.poll(LATENCY_TIMEOUT_S):
                if record.value == payload:
                    self.latencies.add(time.perf_counter() - began)
                    return
            if time.perf_counter() - began > LATENCY_TIMEOUT_S:
                fail(f"a record was acknowledged, but the consumer did not receive it within {LATENCY_TIMEOUT_S:.0f} s")
