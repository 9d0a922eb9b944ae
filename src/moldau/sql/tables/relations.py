"""Relations: finds what a name in a query stands for, and gives it as a DataFrame, bounded or streaming.

A name is that of a declaration, or of a topic, whose columns are inferred then. Names are compared without case. A
topic with exactly the name wins over others that differ in case only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.relation_names import did_you_mean
from moldau.sql.statements import ReadBound
from moldau.sql.tables.frames import decoded, latest_by_key, raw_columns
from moldau.sql.tables.json_shapes import SampledShape
from moldau.sql.tables.topic_lookup import KnownTopic, OffsetSpan, TopicLookup, consumer_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from moldau.sql.catalogue import Catalogue

SAMPLE_SIZE: Final = 1000
"""The number of records that the inference looks at, divided among the partitions."""
SAMPLE_BYTES: Final = 4 * 1024 * 1024
"""The inference stops after this many bytes of values: a few large records show as much as many small ones."""
LOCAL_RECORDS: Final = 20_000
LOCAL_BYTES: Final = 16 * 1024 * 1024
"""A bounded query reads this much itself; more is read by Spark's tasks, whose start takes longer."""
CLIENT_ID: Final = "moldau-sql"
MAX_SHAPES: Final = 1000
"""The largest number of topics whose sampled columns a session remembers."""


@dataclass(frozen=True)
class InferredColumns:
    """The columns of a topic without declared ones, and how many records have shown them."""

    columns: tuple[ColumnDeclaration, ...]
    value_format: str
    records: int
    dropped: tuple[str, ...] = ()
    """Fields without a column, because another field has the same name in other case."""


class Relations:
    """The relations of a cluster. Any thread may use it."""

    def __init__(
        self,
        spark: SparkSession,
        client_settings: Mapping[str, Any],
        catalogue: Catalogue | None,
        *,
        auto_offset_reset: str = "earliest",
        sample_size: int = SAMPLE_SIZE,
        max_offsets_per_trigger: int | None = None,
    ) -> None:
        self._spark = spark
        self._client_settings = {"client.id": CLIENT_ID, **client_settings}
        self._catalogue = catalogue
        self.auto_offset_reset = auto_offset_reset
        """Where a streaming read of a STREAM begins without an explicit start: earliest or latest."""
        self.sample_size = sample_size
        self.max_offsets_per_trigger = max_offsets_per_trigger
        """The most records of a relation in one micro-batch of a continuous query; None for no limit."""
        self.lookup = TopicLookup(self._client_settings)
        self._shapes: dict[str, tuple[tuple[int, ...], SampledShape]] = {}
        """By topic id: the ends of the partitions at the last sample, and what all samples have shown."""
        self._lock = threading.Lock()

    def close(self) -> None:
        self.lookup.close()

    # Names ------------------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Declarations and topics, sorted, each name once."""
        declared = {} if self._catalogue is None else self._catalogue.declarations
        by_lower = {name.lower(): name for name in self.lookup.names()}
        by_lower.update({one.name.lower(): one.name for one in declared.values()})
        return sorted(by_lower.values())

    def find(self, name: str) -> Declaration:
        """The declaration of a relation, with its columns, inferred if they are not declared.

        Raises SqlError without a position if there is no such relation.
        """
        declared = self.declared(name)
        if declared is not None:
            return self._completed(declared)
        topic = self._topic(name)
        found = self.inferred(topic)
        return Declaration(topic.name, RelationKind.STREAM, topic.name, found.columns, found.value_format)

    def declared(self, name: str) -> Declaration | None:
        """What the catalogue has under this name, as it was declared."""
        if self._catalogue is None:
            return None
        declarations = self._catalogue.declarations
        exact = declarations.get(name)
        if exact is not None:
            return exact
        return next((one for one in declarations.values() if one.name.lower() == name.lower()), None)

    def _topic(self, name: str) -> KnownTopic:
        exact = self.lookup.topic(name)
        if exact is not None:
            return exact
        names = self.lookup.names()
        same = [one for one in names if one.lower() == name.lower()]
        if len(same) > 1:
            raise SqlError(
                f"{name!r} can be {' or '.join(same)}: these topics differ in case only", hint="write the exact name"
            )
        found = self.lookup.topic(same[0]) if same else None
        if found is None:
            raise SqlError(
                f"there is no stream, table or topic {name!r}",
                hint=did_you_mean(name, self.names()) or "SHOW TOPICS lists the topics",
            )
        return found

    def _completed(self, declared: Declaration) -> Declaration:
        if declared.columns:
            return declared
        if declared.value_format != "json":
            return completed(declared, ())
        found = self.inferred(self.topic_of(declared))
        return replace(completed(declared, found.columns), value_format=found.value_format)

    def topic_of(self, declaration: Declaration) -> KnownTopic:
        """The topic of a relation. Raises SqlError if it is gone."""
        topic = self.lookup.topic(declaration.topic)
        if topic is None:
            what = f"topic {declaration.topic!r}"
            if declaration.text:
                what += f" of {declaration.kind.lower()} {declaration.name}"
            raise SqlError(f"{what} does not exist", hint=did_you_mean(declaration.topic, self.lookup.names()))
        return topic

    # Inference --------------------------------------------------------------------------------------------------------

    def inferred(self, topic: KnownTopic) -> InferredColumns:
        """The columns of a topic, from the last records of its partitions. A later sample adds to an earlier one."""
        span = self.lookup.span(topic)
        ends = tuple(span.end.values())
        with self._lock:
            sampled_at, known = self._shapes.get(topic.id, ((), SampledShape()))
            if sampled_at != ends:
                known.add(self._sample(span))
                self._shapes.pop(topic.id, None)
                self._shapes[topic.id] = (ends, known)
                while len(self._shapes) > MAX_SHAPES:
                    self._shapes.pop(next(iter(self._shapes)))
            columns = tuple(ColumnDeclaration(name, kind) for name, kind in known.columns) if known.is_json else ()
            value_format = "json" if known.is_json or not known.records else "string"
            return InferredColumns(columns, value_format, known.records, tuple(sorted(known.dropped)))

    def _sample(self, span: OffsetSpan) -> Iterable[bytes | None]:
        each = max(1, self.sample_size // max(1, span.topic.partitions))
        last = {partition: max(span.first[partition], end - each) for partition, end in span.end.items()}
        size = 0
        for batch in self.records(replace(span, first=last), ("value",)):
            values = batch.column("value").to_pylist()
            yield from values
            size += sum(len(value) for value in values if value is not None)
            if size > SAMPLE_BYTES:
                return

    def records(self, span: OffsetSpan, columns: Sequence[str] = ()) -> Iterable[pa.RecordBatch]:
        """The records of a span in Arrow batches, read by this process; all columns of the source if none is named."""
        from pyspark.sql.types import StructType

        from moldau.spark import options
        from moldau.spark.planning import OffsetRange
        from moldau.spark.reading import read_ranges
        from moldau.spark.rows import COLUMNS

        schema = StructType([field for field in COLUMNS.fields if not columns or field.name in columns])
        parsed = options.parse(self._source_options(span.topic.name), streaming=False)
        ranges = [
            OffsetRange(span.topic.name, span.topic.id, partition, first, span.end[partition])
            for partition, first in span.first.items()
            if first < span.end[partition]
        ]
        return read_ranges(parsed, ranges, schema)

    # Frames -----------------------------------------------------------------------------------------------------------

    def span(self, declaration: Declaration, bound: ReadBound | None = None) -> OffsetSpan:
        """What a bounded query reads: everything that is committed now, or less with a bound."""
        span = self.lookup.span(self.topic_of(declaration))
        if bound is None:
            return span
        limits = self._offsets_of(span.topic, bound)
        ends = {
            partition: max(span.first[partition], min(end, limits.get(partition, end)))
            for partition, end in span.end.items()
        }
        return replace(span, end=ends)

    def batch(
        self,
        declaration: Declaration,
        bound: ReadBound | None = None,
        *,
        span: OffsetSpan | None = None,
        local: bool = True,
    ) -> DataFrame:
        """The rows of a relation as of now, or up to a bound. A TABLE has the latest row of each key.

        `local=False`: Spark's tasks read, also if there is little to read.
        """
        span = span or self.span(declaration, bound)
        raw = self._local(span) if local and span.offsets <= LOCAL_RECORDS else None
        raw = raw if raw is not None else self._source(span)
        if declaration.kind is RelationKind.TABLE:
            _must_have_key(declaration)
            raw = latest_by_key(raw)
        return decoded(raw, declaration)

    def _local(self, span: OffsetSpan) -> DataFrame | None:
        """The records as a frame without tasks of ours; None if they are too large."""
        import pyarrow as pa

        from moldau.spark.rows import row_schema

        schema = row_schema(headers=True)
        batches, size = [], 0
        for batch in self.records(span):
            batches.append(batch)
            size += batch.nbytes
            if size > LOCAL_BYTES:
                return None
        if not batches:
            return self._spark.createDataFrame([], schema)
        return self._spark.createDataFrame(pa.Table.from_batches(batches), schema)

    def _source(self, span: OffsetSpan) -> DataFrame:
        name = span.topic.name
        options = {
            **self._source_options(name),
            "startingOffsets": json.dumps({name: {str(index): offset for index, offset in span.first.items()}}),
            "endingOffsets": json.dumps({name: {str(index): offset for index, offset in span.end.items()}}),
        }
        return self._spark.read.format("moldau").options(**options).load()

    def refreshed(self, declaration: Declaration) -> DataFrame:
        """A TABLE as a bounded frame that is read again, up to its end, each time a query with it runs: the side of a
        streaming join that does not stream."""
        _must_have_key(declaration)
        options = {**self._source_options(self.topic_of(declaration).name), "refresh": "true"}
        return decoded(latest_by_key(self._spark.read.format("moldau").options(**options).load()), declaration)

    def stream(
        self, declaration: Declaration, start: ReadBound | None = None, *, columns: Collection[str] | None = None
    ) -> DataFrame:
        """All records from `start` on, as a streaming frame.

        `columns`: the columns that the query uses. Spark does not tell a Python source which ones it needs, so parts
        of records that no column of these is made of are not read: the other columns are null then.

        A TABLE gives every change: a tombstone is a row whose value columns are null and whose column `_deleted` is
        true. Without a start a table is read from its beginning, a stream from `auto_offset_reset`. Records that do
        not parse are counted as BAD_RECORDS in the observed metrics of the query.
        """
        topic = self.topic_of(declaration)
        is_table = declaration.kind is RelationKind.TABLE
        starting = "earliest" if is_table else self.auto_offset_reset
        if start is not None:
            wanted = self._offsets_of(topic, start)
            offsets = {str(index): wanted.get(index, -2) for index in range(topic.partitions)}
            starting = json.dumps({topic.name: offsets})
        options = {**self._source_options(topic.name), "startingOffsets": starting}
        if self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        reader = self._spark.readStream.format("moldau").options(**options)
        raw = reader.load() if columns is None else _reduced(reader, raw_columns(declaration, columns))
        if is_table:
            from pyspark.sql import functions as f

            _must_have_key(declaration)
            raw = raw.where(f.col("key").isNotNull())
        return decoded(raw, declaration, changes=is_table)

    def _source_options(self, topic: str) -> dict[str, str]:
        settings = consumer_settings(self._client_settings)
        return {
            **{f"kafka.{name}": option_text(value) for name, value in settings.items()},
            "kafka.isolation.level": "read_committed",
            "subscribe": topic,
            "includeHeaders": "true",
        }

    def _offsets_of(self, topic: KnownTopic, bound: ReadBound) -> dict[int, int]:
        """The offsets of the partitions to which a bound applies, within the offsets that exist."""
        first, end = self.lookup.first_offsets(topic), self.lookup.end_offsets(topic)
        if bound.partition is not None and bound.partition not in first:
            raise SqlError(f"topic {topic.name!r} has no partition {bound.partition}; it has {topic.partitions}")
        if bound.timestamp is not None:
            at = self.lookup.offsets_at(topic, self._millis(bound.timestamp))
            wanted = {partition: end[partition] if offset is None else offset for partition, offset in at.items()}
        else:
            assert bound.offset is not None
            wanted = dict.fromkeys(first, bound.offset)
        chosen = wanted if bound.partition is None else {bound.partition: wanted[bound.partition]}
        return {partition: min(max(offset, first[partition]), end[partition]) for partition, offset in chosen.items()}

    def _millis(self, text: str) -> int:
        """Milliseconds since 1970 of a timestamp in Spark's forms, in the session's time zone, or of such a number."""
        if text.strip().isdigit():
            return int(text)
        from pyspark.sql import functions as f

        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            pass  # Spark knows more forms, and takes longer
        else:
            zone = ZoneInfo(str(self._spark.conf.get("spark.sql.session.timeZone")))
            exact = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
            return (exact - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        row = self._spark.range(1).select(f.unix_millis(f.lit(text).try_cast("timestamp"))).first()
        if row is None or row[0] is None:
            raise SqlError(
                f"{text!r} is not a timestamp", hint="write '2026-01-31 12:00:00', or milliseconds since 1970"
            )
        return int(row[0])


def option_text(value: Any) -> str:
    """A client setting as an option of Spark."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def completed(declared: Declaration, inferred: tuple[ColumnDeclaration, ...]) -> Declaration:
    """A declaration without columns, with those of the records. WITH (key=…) names its key columns, which are text."""
    names = [name.strip() for name in declared.options.get("key", "").split(",") if name.strip()]
    keys = tuple(ColumnDeclaration(name, "STRING", is_key=True) for name in names)
    taken = {name.lower() for name in names}
    return replace(declared, columns=keys + tuple(one for one in inferred if one.name.lower() not in taken))


def _reduced(reader: DataStreamReader, names: Collection[str]) -> DataFrame:
    """The records with these columns of the source; the others are null."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    from moldau.spark.rows import row_schema

    fields = row_schema(headers=True).fields
    raw = reader.schema(StructType([field for field in fields if field.name in names])).load()
    missing = {field.name: f.lit(None).cast(field.dataType) for field in fields if field.name not in names}
    return raw.withColumns(missing) if missing else raw


def _must_have_key(declaration: Declaration) -> None:
    if not declaration.key_columns:
        raise SqlError(
            f"table {declaration.name} has no key column, so its rows cannot be told apart",
            hint="declare one: CREATE TABLE … (id STRING PRIMARY KEY, …) WITH (…)",
        )
