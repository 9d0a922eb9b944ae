"""Readers of the source without Spark: the test makes Spark's calls, against a real broker."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import LongType, StructField, StructType

from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError, UnknownTopicOrPartition
from moldau.spark.batch import BatchReader, FilteringBatchReader, batch_reader
from moldau.spark.data_loss import DataLoss, WrongCheckpoint
from moldau.spark.lookup import Lookup
from moldau.spark.options import parse
from moldau.spark.rows import row_schema
from moldau.spark.stream import StreamReader, stream_reader
from tests.spark import topics
from tests.support.process import BrokerProcess

PLAIN = row_schema(headers=False)
WITH_HEADERS = row_schema(headers=True)
ALL = ReadAllAvailable()

NewTopic = Callable[..., str]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def collected(reader: BatchReader | StreamReader, partitions: Any) -> pa.Table:
    """All rows that tasks would read, each with its own copy of the reader."""
    copy = pickle.loads(pickle.dumps(reader))
    batches = [batch for partition in partitions for batch in copy.read(partition)]
    return pa.Table.from_batches(batches) if batches else pa.table({"value": [], "offset": []})


def values(table: pa.Table) -> list[bytes]:
    return table.column("value").to_pylist()


@pytest.fixture
def batch(bootstrap: str, _clients: None) -> Callable[..., pa.Table]:
    def read(schema: StructType = PLAIN, **options: str) -> pa.Table:
        reader = batch_reader({"kafka.bootstrap.servers": bootstrap, **options}, schema)
        return collected(reader, reader.partitions())

    return read


class Query:
    """The calls of a streaming query to its source, one trigger after the other."""

    def __init__(self, bootstrap: str, options: dict[str, str]) -> None:
        self._options = {"kafka.bootstrap.servers": bootstrap, **options}
        self.at: dict[str, Any] | None = None
        self.restart()

    def restart(self, **options: str) -> None:
        """A new run from the checkpoint."""
        self._options |= options
        self.reader = stream_reader(self._options, PLAIN)

    def trigger(self, limit: ReadLimit | None = None) -> list[bytes] | None:
        """The values of the next batch, or None if there is no new batch."""
        start = self.at or self._logged(self.reader.initialOffset())
        end = self._logged(self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit()))
        if end == self.at:
            return None
        rows = self.batch(start, end)
        self.at = end
        return rows

    def batch(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        return sorted(values(collected(self.reader, self.reader.partitions(start, end))), key=int)

    @staticmethod
    def _logged(offset: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(offset))


@pytest.fixture
def query(bootstrap: str, _clients: None) -> Iterator[Callable[..., Query]]:
    made: list[Query] = []

    def make(**options: str) -> Query:
        made.append(Query(bootstrap, options))
        return made[-1]

    yield make
    for one in made:
        one.reader.stop()


# Batches --------------------------------------------------------------------------------------------------------------


def test_a_row_has_all_fields_of_a_record(bootstrap: str, topic: str, batch: Callable[..., pa.Table]) -> None:
    topics.send(bootstrap, topic, [b"a"], key=b"k", headers=[("h", b"1"), ("h", None)], timestamp=1_700_000_000_123)
    topics.send(bootstrap, topic, [None, b""])
    table = batch(WITH_HEADERS, subscribe=topic)
    first, second, third = table.to_pylist()
    assert first == {
        "key": b"k",
        "value": b"a",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)
    assert third["value"] == b""


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_read(
    bootstrap: str, topic: str, batch: Callable[..., pa.Table], codec: str
) -> None:
    topics.send(bootstrap, topic, numbers(0, 5000), **{"compression.type": codec})
    assert values(batch(subscribe=topic)) == numbers(0, 5000)


def test_records_of_ten_megabytes_are_read(bootstrap: str, new_topic: NewTopic, batch: Callable[..., pa.Table]) -> None:
    topic = new_topic(1, {"max.message.bytes": "20000000"})
    large = [bytes([number]) * 10_000_000 for number in range(3)]
    topics.send(bootstrap, topic, large, **{"message.max.bytes": 20_000_000})
    assert values(batch(subscribe=topic)) == large


def test_the_isolation_level_decides_which_records_are_read(
    bootstrap: str, topic: str, batch: Callable[..., pa.Table]
) -> None:
    topics.transaction(bootstrap, topic, numbers(0, 10), commit=True, transactional_id=topic)
    topics.transaction(bootstrap, topic, numbers(10, 20), commit=False, transactional_id=topic)
    topics.transaction(bootstrap, topic, numbers(20, 30), commit=True, transactional_id=topic)
    unfinished = topics.open_transaction(bootstrap, topic, numbers(30, 40), topic)
    topics.send(bootstrap, topic, numbers(40, 50))
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    try:
        assert values(batch(subscribe=topic)) == numbers(0, 50)
        assert values(batch(**committed)) == [*numbers(0, 10), *numbers(20, 30)]
    finally:
        unfinished.abort_transaction(topics.WAIT_S)
    assert values(batch(**committed)) == [*numbers(0, 10), *numbers(20, 30), *numbers(40, 50)]


def test_a_read_begins_and_ends_at_the_given_offsets_and_times(
    bootstrap: str, new_topic: NewTopic, batch: Callable[..., pa.Table]
) -> None:
    topic = new_topic(2)
    for number in range(10):
        topics.send(bootstrap, topic, [b"%d" % number], partition=0, timestamp=1000 + number)
    by_number = json.dumps({topic: {"0": 3, "1": -2}})
    assert values(batch(subscribe=topic, startingOffsets=by_number)) == numbers(3, 10)
    assert values(batch(subscribe=topic, endingOffsets=json.dumps({topic: {"0": 3, "1": -1}}))) == numbers(0, 3)
    assert values(batch(subscribe=topic, endingTimestamp="1004")) == numbers(0, 4)
    later = {"startingTimestamp": "1007", "startingOffsetsByTimestampStrategy": "latest"}
    assert values(batch(subscribe=topic, **later)) == numbers(7, 10)
    by_time = json.dumps({topic: {"0": 1002}})
    assert values(batch(assign=json.dumps({topic: [0]}), startingOffsetsByTimestamp=by_time)) == numbers(2, 10)
    with pytest.raises(ConfigurationError, match=r"startingTimestamp.*-1 has no record"):
        batch(subscribe=topic, startingTimestamp="1007")
    with pytest.raises(ConfigurationError, match=r"startingOffsets.*has no entry for .*-1"):
        batch(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 3}}))
    with pytest.raises(ConfigurationError, match=r"startingOffsets.*names .*-7"):
        batch(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 3, "1": 0, "7": 0}}))


def test_missing_offsets_are_reported_as_data_loss(bootstrap: str, topic: str, batch: Callable[..., pa.Table]) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    topics.cut(bootstrap, topic, before=4)
    gone = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 2}})}
    with pytest.raises(DataLoss, match=rf"{topic}-0 has offsets 4 to 10, .* 2\."):
        batch(**gone)
    assert values(batch(**gone, failOnDataLoss="false")) == numbers(4, 10)
    assert values(batch(subscribe=topic)) == numbers(4, 10)


def test_large_ranges_are_split_without_losing_or_duplicating_a_record(
    bootstrap: str, new_topic: NewTopic, batch: Callable[..., pa.Table]
) -> None:
    topic = new_topic(2)
    topics.send(bootstrap, topic, numbers(0, 3000), partition=0)
    topics.send(bootstrap, topic, numbers(3000, 3100), partition=1)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    assert len(batch_reader({**given, "minPartitions": "7"}, PLAIN).partitions()) == 7
    assert len(batch_reader({**given, "maxRecordsPerPartition": "500"}, PLAIN).partitions()) == 7
    assert values(batch(subscribe=topic, minPartitions="7")) == numbers(0, 3100)


def test_two_hundred_partitions_make_as_many_tasks_unless_tasks_are_limited(
    bootstrap: str, new_topic: NewTopic, batch: Callable[..., pa.Table]
) -> None:
    topic = new_topic(200)
    topics.send_everywhere(bootstrap, topic, 200, copies=2)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    assert len(batch_reader(given, PLAIN).partitions()) == 200
    assert len(batch_reader({**given, "maxPartitions": "8"}, PLAIN).partitions()) == 8
    expected = sorted(value for number in numbers(0, 200) for value in (number, number))
    assert sorted(values(batch(subscribe=topic))) == expected
    assert sorted(values(batch(subscribe=topic, maxPartitions="8"))) == expected


def test_topics_without_records_have_no_rows(new_topic: NewTopic, batch: Callable[..., pa.Table]) -> None:
    assert batch(subscribe=f"{new_topic(3)},{new_topic()}").num_rows == 0
    assert batch(subscribePattern="no topic has such a name").num_rows == 0


def test_missing_topics_are_reported_before_reading(topic: str, batch: Callable[..., pa.Table]) -> None:
    with pytest.raises(ConfigurationError, match=r"subscribe: topic 'not-there' does not exist"):
        batch(subscribe=f"{topic},not-there")
    with pytest.raises(ConfigurationError, match=rf"assign: partition {topic}-9 does not exist"):
        batch(assign=json.dumps({topic: [0, 9]}))
    with pytest.raises(ConfigurationError, match=r"fetch\.max\.bytes"):
        batch(subscribe=topic, **{"kafka.fetch.max.byte": "1"})


def test_columns_may_be_omitted_and_unknown_ones_are_refused(
    bootstrap: str, topic: str, batch: Callable[..., pa.Table]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 3))
    chosen = StructType([PLAIN["offset"], PLAIN["value"]])
    assert batch(chosen, subscribe=topic).to_pylist()[1] == {"offset": 1, "value": b"1"}
    with pytest.raises(ConfigurationError, match="value BIGINT"):
        batch(StructType([StructField("value", LongType())]), subscribe=topic)


def test_filters_reduce_what_is_read(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for number in range(10):
        topics.send(bootstrap, topic, [b"%d" % number], partition=number % 2, timestamp=1000 + number)
    reader = batch_reader({"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "pushFilters": "true"}, PLAIN)
    assert isinstance(reader, FilteringBatchReader)
    filters = [
        EqualTo(("partition",), 1),
        GreaterThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 1, 5000, tzinfo=UTC)),
    ]
    assert list(reader.pushFilters(filters)) == filters  # Spark evaluates the filters as well
    assert values(collected(reader, reader.partitions())) == [b"5", b"7", b"9"]


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_continues_at_its_offsets(bootstrap: str, topic: str, query: Callable[..., Query]) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    assert stream.trigger() == numbers(0, 10)
    assert stream.trigger() is None
    topics.send(bootstrap, topic, numbers(10, 20))
    stream.restart()
    assert stream.trigger() == numbers(10, 20)
    assert stream.trigger() is None
    assert stream.reader.reportLatestOffset() == {topic: {"0": 20}}


def test_new_partitions_and_topics_are_read_from_their_beginning(
    bootstrap: str, unused_name: Callable[[], str], query: Callable[..., Query]
) -> None:
    name = unused_name()
    topics.create(bootstrap, f"{name}.a")
    stream = query(subscribePattern=f"{name}\\..*")
    assert stream.trigger() == []
    topics.send(bootstrap, f"{name}.a", numbers(0, 5))
    topics.grow(bootstrap, f"{name}.a", 3)
    topics.send(bootstrap, f"{name}.a", numbers(5, 8), partition=2)
    topics.create(bootstrap, f"{name}.b")
    topics.create(bootstrap, f"{name}-not-this")
    topics.send(bootstrap, f"{name}.b", numbers(8, 10))
    topics.send(bootstrap, f"{name}-not-this", numbers(50, 60))
    assert stream.trigger() == numbers(0, 10)
    assert stream.trigger() is None


def test_the_first_batch_can_be_repeated_although_the_stream_starts_at_the_latest_offset(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    """The driver dies in its first batch. Spark has logged the end of the batch, and asks again for its start."""
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic)
    began = stream._logged(stream.reader.initialOffset())
    topics.send(bootstrap, topic, numbers(10, 20))
    logged = stream._logged(stream.reader.latestOffset(began, ALL))
    topics.send(bootstrap, topic, numbers(20, 30))
    stream.restart()
    assert stream.batch(stream._logged(stream.reader.initialOffset()), logged) == numbers(10, 20)
    stream.at = logged
    assert stream.trigger() == numbers(20, 30)


def test_an_empty_first_batch_stays_empty_when_it_is_read_again(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    stream = query(subscribe=topic)
    assert stream.trigger() == []
    assert stream.at is not None
    topics.send(bootstrap, topic, numbers(0, 5))
    stream.restart()
    assert stream.batch(stream._logged(stream.reader.initialOffset()), stream.at) == []
    assert stream.trigger() == numbers(0, 5)


def test_a_limit_spreads_records_over_batches(bootstrap: str, new_topic: NewTopic, query: Callable[..., Query]) -> None:
    topic = new_topic(2)
    topics.send(bootstrap, topic, numbers(0, 90), partition=0)
    topics.send(bootstrap, topic, numbers(90, 100), partition=1)
    stream = query(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    batches = [stream.trigger() for _ in range(3)]
    assert [len(batch or ()) for batch in batches] == [40, 40, 20]
    assert sorted((value for batch in batches for value in batch or ()), key=int) == numbers(0, 100)
    assert stream.trigger() is None


def test_the_engine_may_ask_for_everything_whatever_the_options_limit(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 90))
    stream = query(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert stream.trigger(ALL) == numbers(0, 90)


def test_available_now_ends_at_the_offsets_of_the_start_without_a_minimum(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="7", minOffsetsPerTrigger="5")
    stream.reader.prepareForTriggerAvailableNow()
    topics.send(bootstrap, topic, numbers(10, 20))
    assert stream.trigger() == numbers(0, 7)
    assert stream.trigger() == numbers(7, 10)
    assert stream.trigger() is None


def test_a_minimum_delays_a_batch_until_it_is_reached(bootstrap: str, topic: str, query: Callable[..., Query]) -> None:
    topics.send(bootstrap, topic, numbers(0, 1))
    stream = query(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    assert stream.trigger() == numbers(0, 1)  # the first batch does not wait
    topics.send(bootstrap, topic, numbers(1, 9))
    assert stream.trigger() is None
    topics.send(bootstrap, topic, numbers(9, 12))
    assert stream.trigger() == numbers(1, 12)
    topics.send(bootstrap, topic, numbers(12, 13))
    stream.reader._options = stream_reader({**stream._options, "maxTriggerDelay": "0"}, PLAIN)._options
    assert stream.trigger() == numbers(12, 13)


def test_a_recreated_topic_is_noticed_although_its_offsets_are_plausible(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    assert stream.trigger() == numbers(0, 10)
    topics.replace(bootstrap, topic, 2)
    topics.send(bootstrap, topic, numbers(100, 120), partition=0)
    with pytest.raises(DataLoss, match=rf"{topic}-0 from offset 10 on .* deleted and created again"):
        stream.trigger()
    stream.restart(failOnDataLoss="false")
    assert stream.trigger() == numbers(100, 120)
    assert stream.trigger() is None


def test_a_topic_that_is_replaced_between_planning_and_reading_is_noticed_by_the_task(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    began = stream._logged(stream.reader.initialOffset())
    planned = stream.reader.partitions(began, stream.reader.latestOffset(began, ALL))
    topics.replace(bootstrap, topic)
    topics.send(bootstrap, topic, numbers(100, 120))
    with pytest.raises(DataLoss, match=rf"{topic}-0, offsets 0 to 9, .* deleted and created again"):
        collected(stream.reader, planned)
    stream.restart(failOnDataLoss="false")
    assert collected(stream.reader, planned).num_rows == 0


def test_a_logged_batch_of_a_replaced_topic_is_not_read_from_the_new_one(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    began = stream._logged(stream.reader.initialOffset())
    logged = stream._logged(stream.reader.latestOffset(began, ALL))
    topics.replace(bootstrap, topic)
    topics.send(bootstrap, topic, numbers(100, 120))
    stream.restart()
    with pytest.raises(DataLoss, match="deleted and created again"):
        stream.batch(began, logged)
    stream.restart(failOnDataLoss="false")
    assert stream.batch(began, logged) == []
    stream.at = logged
    assert stream.trigger() == numbers(100, 120)


def test_a_deleted_topic_is_a_loss_and_one_created_later_is_new(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    assert stream.trigger() == numbers(0, 10)
    topics.delete(bootstrap, topic)
    with pytest.raises(DataLoss, match=f"topic '{topic}' does not exist any more"):
        stream.trigger()
    stream.restart(failOnDataLoss="false")
    assert stream.trigger() == []
    topics.create(bootstrap, topic)
    topics.send(bootstrap, topic, numbers(5, 8))
    assert stream.trigger() == numbers(5, 8)


def test_a_checkpoint_of_a_query_on_other_topics_is_reported(
    bootstrap: str, new_topic: NewTopic, query: Callable[..., Query]
) -> None:
    arrows, orders = new_topic(), new_topic()
    topics.send(bootstrap, arrows, numbers(0, 10))
    topics.send(bootstrap, orders, numbers(100, 110))
    stream = query(subscribe=arrows, startingOffsets="earliest")
    began = stream._logged(stream.reader.initialOffset())
    assert stream.trigger() == numbers(0, 10)
    stream.restart(subscribe=orders)
    complaint = f"the checkpoint belongs to a query on '{arrows}', and this query has subscribe={orders}: use another"
    # The next batch, and a repetition of the last one.
    for attempt in (stream.trigger, lambda: stream.batch(began, stream.at or {})):
        with pytest.raises(WrongCheckpoint, match=re.escape(complaint)) as refused:
            attempt()
        assert "failOnDataLoss" not in str(refused.value)
    stream.restart(failOnDataLoss="false")
    assert stream.batch(began, stream.at or {}) == []
    assert stream.trigger() == numbers(100, 110)


def test_a_topic_deleted_during_a_lookup_is_distinguished_from_other_errors(bootstrap: str, topic: str) -> None:
    lookup = Lookup(parse({"kafka.bootstrap.servers": bootstrap, "subscribe": topic}, streaming=True))
    try:
        with pytest.raises(UnknownTopicOrPartition):
            lookup.latest([TopicPartition(topic, 0), TopicPartition("vanished", 0), TopicPartition("vanished", 1)])
    finally:
        lookup.close()


def test_retention_that_overtakes_a_stopped_query_is_a_loss(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    assert stream.trigger() == numbers(0, 10)
    topics.send(bootstrap, topic, numbers(10, 30))
    topics.cut(bootstrap, topic, before=15)
    stream.restart()
    with pytest.raises(DataLoss, match=rf"{topic}-0 has lost offsets 10 to 14"):
        stream.trigger()
    stream.restart(failOnDataLoss="false")
    assert stream.trigger() == numbers(15, 30)


def test_records_deleted_between_planning_and_reading_are_a_loss(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    began = stream._logged(stream.reader.initialOffset())
    planned = stream.reader.partitions(began, stream.reader.latestOffset(began, ALL))
    topics.cut(bootstrap, topic, before=6)
    with pytest.raises(DataLoss, match=rf"{topic}-0 has lost offsets 0 to 5"):
        collected(stream.reader, planned)
    stream.restart(failOnDataLoss="false")
    assert values(collected(stream.reader, planned)) == numbers(6, 10)


def test_a_topic_that_is_deleted_between_planning_and_reading_is_a_loss(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest")
    began = stream._logged(stream.reader.initialOffset())
    planned = stream.reader.partitions(began, stream.reader.latestOffset(began, ALL))
    topics.delete(bootstrap, topic)
    with pytest.raises(DataLoss, match=rf"{topic}-0, offsets 0 to 9, .* does not exist any more"):
        collected(stream.reader, planned)
    stream.restart(failOnDataLoss="false")
    assert collected(stream.reader, planned).num_rows == 0


@pytest.mark.usefixtures("_clients")
def test_a_task_waits_for_a_broker_that_restarts(broker: BrokerProcess) -> None:
    topics.create(broker.bootstrap, "restarted")
    topics.send(broker.bootstrap, "restarted", numbers(0, 10))
    stream = Query(broker.bootstrap, {"subscribe": "restarted", "startingOffsets": "earliest"})
    began = stream._logged(stream.reader.initialOffset())
    planned = stream.reader.partitions(began, stream.reader.latestOffset(began, ALL))
    broker.kill()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(collected, stream.reader, planned)
        broker.start()
        assert values(reading.result(topics.WAIT_S)) == numbers(0, 10)
    stream.reader.stop()


def test_a_checkpoint_of_sparks_own_connector_can_be_continued(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic)
    stream.at = {topic: {"0": 4}}
    assert stream.trigger() == numbers(4, 10)


def test_the_query_commits_its_progress_to_a_group(bootstrap: str, topic: str, query: Callable[..., Query]) -> None:
    topics.send(bootstrap, topic, numbers(0, 10))
    stream = query(subscribe=topic, startingOffsets="earliest", commitGroupId=f"{topic}-watched")
    stream.trigger()
    assert stream.at is not None
    stream.reader.commit(stream.at)
    assert topics.committed(bootstrap, f"{topic}-watched", topic) == 10


def test_a_query_that_changes_to_read_committed_waits_at_its_offsets(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    unfinished = topics.open_transaction(bootstrap, topic, numbers(0, 5), topic)
    stream = query(subscribe=topic, startingOffsets="earliest")
    assert stream.trigger() == numbers(0, 5)
    stream.restart(**{"kafka.isolation.level": "read_committed"})
    assert stream.trigger() is None
    unfinished.commit_transaction(topics.WAIT_S)
    topics.send(bootstrap, topic, numbers(5, 8))
    assert stream.trigger() == numbers(5, 8)


def test_read_committed_streams_stop_before_an_open_transaction(
    bootstrap: str, topic: str, query: Callable[..., Query]
) -> None:
    stream = query(subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    topics.transaction(bootstrap, topic, numbers(0, 5), commit=True, transactional_id=topic)
    unfinished = topics.open_transaction(bootstrap, topic, numbers(5, 10), topic)
    topics.send(bootstrap, topic, numbers(10, 15))
    assert stream.trigger() == numbers(0, 5)
    assert stream.trigger() is None
    unfinished.commit_transaction(topics.WAIT_S)
    assert stream.trigger() == numbers(5, 15)
    assert stream.trigger() is None
