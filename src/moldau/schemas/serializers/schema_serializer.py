"""Serializer with a schema: what Avro, JSON Schema and Protobuf have in common.

It finds the schema of a value (its own, or the latest of the subject), registers it or looks it up, and writes the id
before the data or into a header. This costs requests for the first value of a subject only. They block, also in an
asyncio client; `prepare` makes them in advance, in a thread.

A serializer is used from any number of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import asdict, is_dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self

from moldau.schemas.errors import RegistryError, SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import RegisteredSchema, Schema, SchemaReference, SchemaType
from moldau.schemas.serializers.schema_ids import HeaderList, header_value, set_header
from moldau.schemas.serializers.subject_names import SubjectName, subject_name_strategy
from moldau.schemas.wire_format import prefix

Encode = Callable[[Any], bytes]

MAX_WRITERS: Final = 10_000
"""How many pairs of topic and schema a serializer remembers."""


class ChosenSchema(NamedTuple):
    """How values of one topic and schema are written."""

    registered: RegisteredSchema
    subject: str
    encode: Encode
    before: bytes
    """What stands before the data."""
    header: bytes | None
    """What is put into a header; None: nothing."""


class SchemaSerializer(ABC):
    """A serializer for one type of schema."""

    schema_type: ClassVar[SchemaType]

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        schema: str | Schema | None = None,
        *,
        references: Iterable[SchemaReference] = (),
        is_key: bool = False,
        subject_name: str | SubjectName = "topic",
        auto_register: bool = True,
        normalize: bool = False,
        use_latest: bool | None = None,
        use_id: int | None = None,
        latest_strict: bool = True,
        id_in_header: bool = False,
        to_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        """A serializer of `schema`, a text or a Schema; without one, of the latest version of the subject.

        `registry` is a client, the registry's URL, or the settings of a client. `auto_register` registers the schema;
        otherwise it must be registered. `use_latest` writes with the latest version of the subject, which must be able
        to read what the own schema writes, unless `latest_strict` is False. `use_id` writes with the schema of an id.
        `to_dict` converts values first; dataclasses and objects with a method `to_dict` need no such function.
        """
        self._registry = registry if isinstance(registry, RegistryClient) else RegistryClient(registry)
        self._schema = None if schema is None else self._own_schema(schema, tuple(references))
        self._is_key = is_key
        self._subject_name = subject_name_strategy(subject_name)
        self._auto_register = auto_register
        self._normalize = normalize
        self._use_latest = self._schema is None and use_id is None if use_latest is None else use_latest
        self._use_id = use_id
        self._latest_strict = latest_strict
        self._id_in_header = id_in_header
        self._to_dict = to_dict
        self._writers: dict[object, ChosenSchema] = {}

    @property
    def registry(self) -> RegistryClient:
        return self._registry

    @property
    def part(self) -> str:
        return "key" if self._is_key else "value"

    def for_keys(self) -> Self:
        """The same serializer for keys. Clients call it for a `key.serializer`."""
        if self._is_key:
            return self
        twin = copy(self)
        twin._is_key = True
        twin._writers = {}
        return twin

    def serialize(self, topic: str, data: Any, headers: HeaderList | None = None) -> bytes | None:
        """The bytes of a value; None for None, a tombstone. Raises SchemaError."""
        if data is None:
            return None
        writer = self._writer(topic, data)
        try:
            encoded = writer.encode(self._plain(data))
        except SchemaError as error:
            raise SchemaError(
                f"the {self.part} for topic {topic!r} does not have schema {writer.registered.id} of subject "
                f"{writer.subject!r}: {error}"
            ) from error
        if writer.header is not None:
            set_header(headers, self._is_key, writer.header)
        return writer.before + encoded

    def prepare(self, topic: str) -> None:
        """Make the requests for this topic now: `await asyncio.to_thread(serializer.prepare, "orders")`."""
        self._writer(topic, None)

    # -- for each type of schema -----------------------------------------------------------------------------------

    @abstractmethod
    def _encoder(self, schema: Schema, data: Any) -> tuple[Encode, bytes]:
        """How values like `data` are encoded with a schema, and what follows its id (Protobuf's path)."""

    @abstractmethod
    def _record_name(self, schema: Schema, data: Any) -> str | None:
        """The full name of the record, for subject name strategies."""

    def _schema_of(self, data: Any) -> Schema | None:
        """The schema of a value, if it has one of its own; None: the latest of the subject."""
        return self._schema

    def _kind(self, data: Any) -> object:
        """What decides, besides the topic, how a value is written."""
        return None

    def _plain(self, data: Any) -> Any:
        if self._to_dict is not None:
            return self._to_dict(data)
        if not isinstance(data, dict) and callable(own := getattr(data, "to_dict", None)):
            return own()
        if is_dataclass(data) and not isinstance(data, type):
            return asdict(data)
        return data

    # -- choice of the schema --------------------------------------------------------------------------------------

    def _own_schema(self, given: str | Schema, references: tuple[SchemaReference, ...]) -> Schema:
        if isinstance(given, str):
            return Schema(given, self.schema_type, references)
        if given.type is not self.schema_type:
            raise SchemaError(f"{type(self).__name__} needs a schema of type {self.schema_type}, not {given.type}")
        return given

    def _writer(self, topic: str, data: Any) -> ChosenSchema:
        key: object = (topic, self._kind(data))
        if self._use_latest:
            subject = self._subject(topic, data)
            latest = self._asked(topic, subject, lambda: self._registry.latest(subject))
            key = (subject, latest.id, self._kind(data))
            if (found := self._writers.get(key)) is None:
                self._check_latest(topic, latest, data)
                found = self._remember(key, self._new_writer(subject, latest, data))
            return found
        if (found := self._writers.get(key)) is None:
            subject = self._subject(topic, data)
            registered = self._asked(topic, subject, lambda: self._registered(subject, data))
            found = self._remember(key, self._new_writer(subject, registered, data))
        return found

    def _remember(self, key: object, writer: ChosenSchema) -> ChosenSchema:
        if len(self._writers) >= MAX_WRITERS:
            self._writers.clear()
        self._writers[key] = writer
        return writer

    def _new_writer(self, subject: str, registered: RegisteredSchema, data: Any) -> ChosenSchema:
        encode, path = self._encoder(registered.schema, data)
        if self._id_in_header:
            return ChosenSchema(registered, subject, encode, b"", header_value(registered) + path)
        return ChosenSchema(registered, subject, encode, prefix(registered.id) + path, None)

    def _subject(self, topic: str, data: Any) -> str:
        schema = self._schema_of(data)
        if schema is None and self._use_id is not None:
            try:
                schema = self._registry.get_schema(self._use_id)
            except RegistryError as error:
                raise self._no_schema(topic, error) from error
        return self._subject_name(topic, self._is_key, None if schema is None else self._record_name(schema, data))

    def _registered(self, subject: str, data: Any) -> RegisteredSchema:
        if self._use_id is not None:
            found = self._registry.get_schema(self._use_id, subject)
            return RegisteredSchema(self._use_id, found, subject)
        schema = self._schema_of(data)
        if schema is None:
            return self._registry.latest(subject)
        if self._auto_register:
            return self._registry.register(subject, schema, normalize=self._normalize)
        return self._registry.lookup(subject, schema, normalize=self._normalize)

    def _check_latest(self, topic: str, latest: RegisteredSchema, data: Any) -> None:
        own = self._schema_of(data)
        if own is None or not self._latest_strict:
            return
        if latest.schema.type is not own.type:
            problem = f"it is of type {latest.schema.type}"
        else:
            found = self._registry.parsed(latest.schema).incompatibilities(self._registry.parsed(own))
            if not found:
                return
            problem = found[0].message
        raise SchemaError(
            f"version {latest.version} of subject {latest.subject!r}, the latest one, cannot read the {self.part} for "
            f"topic {topic!r}: {problem}; register a newer version, or set latest.compatibility.strict to false"
        )

    def _asked(self, topic: str, subject: str, ask: Callable[[], RegisteredSchema]) -> RegisteredSchema:
        try:
            registered = ask()
        except RegistryError as error:
            raise self._no_schema(topic, error, f", subject {subject!r}") from error
        if registered.schema.type is not self.schema_type:
            raise SchemaError(
                f"schema {registered.id} of subject {subject!r} is of type {registered.schema.type}, and "
                f"{type(self).__name__} writes {self.schema_type}"
            )
        return registered

    def _no_schema(self, topic: str, error: RegistryError, subject: str = "") -> RegistryError:
        message = f"no schema for the {self.part} of topic {topic!r}{subject}: {error}"
        return RegistryError(message, status=error.status, code=error.code)
