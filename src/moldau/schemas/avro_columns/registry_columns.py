"""Avro columns with a registry: values with the id of their schema before the data, to Arrow columns and back.

    columns = AvroColumns("http://127.0.0.1:8081")
    array, bad = columns.decode(values)                     # bad: {row: reason}; those rows are null
    values, bad = columns.encode(array, "orders")

One array has one type, whatever the schemas of its rows: that of the reader's schema. It is the given one; without one,
the newest schema that was seen so far, which is the one with the highest id. Rows of other schemas are resolved to it.
Schema ids in headers are not read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.records.arrow import require_pyarrow
from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.avro_columns.columns import ColumnDecoder, ColumnEncoder
from moldau.schemas.errors import RegistryError, SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import RegisteredSchema, Schema, SchemaType
from moldau.schemas.serializers.subject_names import SubjectName, subject_name_strategy
from moldau.schemas.wire_format import PREFIX, prefix, split

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DECODERS: Final = 1000
"""Pairs of schemas whose programs are kept."""
NOT_FOUND: Final = 404


class AvroColumns:
    """Decodes and encodes columns of keys or values. A copy in another process has the same settings."""

    def __init__(
        self,
        registry: RegistryClient | str | Mapping[str, Any],
        schema: str | Schema | None = None,
        *,
        is_key: bool = False,
        subject_name: str | SubjectName = "topic",
        auto_register: bool = True,
        normalize: bool = False,
    ) -> None:
        """`schema` is the reader's schema for decoding, and the schema of the data for encoding.

        Without it, the newest one that was seen is the reader's, and encoding takes the latest of the subject.
        """
        self.registry = registry if isinstance(registry, RegistryClient) else RegistryClient(registry)
        self._schema = Schema(schema) if isinstance(schema, str) else schema
        self._is_key = is_key
        self._subject_name = subject_name_strategy(subject_name)
        self._auto_register = auto_register
        self._normalize = normalize
        self._newest: int | None = None
        self._decoders: dict[tuple[int, int | None], ColumnDecoder | str] = {}

    @property
    def type(self) -> pa.DataType:
        """The type of decoded arrays; null if it is not known yet."""
        if self._schema is not None:
            return ColumnDecoder(self._parsed(self._schema).root).type
        if self._newest is not None:
            return ColumnDecoder(self._by_id(self._newest).root).type
        return require_pyarrow().null()

    # -- decoding --------------------------------------------------------------------------------------------------

    def decode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The values of a binary column with the reader's type, and the reasons of rows that cannot be decoded.

        A null stays null. Raises RegistryError if the registry cannot be asked.
        """
        pa = require_pyarrow()
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        groups = _prefixes(values)
        bad: dict[int, str] = {}
        ids = {number: self._known_id(head, rows, bad) for number, (head, rows) in enumerate(groups)}
        found = [(schema_id, groups[number][1]) for number, schema_id in ids.items() if schema_id is not None]
        if self._schema is None:
            seen = [one[0] for one in found] + ([] if self._newest is None else [self._newest])
            self._newest = max(seen, default=None)
        if len(groups) == 1 and found:
            return self._decoded(found[0][0], values)
        return self._merged(values, found, bad)

    def _known_id(self, head: bytes, rows: Any, bad: dict[int, str]) -> int | None:
        """The schema id of a prefix. If there is none, its rows are bad."""
        try:
            schema_id, _ = split(head)
            self._by_id(schema_id)
        except RegistryError as error:
            if error.status != NOT_FOUND:
                raise
            why = str(error)
        except SchemaError as error:
            why = str(error)
        else:
            return schema_id
        bad.update(dict.fromkeys(rows.to_pylist(), why))
        return None

    def _merged(self, values: Any, found: list[tuple[int, Any]], bad: dict[int, str]) -> tuple[Any, dict[int, str]]:
        """Rows of several schemas, decoded schema by schema and put into their order again."""
        pa = require_pyarrow()
        import pyarrow.compute as pc

        arrays, places = [], []
        for schema_id, rows in found:
            array, wrong = self._decoded(schema_id, values.take(rows))
            bad.update({rows[row].as_py(): why for row, why in wrong.items()})
            arrays.append(array)
            places.append(rows)
        if not arrays:
            return pa.nulls(len(values), self.type), bad
        every = pc.indices_nonzero(pa.repeat(True, len(values))).cast(pa.int64())
        left = every.filter(pc.invert(pc.is_in(every, value_set=pa.concat_arrays(places))))
        merged = pa.concat_arrays([*arrays, pa.nulls(len(left), arrays[0].type)])
        return merged.take(pc.sort_indices(pa.concat_arrays([*places, left]))), dict(sorted(bad.items()))

    def _decoded(self, schema_id: int, values: Any) -> tuple[Any, dict[int, str]]:
        decoder = self._decoder(schema_id)
        if isinstance(decoder, str):  # the whole schema cannot be read with the reader's
            rows = [row for row, one in enumerate(values.is_valid().to_pylist()) if one]
            return require_pyarrow().nulls(len(values), self.type), dict.fromkeys(rows, decoder)
        return decoder.decode(values, skip=PREFIX.size)

    def _decoder(self, schema_id: int) -> ColumnDecoder | str:
        key = (schema_id, self._newest if self._schema is None else None)
        found = self._decoders.get(key)
        if found is None:
            writer = self._by_id(schema_id).root
            if self._schema is not None:
                reader = self._parsed(self._schema).root
            else:
                assert self._newest is not None
                reader = self._by_id(self._newest).root
            try:
                found = ColumnDecoder(writer, reader)
            except SchemaError as error:
                if self._schema is None and schema_id == self._newest:
                    raise  # no Arrow type at all
                found = f"schema {schema_id} cannot be read as {self._reader_name()}: {error}"
            if len(self._decoders) >= MAX_DECODERS:
                self._decoders.clear()
            self._decoders[key] = found
        return found

    def _reader_name(self) -> str:
        return "the given schema" if self._schema is not None else f"schema {self._newest}, the newest one"

    def _by_id(self, schema_id: int) -> AvroSchema:
        return self._parsed(self.registry.get_schema(schema_id))

    def _parsed(self, schema: Schema) -> AvroSchema:
        if schema.type is not SchemaType.AVRO:
            raise SchemaError(f"the schema is of type {schema.type.value}, not AVRO")
        parsed = self.registry.parsed(schema)
        assert isinstance(parsed, AvroSchema)
        return parsed

    # -- encoding --------------------------------------------------------------------------------------------------

    def encode(self, array: pa.Array, topic: str) -> tuple[pa.Array, dict[int, str]]:
        """The values of a topic (binary), with the id of their schema, and the reasons of rows that do not fit it.

        Raises SchemaError if the columns do not fit the schema, RegistryError if it cannot be registered or found.
        """
        found = self._registered(topic)
        return ColumnEncoder(self._parsed(found.schema).root).encode(array, prefix=prefix(found.id))

    def written_type(self, topic: str) -> pa.DataType:
        """The type of columns that are encoded for a topic without a cast."""
        return ColumnEncoder(self._parsed(self._registered(topic).schema).root).type

    def _registered(self, topic: str) -> RegisteredSchema:
        """The schema of a topic's data, with its id: the given one, which is registered, or the subject's latest."""
        if self._schema is None:
            return self.registry.latest(self._subject_name(topic, self._is_key, None))
        subject = self._subject_name(topic, self._is_key, self._parsed(self._schema).name)
        ask = self.registry.register if self._auto_register else self.registry.lookup
        return ask(subject, self._schema, normalize=self._normalize)


def _prefixes(values: Any) -> list[tuple[bytes, Any]]:
    """The distinct beginnings of the values, with the numbers of their rows."""
    import pyarrow.compute as pc

    heads = pc.binary_slice(values, 0, PREFIX.size)
    distinct = heads.unique().drop_null()
    pa = require_pyarrow()
    if len(distinct) == 1:
        return [(distinct[0].as_py(), pc.indices_nonzero(values.is_valid()).cast(pa.int64()))]
    return [(one.as_py(), pc.indices_nonzero(pc.equal(heads, one)).cast(pa.int64())) for one in distinct]
