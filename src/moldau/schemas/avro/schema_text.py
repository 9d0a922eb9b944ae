"""Text forms of Avro schemas: the stored form, and the normalized form.

Both write attributes in the order of Apache Avro's `Schema.toString`, which is the form that registries store: type,
name, namespace, documentation, then what belongs to the type, the user's own attributes, aliases. A named type is
written where it is first used; later uses, and names that are known from references, are written as names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from moldau.schemas.avro.default_values import normalized_default, sorted_members
from moldau.schemas.avro.types import (
    NO_DEFAULT,
    TYPE_NAMES,
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    LogicalType,
    MapType,
    Name,
    Primitive,
    RecordField,
    RecordType,
    UnionType,
)


def schema_json(avro: AvroType, known: Collection[str] = (), *, normalize: bool = False) -> Any:
    """A type as JSON. `known` has the full names that the reader knows from elsewhere."""
    return _SchemaWriter(set(known), normalize).type(avro, "")


class _SchemaWriter:
    def __init__(self, known: set[str], normalize: bool) -> None:
        self._known = known
        self._normalize = normalize

    def type(self, avro: AvroType, namespace: str) -> Any:
        match avro:
            case Primitive():
                props = self._props(avro.props, avro.logical)
                return {"type": avro.kind, **props} if props else avro.kind
            case UnionType():
                return [self.type(branch, namespace) for branch in avro.branches]
            case ArrayType():
                items = self.type(avro.items, namespace)
                return {"type": "array", "items": items, **self._props(avro.props, avro.logical)}
            case MapType():
                values = self.type(avro.values, namespace)
                return {"type": "map", "values": values, **self._props(avro.props, avro.logical)}
            case RecordType() | EnumType() | FixedType():
                if avro.name.full in self._known:
                    return _qualified(avro.name, namespace)
                self._known.add(avro.name.full)
                return self._definition(avro, namespace)

    def _definition(self, avro: RecordType | EnumType | FixedType, namespace: str) -> dict[str, Any]:
        json: dict[str, Any] = {"type": avro.kind, "name": avro.name.name}
        if avro.name.namespace != namespace:
            json["namespace"] = avro.name.namespace
        if avro.doc or (avro.doc is not None and not self._normalize):
            json["doc"] = avro.doc
        match avro:
            case RecordType():
                json["type"] = "error" if avro.is_error else "record"
                json["fields"] = [self._field(field, avro.name.namespace) for field in avro.fields]
            case EnumType():
                json["symbols"] = list(avro.symbols)
                if avro.default is not None:
                    json["default"] = avro.default
            case FixedType():
                json["size"] = avro.size
        json |= self._props(avro.props, avro.logical)
        if avro.aliases:
            aliases = sorted(avro.aliases, key=lambda alias: alias.full) if self._normalize else avro.aliases
            json["aliases"] = [_alias(alias, avro.name.namespace) for alias in aliases]
        return json

    def _field(self, field: RecordField, namespace: str) -> dict[str, Any]:
        json: dict[str, Any] = {"name": field.name, "type": self.type(field.type, namespace)}
        if field.doc is not None:
            json["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            json["default"] = normalized_default(field.default, field.type) if self._normalize else field.default
        if field.order != "ascending":
            json["order"] = field.order
        if field.aliases:
            json["aliases"] = sorted(field.aliases) if self._normalize else list(field.aliases)
        return json | self._props(field.props, None)

    def _props(self, props: Any, logical: LogicalType | None) -> dict[str, Any]:
        """The user's attributes; normalized: those of the logical type first, the others by name."""
        if not self._normalize or not props:
            return dict(props)
        first: dict[str, Any] = {}
        if logical is not None:
            first["logicalType"] = logical.name
            if logical.precision is not None:
                first["precision"] = logical.precision
            if logical.scale:
                first["scale"] = logical.scale
        return first | {name: sorted_members(props[name]) for name in sorted(props)}


def _qualified(name: Name, namespace: str) -> str:
    """A name as it is written inside a namespace: short if it is of the same one, and no kind of type has it."""
    return name.name if name.namespace == namespace and name.name not in TYPE_NAMES else name.full


def _alias(alias: Name, namespace: str) -> str:
    if namespace and not alias.namespace:
        return f".{alias.name}"
    return _qualified(alias, namespace)
