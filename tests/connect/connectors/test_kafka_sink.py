"""Kafka sink: records of one broker into another, exactly once over every kind of repetition."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from moldau import Admin, Consumer, Producer, TopicPartition
from moldau.client.admin.topics import NewTopic
from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import RetriableError, SinkCommit, SinkSlice, SinkTask
from moldau.connect.connectors import kafka_sink_offsets
from moldau.connect.connectors.kafka_sink import KafkaSink
from moldau.connect.connectors.kafka_sink_offsets import Reached
from moldau.connect.errors import RowError
from moldau.connect.record_batch import ConnectBatch, HeaderColumn, ValueColumn
from moldau.spark.rows import row_schema
from moldau.testing import Broker
from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars
from tests.compat.apache_kafka.processes import ApacheKafka
from tests.connect.connectors.support import copied, created_from, numbers, sink_batch

SOURCE = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        yield source, target


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        jars = fetch_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Apache Kafka's jars cannot be had: {reason}")
    with ApacheKafka(jars, tmp_path_factory.mktemp("target")) as kafka:
        yield kafka.bootstrap


@pytest.fixture(params=["moldau", "apache"])
def target(brokers: tuple[Broker, Broker], request: pytest.FixtureRequest) -> str:
    """The target cluster: a broker of ours, and with `make soak` also Apache Kafka."""
    if request.param == "moldau":
        return brokers[1].bootstrap_servers
    if not request.config.getoption("--soak"):
        pytest.skip("with make soak")
    found: str = request.getfixturevalue("apache_kafka")
    return found


_names = iter(range(1000))


@pytest.fixture
def name() -> str:
    return f"copy {next(_names)}"


def sink(target: str, name: str, **settings: str) -> KafkaSink:
    given = {"target.bootstrap.servers": target, "name": name, "topic.format": f"{name.replace(' ', '-')}.${{topic}}"}
    return created_from(KafkaSink, {**given, **{key.replace("_", "."): value for key, value in settings.items()}})


def rows(part: SinkSlice, *, keys: bool = False) -> ConnectBatch:
    """Records whose value is their offset, as ByteArrayConverter reads them."""
    texts = [str(offset).encode() for offset in range(part.start, part.end)]
    key = ValueColumn(pa.array(texts, pa.binary())) if keys else None
    return sink_batch(part.partition, part.start, ValueColumn(pa.array(texts, pa.binary())), key=key)


def wrote(connector: KafkaSink, part: SinkSlice, *, batch: int = 1, attempt: int = 0, **options: Any) -> Reached:
    task = SinkTask(connector.name, batch, 0, attempt)
    return copied(connector).write(part, iter([rows(part, **options)]), task)


def committed(connector: KafkaSink, part: SinkSlice, **options: Any) -> None:
    connector.commit(SinkCommit(connector.name, 1, [part], [wrote(connector, part, **options)]))


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Any]:
    settings = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        found: list[Any] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += consumer.poll(timeout=0.05)
    return found


def values(bootstrap: str, name: str, topic: str = "orders") -> list[int]:
    return [int(one.value) for one in read(bootstrap, f"{name.replace(' ', '-')}.{topic}")]


def test_records_and_offsets_arrive_together(target: str, name: str) -> None:
    connector = sink(target, name)
    connector.start()
    assert connector.written_offsets() == {}
    committed(connector, SinkSlice(SOURCE, 0, 10))
    committed(connector, SinkSlice(SOURCE, 10, 15))
    committed(connector, SinkSlice(OTHER, 0, 3))
    assert sorted(values(target, name)) == sorted([*range(15), *range(3)])
    again = sink(target, name)
    again.start()
    assert again.written_offsets() == {SOURCE: 15, OTHER: 3} == connector.written_offsets()


def test_an_attempt_that_is_repeated_after_its_commit_writes_nothing(target: str, name: str) -> None:
    connector = sink(target, name)
    connector.start()
    part = SinkSlice(SOURCE, 0, 10)
    first = wrote(connector, part)
    assert wrote(connector, part, attempt=1) == first
    assert values(target, name) == list(range(10))


def test_a_batch_that_begins_before_the_written_offset_writes_only_the_rest(target: str, name: str) -> None:
    """The driver died after the tasks had committed, and the next one plans other slices from the group's offsets."""
    connector = sink(target, name)
    connector.start()
    wrote(connector, SinkSlice(SOURCE, 0, 10))
    wrote(connector, SinkSlice(SOURCE, 4, 20), batch=2)
    assert values(target, name) == list(range(20))


def test_an_attempt_that_fails_leaves_nothing_visible_and_can_be_repeated(target: str, name: str) -> None:
    connector = sink(target, name)
    connector.start()
    part = SinkSlice(SOURCE, 0, 10)

    def failing() -> Iterator[ConnectBatch]:
        yield rows(SinkSlice(SOURCE, 0, 5))
        raise OSError("the disk of the source is full")

    with pytest.raises(OSError, match="full"):
        copied(connector).write(part, failing(), SinkTask(name, 1, 0, 0))
    assert values(target, name) == []
    committed(connector, part)
    assert values(target, name) == list(range(10))


def test_a_process_that_slept_through_a_takeover_writes_nothing(target: str, name: str) -> None:
    connector = sink(target, name)
    connector.start()
    part = SinkSlice(SOURCE, 0, 10)

    def sleeping() -> Iterator[ConnectBatch]:
        yield rows(SinkSlice(SOURCE, 0, 5))
        committed(sink(target, name), part)  # another worker does the work meanwhile
        yield rows(SinkSlice(SOURCE, 5, 10))

    with pytest.raises(MoldauError, match=r"(?i)fenced|epoch|must be aborted"):
        copied(connector).write(part, sleeping(), SinkTask(name, 1, 0, 0))
    assert values(target, name) == list(range(10))


def test_a_worker_with_old_knowledge_of_the_offsets_asks_the_target(target: str, name: str) -> None:
    """A worker reads the offsets; before its task runs, the former owner commits once more."""
    old, new = sink(target, name), sink(target, name)
    old.start()
    committed(old, SinkSlice(SOURCE, 0, 5))
    new.start()
    assert new.written_offsets() == {SOURCE: 5}
    committed(old, SinkSlice(SOURCE, 5, 12))
    committed(new, SinkSlice(SOURCE, 5, 20))
    assert values(target, name) == list(range(20))
    assert new.written_offsets() == {SOURCE: 20}


def test_an_open_transaction_cannot_hide_a_committed_offset(
    target: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of committed records sees none after the first open transaction: the last offset would be an old one."""
    connector = sink(target, name)
    connector.start()
    committed(connector, SinkSlice(SOURCE, 0, 5))
    topic = f"connect-sink-offsets-{name.replace(' ', '_')}"
    monkeypatch.setattr(kafka_sink_offsets, "READ_TIMEOUT_S", 0.3)
    with Producer(bootstrap_servers=target, transactional_id=f"{name} other") as other:
        other.init_transactions()
        other.begin_transaction()
        index = read(target, topic)[0].partition
        other.send(topic, b'{"offset": 1}', b'["another", "orders", 0]', partition=index).result()
        monkeypatch.setattr(kafka_sink_offsets.KafkaSinkOffsets, "last", lambda *_: Reached(5))
        wrote(connector, SinkSlice(SOURCE, 5, 8))
        monkeypatch.undo()
        monkeypatch.setattr(kafka_sink_offsets, "READ_TIMEOUT_S", 0.3)
        with pytest.raises(RetriableError, match="still open"):
            wrote(connector, SinkSlice(SOURCE, 5, 8), attempt=1)
        other.abort_transaction()
    assert wrote(connector, SinkSlice(SOURCE, 5, 8), attempt=2).offset == 8
    assert values(target, name) == list(range(8))


@pytest.mark.parametrize("seed", range(3))
def test_every_record_arrives_once_whatever_happens_to_workers_and_tasks(target: str, name: str, seed: int) -> None:
    """Workers die before and after the commit, attempts fail and are repeated, and a sleeping worker wakes up."""
    chance = random.Random(seed)
    connector = sink(target, name)
    connector.start()
    end, group = 0, 0
    while end < 60:
        end += chance.randint(1, 8)
        start = max(group, connector.written_offsets().get(SOURCE, 0))
        if start >= end:
            continue
        part = SinkSlice(SOURCE, start, end)
        fate = chance.choice(["done", "driver dies", "task fails", "overtaken"])
        if fate == "done":
            committed(connector, part)
            group = end
        elif fate == "driver dies":
            wrote(connector, part)
            if chance.random() < 0.5:
                connector = sink(target, name)
                connector.start()
        else:
            overtaken = fate == "overtaken"
            with pytest.raises(MoldauError if overtaken else OSError):
                copied(connector).write(part, _interrupted(part, target, name, overtaken), SinkTask(name, 1, 0, 0))
    committed(connector, SinkSlice(SOURCE, group, end + 1))
    assert values(target, name) == list(range(end + 1))


def _interrupted(part: SinkSlice, target: str, name: str, overtaken: bool) -> Iterator[ConnectBatch]:
    yield rows(SinkSlice(part.partition, part.start, part.start + 1))
    if not overtaken:
        raise OSError("read error")
    wrote(sink(target, name), part, batch=2)
    yield rows(SinkSlice(part.partition, part.start + 1, part.end + 1))


def test_two_connectors_of_one_offsets_topic_do_not_mix(target: str, name: str) -> None:
    first = sink(target, name, target_offsets_topic="shared-offsets")
    second = sink(target, f"{name} b", target_offsets_topic="shared-offsets")
    first.start()
    second.start()
    committed(first, SinkSlice(SOURCE, 0, 5))
    committed(second, SinkSlice(SOURCE, 0, 2))
    first.start()
    second.start()
    assert (first.written_offsets(), second.written_offsets()) == ({SOURCE: 5}, {SOURCE: 2})


def test_a_slice_without_records_moves_the_offset(target: str, name: str) -> None:
    """Control records and compaction leave gaps; tolerated errors leave out records."""
    connector = sink(target, name)
    connector.start()
    reached = copied(connector).write(SinkSlice(SOURCE, 0, 7), iter(()), SinkTask(name, 1, 0, 0))
    assert reached.offset == 7


def test_key_value_headers_and_time_are_kept(brokers: tuple[Broker, Broker], target: str, name: str) -> None:
    """Bytes from a real topic of the source cluster, as the engine reads them with ByteArrayConverter."""
    source, topic = brokers[0].bootstrap_servers, f"given-{name.replace(' ', '-')}"
    with Producer(bootstrap_servers=source) as producer:
        producer.send(
            topic, b"\x00value", b"key\xff", timestamp=1_700_000_000_123, headers=[("h", b"\x01"), ("n", None)]
        )
        producer.send(topic, None, b"gone", timestamp=1_700_000_000_124)
        producer.flush()
    given = read(source, topic)
    names = ("h", "n")
    headers = [dict(one.headers or ()) for one in given]
    present = [[header in found for found in headers] for header in names]
    columns = tuple(
        HeaderColumn(
            header, ValueColumn(pa.array([found.get(header) for found in headers], pa.binary())), pa.array(there)
        )
        for header, there in zip(names, present, strict=True)
    )
    batch = ConnectBatch(
        pa.array([topic, topic]),
        ValueColumn(pa.array([one.key for one in given], pa.binary())),
        ValueColumn(pa.array([one.value for one in given], pa.binary())),
        pa.array([one.timestamp for one in given], pa.int64()),
        pa.array([0, 0], pa.int32()),
        columns,
        pa.record_batch({"offset": pa.array([0, 1], pa.int64())}),
    )
    connector = sink(target, name, target_header_converter="org.apache.kafka.connect.converters.ByteArrayConverter")
    connector.start()
    part = SinkSlice(TopicPartition(topic, 0), 0, 2)
    copied(connector).write(part, iter([batch]), SinkTask(name, 1, 0, 0))
    found = read(target, f"{name.replace(' ', '-')}.{topic}")
    assert [(one.key, one.value, one.timestamp, list(one.headers or ())) for one in found] == [
        (one.key, one.value, one.timestamp, list(one.headers or ())) for one in given
    ]


def test_the_partition_is_kept_or_follows_from_the_key(target: str, name: str) -> None:
    topic = f"{name.replace(' ', '-')}.orders"
    with Admin(bootstrap_servers=target) as admin:
        admin.create_topics([NewTopic(topic, 4, 1)])
    part = SinkSlice(TopicPartition("orders", 3), 0, 20)
    keep = sink(target, name, partition_mode="keep")
    keep.start()
    committed(keep, part)
    assert {one.partition for one in read(target, topic)} == {3}
    by_key = sink(target, f"{name} b", topic_format=topic)
    by_key.start()
    committed(by_key, part, keys=True)
    partitions = [{one.partition for one in read(target, topic) if one.key == str(n).encode()} for n in range(20)]
    assert all(len(found) == 1 for found in partitions)
    assert len(set.union(*partitions)) > 1


def test_a_partition_that_the_target_does_not_have_is_named(target: str, name: str) -> None:
    connector = sink(target, name, partition_mode="keep", target_topic_partitions="2")
    connector.start()
    with pytest.raises(MoldauError, match="has 2 partitions, but a record comes from partition 5"):
        wrote(connector, SinkSlice(TopicPartition("orders", 5), 0, 2))
    assert values(target, name) == []


def test_a_new_topic_has_the_configured_partitions(target: str, name: str) -> None:
    connector = sink(target, name, target_topic_partitions="3")
    connector.start()
    committed(connector, SinkSlice(SOURCE, 0, 1))
    topic = f"{name.replace(' ', '-')}.orders"
    with Admin(bootstrap_servers=target) as admin:
        assert len(admin.describe_topics([topic])[topic].partitions) == 3


def test_structured_values_go_through_the_converter_of_the_target(target: str, name: str) -> None:
    settings = {"target_value_converter": "JsonConverter", "target_value_converter_schemas_enable": "false"}
    connector = sink(target, name, **settings)
    connector.start()
    batch = sink_batch(SOURCE, 0, numbers(0, 2))
    copied(connector).write(SinkSlice(SOURCE, 0, 2), iter([batch]), SinkTask(name, 1, 0, 0))
    found = read(target, f"{name.replace(' ', '-')}.orders")
    assert [one.value for one in found] == [b'{"n":0,"name":"row 0"}', b'{"n":1,"name":"row 1"}']


def test_rows_that_cannot_be_converted_are_rejected_and_the_others_written(target: str, name: str) -> None:
    connector = sink(target, name, target_value_converter="org.apache.kafka.connect.converters.LongConverter")
    connector.start()
    part = SinkSlice(SOURCE, 0, 4)
    batches = [
        sink_batch(SOURCE, 0, ValueColumn(pa.array([1, 2]))),
        sink_batch(SOURCE, 2, ValueColumn(pa.array(["a", "b"]))),
    ]
    rejected: list[int] = []

    def reject(batch: ConnectBatch, bad: pa.BooleanArray, error: Exception) -> None:
        assert isinstance(error, RowError)
        assert batch.origin is not None
        rejected.extend(batch.filter(bad).origin.column("offset").to_pylist())  # type: ignore[union-attr]

    with pytest.raises(RowError):
        copied(connector).write(part, iter(batches), SinkTask(name, 1, 0, 0))
    reached = copied(connector).write(part, iter(batches), SinkTask(name, 1, 0, 1, reject))
    assert rejected == [2, 3]
    assert reached.offset == 4
    assert [one.value for one in read(target, f"{name.replace(' ', '-')}.orders")] == [
        number.to_bytes(8, "big") for number in (1, 2)
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target.bootstrap.servers": ""}, "target.bootstrap.servers"),
        ({"partition.mode": "random"}, "partition.mode"),
        ({"target.topic.partitions": "0"}, "target.topic.partitions"),
    ],
)
def test_a_mistake_in_the_settings_is_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        created_from(KafkaSink, {"target.bootstrap.servers": "127.0.0.1:1", **settings})


@pytest.mark.parametrize("name", ["target.client.sasl.mechanizm", "target.client.transactional.id"])
def test_a_client_setting_that_cannot_be_used_is_named(name: str) -> None:
    problems = KafkaSink.check({"target.bootstrap.servers": ["127.0.0.1:1"], name: "x"})
    assert list(problems) == [name]


def test_the_rows_of_the_engine_have_an_offset() -> None:
    assert "offset" in row_schema(headers=True).names
