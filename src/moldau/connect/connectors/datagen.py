"""Source of generated rows, for demos and load: `connector.class=datagen`.

Each of `tasks.max` generators numbers its rows; a row depends only on the settings, the generator and its number.
Source partition: `{"task.id": n}`; source offset: `{"current.iteration": rows}`, as in Confluent's connector of this
name, whose settings `kafka.topic`, `quickstart`, `max.interval`, `iterations`, `schema.keyfield` and `random.seed` are
accepted.

Not done: rows by an Avro schema with annotations (`schema.string`, `schema.filename`): use `fields`. The connector does
not fail after `iterations` rows; it has nothing more to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between
from moldau.connect.connector import Offset, Slice, SourceConnector, SourceOffsets
from moldau.connect.connectors.generated_fields import GeneratedField, RowRange, parse_fields, struct_of
from moldau.connect.record_batch import ConnectBatch, ValueColumn, source_batch
from moldau.connect.schemas import Schema, SchemaType, schema_of

TASK_ID: Final = "task.id"
CURRENT_ITERATION: Final = "current.iteration"
ROWS_PER_BATCH: Final = 20_000
"""Rows of one Arrow batch: bounds the memory of a task that generates many."""

MAX_BEHIND_S: Final = 10
"""A connector that is further behind its rate, because it was paused or cannot keep up, counts again from now."""

_STATES: Final = "State_1, State_2, State_3, State_4, State_5"

QUICKSTARTS: Final[Mapping[str, tuple[str, str | None]]] = {
    "orders": (
        (
            "ordertime:sequence(1767225600000, 1000); orderid:sequence; itemid:label(Item_, 1, 999);"
            "orderunits:double(0.1, 10); address.city:label(City_, 1, 99);"
            f"address.state:choice({_STATES}); address.zipcode:long(10000, 99999)"
        ),
        "orderid",
    ),
    "users": (
        (
            "registertime:sequence(1767225600000, 1000); userid:label(User_, 1, 9); regionid:label(Region_, 1, 9);"
            "gender:choice(MALE, FEMALE, OTHER)"
        ),
        "userid",
    ),
    "clickstream": (
        (
            "ip:ip; userid:int(1, 40); remote_user:choice(-); time:sequence(1767225600000, 10); _time:sequence(0, 10);"
            "request:choice(GET /index.html HTTP/1.1, GET /site/login.html HTTP/1.1, POST /cart HTTP/1.1);"
            "status:choice(200, 302, 404, 406, 407); bytes:choice(278, 1289, 2048, 4006, 14096);"
            "referrer:choice(-); agent:choice(Mozilla/5.0, curl/8.5, Googlebot/2.1)"
        ),
        "ip",
    ),
    "pageviews": ("viewtime:sequence(1, 10); userid:label(User_, 1, 9); pageid:label(Page_, 10, 99)", "viewtime"),
    "numbers": ("number:sequence", "number"),
}
"""Fields, and the field of the key. They resemble Confluent's rows of the same names; the values are our own."""


def _check_fields(name: str, value: Any) -> str | None:
    if not value:
        return None
    try:
        parse_fields(value)
    except ValueError as error:
        return f"Invalid value {value} for configuration {name}: {error}"
    return None


def _check_quickstart(name: str, value: Any) -> str | None:
    if not value or value.lower() in QUICKSTARTS:
        return None
    return f"Invalid value {value} for configuration {name}: must be one of: {', '.join(QUICKSTARTS)}; or use fields"


class DatagenSource(SourceConnector):
    """Rows by number, the same in every run."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey("topic", ConfigType.STRING, "The topic to write to.", None, Importance.HIGH),
            ConfigKey("kafka.topic", ConfigType.STRING, "Confluent's name of topic.", None, Importance.LOW),
            ConfigKey(
                "quickstart",
                ConfigType.STRING,
                "The kind of rows. The setting fields has precedence.",
                "",
                Importance.HIGH,
                _check_quickstart,
                tuple(QUICKSTARTS),
            ),
            ConfigKey(
                "fields",
                ConfigType.STRING,
                "Fields of the rows, such as: id:sequence; user:label(User_, 1, 9); price:double(1, 100)",
                "",
                Importance.HIGH,
                _check_fields,
            ),
            ConfigKey("schema.keyfield", ConfigType.STRING, "The field whose text is the key.", ""),
            ConfigKey(
                "rows.per.second",
                ConfigType.DOUBLE,
                "Rows per second of all tasks together. 0: as max.interval says.",
                0.0,
                Importance.HIGH,
                between(0),
            ),
            ConfigKey(
                "max.interval",
                ConfigType.LONG,
                "Milliseconds between two rows of a task at most; the mean is half of it. 0: as fast as possible.",
                500,
                Importance.HIGH,
                between(0),
            ),
            ConfigKey("iterations", ConfigType.LONG, "Rows of each task; less than 1: unlimited.", -1),
            ConfigKey("random.seed", ConfigType.LONG, "Another seed gives other rows.", 0),
            ConfigKey(
                "batch.size",
                ConfigType.INT,
                "Rows of one slice at most.",
                100_000,
                Importance.LOW,
                between(1, 10_000_000),
            ),
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.topic: str = config["topic"] or config["kafka.topic"]
        self.fields, self.key_field = _rows_of(config)
        self._rate = RowRate(config, self.max_tasks)

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        problems: dict[str, list[str]] = {}
        if not (config["topic"] or config["kafka.topic"]):
            problems["topic"] = ['Missing required configuration "topic" which has no default value.']
        if not (config["fields"] or config["quickstart"]):
            problems["quickstart"] = ["Name a quickstart, or describe the rows in fields"]
        elif (key := config["schema.keyfield"]) and key not in [field.name for field in _rows_of(config)[0]]:
            problems["schema.keyfield"] = [f"The rows have no field {key}"]
        return problems

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, Any], offsets: Sequence[tuple[Offset | None, Offset | None]]
    ) -> str | None:
        for partition, offset in offsets:
            if partition is None or not isinstance(partition.get(TASK_ID), int):
                return f"a source partition has the number of a task in '{TASK_ID}'"
            rows = 0 if offset is None else offset.get(CURRENT_ITERATION)
            if not isinstance(rows, int) or rows < 0:
                return f"an offset has a number of rows, 0 or more, in '{CURRENT_ITERATION}'"
        return None

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        now = time.monotonic()
        found = []
        for generator in range(self.max_tasks):
            partition = {TASK_ID: generator}
            start = offsets[partition]
            done = int(start[CURRENT_ITERATION]) if start else 0
            end = done + self._rate.due(generator, done, now)
            if end > done:
                found.append(Slice(partition, {CURRENT_ITERATION: end}, start or {CURRENT_ITERATION: 0}))
        return found

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        assert part.start is not None
        generator, last = int(part.partition[TASK_ID]), int(part.end[CURRENT_ITERATION])
        for first in range(int(part.start[CURRENT_ITERATION]), last, ROWS_PER_BATCH):
            yield self._batch(RowRange(generator, first, min(first + ROWS_PER_BATCH, last)))

    def _batch(self, rows: RowRange) -> ConnectBatch:
        values = struct_of(self.fields, rows, self.config["random.seed"])
        key = None
        if self.key_field:
            column: pa.Array = values
            for name in self.key_field.split("."):
                column = column.field(name)
            key = ValueColumn(column.cast(pa.string()), Schema(SchemaType.STRING))
        return source_batch(self.topic, ValueColumn(values, schema_of(values.type, optional=False)), key=key)


def _rows_of(config: Mapping[str, Any]) -> tuple[tuple[GeneratedField, ...], str | None]:
    """The fields of the rows and the field of the key."""
    key: str | None
    if config["fields"]:
        text, key = config["fields"], None
    else:
        text, key = QUICKSTARTS[config["quickstart"].lower()]
    return parse_fields(text), config["schema.keyfield"] or key


class RowRate:
    """Number of rows that are due. Rows that were not generated while the connector stood still are not made up for."""

    def __init__(self, config: Mapping[str, Any], tasks: int) -> None:
        self._batch: int = config["batch.size"]
        self._iterations: int = config["iterations"]
        self._per_second: float | None = None
        if config["rows.per.second"] > 0:
            self._per_second = config["rows.per.second"] / tasks
        elif config["max.interval"] > 0:
            self._per_second = 2000 / config["max.interval"]
        self._since: dict[int, tuple[float, int]] = {}

    def due(self, generator: int, done: int, now: float) -> int:
        """Rows to generate now, after `done` rows."""
        left = self._iterations - done if self._iterations > 0 else self._batch
        if self._per_second is None:
            return max(0, min(left, self._batch))
        since, first = self._since.setdefault(generator, (now, done))
        if done < first:  # The offsets were reset.
            since, first = self._since[generator] = (now, done)
        due = int(first + (now - since) * self._per_second) - done
        if due > max(self._batch, self._per_second * MAX_BEHIND_S):
            self._since[generator] = (now, done + self._batch)
        return max(0, min(left, due, self._batch))
