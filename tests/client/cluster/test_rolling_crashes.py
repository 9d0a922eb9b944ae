"""Crash and restart of every broker of a cluster, one after the other, while clients of all kinds work.

All clients run during one pass through the brokers. The tests then check what the clients have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from moldau.testing import Cluster
from tests.client.cluster.workers import (
    PARTITIONS,
    AiokafkaReader,
    ConfluentCopier,
    ConfluentReader,
    OffsetWatcher,
    OwnCopier,
    OwnReader,
    Worker,
    Writer,
    wait_for_progress_of_all,
    working,
)
from tests.client.transactions.reading import committed
from tests.support.waiting import wait_until

SOURCE = "numbers"
OWN_COPY, CONFLUENT_COPY = "own-copy", "confluent-copy"


class RollingCrash(NamedTuple):
    cluster: Cluster
    writer: Writer
    groups: dict[str, list[Worker]]
    copiers: list[Worker]
    watcher: OffsetWatcher


def groups_of(bootstrap: str) -> dict[str, list[Worker]]:
    new = {"group.protocol": "consumer"}
    return {
        "classic": [OwnReader(bootstrap, SOURCE, "classic"), ConfluentReader(bootstrap, SOURCE, "classic")],
        "consumer": [
            OwnReader(bootstrap, SOURCE, "consumer", **new),
            ConfluentReader(bootstrap, SOURCE, "consumer", **new),
        ],
        "static": [
            OwnReader(bootstrap, SOURCE, "static", **{"group.instance.id": "one"}),
            ConfluentReader(bootstrap, SOURCE, "static", **{"group.instance.id": "two"}),
        ],
        "aiokafka": [AiokafkaReader(bootstrap, SOURCE, "aiokafka")],
    }


@pytest.fixture(scope="module")
def crashed() -> Iterator[RollingCrash]:
    with Cluster(3, {"min.insync.replicas": 2}) as cluster:
        for topic in (SOURCE, OWN_COPY, CONFLUENT_COPY):
            cluster.create_topic(topic, PARTITIONS)
        bootstrap = cluster.bootstrap_servers
        writer = Writer(bootstrap, SOURCE)
        groups = groups_of(bootstrap)
        readers = [one for members in groups.values() for one in members]
        copiers: list[Worker] = [
            OwnCopier(bootstrap, SOURCE, OWN_COPY, "own-copier"),
            ConfluentCopier(bootstrap, SOURCE, CONFLUENT_COPY, "confluent-copier"),
        ]
        watcher = OffsetWatcher(bootstrap, [*groups, "own-copier", "confluent-copier"])
        with working(*readers, *copiers, watcher):
            with working(writer):
                wait_for_progress_of_all([*readers, *copiers])
                for broker in cluster.brokers:
                    broker.crash()
                    wait_for_progress_of_all([writer, *readers, *copiers])
                    broker.start()
                    cluster.wait_in_sync()
            written = writer.count
            for members in groups.values():
                wait_until(lambda members=members: count(members) >= written or any(one.failure for one in members))
            for copier in copiers:
                wait_until(lambda copier=copier: copier.count >= written or copier.failure)
        yield RollingCrash(cluster, writer, groups, copiers, watcher)


def count(members: list[Worker]) -> int:
    return sum(len(set().union(*(one.seen[partition] for one in members))) for partition in range(PARTITIONS))


def test_no_client_had_a_fatal_error(crashed: RollingCrash) -> None:
    workers = [
        crashed.writer,
        *crashed.copiers,
        crashed.watcher,
        *(one for some in crashed.groups.values() for one in some),
    ]
    assert [f"{one.name}: {one.failure!r}" for one in workers if one.failure] == []


@pytest.mark.parametrize("group", ["classic", "consumer", "static", "aiokafka"])
def test_a_group_sees_every_acknowledged_record_where_it_was_written(crashed: RollingCrash, group: str) -> None:
    for partition, written in crashed.writer.seen.items():
        seen: dict[int, bytes] = {}
        for one in crashed.groups[group]:
            seen |= one.seen[partition]
        assert {offset: seen.get(offset) for offset in written} == written


def test_no_offset_is_seen_with_two_values(crashed: RollingCrash) -> None:
    assert [line for members in crashed.groups.values() for one in members for line in one.rewrites] == []


def test_no_committed_offset_goes_back(crashed: RollingCrash) -> None:
    assert crashed.watcher.looks > 100
    assert crashed.watcher.went_back == []


@pytest.mark.parametrize("copy", [OWN_COPY, CONFLUENT_COPY])
def test_a_transactional_copy_has_every_record_once(crashed: RollingCrash, copy: str) -> None:
    written = sorted(int(value) for some in crashed.writer.seen.values() for value in some.values())
    copied = sorted(int(value) for value in committed(crashed.cluster.bootstrap_servers, copy, PARTITIONS))
    assert copied == written
