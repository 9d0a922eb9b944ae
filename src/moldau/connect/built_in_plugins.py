"""Table of the connectors, converters, transforms and predicates that come with Moldau.

A row names a class as text: nothing is imported until a connector uses the plugin. Add a row in the section of its
kind; tests/connect/test_plugins.py checks that it loads.

The first name is the one that `GET /connector-plugins` shows: the class name that users of Kafka Connect know, where
there is one. `aliases` are further names of the same class. Short forms (`FileStreamSourceConnector`,
`FileStreamSource`, `Json`) follow from the names and are not listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """What a plugin is, with the name that Kafka Connect's REST API gives it."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


CONNECTORS: Final = (Kind.SINK, Kind.SOURCE)


@dataclass(frozen=True)
class BuiltIn:
    """One row of the table."""

    kind: Kind
    name: str
    target: str
    """The class, as `package.module:Class`."""
    aliases: tuple[str, ...] = ()
    extra: str = "connect"
    """The extra of Moldau's package that installs what the class needs, for the message of a failed import."""


_SOURCES: Final[tuple[BuiltIn, ...]] = (
    BuiltIn(
        Kind.SOURCE,
        "com.github.castorm.kafka.connect.http.HttpSourceConnector",
        "moldau.connect.connectors.http_source:HttpSource",
        ("HttpSource",),
    ),
    BuiltIn(Kind.SOURCE, "FileSource", "moldau.connect.connectors.file_source:FileSource"),
    BuiltIn(
        Kind.SOURCE,
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "moldau.connect.connectors.file_stream_source:FileStreamSource",
    ),
    BuiltIn(
        Kind.SOURCE,
        "io.confluent.kafka.connect.datagen.DatagenConnector",
        "moldau.connect.connectors.datagen:DatagenSource",
        ("datagen",),
    ),
    BuiltIn(
        Kind.SOURCE,
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "moldau.connect.connectors.databases.source:DatabaseSource",
        ("DatabaseSource",),
        "connect-databases",
    ),
    BuiltIn(
        Kind.SOURCE,
        "io.debezium.connector.postgresql.PostgresConnector",
        "moldau.connect.connectors.change_capture.source:PostgreSQLChanges",
        (),
        "connect-cdc",
    ),
    BuiltIn(
        Kind.SOURCE,
        "io.debezium.connector.mysql.MySqlConnector",
        "moldau.connect.connectors.change_capture.source:MySQLChanges",
        (),
        "connect-cdc",
    ),
    BuiltIn(
        Kind.SOURCE,
        "io.debezium.connector.mariadb.MariaDbConnector",
        "moldau.connect.connectors.change_capture.source:MariaDBChanges",
        (),
        "connect-cdc",
    ),
)

_SINKS: Final[tuple[BuiltIn, ...]] = (
    BuiltIn(
        Kind.SINK,
        "io.confluent.connect.http.HttpSinkConnector",
        "moldau.connect.connectors.http_sink:HttpSink",
        ("HttpSink",),
    ),
    BuiltIn(
        Kind.SINK,
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "moldau.connect.connectors.file_stream_sink:FileStreamSink",
    ),
    BuiltIn(Kind.SINK, "DeltaSink", "moldau.connect.connectors.delta_sink:DeltaSink", extra="connect-lake"),
    BuiltIn(Kind.SINK, "IcebergSink", "moldau.connect.connectors.iceberg_sink:IcebergSink", extra="connect-lake"),
    BuiltIn(Kind.SINK, "FileSink", "moldau.connect.connectors.file_sink:FileSink"),
    BuiltIn(Kind.SINK, "KafkaSink", "moldau.connect.connectors.kafka_sink:KafkaSink"),
    BuiltIn(Kind.SINK, "io.confluent.connect.s3.S3SinkConnector", "moldau.connect.connectors.file_sink:S3Sink"),
    BuiltIn(
        Kind.SINK,
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "moldau.connect.connectors.file_sink:HdfsSink",
        ("io.confluent.connect.hdfs3.Hdfs3SinkConnector",),
    ),
    BuiltIn(
        Kind.SINK,
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "moldau.connect.connectors.databases.sink:DatabaseSink",
        ("DatabaseSink",),
        "connect-databases",
    ),
)

_CONVERTER_CLASSES: Final = {
    "io.confluent.connect.avro.AvroConverter": "avro_converter:AvroConverter",
    "org.apache.kafka.connect.converters.BooleanConverter": "number_converters:BooleanConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter": "text_converters:ByteArrayConverter",
    "org.apache.kafka.connect.converters.DoubleConverter": "number_converters:DoubleConverter",
    "org.apache.kafka.connect.converters.FloatConverter": "number_converters:FloatConverter",
    "org.apache.kafka.connect.converters.IntegerConverter": "number_converters:IntegerConverter",
    "org.apache.kafka.connect.converters.LongConverter": "number_converters:LongConverter",
    "org.apache.kafka.connect.converters.ShortConverter": "number_converters:ShortConverter",
    "org.apache.kafka.connect.json.JsonConverter": "json_converter:JsonConverter",
    "org.apache.kafka.connect.storage.StringConverter": "text_converters:StringConverter",
}
"""Each of them converts keys, values and headers."""

_CONVERTERS: Final = tuple(
    BuiltIn(Kind.CONVERTER, name, f"moldau.connect.converters.{target}") for name, target in _CONVERTER_CLASSES.items()
)

_HEADER_CONVERTERS: Final = (
    *(
        BuiltIn(Kind.HEADER_CONVERTER, name, f"moldau.connect.converters.{target}")
        for name, target in _CONVERTER_CLASSES.items()
    ),
    BuiltIn(
        Kind.HEADER_CONVERTER,
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "moldau.connect.converters.simple_header_converter:SimpleHeaderConverter",
    ),
)

_KAFKA_TRANSFORMS: Final = "org.apache.kafka.connect.transforms"


def _transform(module: str, name: str, part: str = "") -> BuiltIn:
    """A transform of Kafka; `part` is Key or Value for the two classes of one that changes keys or values."""
    full_name = f"{_KAFKA_TRANSFORMS}.{name}" + (f"${part}" if part else "")
    return BuiltIn(Kind.TRANSFORMATION, full_name, f"moldau.connect.transforms.{module}:{name}{part}")


_PART_TRANSFORMS: Final = {
    "cast": "Cast",
    "extract_field": "ExtractField",
    "flatten": "Flatten",
    "header_from": "HeaderFrom",
    "hoist_field": "HoistField",
    "insert_field": "InsertField",
    "mask_field": "MaskField",
    "replace_field": "ReplaceField",
    "set_schema_metadata": "SetSchemaMetadata",
    "timestamp_converter": "TimestampConverter",
}
"""The transforms of keys or values, by their modules in connect/transforms/."""

_TRANSFORMS: Final[tuple[BuiltIn, ...]] = (
    *(_transform(module, name, part) for module, name in _PART_TRANSFORMS.items() for part in ("Key", "Value")),
    *(
        BuiltIn(
            Kind.TRANSFORMATION,
            f"io.confluent.connect.transforms.Drop${part}",
            f"moldau.connect.transforms.drop:Drop{part}",
        )
        for part in ("Key", "Value")
    ),
    _transform("drop_headers", "DropHeaders"),
    _transform("filter", "Filter"),
    _transform("insert_header", "InsertHeader"),
    _transform("regex_router", "RegexRouter"),
    _transform("timestamp_router", "TimestampRouter"),
    _transform("value_to_key", "ValueToKey"),
)

_PREDICATES: Final[tuple[BuiltIn, ...]] = tuple(
    BuiltIn(Kind.PREDICATE, f"{_KAFKA_TRANSFORMS}.predicates.{name}", f"moldau.connect.predicates:{name}")
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
)

BUILT_IN: Final = (*_SINKS, *_SOURCES, *_CONVERTERS, *_HEADER_CONVERTERS, *_TRANSFORMS, *_PREDICATES)
