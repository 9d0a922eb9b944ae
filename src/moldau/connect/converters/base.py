"""Interface of converters: bytes of record keys, values and headers to Arrow columns and back.

A converter works on whole columns, never on one record at a time. It is created in each Spark task from its settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau import __version__
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, one_of
from moldau.connect.errors import Stage
from moldau.connect.record_batch import ValueColumn

CONVERTER_TYPE: Final = "converter.type"

TYPE_SETTINGS: Final = ConfigDef(
    [
        ConfigKey(
            CONVERTER_TYPE,
            ConfigType.STRING,
            "What is converted: key, value or header. The worker sets it.",
            importance=Importance.LOW,
            default=None,
            validator=lambda name, value: None if value is None else one_of("key", "value", "header")(name, value),
        )
    ]
)


class Converter(ABC):
    """A converter of keys or values."""

    config_def: ClassVar[ConfigDef] = TYPE_SETTINGS
    version: ClassVar[str] = __version__

    def __init__(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        """`config`: the converter's own settings without prefix, as text or parsed; names of others are ignored."""
        self.config = self.config_def.parse(config)
        self.is_key = is_key
        self.stage = Stage.KEY_CONVERTER if is_key else Stage.VALUE_CONVERTER

    @abstractmethod
    def to_batches(self, raw: pa.Array, topic: str) -> Iterator[ValueColumn]:
        """The data of serialised keys or values (binary, null: no value) of one topic.

        The columns together have the rows of `raw` in their order; rows of one column have one schema. Raises RowError
        with the numbers of all bad rows before the first column is returned.
        """

    @abstractmethod
    def from_column(self, column: ValueColumn, topics: pa.Array) -> pa.Array:
        """The serialised form (binary, null: no value) of keys or values, with the topic of each row.

        Raises RowError with the numbers of all bad rows.
        """


class HeaderConverter(ABC):
    """A converter of header values: the values of one header name at a time."""

    config_def: ClassVar[ConfigDef] = TYPE_SETTINGS
    version: ClassVar[str] = __version__

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = self.config_def.parse(config)

    @abstractmethod
    def to_batches(self, raw: pa.Array, topic: str, header: str) -> Iterator[ValueColumn]:
        """The data of serialised values of one header. Rows and errors as in `Converter.to_batches`."""

    @abstractmethod
    def from_column(self, column: ValueColumn, topics: pa.Array, header: str) -> pa.Array:
        """The serialised form of the values of one header. Rows and errors as in `Converter.from_column`."""


class ConverterOfHeaders(HeaderConverter):
    """A converter of values that is used for headers."""

    def __init__(self, inner: Converter) -> None:
        self.config = inner.config
        self.inner = inner
        inner.stage = Stage.HEADER_CONVERTER

    def to_batches(self, raw: pa.Array, topic: str, header: str) -> Iterator[ValueColumn]:
        return self.inner.to_batches(raw, topic)

    def from_column(self, column: ValueColumn, topics: pa.Array, header: str) -> pa.Array:
        return self.inner.from_column(column, topics)
