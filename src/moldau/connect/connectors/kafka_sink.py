"""Sink to another Kafka cluster, exactly once: `KafkaSink`.

A task writes the records of its source partition and their end offset in one transaction of the target cluster
(`kafka_sink_offsets.py`). The transactional id belongs to the connector and the source partition: a task that takes
over first ends what an earlier owner has begun, and a process that slept through a takeover is fenced. Then the task
asks the target how far the partition is written, and leaves out the records before that.

Guarantee: a reader with isolation.level=read_committed sees every record once, in the order of its source partition.
Keys, values, headers and timestamps are kept. Where key.converter, value.converter and header.converter of the
connector are ByteArrayConverter, no byte changes.

Not done: offsets of consumer groups, access rules and topic settings are not copied. That is the work of a mirror.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.blocking.admin import Admin
from moldau.client.blocking.producer import Producer
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.client.producer.arrow import BatchFuture
from moldau.client.settings import ADMIN, CONSUMER, PRODUCER, ClientTable
from moldau.connect.config_def import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance, not_empty, one_of
from moldau.connect.connector import SinkCommit, SinkConnector, SinkSlice, SinkTask
from moldau.connect.connectors.kafka_sink_offsets import KafkaSinkOffsets, Reached
from moldau.connect.converters import DEFAULT_HEADER_CONVERTER, Converter, HeaderConverter, converter, header_converter
from moldau.connect.engine.pipeline import HEADERS_TYPE, MILLISECONDS, header_lists
from moldau.connect.engine.topic_creation import TopicGroup, TopicRules, ensure_topics
from moldau.connect.errors import DataError, RowError
from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.java_patterns import for_distinct

TOPIC: Final = "${topic}"
CLIENT: Final = "target.client."
BYTES_CONVERTER: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
MAX_NAME: Final = 249
_OWN: Final = frozenset({"bootstrap.servers", "transactional.id", "isolation.level"})
"""Client settings that the sink sets itself."""


def _replicas(name: str, value: Any) -> str | None:
    if value == -1 or value > 0:
        return None
    return f"Invalid value {value} for configuration {name}: use a positive number, or -1 for the broker's default"


def _converter_key(part: str) -> ConfigKey:
    return ConfigKey(
        f"target.{part}.converter",
        ConfigType.CLASS,
        f"Converter for the {part}s in the target, with its settings after this name. By default the connector's "
        f"{part}.converter, otherwise {'SimpleHeaderConverter' if part == 'header' else 'ByteArrayConverter'}.",
        None,
        Importance.LOW,
    )


class KafkaSink(SinkConnector):
    """Records into topics of another cluster."""

    open_prefixes = (CLIENT, "target.key.converter.", "target.value.converter.", "target.header.converter.")
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey(
                "target.bootstrap.servers",
                ConfigType.LIST,
                "Brokers of the target cluster, as host:port.",
                NO_DEFAULT,
                Importance.HIGH,
                not_empty,
            ),
            ConfigKey(
                "topic.format",
                ConfigType.STRING,
                "Topic in the target; ${topic} stands for the topic of the record.",
                TOPIC,
                validator=not_empty,
            ),
            ConfigKey(
                "partition.mode",
                ConfigType.STRING,
                "`key`: the target partition follows from the key. `keep`: it is that of the source; the target topic "
                "must have as many partitions.",
                "key",
                validator=one_of("key", "keep"),
                recommended=("key", "keep"),
            ),
            ConfigKey(
                "target.topic.partitions",
                ConfigType.INT,
                "Partitions of topics that the sink creates; -1: the default of the target's brokers.",
                -1,
                validator=_replicas,
            ),
            ConfigKey(
                "target.topic.replication.factor",
                ConfigType.SHORT,
                "Replicas of topics that the sink creates; -1: the default of the target's brokers.",
                -1,
                validator=_replicas,
            ),
            ConfigKey(
                "target.offsets.topic",
                ConfigType.STRING,
                "Topic in the target with the written offsets; by default connect-sink-offsets-NAME.",
                None,
                Importance.LOW,
            ),
            _converter_key("key"),
            _converter_key("value"),
            _converter_key("header"),
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._reached: dict[TopicPartition, Reached] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Tasks create converters and clients themselves."""
        return {"config": self.config, "name": self.name, "max_tasks": self.max_tasks, "_reached": self._reached}

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        problems: dict[str, list[str]] = {}
        for name in config:
            setting = name.removeprefix(CLIENT)
            if not name.startswith(CLIENT):
                continue
            if setting in _OWN:
                problems[name] = [f"Invalid configuration {name}: the sink sets {setting} itself"]
            elif not any(setting in table for table in (PRODUCER, CONSUMER, ADMIN)):
                problems[name] = [f'Unknown configuration "{name}": no client has a setting {setting}']
        return problems

    # -- driver --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._offsets.create(self.config["target.topic.replication.factor"])
        self._reached = self._offsets.all()

    def written_offsets(self) -> Mapping[TopicPartition, int]:
        return {partition: reached.offset for partition, reached in self._reached.items()}

    def commit(self, commit: SinkCommit) -> None:
        """The tasks have committed already; here the driver only remembers how far they came."""
        for part, reached in zip(commit.slices, commit.messages, strict=True):
            self._reached[part.partition] = reached

    # -- task ----------------------------------------------------------------------------------------------------------

    def write(self, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask) -> Reached:
        with Producer(
            self._client(PRODUCER, **{"transactional.id": self._transactional_id(part.partition)})
        ) as producer:
            producer.init_transactions()
            reached = self._offsets.last(part.partition, self._reached.get(part.partition))
            if reached is not None and reached.offset >= part.end:
                return reached  # An attempt has committed, and its worker did not hear of it.
            producer.begin_transaction()
            try:
                position = self._send_all(producer, part, batches, task, 0 if reached is None else reached.offset)
                producer.commit_transaction()
            except BaseException:
                _abort_quietly(producer)
                raise
        return Reached(part.end, position)

    def _send_all(
        self, producer: Producer, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask, first: int
    ) -> int:
        """Send the records from the offset `first` on and the end offset; return where the latter was written."""
        sent: list[BatchFuture] = []
        for batch in batches:
            assert batch.origin is not None
            if first > part.start:
                batch = batch.filter(pc.greater_equal(batch.origin.column("offset"), first))
            rows = self._encoded(batch, task)
            if rows is not None:
                sent += self._send(producer, rows)
        offset = producer.send(
            self._offsets.topic,
            KafkaSinkOffsets.value(part.end),
            self._offsets.key(part.partition),
            partition=self._offsets.partition_of(part.partition),
        )
        producer.flush()
        for one in sent:
            one.result()  # raises the error of any of its rows
        return int(offset.result().offset)

    def _send(self, producer: Producer, rows: pa.RecordBatch) -> list[BatchFuture]:
        topics = rows.column("topic")
        distinct = pc.unique(topics).to_pylist()
        settings = self.config
        group = TopicGroup("target", settings["target.topic.partitions"], settings["target.topic.replication.factor"])
        with ExitStack() as opened:
            admin = self._client(ADMIN)
            ensure_topics(distinct, TopicRules((group,)), self._bootstrap, lambda: opened.enter_context(Admin(admin)))
        named = {
            "value": "value",
            "key": "key",
            "partition": "partition",
            "headers": "headers",
            "timestamp": "timestamp",
        }
        if self.config["partition.mode"] == "keep":
            for topic in distinct:
                _check_partitions(producer, topic, rows.filter(pc.equal(topics, topic)))
        return [producer.send_batch(topic, rows.filter(pc.equal(topics, topic)), **named) for topic in distinct]

    def _encoded(self, batch: ConnectBatch, task: SinkTask) -> pa.RecordBatch | None:
        """The rows as bytes. Rows that cannot be converted are rejected."""
        while batch.num_rows:
            try:
                return self._columns(batch)
            except RowError as error:
                if task.reject is None:
                    raise
                bad = set(error.rows)
                rows = pa.array([row in bad for row in range(batch.num_rows)])
                task.reject(batch, rows, error)
                batch = batch.filter(pc.invert(rows))
        return None

    def _columns(self, batch: ConnectBatch) -> pa.RecordBatch:
        keys, values, header = self._converters
        kept = self.config["partition.mode"] == "keep"
        headers = [
            (one.name, header.from_column(one.values, batch.topic, one.name).cast(pa.binary()), one.present)
            for one in batch.headers
        ]
        topic_format: str = self.config["topic.format"]
        return pa.record_batch(
            {
                "topic": for_distinct(batch.topic, lambda topic: topic_format.replace(TOPIC, topic), pa.string()),
                "key": keys.from_column(batch.key, batch.topic),
                "value": values.from_column(batch.value, batch.topic),
                "partition": batch.partition if kept else pa.nulls(batch.num_rows, pa.int32()),
                "headers": header_lists(headers, batch.num_rows) if headers else pa.nulls(batch.num_rows, HEADERS_TYPE),
                "timestamp": batch.timestamp.cast(pa.int64()).cast(MILLISECONDS),
            }
        )

    # -- both ----------------------------------------------------------------------------------------------------------

    @cached_property
    def _converters(self) -> tuple[Converter, Converter, HeaderConverter]:
        def chosen(part: str) -> tuple[str, dict[str, Any]]:
            place = f"target.{part}.converter" if self.config[f"target.{part}.converter"] else f"{part}.converter"
            default = DEFAULT_HEADER_CONVERTER if part == "header" else BYTES_CONVERTER
            name = self.config.get(place) or default
            return name, _with_prefix(self.config, f"{place}.")

        return (
            converter(*chosen("key"), is_key=True),
            converter(*chosen("value"), is_key=False),
            header_converter(*chosen("header")),
        )

    @cached_property
    def _offsets(self) -> KafkaSinkOffsets:
        topic = self.config["target.offsets.topic"] or f"connect-sink-offsets-{_topic_part(self.name)}"
        return KafkaSinkOffsets(self.name, topic[:MAX_NAME], self._client(CONSUMER), self._client(ADMIN))

    @property
    def _bootstrap(self) -> str:
        return ",".join(self.config["target.bootstrap.servers"])

    def _client(self, table: ClientTable, **own: Any) -> dict[str, Any]:
        """The settings of a client of the target cluster: those that this kind of client has."""
        given = {name: value for name, value in _with_prefix(self.config, CLIENT).items() if name in table}
        return {**given, "bootstrap.servers": self._bootstrap, **own}

    def _transactional_id(self, source: TopicPartition) -> str:
        return f"connect-sink-{self.name}-{source.topic}-{source.partition}"


def _check_partitions(producer: Producer, topic: str, rows: pa.RecordBatch) -> None:
    """Refuse a partition that the target topic does not have: the producer would wait for it until max.block.ms."""
    highest = pc.max(rows.column("partition")).as_py()
    count = len(producer.partitions_for(topic))
    if highest is not None and highest >= count:
        raise DataError(
            f"topic {topic} of the target cluster has {count} partitions, but a record comes from partition {highest}: "
            "add partitions to it, or set partition.mode=key"
        )


def _with_prefix(config: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


def _topic_part(name: str) -> str:
    """The name with the characters that a topic may have."""
    return re.sub(r"[^a-zA-Z0-9._-]", "_", name)


def _abort_quietly(producer: Producer) -> None:
    """Try to abort. The task fails with its first error; its successor aborts what cannot be aborted now."""
    try:
        producer.abort_transaction()
    except MoldauError:
        pass
