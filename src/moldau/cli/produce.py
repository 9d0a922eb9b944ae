"""Command `moldau produce`, the console producer: writes the lines of standard input as records.

The exit code is 0 only if the broker has acknowledged every line.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from moldau.cli import connection_options
from moldau.cli.completion import topic_names
from moldau.cli.connection_options import (
    CONFIG_VARIABLE,
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    WaitOption,
    client_settings,
    hint_while_waiting,
    require_listener,
)
from moldau.cli.console_input_format import Format, Header, LineError, LineForm, NewRecord, chunks, line_form, parser
from moldau.cli.interrupt import CtrlC
from moldau.cli.output import EXIT_ERROR, EXIT_INTERRUPTED, complain, one_line_errors, usage_error
from moldau.cli.progress import ProgressBar
from moldau.cli.schema_formats import (
    DataFormat,
    Formats,
    KeyFormatOption,
    KeySchemaOption,
    MessageOption,
    RegistryOption,
    SchemaOption,
    ValueFormatOption,
)
from moldau.cli.topics import assignments

if TYPE_CHECKING:
    from moldau.client.blocking.producer import Producer
    from moldau.client.errors import MoldauError
    from moldau.client.producer.engine import RecordFuture

MAX_UNCHECKED = 16
"""The largest number of chunks whose results are unchecked, so that a long input needs a bounded amount of memory."""

CLOSE_AFTER_INTERRUPT_S = 5.0
"""After Ctrl-C, the time to deliver the lines that were already read."""


class Common(NamedTuple):
    """The values that all records of a run share, unless their line sets them."""

    topic: str
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None


class LineCounts:
    """The number of lines and failures."""

    def __init__(self) -> None:
        self.lines = 0
        self.failed = 0
        self.first_failure = ""

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.first_failure = self.first_failure or reason


class Pump:
    """Sends lines as records, and checks their results a few chunks later."""

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
        self.counts = LineCounts()
        self._told_to_wait = False
        self.has_metadata = False

    def send(self, lines: Iterable[bytes]) -> None:
        """Send a chunk. Raises errors that will affect all further records; a record that is too large is only
        counted."""
        from moldau.client.errors import RecordTooLarge

        self.await_metadata()
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

    def await_metadata(self) -> None:
        """Wait for metadata before the first record: `send` would wait as long (max.block.ms), but without a
        message."""
        if self.has_metadata:
            return
        self.has_metadata = True
        with hint_while_waiting():
            self._producer.partitions_for(self.topic)

    def _send_plain(self, lines: Iterator[bytes], sent: list[RecordFuture]) -> None:
        """Send each line as a value, with as little work per line as possible: millions per second."""
        send, topic, taken = self._producer.send, self._common.topic, sent.append
        before = len(sent)
        try:
            for line in lines:
                taken(send(topic, line))
        except BaseException:
            self.counts.lines += 1  # the line that failed
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
        """Wait for the results of all but the last `keep` chunks. Raises errors that will affect further records."""
        fatal = self.look(keep)
        if fatal is not None:
            raise fatal

    def look(self, keep: int = 0) -> MoldauError | None:
        """As `check`, but returns the error."""
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
        """Wait for a result. Print a message, once, if it takes long."""
        from moldau.client.errors import TimedOut

        if not self._told_to_wait:
            try:
                return future.exception(connection_options.SILENCE_S)
            except TimedOut:
                self._told_to_wait = True
                complain(
                    f"no acknowledgement from {self.topic} for {connection_options.SILENCE_S:g} s, still trying "
                    f"until delivery.timeout.ms; use moldau topics describe {self.topic} to see its leaders and "
                    "in-sync replicas"
                )
        return future.exception()


TopicArgument = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="The topic to write to.", autocompletion=topic_names)
]


def produce(
    topic_argument: TopicArgument = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="The topic to write to, as in Kafka's tool.", autocompletion=topic_names),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help=("Lines are KEY, this separator, VALUE. (\\t is a tab.)")),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Write to this partition.")] = None,
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="The format of the lines: text, JSON objects, or hexadecimal.")
    ] = Format.STRING,
    value_format: ValueFormatOption = DataFormat.BYTES,
    schema: SchemaOption = None,
    message: MessageOption = None,
    key_format: KeyFormatOption = DataFormat.BYTES,
    key_schema: KeySchemaOption = None,
    registry: RegistryOption = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--reader-property",
            metavar="NAME=VALUE",
            help=(
                "The parsing of lines: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
                "headers.key.separator, null.marker, ignore.error."
            ),
        ),
    ] = None,
    producer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--producer-property",
            "--command-property",
            "-X",
            metavar="NAME=VALUE",
            help=("A client setting. Can be repeated."),
        ),
    ] = None,
    producer_config: Annotated[
        Path | None,
        typer.Option(
            "--producer.config",
            "--producer-config",
            "--command-config",
            envvar=CONFIG_VARIABLE,
            metavar="FILE",
            help="A file with client settings, one NAME=VALUE per line.",
        ),
    ] = None,
    compression: Annotated[
        str | None, typer.Option("--compression-codec", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = None,
    acks: Annotated[
        str | None, typer.Option("--acks", "--request-required-acks", help="0, 1 or all (the default).")
    ] = None,
    sync: Annotated[
        bool, typer.Option("--sync", help=("Wait until each chunk of lines is written before reading the next."))
    ] = False,
    batch_size: Annotated[int | None, typer.Option("--batch-size", hidden=True)] = None,
    linger_ms: Annotated[int | None, typer.Option("--timeout", hidden=True)] = None,
    max_block_ms: Annotated[int | None, typer.Option("--max-block-ms", hidden=True)] = None,
    request_timeout_ms: Annotated[int | None, typer.Option("--request-timeout-ms", hidden=True)] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar for files, on a terminal.")] = True,
) -> None:
    """Write the lines of standard input to a topic, one record per line.

    Exit code: 0 if all records were written, 1 otherwise, 130 after Ctrl-C.

    Example: echo 'ada:{"tea": 1}' | moldau produce orders -K :

    Example: moldau consume orders --from-beginning --until-end --output json | moldau produce copy --format json

    Example: echo '{"id": 7}' | moldau produce orders --value-format avro --schema order.avsc
    """
    name = topic_argument or topic
    if name is None:
        usage_error("give the name of a topic")
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
        formats = Formats(value_format, key_format, registry, schema, key_schema, message).checked()
        form = line_form(assignments(property_), format_, key_separator)
    except ValueError as error:
        usage_error(str(error))
    form = form._replace(json_key=key_format is not DataFormat.BYTES, json_value=value_format is not DataFormat.BYTES)
    with one_line_errors():
        settings = client_settings(bootstrap, producer_config, "producer")
        settings |= assignments(producer_property)
        settings |= {setting: value for setting, value in given.items() if value is not None}
        settings |= formats.serializers(settings)
        raise typer.Exit(run(settings, common, form, sync=sync, progress=progress, wait=wait))


def _raw(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def run(settings: dict[str, Any], common: Common, form: LineForm, *, sync: bool, progress: bool, wait: bool) -> int:
    """Write all of standard input to the topic, and return the exit code."""
    from moldau.client.blocking.producer import Producer
    from moldau.client.errors import MoldauError, SerializationError

    code, trouble = 0, ""
    with Producer(settings) as producer:
        require_listener(str(settings["bootstrap.servers"]), wait=wait)
        pump = Pump(producer, common, form, sync=sync)
        try:
            _pump_all(pump, progress)
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except SerializationError as error:
            trouble = f"line {pump.counts.lines}: {error}"
        except (MoldauError, LineError) as error:
            trouble = str(error)
        # Lines that were read are still sent. After this, the results of all of them are known.
        producer.close(CLOSE_AFTER_INTERRUPT_S if code else None)
        pump.look()
    return _report(pump.counts, trouble) or code


class Input:
    """Standard input, read in chunks. Ctrl-C interrupts a read that waits, but not the sending of records."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._prompt = sys.stdin.isatty() and sys.stdout.isatty()
        self._waiting = False
        self.interruption = CtrlC(self._interrupt)

    def read(self, size: int) -> bytes:
        if self._prompt:
            print(">", end="", flush=True)
        with self.waiting():
            data = os.read(0, size)
        self._bar.add(len(data))
        return data

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """While no record is being sent, Ctrl-C raises KeyboardInterrupt at once."""
        self._waiting = True
        if self.interruption.pressed:  # pressed before the flag was set
            raise KeyboardInterrupt
        yield
        self._waiting = False

    def _interrupt(self) -> None:
        if self._waiting:
            raise KeyboardInterrupt


def _pump_all(pump: Pump, progress: bool) -> None:
    """Write all of standard input. After Ctrl-C, write the lines read so far, then raise KeyboardInterrupt."""
    with ProgressBar(pump.topic, _input_size(), "bytes", wanted=progress) as bar:
        source = Input(bar)
        with source.interruption:
            for lines in chunks(source.read):
                if not pump.has_metadata:
                    _meet_the_cluster(pump, source)
                pump.send(lines)
    pump.check()


def _meet_the_cluster(pump: Pump, source: Input) -> None:
    """Before the first record, Ctrl-C ends the wait for a broker that does not answer."""
    try:
        with source.waiting():
            pump.await_metadata()
    except KeyboardInterrupt:
        complain("stopped before a broker answered: nothing was written")
        raise


def _input_size() -> int | None:
    """The size of the input file; None for a pipe or a terminal."""
    found = os.fstat(0)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _report(counts: LineCounts, trouble: str) -> int:
    if counts.failed:
        complain(f"{counts.failed} of {counts.lines} records were not written; the first error: {counts.first_failure}")
    if trouble and trouble != counts.first_failure:
        complain(trouble)
    return EXIT_ERROR if counts.failed or trouble else 0
