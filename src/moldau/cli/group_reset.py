"""Command `moldau groups reset`: moves the committed offsets of a group; only a preview without --execute."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.completion import group_names, topic_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
)
from moldau.cli.output import Output, print_json, print_table, usage_error
from moldau.cli.times import parse_datetime_ms, parse_duration_ms

if TYPE_CHECKING:
    from moldau.client.admin import Reset
    from moldau.client.data_types import TopicPartition

RULES = "--to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, --by-duration, --shift-by or --from-file"


def parse_partitions(text: str) -> list[str | TopicPartition]:
    """Parse `orders` (a topic with all its partitions) or `orders:0,2` (two partitions of it)."""
    from moldau.client.data_types import TopicPartition

    topic, colon, indexes = text.partition(":")
    if not colon:
        return [topic]
    try:
        return [TopicPartition(topic, int(index)) for index in indexes.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not of the form TOPIC or TOPIC:0,1,2") from None


def parse_offsets(lines: Iterable[str]) -> dict[TopicPartition, int]:
    """Parse the lines `topic,partition,offset` of an exported file."""
    from moldau.client.data_types import TopicPartition

    found = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            found[TopicPartition(topic.strip(), int(partition))] = int(offset)
        except ValueError:
            raise ValueError(f"line {number} is not of the form TOPIC,PARTITION,OFFSET: {','.join(row)}") from None
    return found


def reset(
    group: Annotated[str, typer.Argument(help="The group. It must have no members.", autocompletion=group_names)],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="A topic, or some of its partitions. Can be repeated.",
            autocompletion=topic_names,
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help=("All topics that the group has committed offsets for."))
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record that still exists.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the current committed offset.")] = False,
    to_offset: Annotated[int | None, typer.Option(help="To this offset, or the nearest existing one.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DDThh:mm:ss.sss", help=("To the first record at or after this time (UTC).")),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="PnDTnHnMnS", help="To the first record after now minus this duration.")
    ] = None,
    shift_by: Annotated[int | None, typer.Option(help="Forward by this many records, or backward if negative.")] = None,
    from_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="To the offsets in a file with lines TOPIC,PARTITION,OFFSET.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the changes (the default).")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Make the changes.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Move the committed offsets of a group. Without --execute, only show the changes.

    Example: moldau groups reset billing --topic orders --to-datetime 2026-01-31T00:00:00 --execute
    """
    if dry_run and execute:
        usage_error("use only one of --dry-run and --execute")
    flags = (to_earliest, to_latest, to_current)
    rule = _rule(flags, to_offset, to_datetime, by_duration, shift_by, from_file)
    if from_file is None and not topic and not all_topics:
        usage_error("give the topics with --topic TOPIC, or use --all-topics")
    try:
        chosen = None if all_topics else [one for text in topic or () for one in parse_partitions(text)]
    except ValueError as error:
        usage_error(str(error))
    with connected(bootstrap, command_config, wait=wait) as admin:
        plan = admin.reset_group_offsets(group, rule, chosen, dry_run=not execute)
    if output is Output.JSON:
        print_json(
            [
                {"topic": one.topic, "partition": one.partition, "before": new.before, "after": new.after}
                for one, new in plan.items()
            ]
        )
        return
    headers = ("group", "topic", "partition", "before", "after")
    print_table(headers, [(group, one.topic, one.partition, new.before, new.after) for one, new in plan.items()])
    if not execute:
        typer.echo("Nothing was changed. Use --execute to make these changes.", err=True)


def _rule(
    flags: tuple[bool, bool, bool],
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    from_file: Path | None,
) -> Reset:
    from moldau.client import admin

    to_earliest, to_latest, to_current = flags
    rules: list[Reset] = []
    try:
        if to_earliest:
            rules.append(admin.ToEarliest())
        if to_latest:
            rules.append(admin.ToLatest())
        if to_current:
            rules.append(admin.ToCurrent())
        if to_offset is not None:
            rules.append(admin.ToOffset(to_offset))
        if to_datetime is not None:
            rules.append(admin.ToTimestamp(parse_datetime_ms(to_datetime)))
        if by_duration is not None:
            rules.append(admin.ByDuration(parse_duration_ms(by_duration)))
        if shift_by is not None:
            rules.append(admin.ShiftBy(shift_by))
        if from_file is not None:
            with from_file.open(newline="") as lines:
                rules.append(admin.ToOffsets(parse_offsets(lines)))
    except (ValueError, OSError) as error:
        usage_error(str(error))
    if len(rules) != 1:
        usage_error(f"give one of {RULES}")
    return rules[0]
