"""Admin client, blocking and asyncio: cluster, data directories, producers and transactions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import moldau.aio
from moldau import Admin, NewTopic, TopicPartition
from moldau.client.admin import AbortSpec
from moldau.client.errors import (
    BrokerError,
    BrokerUnavailable,
    ClosedError,
    ConfigurationError,
    InvalidProducerIdMapping,
    LogDirNotFound,
    MoldauError,
    TimedOut,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.compat.apache_kafka.processes import free_port
from tests.compat.transactions import requests
from tests.compat.wire import batch_of, produce
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.support.waiting import loop_turns, wait_until

Name = Callable[[], str]
DAY_MS = 86_400_000


def test_the_cluster_has_brokers_and_a_controller(admin: Admin, bootstrap: str) -> None:
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller in {node.id for node in cluster.brokers}
    assert f"{cluster.brokers[0].host}:{cluster.brokers[0].port}" == bootstrap
    assert admin.describe_cluster(include_fenced=True) == cluster


def test_features_and_apis_are_described(admin: Admin) -> None:
    features = admin.describe_features()
    assert features.finalized["group.version"].high == 1
    assert features.supported["transaction.version"].high >= 2
    node = admin.describe_cluster().brokers[0].id
    assert admin.api_versions(node)[ApiKey.FETCH].high >= 16
    with pytest.raises(BrokerUnavailable, match="there is no broker 4711"):
        admin.api_versions(4711)


def test_data_directories_are_described_with_partition_sizes(admin: Admin, raw: RawConnection, topic: str) -> None:
    assert produce(raw, topic, batch_of(b"value")).error_code == 0
    (node,) = [node.id for node in admin.describe_cluster().brokers]
    partition = TopicPartition(topic, 0)
    (log_dir,) = admin.describe_log_dirs(node, partition)[node]
    assert log_dir.error is None
    assert log_dir.replicas.keys() == {partition}
    assert log_dir.replicas[partition].size > 0
    assert log_dir.total_bytes is not None
    assert partition in admin.describe_log_dirs()[node][0].replicas
    with pytest.raises(LogDirNotFound, match=topic):
        admin.alter_replica_log_dirs({(partition, node): "/no/such/directory"})


class BrokerOfTwo(BrokerProcess):
    """A broker with two data directories."""

    def __init__(self, one: Path, two: Path) -> None:
        super().__init__(one, {"log.dirs": f"{one},{two}"})

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--data")
        return command[:at] + command[at + 2 :]


def test_a_partition_moves_to_another_data_directory(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with BrokerOfTwo(*folders) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic("moved", 1))
        partition = TopicPartition("moved", 0)
        (node,) = admin.describe_log_dirs()

        def home() -> str:
            (found,) = [
                one.path
                for one in admin.describe_log_dirs(node, partition)[node]
                for replica in one.replicas.values()
                if not replica.is_future
            ]
            return found

        other = next(str(folder) for folder in folders if str(folder) != home())
        admin.alter_replica_log_dirs({(partition, node): other})
        wait_until(lambda: home() == other)


def opened(raw: RawConnection, transactional_id: str, topic: str) -> tuple[int, int]:
    """Open a transaction with one record, and return the producer's id and epoch."""
    identity = requests.producer(raw, transactional_id)
    assert requests.add_each(raw, transactional_id, identity, topic, [0]) == [ErrorCode.NONE]
    assert requests.write(raw, transactional_id, identity, topic, b"value") == ErrorCode.NONE
    return identity.producer_id, identity.epoch


def test_an_open_transaction_is_described_by_every_call(
    admin: Admin, raw: RawConnection, topic: str, unused_name: Name
) -> None:
    name, partition = unused_name(), TopicPartition(topic, 0)
    producer_id, epoch = opened(raw, name, topic)
    (listed,) = [one for one in admin.list_transactions(states=["Ongoing"]) if one.id == name]
    assert (listed.producer_id, listed.state) == (producer_id, "Ongoing")
    assert [one.id for one in admin.list_transactions(producer_ids=[producer_id])] == [name]
    assert name not in {one.id for one in admin.list_transactions(longer_than_ms=DAY_MS)}
    described = admin.describe_transactions(name)[name]
    assert (described.state, described.producer_epoch, described.partitions) == ("Ongoing", epoch, (partition,))
    (producer,) = admin.describe_producers(partition)[partition]
    assert (producer.producer_id, producer.transaction_start_offset) == (producer_id, 0)
    # Its coordinator will end it, so it does not count as hanging, however long it is open.
    assert admin.find_hanging_transactions([partition], longer_than_ms=-1) == []

    admin.terminate_transaction(name)
    wait_until(lambda: admin.describe_producers(partition)[partition][0].transaction_start_offset is None)


@pytest.mark.parametrize(("commit", "state"), [(True, "CompleteCommit"), (False, "CompleteAbort")])
def test_an_abandoned_transaction_is_completed_with_its_producer_id_and_epoch(
    admin: Admin, raw: RawConnection, topic: str, unused_name: Name, commit: bool, state: str
) -> None:
    name = unused_name()
    producer_id, epoch = opened(raw, name, topic)
    with pytest.raises(InvalidProducerIdMapping):
        admin.complete_transaction(name, producer_id + 1, epoch, commit=commit)
    admin.complete_transaction(name, producer_id, epoch, commit=commit)
    wait_until(lambda: admin.describe_transactions(name)[name].state == state)


def test_a_marker_written_by_an_admin_ends_a_transaction_without_its_coordinator(
    admin: Admin, raw: RawConnection, topic: str, unused_name: Name
) -> None:
    name, partition = unused_name(), TopicPartition(topic, 0)
    producer_id, epoch = opened(raw, name, topic)
    admin.abort_transaction(AbortSpec(partition, producer_id, epoch, 0))
    (producer,) = admin.describe_producers(partition)[partition]
    assert producer.transaction_start_offset is None
    admin.terminate_transaction(name)


def test_unknown_transactions_and_partitions_are_refused(admin: Admin, unused_name: Name) -> None:
    with pytest.raises(TransactionalIdNotFound):
        admin.describe_transactions(unused_name())
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_producers(TopicPartition(unused_name(), 0))


# The clients themselves -----------------------------------------------------------------------------------------------


def test_the_asyncio_client_makes_concurrent_calls(bootstrap: str, unused_name: Name) -> None:
    async def run() -> None:
        async with moldau.aio.Admin({"bootstrap.servers": bootstrap}) as admin:
            wanted = [unused_name() for _ in range(8)]
            await asyncio.gather(*(admin.create_topics(name) for name in wanted))
            described = await asyncio.gather(*(admin.describe_topics(name) for name in wanted))
            assert [next(iter(one)) for one in described] == wanted
        with pytest.raises(ClosedError):
            await admin.list_topics()
        await admin.close()

    asyncio.run(run())


def test_a_cancelled_call_leaves_the_client_usable(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with moldau.aio.Admin(bootstrap_servers=bootstrap) as admin:
            for steps in range(12):
                call = asyncio.ensure_future(admin.describe_topics(topic))
                await loop_turns(steps)
                call.cancel()
                await asyncio.wait([call])
                assert call.cancelled() or topic in call.result()
            assert topic in await admin.describe_topics(topic)

    asyncio.run(run())


def test_every_call_of_the_asyncio_client_exists_in_the_blocking_client(bootstrap: str) -> None:
    def calls(kind: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(function)
            for name, function in inspect.getmembers(kind, inspect.isroutine)
            if not name.startswith("_") and name != "close"
        }

    assert calls(Admin) == calls(moldau.aio.Admin)
    assert Admin.create_topics.__doc__ == moldau.aio.Admin.create_topics.__doc__


def test_a_closed_client_raises(bootstrap: str) -> None:
    admin = Admin(bootstrap_servers=bootstrap)
    admin.close()
    admin.close()
    with pytest.raises(ClosedError, match="create a new one"):
        admin.list_topics()


def test_a_broker_that_is_away_is_named_within_the_time_out() -> None:
    port = free_port()
    with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
        with pytest.raises(TimedOut, match=f"127.0.0.1:{port}"):
            admin.list_topics(timeout=0.3)
        with pytest.raises(MoldauError, match=f"127.0.0.1:{port}"):
            admin.create_topics("one", timeout=0.3)


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"request\.timeout\.ms"):
        Admin(bootstrap_servers="127.0.0.1:9092", request_timeout=5)


def test_a_broker_that_is_not_registered_cannot_be_unregistered(admin: Admin) -> None:
    with pytest.raises(BrokerError, match="4711"):
        admin.unregister_broker(4711)
