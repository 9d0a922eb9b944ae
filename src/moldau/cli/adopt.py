"""Import of partitions written by Apache Kafka: copies their directories and adds their topics to the metadata.

The broker must not be running. Topics keep their names and ids. Their settings are the broker's defaults, because a
partition directory does not contain settings. The source is not changed.
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
from moldau.cluster.errors import Refusal
from moldau.cluster.image import BrokerImage
from moldau.cluster.store import StoreError
from moldau.cluster.topic_names import CLUSTER_METADATA
from moldau.cluster.topics import TopicCreation
from moldau.host.clock import SystemClock
from moldau.host.fs import LocalFileSystem
from moldau.log.adoption import adopt
from moldau.log.errors import LogError
from moldau.log.file_names import PARTITION_METADATA, decode_partition_metadata, parse_directory
from moldau.settings import SettingError
from moldau.wire.topic_partition import TopicPartition

COPYING = "moldau-adopting"
"""The directory for copies in progress. No partition can have this name."""


class AdoptError(Exception):
    """The reason why nothing was imported, as a message for the user."""


class AdoptedPartition(NamedTuple):
    path: Path
    name: TopicPartition
    topic_id: bytes


def adopt_partitions(data: Path, sources: Sequence[Path]) -> int:
    """Import all sources, or none. Return the exit code."""
    try:
        found = [_source(path) for path in sources]
        topics = _topics(found)
        asyncio.run(_adopt(data.absolute(), found, topics))
    except (AdoptError, SettingError, StoreError, LogError) as error:
        return fail(str(error))
    except OSError as error:
        return fail(describe(error))
    return EXIT_OK


def _source(path: Path) -> AdoptedPartition:
    path = path.absolute()
    name = parse_directory(path.name)
    if not path.is_dir() or name is None:
        raise AdoptError(f"{path} is not a partition directory (TOPIC-PARTITION)")
    if name.topic == CLUSTER_METADATA:
        raise AdoptError(f"{path} is Kafka's metadata log; adopt the partitions of topics")
    try:
        topic_id = decode_partition_metadata((path / PARTITION_METADATA).read_bytes())
    except FileNotFoundError:
        raise AdoptError(
            f"{path} has no {PARTITION_METADATA} with the topic's id; copy the whole directory of the partition"
        ) from None
    except ValueError as error:
        raise AdoptError(f"{path / PARTITION_METADATA}: {error}") from None
    return AdoptedPartition(path, name, topic_id)


def _topics(sources: Sequence[AdoptedPartition]) -> dict[str, bytes]:
    """The id of each topic. All partitions of a topic must have the same one."""
    ids: dict[str, bytes] = {}
    for source in sources:
        if ids.setdefault(source.name.topic, source.topic_id) != source.topic_id:
            raise AdoptError(
                f"{source.path} belongs to another topic {source.name.topic!r} than the other directories: the topic "
                "ids differ"
            )
    return ids


async def _adopt(data: Path, sources: Sequence[AdoptedPartition], topics: dict[str, bytes]) -> None:
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


def _wanted(broker: Broker, topic: str, topic_id: bytes, sources: Sequence[AdoptedPartition]) -> TopicCreation:
    indexes = {source.name.partition for source in sources if source.name.topic == topic}
    missing = sorted(set(range(max(indexes))) - indexes)
    if missing:
        print(f"moldau: {topic}: partitions {missing} were not given and start empty", file=sys.stderr)
    assignments = tuple((index, (broker.node_id,)) for index in range(max(indexes) + 1))
    return TopicCreation(topic, assignments=assignments, topic_id=topic_id)


def _copy(source: AdoptedPartition, data: Path) -> None:
    """Copy to a temporary directory and check the copy there, so that no incomplete or damaged copy becomes a
    partition."""
    target = data / source.path.name
    if target == source.path:
        _check(target)  # the user has already put it there
        return
    if target.exists():
        raise AdoptError(f"{target} already exists")
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
