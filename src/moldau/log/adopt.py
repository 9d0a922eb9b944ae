"""Taking in a partition directory that Apache Kafka wrote and somebody copied here.

It is read once from end to end, so that what is wrong with it is known before it is served, and given the producer
snapshots that recovery looks for: a compacted log has gaps between its segments, and a gap without a snapshot behind
it is taken for the trace of a power loss.

It does not copy, and it does not enter the topic into the metadata; whoever calls it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import basename, dirname, join
from typing import NamedTuple

from moldau.host.fs import FileSystem
from moldau.log import names
from moldau.log.config import LogConfig
from moldau.log.errors import DamagedLog
from moldau.log.home import Home
from moldau.log.loader import list_snapshots, load_topic_id, rebuild_producers
from moldau.log.log import Log
from moldau.log.names import PartitionName
from moldau.log.scan import batches


class Adopted(NamedTuple):
    """What a directory holds."""

    name: PartitionName
    topic_id: bytes
    """Sixteen zeros where the directory does not say."""
    start_offset: int = 0
    end_offset: int = 0
    size_bytes: int = 0
    findings: Sequence[DamagedLog] = ()
    """What cannot be served: damage, or message formats of before Kafka 0.11. Then nothing was changed."""


def find_partitions(fs: FileSystem, data_directory: str) -> list[str]:
    """The partition directories in a data directory, by path."""
    return [join(data_directory, one) for one in fs.directories(data_directory) if names.parse_directory(one)]


def adopt(fs: FileSystem, directory: str, now_ms: int) -> Adopted:
    """Reads all of a partition's directory and makes it one that a start finds in order.

    ValueError where its name is not a partition's. Blocks for as long as reading takes.
    """
    name = names.parse_directory(basename(directory))
    if name is None:
        raise ValueError(f"{directory} is not named TOPIC-PARTITION")
    findings = _check(fs, directory)
    if findings:
        return Adopted(name, load_topic_id(fs, directory), findings=findings)
    log = Log.load(name, Home(dirname(directory), fs), LogConfig(), now_ms, clean=True)
    try:
        _write_missing_snapshots(fs, log)
        return Adopted(name, log.topic_id, log.start_offset, log.end_offset, log.size_bytes)
    finally:
        log.discard()


def _check(fs: FileSystem, directory: str) -> list[DamagedLog]:
    """Reads every batch of every segment; what is wrong, a finding a segment. Changes nothing."""
    findings: list[DamagedLog] = []
    for one in fs.listdir(directory):
        if names.base_offset_of(one, names.LOG) is None:
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
            fs.write_atomically(segments[number].path(names.SNAPSHOT), states.encode())
