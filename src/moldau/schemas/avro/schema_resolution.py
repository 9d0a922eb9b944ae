"""Schema resolution of Avro: can data of one schema be read with another, and if not, why not.

The rules are those of Apache Avro's `SchemaCompatibility`, which Confluent's registry applies, with its names:

    TYPE_MISMATCH                        no promotion leads from the writer's type to the reader's
    NAME_MISMATCH                        records, enums or fixed types have other names, and no alias helps
    FIXED_SIZE_MISMATCH                  fixed types have other sizes
    MISSING_ENUM_SYMBOLS                 the reader's enum lacks symbols and has no default
    MISSING_UNION_BRANCH                 no branch of the reader's union can read what the writer's type may hold
    READER_FIELD_MISSING_DEFAULT_VALUE   the writer does not have a field of the reader, and the field has no default
    AMBIGUOUS_FIELD                      a field of the reader matches several of the writer by its name and its aliases
                                         (our name: there the check fails with an exception)

As there, names of types are compared without namespace, but aliases with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.schemas.avro.schema_parser import NamedAvroType, type_title
from moldau.schemas.avro.types import (
    NO_DEFAULT,
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    RecordField,
    RecordType,
    UnionType,
)
from moldau.schemas.errors import InvalidSchema
from moldau.schemas.parsed_schema import Incompatibility

PROMOTIONS: Final = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}
"""By the reader's type: the types of a writer that it reads as well."""


def reading_problems(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Why data of `writer` cannot be read with `reader`; empty if it can."""
    try:
        return _Resolution().between(reader, writer, "")
    except RecursionError:
        raise InvalidSchema("the schemas cannot be compared: their types are nested too deeply") from None


class _Resolution:
    """One comparison of two schemas. Each pair of types is compared once."""

    def __init__(self) -> None:
        self._results: dict[tuple[int, int], list[Incompatibility]] = {}

    def between(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        pair = (id(reader), id(writer))
        if pair not in self._results:
            # A type that contains itself meets the same pair again: it is compatible unless something else is not.
            self._results[pair] = []
            self._results[pair] = self._compare(reader, writer, path)
        return self._results[pair]

    def _compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        match reader, writer:
            case UnionType(), UnionType():
                return [
                    _missing_branch(branch, f"{path}/{index}")
                    for index, branch in enumerate(writer.branches)
                    if self.between(reader, branch, path)
                ]
            case _, UnionType():
                found: list[Incompatibility] = []
                for index, branch in enumerate(writer.branches):
                    found += self.between(reader, branch, f"{path}/{index}")
                return found
            case UnionType(), _:
                readable = any(not self.between(branch, writer, path) for branch in reader.branches)
                return [] if readable else [_missing_branch(writer, path)]
            case ArrayType(), ArrayType():
                return self.between(reader.items, writer.items, f"{path}/items")
            case MapType(), MapType():
                return self.between(reader.values, writer.values, f"{path}/values")
            case FixedType(), FixedType():
                return [*_names(reader, writer, path), *_sizes(reader, writer, path)]
            case EnumType(), EnumType():
                return [*_names(reader, writer, path), *_symbols(reader, writer, path)]
            case RecordType(), RecordType():
                return [*_names(reader, writer, path), *self._fields(reader, writer, path)]
            case _:
                if reader.kind == writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ()):
                    return []
                return [_type_mismatch(reader, writer, path)]

    def _fields(self, reader: RecordType, writer: RecordType, path: str) -> Iterator[Incompatibility]:
        of_writer = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            matching = [of_writer[name] for name in dict.fromkeys((field.name, *field.aliases)) if name in of_writer]
            if len(matching) > 1:
                yield _ambiguous(field, matching, place)
            elif matching:
                yield from self.between(field.type, matching[0].type, f"{place}/type")
            elif field.default is not NO_DEFAULT:
                continue
            elif isinstance(field.type, EnumType) and field.type.default is not None:
                # The default of an enum is for unknown symbols. Apache Avro reports a field without one as such:
                yield _type_mismatch(field.type, writer, f"{place}/type")
            else:
                yield _missing_default(field, reader, writer, place)


def _names(reader: NamedAvroType, writer: NamedAvroType, path: str) -> Iterator[Incompatibility]:
    # Apache Avro never finds an alias in the null namespace of a type that has a namespace.
    aliases = {alias.full for alias in reader.aliases if alias.namespace or not reader.name.namespace}
    if reader.name.name != writer.name.name and writer.name.full not in aliases:
        yield Incompatibility(
            "NAME_MISMATCH",
            f"{path}/name",
            f"the {reader.kind} is named '{reader.name.full}' in the reader's schema and '{writer.name.full}' in the "
            f"writer's: the alias '{writer.name.full}' would make the reader accept it",
        )


def _sizes(reader: FixedType, writer: FixedType, path: str) -> Iterator[Incompatibility]:
    if reader.size != writer.size:
        yield Incompatibility(
            "FIXED_SIZE_MISMATCH",
            f"{path}/size",
            f"the fixed '{reader.name.full}' has {reader.size} bytes in the reader's schema and {writer.size} in the "
            "writer's: the size of a fixed type cannot change",
        )


def _symbols(reader: EnumType, writer: EnumType, path: str) -> Iterator[Incompatibility]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if missing and reader.default is None:
        yield Incompatibility(
            "MISSING_ENUM_SYMBOLS",
            f"{path}/symbols",
            f"the enum '{reader.name.full}' of the reader's schema lacks symbols that the writer's has: "
            f"{', '.join(missing)}; a default symbol would stand for them",
        )


def _missing_default(field: RecordField, reader: RecordType, writer: RecordType, path: str) -> Incompatibility:
    return Incompatibility(
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        path or "/",
        f"the field '{field.name}' of '{reader.name.full}' in the reader's schema has no default value, and "
        f"'{writer.name.full}' in the writer's schema does not have the field: give it a default value",
    )


def _ambiguous(field: RecordField, matching: list[RecordField], path: str) -> Incompatibility:
    names = ", ".join(f"'{found.name}'" for found in matching)
    return Incompatibility(
        "AMBIGUOUS_FIELD",
        path,
        f"the field '{field.name}' of the reader's schema matches the fields {names} of the writer's: remove an alias",
    )


def _missing_branch(writer: AvroType, path: str) -> Incompatibility:
    return Incompatibility(
        "MISSING_UNION_BRANCH",
        path or "/",
        f"the union of the reader's schema has no branch that reads the writer's {type_title(writer)}",
    )


def _type_mismatch(reader: AvroType, writer: AvroType, path: str) -> Incompatibility:
    return Incompatibility(
        "TYPE_MISMATCH",
        path or "/",
        f"the type is {type_title(reader)} in the reader's schema and {type_title(writer)} in the writer's",
    )
