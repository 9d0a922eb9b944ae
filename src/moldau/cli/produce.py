"""`moldau produce`, the console producer: lines of standard input become records, as fast as the producer takes them.

Every line is accounted for: the command ends with 0 only if the broker has acknowledged all of them.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from moldau.cli import connect
from moldau.cli.connect import DEFAULT_BOOTSTRAP, BootstrapOption, client_settings, told_to_wait
from moldau.cli.interrupt import CtrlC
from moldau.cli.lines_in import Format, Header, LineError, LineForm, NewRecord, chunks, line_form, parser
from moldau.cli.output import EXIT_ERROR, EXIT_INTERRUPTED, complain, one_line_errors, usage_error
from moldau.cli.progress import ProgressBar
from moldau.cli.topics import assignments

if TYPE_CHECKING:
    from moldau.client.blocking.producer import Producer
    from moldau.client.errors import MoldauError
    from moldau.client.producer.engine import RecordFuture

MAX_UNCHECKED = 16
"""Chunks of records whose fate was not looked at yet: what is remembered of a long input is bounded."""

CLOSE_AFTER_INTERRUPT_S = 5.0
"""Whoever pressed Ctrl-C has sent what was read before, if the broker takes it in this time."""


class Common(NamedTuple):
    """What all records of a run have, unless their line says otherwise."""

    topic: str
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None


class Counts:
    """What became of the lines."""

    def __init__(self) -> None:
        self.lines = 0
        self.failed = 0
        self.first_failure = ""

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.first_failure = self.first_failure or reason


class Pump:
    """Sends lines as records, and looks at what became of them a few chunks later."""

    def __init__(self, producer: Producer, common: Common, form: LineForm, *, sync: bool = False) -> None:
        self._producer = producer
        self._common = common
        self.topic = common.topic
        self._parse = parser(form)
        self._ignore_errors = form.ignore_error
        is_plain = form.is_plain and common == Common(common.topic)
        self._send_all: Callable[[Iterator[bytes], list[RecordFuture]], None] = (
            self._send_plain if is_plain else self._send_parsed
        )
        self._sync = sync
        self._unchecked: deque[list[RecordFuture]] = deque()
        self.counts = Counts()
        self._told_to_wait = False
        self._has_met_the_cluster = False

    def send(self, lines: Iterable[bytes]) -> None:
        """Sends a chunk. Raises what makes it senseless to go on; a record that is too large is only counted."""
        from moldau.client.errors import RecordTooLarge

        self._meet_the_cluster()
        sent: list[RecordFuture] = []
        self._unchecked.append(sent)
        rest = iter(lines)
        while True:
            try:
                self._send_all(rest, sent)
                break
            except RecordTooLarge as error:
                self.counts.fail(f"line {self.counts.lines}: {error}")
        if self._sync or len(self._unchecked) > MAX_UNCHECKED:
            self.check(keep=0 if self._sync else MAX_UNCHECKED)

    def _meet_the_cluster(self) -> None:
        """Before the first record: `send` would wait as long, for max.block.ms, and without a word."""
        if self._has_met_the_cluster:
            return
        self._has_met_the_cluster = True
        with told_to_wait():
            self._producer.partitions_for(self.topic)

    def _send_plain(self, lines: Iterator[bytes], sent: list[RecordFuture]) -> None:
        """A line is a value: nothing between reading and sending, millions of times a second."""
        send, topic, taken = self._producer.send, self._common.topic, sent.append
        before = len(sent)
        try:
            for line in lines:
                taken(send(topic, line))
        except BaseException:
            self.counts.lines += 1  # the one that failed
            raise
        finally:
            self.counts.lines += len(sent) - before

    def _send_parsed(self, lines: Iterator[bytes], sent: list[RecordFuture]) -> None:
        for line in lines:
            self.counts.lines += 1
            try:
                record = self._parse(line)
            except LineError as error:
                if not self._ignore_errors:
                    raise LineError(f"line {self.counts.lines}: {error}") from None
                continue
            sent.append(self._send_record(record))

    def _send_record(self, record: NewRecord) -> RecordFuture:
        common = self._common
        return self._producer.send(
            common.topic,
            record.value,
            common.key if record.key is None else record.key,
            partition=common.partition if record.partition is None else record.partition,
            timestamp=record.timestamp,
            headers=[*record.headers, *common.headers],
        )

    def check(self, keep: int = 0) -> None:
        """Waits for the fate of all but the last `keep` chunks; raises what says that others will fail, too."""
        fatal = self.look(keep)
        if fatal is not None:
            raise fatal

    def look(self, keep: int = 0) -> MoldauError | None:
        """The same, without raising it."""
        from moldau.client.errors import RecordTooLarge

        fatal: MoldauError | None = None
        while len(self._unchecked) > keep:
            for future in self._unchecked.popleft():
                error = self._fate(future)
                if error is not None:
                    self.counts.fail(str(error))
                    if not isinstance(error, RecordTooLarge):
                        fatal = error
        return fatal

    def _fate(self, future: RecordFuture) -> MoldauError | None:
        """Waits for it; whoever waits as well is told after a while, once."""
        from moldau.client.errors import TimedOut

        if not self._told_to_wait:
            try:
                return future.exception(connect.SILENCE_S)
            except TimedOut:
                self._told_to_wait = True
                complain(
                    f"no acknowledgement from {self.topic} for {connect.SILENCE_S:g} s, trying on until "
                    f"delivery.timeout.ms; moldau topics describe {self.topic} tells who leads and who is in sync"
                )
        return future.exception()


TopicArgument = Annotated[str | None, typer.Argument(metavar="TOPIC", help="The topic to write to.")]


def produce(
    topic_argument: TopicArgument = None,
    topic: Annotated[str | None, typer.Option("--topic", help="The same, as Kafka's tool wants it written.")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Lines are KEY, this, VALUE. (\\t is a tab.)")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Write to this one.")] = None,
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="What lines are: text, JSON objects, or hexadecimal.")
    ] = Format.STRING,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--reader-property",
            metavar="NAME=VALUE",
            help="How lines are read: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
            "headers.key.separator, null.marker, ignore.error.",
        ),
    ] = None,
    producer_property: Annotated[
        list[str] | None,
        typer.Option("--producer-property", "--command-property", "-X", metavar="NAME=VALUE", help="A setting."),
    ] = None,
    producer_config: Annotated[
        Path | None,
        typer.Option("--producer.config", "--producer-config", "--command-config", help="A file of settings."),
    ] = None,
    compression: Annotated[
        str | None, typer.Option("--compression-codec", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = None,
    acks: Annotated[
        str | None, typer.Option("--acks", "--request-required-acks", help="0, 1 or all (the default).")
    ] = None,
    sync: Annotated[bool, typer.Option("--sync", help="Wait for each chunk of lines before the next.")] = False,
    batch_size: Annotated[int | None, typer.Option("--batch-size", hidden=True)] = None,
    linger_ms: Annotated[int | None, typer.Option("--timeout", hidden=True)] = None,
    max_block_ms: Annotated[int | None, typer.Option("--max-block-ms", hidden=True)] = None,
    request_timeout_ms: Annotated[int | None, typer.Option("--request-timeout-ms", hidden=True)] = None,
    progress: Annotated[bool, typer.Option(help="A bar for files, on a terminal.")] = True,
) -> None:
    """Write the lines of standard input to a topic.

    Example: echo 'ada:{"tea": 1}' | moldau produce orders -K :

    Example: moldau consume orders --from-beginning --until-end --output json | moldau produce copy --format json
    """
    name = topic_argument or topic
    if name is None:
        usage_error("name the topic")
    given = {
        "compression.type": compression,
        "acks": acks,
        "batch.size": batch_size,
        "linger.ms": linger_ms,
        "max.block.ms": max_block_ms,
        "request.timeout.ms": request_timeout_ms,
    }
    common = Common(name, _raw(key), tuple((k, _raw(v)) for k, v in assignments(header).items()), partition)
    try:
        form = line_form(assignments(property_), format_, key_separator)
    except ValueError as error:
        usage_error(str(error))
    with one_line_errors():
        settings = client_settings(bootstrap, producer_config, "producer")
        settings |= assignments(producer_property)
        settings |= {setting: value for setting, value in given.items() if value is not None}
        raise typer.Exit(run(settings, common, form, sync=sync, progress=progress))


def _raw(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def run(settings: dict[str, Any], common: Common, form: LineForm, *, sync: bool, progress: bool) -> int:
    """Everything of standard input into the topic; the exit code."""
    from moldau.client.blocking.producer import Producer
    from moldau.client.errors import MoldauError

    code, trouble = 0, ""
    with Producer(settings) as producer:
        pump = Pump(producer, common, form, sync=sync)
        try:
            _pump_all(pump, progress)
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except (MoldauError, LineError) as error:
            trouble = str(error)
        # What was read before is sent all the same; after this the fate of all of it is known.
        producer.close(CLOSE_AFTER_INTERRUPT_S if code else None)
        pump.look()
    return _report(pump.counts, trouble) or code


class Input:
    """Standard input, read in chunks. Ctrl-C ends a read that waits, and never a record that is on its way."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._prompt = sys.stdin.isatty() and sys.stdout.isatty()
        self._waiting = False
        self.interruption = CtrlC(self._interrupt)

    def read(self, size: int) -> bytes:
        if self._prompt:
            print(">", end="", flush=True)
        self._waiting = True
        if self.interruption.pressed:  # a moment ago: from here on it is an exception
            raise KeyboardInterrupt
        data = os.read(0, size)
        self._waiting = False
        self._bar.add(len(data))
        return data

    def _interrupt(self) -> None:
        if self._waiting:
            raise KeyboardInterrupt


def _pump_all(pump: Pump, progress: bool) -> None:
    """Everything of standard input, or what there was of it before Ctrl-C: then KeyboardInterrupt."""
    with ProgressBar(pump.topic, _input_size(), "bytes", wanted=progress) as bar:
        source = Input(bar)
        with source.interruption:
            for lines in chunks(source.read):
                pump.send(lines)
    pump.check()


def _input_size() -> int | None:
    """Of a file; a pipe or a terminal has none."""
    found = os.fstat(0)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _report(counts: Counts, trouble: str) -> int:
    if counts.failed:
        complain(
            f"{counts.failed} of {counts.lines} records were not written, the first because: {counts.first_failure}"
        )
    if trouble and trouble != counts.first_failure:
        complain(trouble)
    return EXIT_ERROR if counts.failed or trouble else 0
