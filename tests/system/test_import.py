"""Import of a single broker into a cluster: no data is lost, and other brokers can join."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.broker.assembly import METADATA_FILE, assemble
from moldau.cli.main import app
from moldau.cli.zookeeper.server import ZooKeeperEnsemble
from moldau.cluster.sqlite_store import SqliteStore
from moldau.cluster.tree import Tree
from moldau.host.threads import Threads
from moldau.settings import SettingError
from tests.support.process import BrokerProcess
from tests.system.test_local_cluster import replicas_of

pytestmark = pytest.mark.needs_java

TIMEOUT_S = 60
PARTITIONS = 3
RECORDS = 300
READ = 120
TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "billing", "payments"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


def import_(data: Path, connect: str) -> Result:
    return CliRunner().invoke(app, ["cluster", "import", "--data", str(data), "--zookeeper", connect])


class Seen:
    """The state of a cluster as clients see it. It must be the same after the import."""

    def __init__(self, bootstrap: str) -> None:
        with Admin(bootstrap_servers=bootstrap) as admin:
            self.cluster_id = admin.describe_cluster().cluster_id
            topics = admin.list_topics(include_internal=True)
            described = admin.describe_topics([one.name for one in topics])
            self.topics = {name: (one.id, len(one.partitions)) for name, one in described.items()}
            self.offsets = admin.list_group_offsets(GROUP)
            transaction = admin.describe_transactions([TRANSACTIONAL_ID])[TRANSACTIONAL_ID]
            self.transaction = (transaction.producer_id, transaction.state)
            states = admin.describe_producers([TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
            self.producers = {one.producer_id for each in states.values() for one in each}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def fill(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, partitions=PARTITIONS, configs={"retention.ms": "123456789"})])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        producer.flush(TIMEOUT_S)
    with Producer(bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(TOPIC, b"paid", partition=0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(
            GROUP, {TopicPartition(TOPIC, index): READ // PARTITIONS for index in range(PARTITIONS)}
        )


def unread(bootstrap: str, count: int) -> list[bytes | None]:
    """The records that the group reads after its committed offsets."""
    found: list[bytes | None] = []
    with Consumer(TOPIC, bootstrap_servers=bootstrap, group_id=GROUP, isolation_level="read_committed") as consumer:
        while len(found) < count:
            records = consumer.poll(TIMEOUT_S)
            assert records, f"{len(found)} of {count} records"
            found += [record.value for record in records]
    return found


def test_a_broker_keeps_everything_on_its_way_into_a_cluster(zookeeper: ZooKeeperEnsemble, tmp_path: Path) -> None:
    data, connect = tmp_path / "first", f"{zookeeper.connect}/imported"
    with BrokerProcess(data) as alone:
        fill(alone.bootstrap)
        before = Seen(alone.bootstrap)
        while_it_runs = import_(data, connect)
        assert while_it_runs.exit_code == 1
        assert f"{data} is in use by process {alone.pid}" in while_it_runs.stderr

    done = import_(data, connect)
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"cluster {before.cluster_id}, {len(before.topics)} topics" in done.stdout
    again = import_(data, connect)
    assert again.exit_code == 0
    assert "nothing to do" in again.stdout

    first = BrokerProcess(data, arguments=["--zookeeper", connect])
    second = BrokerProcess(tmp_path / "second", {"node.id": "2"}, arguments=["--zookeeper", connect])
    with first, second:
        assert Seen(second.bootstrap) == before
        with Admin(bootstrap_servers=second.bootstrap) as admin:
            assert [one.id for one in admin.describe_cluster().brokers] == [1, 2]
            admin.create_topics([NewTopic("both", partitions=2, replication_factor=2)])
            assert replicas_of(admin, "both") == [[1, 2], [1, 2]]

        # Producer ids continue after the imported ones: no two producers ever get the same id.
        with Producer(bootstrap_servers=second.bootstrap) as producer:
            producer.send(TOPIC, b"new", partition=0).result(TIMEOUT_S)
        with Producer(bootstrap_servers=second.bootstrap, transactional_id=TRANSACTIONAL_ID) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send(TOPIC, b"paid again", partition=0)
        after = Seen(second.bootstrap)
        assert min(after.producers - before.producers) > max(before.producers)
        assert after.transaction[0] == before.transaction[0]

        values = unread(second.bootstrap, RECORDS - READ + 3)
        numbers = sorted(int(value) for value in values if value is not None and value.isdigit())
        assert numbers == list(range(READ, RECORDS))
        assert sorted(value for value in values if value is not None and not value.isdigit()) == [
            b"new",
            b"paid",
            b"paid again",
        ]


def as_of_a_broker(data: Path, cluster_id: str) -> None:
    """The metadata that a single broker has created at its first start."""

    async def make() -> None:
        threads = Threads()
        store = await SqliteStore.open(str(data / METADATA_FILE), threads)
        await Tree(store).prepare(cluster_id)
        await store.close()
        await threads.close()

    data.mkdir()
    asyncio.run(make())


def test_an_obstacle_to_an_import_is_reported(zookeeper: ZooKeeperEnsemble, tmp_path: Path) -> None:
    one, other, nothing = tmp_path / "one", tmp_path / "other", tmp_path / "nothing"
    as_of_a_broker(one, "first")
    as_of_a_broker(other, "second")
    taken = f"{zookeeper.connect}/taken"
    assert import_(one, taken).exit_code == 0
    refused = import_(other, taken)
    assert refused.exit_code == 1
    assert (
        f"nothing was imported into {taken}: there already is a cluster first, but this broker belongs to"
        in refused.stderr
    )
    refused = import_(one, f"{zookeeper.connect}/elsewhere")
    assert refused.exit_code == 1
    assert "imported into another metadata store before" in refused.stderr
    never_alone = tmp_path / "never-alone"
    never_alone.mkdir()
    (never_alone / "meta.properties").write_text("version=1\n")
    refused = import_(never_alone, taken)
    assert refused.exit_code == 1
    assert "belongs to a broker that was always part of a cluster" in refused.stderr
    refused = import_(nothing, taken)
    assert refused.exit_code == 1
    assert "has no metadata of a broker" in refused.stderr
    assert not nothing.exists()

    # A directory belongs either to a cluster or to a single broker. A start as the other kind would hide all its
    # topics.
    with pytest.raises(SettingError, match=r"zookeeper\.connect: is needed"):
        asyncio.run(assemble({"log.dirs": str(one)}))
    with pytest.raises(SettingError, match=f"moldau cluster import --data {other}"):
        asyncio.run(assemble({"log.dirs": str(other), "zookeeper.connect": taken}))
