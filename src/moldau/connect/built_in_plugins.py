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
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "moldau.connect.connectors.file_stream_source:FileStreamSource",
    ),
    BuiltIn(
        Kind.SOURCE,
        "io.confluent.kafka.connect.datagen.DatagenConnector",
        "moldau.connect.connectors.datagen:DatagenSource",
        ("datagen",),
    ),
)

_SINKS: Final[tuple[BuiltIn, ...]] = (
    BuiltIn(Kind.SINK, "FileSink", "moldau.connect.connectors.file_sink:FileSink"),
    BuiltIn(Kind.SINK, "io.confluent.connect.s3.S3SinkConnector", "moldau.connect.connectors.file_sink:S3Sink"),
    BuiltIn(
        Kind.SINK,
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "moldau.connect.connectors.file_sink:HdfsSink",
        ("io.confluent.connect.hdfs3.Hdfs3SinkConnector",),
    ),
)

_CONVERTERS: Final[tuple[BuiltIn, ...]] = ()

_HEADER_CONVERTERS: Final[tuple[BuiltIn, ...]] = ()

_TRANSFORMS: Final[tuple[BuiltIn, ...]] = ()

_PREDICATES: Final[tuple[BuiltIn, ...]] = ()

BUILT_IN: Final = (*_SINKS, *_SOURCES, *_CONVERTERS, *_HEADER_CONVERTERS, *_TRANSFORMS, *_PREDICATES)
