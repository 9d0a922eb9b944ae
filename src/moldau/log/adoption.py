"""Import of a partition directory that was written by Apache Kafka and copied here.

The directory is read once completely, so that damage is known before it is served. It also gets the producer snapshots
that recovery looks for: a compacted log has gaps between its segments, and recovery takes a gap without a snapshot
after it for the result of a power loss.

It does not copy files, and it does not create the topic in the metadata: the caller does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import basename, dirname, join
from typing import NamedTuple

from moldau.host.fs import FileSystem
from moldau.log import file_names
from moldau.log.config import LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.errors import DamagedLog
from moldau.log.loader import list_snapshots, load_topic_id, rebuild_producers
from moldau.log.log import Log
from moldau.log.scan import batches
from moldau.wire.topic_partition import TopicPartition


class Adopted(NamedTuple):
    """The content of an imported directory."""

    name: TopicPartition
    topic_id: bytes
    """Sixteen zeros if the directory has none."""
    start_offset: int = 0
    end_offset: int = 0
    size_bytes: int = 0
    findings: Sequence[DamagedLog] = ()
    """What cannot be served: damage, or message formats older than Kafka 0.11. In this case nothing was changed."""


def find_partitions(fs: FileSystem, data_directory: str) -> list[str]:
    """The paths of the partition directories in a data directory."""
    return [join(data_directory, one) for one in fs.directories(data_directory) if file_names.parse_directory(one)]


def adopt(fs: FileSystem, directory: str, now_ms: int) -> Adopted:
    """Check all of a partition's directory and prepare it for loading.

    ValueError if its name is not a partition's. Blocks until everything is read.
    """
    name = file_names.parse_directory(basename(directory))
    if name is None:
        raise ValueError(f"{directory} is not named TOPIC-PARTITION")
    findings = _check(fs, directory)
    if findings:
        return Adopted(name, load_topic_id(fs, directory), findings=findings)
    log = Log.load(name, LogDirectory(dirname(directory), fs), LogConfig(), now_ms, clean=True)
    try:
        _write_missing_snapshots(fs, log)
        return Adopted(name, log.topic_id, log.start_offset, log.end_offset, log.size_bytes)
    finally:
        log.discard()


def _check(fs: FileSystem, directory: str) -> list[DamagedLog]:
    """Read every batch of every segment; return the first damage per segment. Changes nothing."""
    findings: list[DamagedLog] = []
    for one in fs.listdir(directory):
        if file_names.base_offset_of(one, file_names.LOG) is None:
            continue
        file = fs.open(join(directory, one))
        try:
            for _ in batches(file, 0, file.size):
                pass
        except DamagedLog as damage:
            findings.append(damage)
        finally:
            file.close()
    return findings


def _write_missing_snapshots(fs: FileSystem, log: Log) -> None:
    known = set(list_snapshots(fs, log.directory))
    segments = log.segments
    for number in range(1, len(segments)):
        base = segments[number].base_offset
        if base not in known:
            states = rebuild_producers(fs, log.directory, segments[:number], log.start_offset, base, {})
            fs.write_atomically(segments[number].path(file_names.SNAPSHOT), states.encode())
