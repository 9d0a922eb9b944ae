"""Deserializer with a schema: what Avro, JSON Schema and Protobuf have in common.

The schema that a value was written with is looked up by the id before the data, or in a header of the record. Each id
costs one request; then a value costs its decoding only. The request blocks, also in an asyncio client.

A deserializer is used from any number of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, ClassVar, Final, Self

from moldau.schemas.errors import RegistryError, SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import Schema, SchemaReference, SchemaType
from moldau.schemas.serializers.schema_ids import HeadersRead, read_id
from moldau.schemas.serializers.subject_names import SubjectName, subject_name_strategy

Decode = Callable[[memoryview], Any]

MAX_READERS: Final = 10_000
"""How many schemas a deserializer remembers."""


class SchemaDeserializer(ABC):
    """A deserializer for one type of schema."""

    schema_type: ClassVar[SchemaType]

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        reader_schema: str | Schema | None = None,
        *,
        references: tuple[SchemaReference, ...] = (),
        is_key: bool = False,
        subject_name: str | SubjectName = "topic",
        use_latest: bool = False,
        from_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        """A deserializer that returns values with `reader_schema`; without one, as they were written.

        `registry` is a client, the registry's URL, or the settings of a client. `use_latest` takes the latest version
        of the subject as the reader's schema. `from_dict` converts each value.
        """
        self._registry = registry if isinstance(registry, RegistryClient) else RegistryClient(registry)
        if isinstance(reader_schema, str):
            reader_schema = Schema(reader_schema, self.schema_type, references)
        if reader_schema is not None and reader_schema.type is not self.schema_type:
            raise SchemaError(f"{type(self).__name__} needs a schema of {self.schema_type}, not {reader_schema.type}")
        self._reader_schema = reader_schema
        self._is_key = is_key
        self._subject_name = subject_name_strategy(subject_name)
        self._use_latest = use_latest
        self._from_dict = from_dict
        self._readers: dict[object, Decode] = {}

    @property
    def registry(self) -> RegistryClient:
        return self._registry

    @property
    def part(self) -> str:
        return "key" if self._is_key else "value"

    def for_keys(self) -> Self:
        """The same deserializer for keys. Clients call it for a `key.deserializer`."""
        if self._is_key:
            return self
        twin = copy(self)
        twin._is_key = True
        twin._readers = {}
        return twin

    def deserialize(self, topic: str, data: bytes | memoryview | None, headers: HeadersRead | None = None) -> Any:
        """The value of these bytes; None for None. Raises SchemaError, which names topic, subject and id."""
        if data is None:
            return None
        try:
            schema_id, rest, in_header = read_id(data, headers, self._is_key)
            path, rest = self._path(rest)
        except SchemaError as error:
            raise SchemaError(f"the {self.part} of topic {topic!r} has no schema id: {error}") from None
        if in_header:
            rest = memoryview(data)
        key: object = (schema_id, path)
        try:
            decode = self._readers.get(key)
            if decode is None or self._use_latest:
                decode = self._chosen(topic, schema_id, path)
            value = decode(rest)
        except RegistryError as error:
            raise RegistryError(
                f"no schema {schema_id} for the {self.part} of topic {topic!r}: {error}",
                status=error.status,
                code=error.code,
            ) from error
        except SchemaError as error:
            raise SchemaError(
                f"the {self.part} of topic {topic!r} cannot be read with schema {schema_id}: {error}"
            ) from error
        return value if self._from_dict is None else self._from_dict(value)

    # -- for each type of schema -----------------------------------------------------------------------------------

    @abstractmethod
    def _decoder(self, writer: Schema, reader: Schema | None, path: tuple[int, ...]) -> Decode:
        """How data of one schema is decoded, for a reader with another (None: the same) schema."""

    @abstractmethod
    def _record_name(self, schema: Schema, path: tuple[int, ...]) -> str | None:
        """The full name of the record, for subject name strategies."""

    def _path(self, rest: memoryview) -> tuple[tuple[int, ...], memoryview]:
        """Protobuf's path of the message type, and what follows it."""
        return (), rest

    # -- choice of the schemas -------------------------------------------------------------------------------------

    def _chosen(self, topic: str, schema_id: int | str, path: tuple[int, ...]) -> Decode:
        writer = self._writer_schema(topic, schema_id)
        if writer.type is not self.schema_type:
            raise SchemaError(f"it is of type {writer.type}, and {type(self).__name__} reads {self.schema_type}")
        reader = self._reader_schema
        key: object = (schema_id, path)
        if self._use_latest:
            subject = self._subject_name(topic, self._is_key, self._record_name(writer, path))
            latest = self._registry.latest(subject)
            reader, key = latest.schema, (schema_id, path, latest.id)
        found = self._readers.get(key)
        if found is None:
            if len(self._readers) >= MAX_READERS:
                self._readers.clear()
            found = self._readers[key] = self._decoder(writer, reader, path)
        return found

    def _writer_schema(self, topic: str, schema_id: int | str) -> Schema:
        if isinstance(schema_id, str):
            return self._registry.get_schema_by_guid(schema_id)
        try:
            subject = self._subject_name(topic, self._is_key, None)
        except SchemaError:  # the subject has the record's name, which only the schema says
            return self._registry.get_schema(schema_id)
        return self._registry.get_schema(schema_id, subject if subject.startswith(":.") else None)
