"""Arguments of undocumented types with only one possible meaning: the calls accept them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from moldau import Admin, Consumer, OffsetSpec, Producer, TopicPartition, aio
from moldau.client.admin import ByDuration, ToTimestamp
from moldau.errors import ArgumentError, SerializationError

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
NOON_MS = 1_769_853_600_000
NAIVE = datetime(2026, 1, 31, 12)  # noqa: DTZ001


def filled(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for minutes in range(3):
            producer.send(topic, b"value", timestamp=NOON + timedelta(minutes=minutes))


@pytest.mark.parametrize("serializer", [None, "bytes"])
def test_a_record_has_the_time_of_a_datetime(bootstrap: str, topic: str, serializer: str | None) -> None:
    with Producer(bootstrap_servers=bootstrap, value_serializer=serializer) as producer:
        assert producer.send(topic, b"value", timestamp=NOON).result(10).timestamp == NOON_MS
        with pytest.raises(ArgumentError, match=r"expected a datetime with a time zone: use given\.astimezone"):
            producer.send(topic, b"value", timestamp=NAIVE)
        with pytest.raises(SerializationError, match="milliseconds since 1970"):
            producer.send(topic, b"value", timestamp=datetime(1960, 1, 1, tzinfo=UTC))


def test_a_record_has_the_time_of_a_datetime_in_asyncio(bootstrap: str, topic: str) -> None:
    async def scenario() -> int:
        async with aio.Producer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(ArgumentError):
                await producer.send(topic, b"value", timestamp=NAIVE)
            return (await (await producer.send(topic, b"value", timestamp=NOON))).timestamp

    assert asyncio.run(scenario()) == NOON_MS


def test_offsets_are_found_by_datetime(bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic)
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        found = consumer.offsets_for_times({partition: NOON + timedelta(seconds=1)})[partition]
        assert found is not None and (found.offset, found.timestamp) == (1, NOON_MS + 60_000)
        with pytest.raises(ArgumentError, match="a datetime with a time zone"):
            consumer.offsets_for_times({partition: NAIVE})
    with Admin(bootstrap_servers=bootstrap) as admin:
        wanted = {(topic, 0): NOON + timedelta(minutes=2)}
        assert admin.list_offsets(wanted)[partition].offset == 2
        assert admin.list_offsets({partition: OffsetSpec.LATEST})[partition].offset == 3
        reset = admin.reset_group_offsets(f"{topic}.group", ToTimestamp(NOON + timedelta(minutes=1)), topic)
        assert reset[partition].after == 1
        reset = admin.reset_group_offsets(f"{topic}.group", ByDuration(timedelta(seconds=1)), topic, dry_run=True)
        assert reset[partition].after == 3


def test_a_collection_of_partitions_is_accepted_like_several_arguments(bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(TopicPartition(topic, 0))
        consumer.pause(consumer.assignment())
        assert consumer.paused() == {(topic, 0)}
        consumer.resume([(topic, 0)])
        assert consumer.paused() == frozenset()
        assert consumer.end_offsets([(topic, 0)]) == {(topic, 0): 3}


def test_a_time_out_may_be_a_timedelta(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"value")
        producer.flush(timedelta(seconds=30))


def test_group_metadata_of_asyncio_may_be_awaited_and_need_not_be(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        consumer = aio.Consumer(bootstrap_servers=bootstrap, group_id=f"{topic}.group")
        assert consumer.group_metadata().group_id == f"{topic}.group"
        async with consumer:
            assert consumer.group_metadata() == await consumer.group_metadata()
            assert consumer.group_metadata().group_id == f"{topic}.group"

    asyncio.run(scenario())


def test_rows_of_a_data_frame_are_sent(bootstrap: str, topic: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "id": ["a", "b", None],
            "body": [b"1", b"2", b"3"],
            "at": pandas.to_datetime([NOON, NOON, NOON]),
            "unused": [1, "x", object()],
        },
        index=[7, 8, 9],
    )
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send_batch(topic, frame, value="body", key="id", timestamp="at").result(10)
        assert (sent.rows, sent.first_offsets) == (3, {0: 0})
        with pytest.raises(SerializationError, match=r"there is no column 'bod'; did you mean 'body'\?"):
            producer.send_batch(topic, frame, value="bod")
        with pytest.raises(SerializationError, match=r"a pandas\.DataFrame, not from list"):
            producer.send_batch(topic, [{"value": b"1"}])
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        records = []
        while len(records) < 3:
            records += consumer.poll(10)
    assert [(one.key, one.value, one.timestamp) for one in records] == [
        (b"a", b"1", NOON_MS),
        (b"b", b"2", NOON_MS),
        (None, b"3", NOON_MS),
    ]


def test_tables_are_sent_where_pandas_is_not_installed(bootstrap: str, topic: str) -> None:
    program = f"""
import sys
class WithoutPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, WithoutPandas())
import pyarrow
from moldau import Producer
with Producer(bootstrap_servers={bootstrap!r}) as producer:
    producer.send_batch({topic!r}, pyarrow.table({{"value": ["a"]}})).result(10)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
