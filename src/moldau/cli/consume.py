"""Command `moldau consume`, the console consumer: writes records to standard output, one per line.

With a group, it commits only offsets of records that were written: if the reader of a pipe exits, no record is lost.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from moldau.cli.completion import group_names, topic_names
from moldau.cli.connection_options import (
    CONFIG_VARIABLE,
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    OutputOption,
    WaitOption,
    client_settings,
    hint_while_waiting,
    require_listener,
)
from moldau.cli.console_input_format import Format
from moldau.cli.console_output_format import Render, json_renderer, text_form, text_renderer
from moldau.cli.interrupt import CtrlC
from moldau.cli.output import EXIT_INTERRUPTED, Output, one_line_errors, usage_error
from moldau.cli.progress import ProgressBar
from moldau.cli.schema_formats import DataFormat, Formats, KeyFormatOption, RegistryOption, ValueFormatOption
from moldau.cli.times import parse_datetime_ms
from moldau.cli.topics import assignments

if TYPE_CHECKING:
    from moldau.client.blocking.consumer import Consumer
    from moldau.client.consumer.decode import Record
    from moldau.client.data_types import TopicPartition

POLL_S = 0.5
"""The longest time of one poll, and so the precision of the command's timeout."""

RECORDS_A_POLL = 10_000
"""The number of records per write. A larger number is not faster."""

COMMIT_EVERY_S = 5.0
"""Like `auto.commit.interval.ms`, but only for records that were written."""


class Start(NamedTuple):
    """The start of the read: an offset, a time in milliseconds, or the rule of `auto.offset.reset`."""

    offset: int | None = None
    timestamp_ms: int | None = None
    at: str | None = None
    """`earliest` or `latest`."""


class Ending(NamedTuple):
    """The end of the read, unless Ctrl-C comes first."""

    max_messages: int | None = None
    until_end: bool = False
    timeout_s: float | None = None
    """The longest time without a record."""


def start_of(from_beginning: bool, offset: str | None, timestamp: str | None) -> Start:
    """Combine the options; ValueError if they contradict each other."""
    if sum([from_beginning, offset is not None, timestamp is not None]) > 1:
        raise ValueError("use only one of --from-beginning, --offset and --timestamp")
    if timestamp is not None:
        return Start(timestamp_ms=int(timestamp) if timestamp.isdigit() else parse_datetime_ms(timestamp))
    if offset in ("earliest", "latest"):
        return Start(at=offset)
    if offset is not None:
        if not offset.isdigit():
            raise ValueError(f"--offset must be a number, earliest or latest, not {offset!r}")
        return Start(offset=int(offset))
    return Start(at="earliest" if from_beginning else None)


class Reading:
    """One run of the command: polls, writes and commits until the end."""

    def __init__(self, consumer: Consumer, render: Render, write: Callable[[bytes], None], *, commits: bool) -> None:
        self._consumer = consumer
        self._render = render
        self._write = write
        self._commits = commits
        self._committed_at = time.monotonic()
        self._writing = False
        self.interruption = CtrlC(consumer.wakeup)
        self.count = 0

    def run(self, ending: Ending, ends: dict[TopicPartition, int], bar: ProgressBar) -> None:
        """Run until the end. `ends` has the end offset of each partition for --until-end."""
        from moldau.client.errors import WakeupError

        with self.interruption:
            try:
                self._run(ending, ends, bar)
            except WakeupError:
                pass  # woken by Ctrl-C while there was nothing to write

    def _run(self, ending: Ending, ends: dict[TopicPartition, int], bar: ProgressBar) -> None:
        left = {partition: end for partition, end in ends.items() if self._consumer.position(partition) < end}
        silent_since = time.monotonic()
        while ending.max_messages is None or self.count < ending.max_messages:
            if (ending.until_end and not left) or self.interruption.pressed:
                return
            records = self._consumer.poll(POLL_S, self._wanted(ending))
            now = time.monotonic()
            if records:
                silent_since = now
                self._take(records, ends if ending.until_end else {})
                bar.add(len(records))
            elif ending.timeout_s is not None and now - silent_since >= ending.timeout_s:
                return
            if ending.until_end:
                # Use the position, not the records: transaction markers or gaps may follow the last record.
                left = {one: end for one, end in left.items() if self._consumer.position(one) < end}
            if self._commits and now - self._committed_at >= COMMIT_EVERY_S:
                self._committed_at = now
                self._consumer.commit_async()

    def _wanted(self, ending: Ending) -> int:
        if ending.max_messages is None:
            return RECORDS_A_POLL
        return min(RECORDS_A_POLL, ending.max_messages - self.count)

    def _take(self, records: Sequence[Record], ends: dict[TopicPartition, int]) -> None:
        wanted = records if not ends else [one for one in records if one.offset < ends[one.topic, one.partition]]  # type: ignore[index]
        self._writing = True
        self._write(self._render(wanted))
        self._writing = False
        self.count += len(wanted)

    def finish(self) -> None:
        """Commit the records that were written. If a write was interrupted, its length is unknown: then the last commit
        stays valid, and the later records are delivered again."""
        if self._commits and self.count and not self._writing:
            self._consumer.commit()


def consume(
    topic_argument: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="The topic to read.", autocompletion=topic_names)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="The topic to read, as in Kafka's tool.", autocompletion=topic_names),
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(
            "--include",
            "--whitelist",
            metavar="PATTERN",
            help=("Read all topics whose whole name matches this pattern."),
        ),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning", help=("Start with the first record. A group continues at its committed offsets.")
        ),
    ] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Read only this partition.")] = None,
    offset: Annotated[
        str | None, typer.Option("--offset", help="Start at this offset: a number, earliest or latest.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", help="Start at this time: ISO 8601, or milliseconds since 1970.")
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after this many records.")
    ] = None,
    until_end: Annotated[
        bool,
        typer.Option("--until-end", "-e", help=("Stop after the last record that exists when the command starts.")),
    ] = False,
    timeout_ms: Annotated[
        int | None, typer.Option("--timeout-ms", min=1, help="Stop after this time without a record.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group.", autocompletion=group_names)
    ] = None,
    isolation_level: Annotated[
        str | None, typer.Option("--isolation-level", help="read_uncommitted (the default) or read_committed.")
    ] = None,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Skip records of open and aborted transactions.")
    ] = False,
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="The format of keys and values: as they are, as JSON, or in hex.")
    ] = Format.STRING,
    value_format: ValueFormatOption = DataFormat.BYTES,
    key_format: KeyFormatOption = DataFormat.BYTES,
    registry: RegistryOption = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--formatter-property",
            metavar="NAME=VALUE",
            help=(
                "The content of lines: print.key, print.value, print.timestamp, print.partition, print.offset, "
                "print.epoch, print.headers (true or false), key.separator, line.separator, headers.separator, "
                "null.literal."
            ),
        ),
    ] = None,
    consumer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--consumer-property",
            "--command-property",
            "-X",
            metavar="NAME=VALUE",
            help=("A client setting. Can be repeated."),
        ),
    ] = None,
    consumer_config: Annotated[
        Path | None,
        typer.Option(
            "--consumer.config",
            "--consumer-config",
            "--command-config",
            envvar=CONFIG_VARIABLE,
            metavar="FILE",
            help="A file with client settings, one NAME=VALUE per line.",
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
    progress: Annotated[
        bool, typer.Option(help=("Show a progress bar if the end is known and the output is not a terminal."))
    ] = True,
) -> None:
    """Print the records of a topic, one per line.

    Example: moldau consume orders --from-beginning --property print.key=true

    Example: moldau consume orders --timestamp 2026-01-31T09:30:00Z --until-end --output json | jq .value

    Example: moldau consume orders --from-beginning --value-format avro
    """
    name = topic_argument or topic
    if (name is None) == (include is None):
        usage_error("give a topic, or a pattern with --include")
    if partition is not None and (name is None or group is not None):
        usage_error("--partition needs one topic and cannot be used with --group")
    try:
        start = start_of(from_beginning, offset, timestamp)
        if output is Output.JSON and property_:
            raise ValueError("--property cannot be used with --output json, which shows the whole record")
        render = (
            json_renderer(_shown_as(format_, value_format), _shown_as(format_, key_format))
            if output is Output.JSON
            else text_renderer(text_form(assignments(property_), format_))
        )
    except ValueError as error:
        usage_error(str(error))
    if group is not None and (start.offset is not None or start.timestamp_ms is not None or until_end):
        usage_error(
            "a group continues at its committed offsets: --offset, --timestamp and --until-end cannot be used with "
            "--group"
        )
    with one_line_errors():
        settings = client_settings(bootstrap, consumer_config, "consumer")
        settings |= assignments(consumer_property)
        if isolation_level is not None or read_committed:
            settings["isolation.level"] = isolation_level or "read_committed"
        if group is not None:
            settings["group.id"] = group
        settings |= Formats(value_format, key_format, registry).deserializers(settings)
        ending = Ending(max_messages, until_end, None if timeout_ms is None else timeout_ms / 1000)
        what = What(name, include, partition)
        raise typer.Exit(run(settings, what, start, ending, render, progress=progress, wait=wait))


def _shown_as(format_: Format, data_format: DataFormat) -> Format:
    """The format of keys or values in objects: data with a schema is JSON."""
    return format_ if data_format is DataFormat.BYTES else Format.JSON


class What(NamedTuple):
    """The topics to read: one topic, one partition of it, or all topics that match."""

    topic: str | None
    pattern: str | None = None
    partition: int | None = None


def run(
    settings: dict[str, Any],
    what: What,
    start: Start,
    ending: Ending,
    render: Render,
    *,
    progress: bool,
    wait: bool,
) -> int:
    """Read and write until the end, and return the exit code."""
    from moldau.client.blocking.consumer import Consumer

    in_group = "group.id" in settings
    commits = in_group and str(settings.get("enable.auto.commit", "true")).lower() == "true"
    settings |= {"enable.auto.commit": False, "auto.offset.reset": _reset(settings, start)}
    settings.setdefault("max.poll.records", RECORDS_A_POLL)
    with Consumer(settings) as consumer:
        require_listener(str(settings["bootstrap.servers"]), wait=wait)
        reading = Reading(consumer, render, write_out, commits=commits)
        try:
            ends = _begin(consumer, what, start, ending, in_group)
            total = ending.max_messages
            if ends and total is None:
                total = sum(max(0, end - consumer.position(one)) for one, end in ends.items())
            with ProgressBar(
                what.topic or "records", total, "records", wanted=progress and not sys.stdout.isatty()
            ) as bar:
                reading.run(ending, ends, bar)
            code = EXIT_INTERRUPTED if reading.interruption.pressed else 0
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except BrokenPipeError:
            return 0  # the reader of the pipe has exited
        reading.finish()
    print(f"Processed a total of {reading.count} messages", file=sys.stderr)
    return code


def _reset(settings: dict[str, Any], start: Start) -> str:
    return start.at or str(settings.get("auto.offset.reset", "latest"))


def _begin(consumer: Consumer, what: What, start: Start, ending: Ending, in_group: bool) -> dict[TopicPartition, int]:
    """Assign or subscribe, and seek to the start. Return the end offset of each partition for --until-end."""
    from moldau.client.data_types import TopicPartition
    from moldau.client.errors import UnknownTopicOrPartition

    if what.topic is None:
        with hint_while_waiting():
            consumer.list_topics()
        consumer.subscribe(pattern=what.pattern)
        return {}
    with hint_while_waiting():
        known = [one.index for one in consumer.partitions_for(what.topic)]
    if in_group:
        consumer.subscribe(what.topic)  # even a topic that does not exist yet, as Kafka's tool does
        return {}
    wanted = known if what.partition is None else [what.partition]
    if not known or not set(wanted) <= set(known):
        raise UnknownTopicOrPartition(
            f"reading {what.topic}: this topic does not exist; `moldau topics list` shows the topics that do"
            if not known
            else f"reading {what.topic}: it has no partition {what.partition}, its partitions are 0 to {max(known)}"
        )
    partitions = [TopicPartition(what.topic, index) for index in wanted]
    consumer.assign(partitions)
    ends = consumer.end_offsets(*partitions) if ending.until_end else {}
    if start.timestamp_ms is not None:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, start.timestamp_ms))
        for one, place in found.items():
            if place is None:
                consumer.seek_to_end(one)
            else:
                consumer.seek(one, place.offset)
    elif start.offset is not None:
        for one in partitions:
            consumer.seek(one, start.offset)
    return ends


def write_out(data: bytes) -> None:
    """Write all bytes without Python's buffers, so that a closed pipe is noticed at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
