"""Parser for the output of Kafka's DumpLogSegments.

The tool exits with 0 even for damaged files, and prints its complaints between other lines. So this module lists the
lines of an intact file, and every other line counts as a complaint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.compat.apache_kafka.jars import KafkaJars

_HARMLESS = re.compile(
    r"""
      Dumping\ /.*
    | Log\ starting\ offset:\ \d+
    | baseOffset:\ .*\ isvalid:\ true
    | \|\ offset:\ \d+\ .*                              # a record, under the batch that holds it
    | offset:\ \d+\ position:\ \d+                      # .index
    | timestamp:\ -?\d+\ offset:\ \d+                   # .timeindex
    | version:\ 0\ producerId:\ .*                      # .txnindex
    | producerId:\ .*                                   # .snapshot
    | /.*\.(index|timeindex)\ is\ empty\.
    | /.*\.(index|timeindex)\ passed\ sanity\ check\.
    """,
    re.VERBOSE,
)

# With --deep-iteration, Kafka 4.3's tool expects each segment to begin at offset 0, and complains about its own files.
_FIRST_OFFSET = re.compile(r"Non-consecutive offsets in \S+/0*(\d+)\.log\n +-1 is followed by \1\n")


@dataclass(frozen=True)
class Dump:
    """The output of the tool: complaints, and the number of entries of each kind."""

    complaints: list[str]
    batches: list[dict[str, str]]
    offset_entries: list[tuple[int, int]]
    time_entries: list[tuple[int, int]]
    producers: list[dict[str, str]]
    aborted: list[dict[str, str]]
    records: int

    @property
    def codecs(self) -> set[str]:
        return {batch["compresscodec"] for batch in self.batches}


def dump(jars: KafkaJars, files: Sequence[Path], *flags: str) -> Dump:
    """Run DumpLogSegments on files of any kind, also of several partitions."""
    done = jars.dump_log_segments(files, *flags)
    lines = done.stdout.splitlines()
    complaints = [line for line in lines if line and not _HARMLESS.fullmatch(line)]
    complaints += _FIRST_OFFSET.sub("", done.stderr).splitlines()
    if done.returncode != 0:
        complaints.append(f"exit code {done.returncode}")
    return Dump(
        complaints=complaints,
        batches=_fields(lines, "baseOffset:"),
        offset_entries=[(int(entry["offset"]), int(entry["position"])) for entry in _fields(lines, "offset:")],
        time_entries=[(int(entry["timestamp"]), int(entry["offset"])) for entry in _fields(lines, "timestamp:")],
        producers=_fields(lines, "producerId:"),
        aborted=_fields(lines, "version: 0 producerId:"),
        records=sum(line.startswith("| offset:") for line in lines),
    )


def _fields(lines: Sequence[str], start: str) -> list[dict[str, str]]:
    """The fields of all lines with this prefix, by name."""
    return [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines if line.startswith(start)]
