"""Options of the source: names, defaults and rules of Spark's Kafka connector, and a few additional ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError
from moldau.spark.bounds import AtOffsets, AtTimes, Bound, Edge
from moldau.spark.offsets import EARLIEST, LATEST, parse_offsets, parse_partitions
from moldau.spark.raw_options import RawOptions

SOURCE_OPTIONS = (
    "assign",
    "commitGroupId",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxPartitions",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "pushFilters",
    "refresh",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)

REFUSED = {
    "auto.offset.reset": "use startingOffsets to set the start; Spark's checkpoint stores the progress of a query",
    "enable.auto.commit": (
        "Spark's checkpoint stores the offsets; set commitGroupId to show them to tools that monitor groups"
    ),
    "interceptor.classes": "transform records with DataFrame operations",
    "key.deserializer": "keys are bytes; decode them with DataFrame operations or moldau.spark.from_moldau",
    "value.deserializer": "values are bytes; decode them with DataFrame operations or moldau.spark.from_moldau",
}

DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_GROUP_ID_PREFIX = "spark-moldau-source"

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class SourceSubscription:
    """The partitions to read: exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def covers(self, partition: TopicPartition) -> bool:
        """Whether a query with this subscription reads the partition, if it exists."""
        if self.pattern:
            return re.fullmatch(self.pattern, partition.topic) is not None
        return partition.topic in self.topics or partition in self.partitions

    def __str__(self) -> str:
        if self.pattern:
            return f"subscribePattern={self.pattern}"
        if self.topics:
            return f"subscribe={','.join(self.topics)}"
        return f"assign={', '.join(map(str, self.partitions))}"


@dataclass(frozen=True)
class SourceOptions:
    """The parsed options of one read. Spark copies them to the executors."""

    settings: Mapping[str, str] = field(repr=False)
    """The client's settings: the options with the prefix `kafka.`, without that prefix. They may have passwords."""
    subscription: SourceSubscription
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_partitions: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    group_id_prefix: str
    commit_group_id: str | None

    @property
    def read_committed(self) -> bool:
        return self.settings.get("isolation.level") == "read_committed"


def parse(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse `options` as Spark passes them, with names in any case."""
    given = RawOptions(options)
    given.refuse_misspelt(SOURCE_OPTIONS)
    settings = _client_settings(given)
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if given.text(name) is not None:
                raise ConfigurationError(
                    f"option {name}: a streaming query has no end; remove it, it is for batch reads only"
                )
    starting = _bound(given, "starting", Edge.LATEST if streaming else Edge.EARLIEST)
    ending = _bound(given, "ending", Edge.LATEST)
    if not streaming:
        _refuse_impossible_ends(starting, ending)
    least = given.number("minOffsetsPerTrigger")
    most = given.number("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigurationError(f"option minOffsetsPerTrigger: {least} is greater than maxOffsetsPerTrigger, {most}")
    delay_ms = given.parsed("maxTriggerDelay", _duration_ms)
    return SourceOptions(
        settings=settings,
        subscription=_subscription(given),
        starting=starting,
        ending=ending,
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        min_partitions=given.number("minPartitions"),
        max_records_per_partition=given.number("maxRecordsPerPartition"),
        max_partitions=_max_partitions(given),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=DEFAULT_MAX_TRIGGER_DELAY_MS if delay_ms is None else delay_ms,
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs") or DEFAULT_POLL_TIMEOUT_MS,
        group_id_prefix=given.text("groupIdPrefix") or DEFAULT_GROUP_ID_PREFIX,
        commit_group_id=given.text("commitGroupId"),
    )


def include_headers(options: Mapping[str, str]) -> bool:
    """Whether the schema has headers. Spark asks for the schema before the other options are checked."""
    return RawOptions(options).flag("includeHeaders", default=False)


def push_filters(options: Mapping[str, str]) -> bool:
    return RawOptions(options).flag("pushFilters", default=False)


def refresh(options: Mapping[str, str]) -> bool:
    return RawOptions(options).flag("refresh", default=False)


def _client_settings(given: RawOptions) -> dict[str, str]:
    settings = given.client_settings(REFUSED)
    # Spark assigns partitions to tasks, so our clients never join a group, whatever its name is.
    settings.pop("group.id", None)
    return settings


def _subscription(given: RawOptions) -> SourceSubscription:
    names = [name for name in ("assign", "subscribe", "subscribePattern") if given.text(name) is not None]
    if len(names) != 1:
        found = " and ".join(names) if names else "none"
        raise ConfigurationError(f"options assign, subscribe, subscribePattern: exactly one is required; found {found}")
    (name,) = names
    text = given.text(name) or ""
    if name == "assign":
        return SourceSubscription(partitions=parse_partitions(name, text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise ConfigurationError("option subscribe: contains no topic; give topics separated by commas")
        return SourceSubscription(topics=topics)
    if not text:
        raise ConfigurationError("option subscribePattern: is empty; give a regular expression for topic names")
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigurationError(f"option subscribePattern: {text!r} is not a regular expression: {error}") from None
    return SourceSubscription(pattern=text)


def _bound(given: RawOptions, which: str, default: Edge) -> Bound:
    """One time for all partitions overrides times per partition, and these override offsets, as in Spark's Kafka
    connector."""
    starting = which == "starting"
    strategy = (given.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise ConfigurationError(f"option startingOffsetsByTimestampStrategy: {strategy!r} is neither error nor latest")
    otherwise_latest = strategy == "latest" or not starting
    name = f"{which}Timestamp"
    if (moment := given.parsed(name, _timestamp_ms)) is not None:
        return AtTimes(name, moment, otherwise_latest)
    name = f"{which}OffsetsByTimestamp"
    if (moments := given.parsed(name, parse_offsets)) is not None:
        return AtTimes(name, moments, otherwise_latest)
    name = f"{which}Offsets"
    text = given.text(name)
    if text is None:
        return default
    if text.lower() in ("earliest", "latest"):
        return Edge(text.lower())
    offsets = parse_offsets(name, text)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise ConfigurationError(f"option {name}: {offset} for {partition} is neither an offset nor -1 or -2")
    return AtOffsets(name, offsets)


def _refuse_impossible_ends(starting: Bound, ending: Bound) -> None:
    if starting is Edge.LATEST or (isinstance(starting, AtOffsets) and LATEST in starting.offsets.values()):
        raise ConfigurationError("option startingOffsets: a batch read that begins at the latest offset reads nothing")
    if ending is Edge.EARLIEST or (isinstance(ending, AtOffsets) and EARLIEST in ending.offsets.values()):
        raise ConfigurationError("option endingOffsets: a batch read that ends at the earliest offset reads nothing")


def _max_partitions(given: RawOptions) -> int | None:
    most, least = given.number("maxPartitions"), given.number("minPartitions")
    if most is not None and least is not None and most < least:
        raise ConfigurationError(f"option maxPartitions: {most} is less than minPartitions, {least}")
    return most


def _timestamp_ms(name: str, text: str) -> int:
    try:
        moment = int(text)
    except ValueError:
        moment = -1
    if moment < 0:
        raise ConfigurationError(f"option {name}: {text!r} is not a time in milliseconds since 1970")
    return moment


def _duration_ms(name: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    unit = _UNITS_MS.get((found[2] or "ms") if found else "")
    if found is None or unit is None:
        raise ConfigurationError(f"option {name}: {text!r} is not a duration such as 500ms, 30s, 15m, 2h")
    return int(found[1]) * unit
