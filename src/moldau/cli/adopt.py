"""Taking in partitions that Apache Kafka wrote: their directories are copied, their topics entered into the metadata.

The broker must not be running. Topics keep their names and ids; their settings are the broker's defaults, since a
partition directory does not have them. Nothing of the source is changed.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker
from moldau.cli.serve import EXIT_OK, describe, fail
from moldau.cluster.image import BrokerImage
from moldau.cluster.names import CLUSTER_METADATA
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import StoreError
from moldau.cluster.topics import NewTopic
from moldau.host.clock import SystemClock
from moldau.host.fs import LocalFileSystem
from moldau.log.adopt import adopt
from moldau.log.errors import LogError
from moldau.log.names import PARTITION_METADATA, PartitionName, decode_partition_metadata, parse_directory
from moldau.settings import SettingError

COPYING = "moldau-adopting"
"""The directory that copies are made in; no partition can have its name."""


class AdoptError(Exception):
    """Why nothing was taken in, for a person."""


class Source(NamedTuple):
    path: Path
    name: PartitionName
    topic_id: bytes


def adopt_partitions(data: Path, sources: Sequence[Path]) -> int:
    """The exit code. All sources are taken in, or none."""
    try:
        found = [_source(path) for path in sources]
        topics = _topics(found)
        asyncio.run(_adopt(data.absolute(), found, topics))
    except (AdoptError, SettingError, StoreError, LogError) as error:
        return fail(str(error))
    except OSError as error:
        return fail(describe(error))
    return EXIT_OK


def _source(path: Path) -> Source:
    path = path.absolute()
    name = parse_directory(path.name)
    if not path.is_dir() or name is None:
        raise AdoptError(f"{path} is not a partition directory (TOPIC-PARTITION)")
    if name.topic == CLUSTER_METADATA:
        raise AdoptError(f"{path} is Kafka's metadata log; adopt the partitions of topics")
    try:
        topic_id = decode_partition_metadata((path / PARTITION_METADATA).read_bytes())
    except FileNotFoundError:
        raise AdoptError(f"{path} has no {PARTITION_METADATA}, which tells the topic's id") from None
    except ValueError as error:
        raise AdoptError(f"{path / PARTITION_METADATA}: {error}") from None
    return Source(path, name, topic_id)


def _topics(sources: Sequence[Source]) -> dict[str, bytes]:
    """The id of each topic; partitions of one topic must agree on it."""
    ids: dict[str, bytes] = {}
    for source in sources:
        if ids.setdefault(source.name.topic, source.topic_id) != source.topic_id:
            raise AdoptError(
                f"{source.path} is of another topic {source.name.topic!r} than the others: their ids differ"
            )
    return ids


async def _adopt(data: Path, sources: Sequence[Source], topics: dict[str, bytes]) -> None:
    broker = await assemble({"log.dirs": str(data)})
    try:
        cluster_id = broker.log_dirs.cluster_id
        image = await broker.metadata.open(cluster_id)
        broker.log_dirs.remember_cluster(image.cluster_id)
        await broker.metadata.register(BrokerImage(broker.node_id, ()))
        wanted = [_wanted(broker, name, topic_id, sources) for name, topic_id in topics.items()]
        for answer in await broker.metadata.create_topics(wanted, validate_only=True):
            if isinstance(answer, Refusal):
                raise AdoptError(answer.message)
        for source in sources:
            _copy(source, data)
        for answer in await broker.metadata.create_topics(wanted):
            if isinstance(answer, Refusal):
                raise AdoptError(answer.message)
            print(f"adopted {answer.name}: {len(answer.partitions)} partitions")
    finally:
        await broker.abandon()


def _wanted(broker: Broker, topic: str, topic_id: bytes, sources: Sequence[Source]) -> NewTopic:
    indexes = {source.name.partition for source in sources if source.name.topic == topic}
    missing = sorted(set(range(max(indexes))) - indexes)
    if missing:
        print(f"moldau: {topic}: partitions {missing} were not given and begin empty", file=sys.stderr)
    assignments = tuple((index, (broker.node_id,)) for index in range(max(indexes) + 1))
    return NewTopic(topic, assignments=assignments, topic_id=topic_id)


def _copy(source: Source, data: Path) -> None:
    """Beside its final place first, read and checked there: nothing half copied or damaged is taken for a partition."""
    target = data / source.path.name
    if target == source.path:
        _check(target)  # it was put there by hand already
        return
    if target.exists():
        raise AdoptError(f"{target} exists already")
    copying = data / COPYING / source.path.name
    shutil.rmtree(copying, ignore_errors=True)
    try:
        shutil.copytree(source.path, copying)
        _check(copying)
        copying.rename(target)
    finally:
        shutil.rmtree(data / COPYING, ignore_errors=True)


def _check(directory: Path) -> None:
    findings = adopt(LocalFileSystem(), str(directory), SystemClock().now_ms()).findings
    if findings:
        raise AdoptError("; ".join(finding.message for finding in findings))
