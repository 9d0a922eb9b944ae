"""Parser of Avro schemas: from JSON to types, with the specification's rules for names, defaults and unions.

A name may be used before its definition in the same text, as in Apache Avro 1.12. Names of other texts are known if
these were parsed before: one parser reads a schema's references, then the schema.

Apache Avro's Java library allows letters of all languages in names. The specification does not, and neither does this
parser, unless it is told that the schema is not new (`strict=False`): a schema that exists must stay readable. For the
same reason it then does not check default values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast

from moldau.schemas.avro.default_values import fits
from moldau.schemas.avro.logical_types import INT_MAX, logical_type
from moldau.schemas.avro.schema_json import compact_json, read_json
from moldau.schemas.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    Name,
    Primitive,
    RecordField,
    RecordType,
    UnionType,
)
from moldau.schemas.errors import InvalidSchema

MAX_DEPTH: Final = 120
"""Types inside types. A deeper schema is refused: it would exhaust the stack of the code that walks over it."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANY_NAME: Final = re.compile(r"[^\W\d]\w*")
_TYPE_RESERVED: Final = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_ENUM_RESERVED: Final = _TYPE_RESERVED | {"default"}
_FIELD_RESERVED: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_ORDERS: Final = ("ascending", "descending", "ignore")
_EXCERPT: Final = 120

NamedAvroType = RecordType | EnumType | FixedType


class SchemaParser:
    """Reads texts that may use each other's names. `names` has all named types that were defined so far."""

    def __init__(self, *, strict: bool = True) -> None:
        self.names: dict[str, NamedAvroType] = {}
        self._strict = strict
        self._definitions: dict[str, tuple[dict[str, Any], str, str]] = {}
        """Definitions of the text that is being read, by full name: JSON, enclosing namespace, path."""
        self._read: dict[int, NamedAvroType] = {}
        """Types of definitions that were read, by the id() of their JSON: a definition may be read before its turn."""
        self._defaults: list[tuple[RecordField, RecordType, str]] = []
        self._depth = 0

    def parse(self, text: str) -> AvroType:
        """The type that a text defines. InvalidSchema says which rule it breaks, and where."""
        json = read_json(text)
        self._definitions = {}
        for name, *definition in _definitions(json, "", ""):
            self._definitions.setdefault(name, cast(Any, tuple(definition)))
        self._read.clear()
        self._defaults.clear()
        avro = self._type(json, "", "")
        if self._strict:
            for field, record, path in self._defaults:
                _check_default(field, record, path)
        return avro

    # Types --------------------------------------------------------------------------------------------------------

    def _type(self, json: Any, namespace: str, path: str) -> AvroType:
        if self._depth >= MAX_DEPTH:
            raise InvalidSchema(f"{_at(path)}: more than {MAX_DEPTH} types inside each other")
        self._depth += 1
        try:
            match json:
                case str():
                    return self._named(json, namespace, path)
                case list():
                    return self._union(json, namespace, path)
                case dict():
                    return self._object(json, namespace, path)
                case _:
                    raise InvalidSchema(f"{_at(path)}: a type is a name, an object or an array, not {_excerpt(json)}")
        finally:
            self._depth -= 1

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        """A type that is given by its name: a primitive type, a known one, or one that the text defines later."""
        if name in PRIMITIVES:
            return Primitive(cast(Any, name))
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        known = self.names.get(full) or self.names.get(name)
        if known is not None:
            return known
        if full in self._definitions:
            definition, enclosing, its_path = self._definitions[full]
            return self._object(definition, enclosing, its_path)
        raise InvalidSchema(
            f"{_at(path)}: the type '{full}' is not defined, neither in the schema nor in one of its references"
        )

    def _object(self, json: dict[str, Any], namespace: str, path: str) -> AvroType:
        kind = json.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(
                f"{_at(path)}: the attribute 'type' with the name of a type is missing: {_excerpt(json)}"
            )
        if id(json) in self._read:
            return self._read[id(json)]
        match kind:
            case "record" | "error":
                return self._record(json, namespace, path)
            case "enum":
                return self._enum(json, namespace, path)
            case "fixed":
                return self._fixed(json, namespace, path)
            case "array":
                items = self._inner(json, "items", "an array", namespace, path)
                props = _props(json, _TYPE_RESERVED)
                return ArrayType(items, props=props, logical=logical_type(kind, props))
            case "map":
                values = self._inner(json, "values", "a map", namespace, path)
                props = _props(json, _TYPE_RESERVED)
                return MapType(values, props=props, logical=logical_type(kind, props))
            case _ if kind in PRIMITIVES:
                props = _props(json, _TYPE_RESERVED)
                return Primitive(cast(Any, kind), props=props, logical=logical_type(kind, props))
            case _:
                return self._named(kind, namespace, f"{path}/type")

    def _inner(self, json: dict[str, Any], attribute: str, what: str, namespace: str, path: str) -> AvroType:
        if attribute not in json:
            raise InvalidSchema(f"{_at(path)}: {what} needs the attribute '{attribute}' with the type inside")
        return self._type(json[attribute], namespace, f"{path}/{attribute}")

    def _union(self, json: list[Any], namespace: str, path: str) -> UnionType:
        branches: list[AvroType] = []
        seen: set[str] = set()
        for index, branch in enumerate(json):
            avro = self._type(branch, namespace, f"{path}/{index}")
            if isinstance(avro, UnionType):
                raise InvalidSchema(f"{_at(f'{path}/{index}')}: a union may not contain a union directly")
            name = avro.name.full if isinstance(avro, NamedAvroType) else avro.kind
            if name in seen:
                raise InvalidSchema(f"{_at(f'{path}/{index}')}: the union contains '{name}' twice")
            seen.add(name)
            branches.append(avro)
        return UnionType(tuple(branches))

    # Named types --------------------------------------------------------------------------------------------------

    def _record(self, json: dict[str, Any], namespace: str, path: str) -> RecordType:
        name = self._name(json, namespace, path)
        record = RecordType(name, is_error=json["type"] == "error", doc=_text(json, "doc"))
        self._define(json, record, path)
        if not isinstance(json.get("fields"), list):
            raise InvalidSchema(f"{_at(path)}: the record '{name.full}' needs the attribute 'fields' with a list")
        fields: dict[str, RecordField] = {}
        for index, item in enumerate(json["fields"]):
            field = self._field(item, record, f"{path}/fields/{index}")
            if field.name in fields:
                raise InvalidSchema(
                    f"{_at(f'{path}/fields/{index}')}: the record '{name.full}' has the field '{field.name}' twice"
                )
            fields[field.name] = field
        record.fields = tuple(fields.values())
        record.props = _props(json, _TYPE_RESERVED)
        record.aliases = self._aliases(json, name, path)
        return record

    def _field(self, json: Any, record: RecordType, path: str) -> RecordField:
        if not isinstance(json, dict):
            raise InvalidSchema(f"{_at(path)}: a field is an object, not {_excerpt(json)}")
        name = _text(json, "name")
        if name is None:
            raise InvalidSchema(f"{_at(path)}: a field of the record '{record.name.full}' has no name")
        self._check_name(name, f"the field '{name}'", path)
        if "type" not in json:
            raise InvalidSchema(f"{_at(path)}: the field '{name}' has no type")
        avro = self._type(json["type"], record.name.namespace, f"{path}/type")
        field = RecordField(
            name,
            avro,
            default=_default(json, name, avro, path),
            doc=_text(json, "doc"),
            order=_order(json, name, path),
            aliases=tuple(dict.fromkeys(_strings(json, "aliases", f"the field '{name}'", path))),
            props=_props(json, _FIELD_RESERVED),
        )
        if field.default is not NO_DEFAULT:
            self._defaults.append((field, record, path))
        return field

    def _enum(self, json: dict[str, Any], namespace: str, path: str) -> EnumType:
        name = self._name(json, namespace, path)
        if "symbols" not in json:
            raise InvalidSchema(
                f"{_at(path)}: the enum '{name.full}' needs the attribute 'symbols' with a list of names"
            )
        symbols = _strings(json, "symbols", f"the enum '{name.full}'", path)
        for symbol in symbols:
            self._check_name(symbol, f"the symbol '{symbol}'", path)
        if len(set(symbols)) < len(symbols):
            twice = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
            raise InvalidSchema(f"{_at(path)}: the enum '{name.full}' has the symbol '{twice}' twice")
        default = json.get("default")
        if default is not None and default not in symbols:
            raise InvalidSchema(
                f"{_at(path)}: the default {_excerpt(default)} of the enum '{name.full}' is not a symbol"
            )
        props = _props(json, _ENUM_RESERVED)
        enum = EnumType(name, symbols=tuple(symbols), default=default, doc=_text(json, "doc"), props=props)
        enum.aliases = self._aliases(json, name, path)
        return cast(EnumType, self._define(json, enum, path))

    def _fixed(self, json: dict[str, Any], namespace: str, path: str) -> FixedType:
        name = self._name(json, namespace, path)
        size = json.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= INT_MAX:
            raise InvalidSchema(
                f"{_at(path)}: the fixed '{name.full}' needs the attribute 'size' with a number of bytes"
            )
        props = _props(json, _TYPE_RESERVED)
        logical = logical_type("fixed", props, size)
        fixed = FixedType(name, size=size, doc=_text(json, "doc"), props=props, logical=logical)
        fixed.aliases = self._aliases(json, name, path)
        return cast(FixedType, self._define(json, fixed, path))

    def _define(self, json: dict[str, Any], avro: NamedAvroType, path: str) -> NamedAvroType:
        """Make a type known. An enum or fixed may be repeated as it is: Apache Avro allows that."""
        known = self.names.get(avro.name.full)
        if known is not None and not _repeats(avro, known):
            raise InvalidSchema(f"{_at(path)}: the name '{avro.name.full}' is defined twice")
        self._read[id(json)] = known or avro
        return self.names.setdefault(avro.name.full, avro)

    # Names --------------------------------------------------------------------------------------------------------

    def _name(self, json: dict[str, Any], namespace: str, path: str) -> Name:
        name = _declared_name(json, namespace)
        if name is None:
            raise InvalidSchema(f"{_at(path)}: a type '{json['type']}' needs the attribute 'name': {_excerpt(json)}")
        self._check_name(name.name, f"the name '{name.full}'", path)
        for part in name.namespace.split(".") if name.namespace else ():
            self._check_name(part, f"the namespace '{name.namespace}'", path)
        if name.full in PRIMITIVES:
            raise InvalidSchema(f"{_at(path)}: '{name.full}' is a primitive type and cannot be defined")
        return name

    def _aliases(self, json: dict[str, Any], name: Name, path: str) -> tuple[Name, ...]:
        aliases = [_split(alias, name.namespace) for alias in _strings(json, "aliases", f"'{name.full}'", path)]
        for alias in aliases:
            self._check_name(alias.name, f"the alias '{alias.full}'", path)
        return tuple(dict.fromkeys(aliases))

    def _check_name(self, name: str, what: str, path: str) -> None:
        if not (_NAME if self._strict else _ANY_NAME).fullmatch(name):
            raise InvalidSchema(
                f"{_at(path)}: {what} is not a valid name: letters A to Z, digits and _ are allowed, a digit not first"
            )


def _definitions(json: Any, namespace: str, path: str) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """All named types that a text defines, also invalid ones: full name, JSON, enclosing namespace, path."""
    waiting: list[tuple[Any, str, str]] = [(json, namespace, path)]
    while waiting:
        node, space, where = waiting.pop()
        match node:
            case list():
                waiting += [(branch, space, f"{where}/{index}") for index, branch in enumerate(node)]
            case {"type": "record" | "error" | "enum" | "fixed"}:
                name = _declared_name(node, space)
                if name is None:
                    continue
                yield name.full, node, space, where
                fields = node.get("fields")
                waiting += [
                    (field.get("type"), name.namespace, f"{where}/fields/{index}/type")
                    for index, field in enumerate(fields if isinstance(fields, list) else ())
                    if isinstance(field, dict)
                ]
            case {"type": "array", "items": inner}:
                waiting.append((inner, space, f"{where}/items"))
            case {"type": "map", "values": inner}:
                waiting.append((inner, space, f"{where}/values"))


def _declared_name(json: dict[str, Any], namespace: str) -> Name | None:
    name, own = _text(json, "name"), _text(json, "namespace")
    return None if name is None else _split(name, namespace if own is None else own)


def _split(name: str, namespace: str) -> Name:
    """A name that has dots has its own namespace."""
    space, dot, last = name.rpartition(".")
    return Name(last, space if dot else namespace)


def _repeats(new: NamedAvroType, known: NamedAvroType) -> bool:
    match new, known:
        case EnumType(), EnumType():
            return new.symbols == known.symbols and not known.props
        case FixedType(), FixedType():
            return new.size == known.size and not known.props
        case _:
            return False


# Attributes ---------------------------------------------------------------------------------------------------------


def _props(json: Mapping[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in json.items() if name not in reserved}


def _text(json: Mapping[str, Any], attribute: str) -> str | None:
    value = json.get(attribute)
    return value if isinstance(value, str) else None


def _strings(json: Mapping[str, Any], attribute: str, of: str, path: str) -> list[str]:
    values = json.get(attribute, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidSchema(
            f"{_at(path)}: the attribute '{attribute}' of {of} is a list of strings, not {_excerpt(values)}"
        )
    return values


def _order(json: Mapping[str, Any], name: str, path: str) -> Literal["ascending", "descending", "ignore"]:
    order = json.get("order", "ascending")
    if not isinstance(order, str) or order.lower() not in _ORDERS:
        raise InvalidSchema(f"{_at(path)}: the order of the field '{name}' is one of {', '.join(_ORDERS)}")
    return cast(Literal["ascending", "descending", "ignore"], order.lower())


def _default(json: Mapping[str, Any], name: str, avro: AvroType, path: str) -> Any:
    """The default of a field. Numbers of float and double may be strings: JSON has no NaN and no infinity."""
    default = json.get("default", NO_DEFAULT)
    if isinstance(default, str) and avro.kind in ("float", "double"):
        try:
            return float(default)
        except ValueError:
            raise InvalidSchema(
                f"{_at(path)}: the default {_excerpt(default)} of the field '{name}' is not a number"
            ) from None
    return default


def _check_default(field: RecordField, record: RecordType, path: str) -> None:
    if not fits(field.default, field.type, frozenset({id(field)})):
        raise InvalidSchema(
            f"{_at(path)}: the default {_excerpt(field.default)} of the field '{field.name}' of '{record.name.full}' "
            f"does not fit its type, {type_title(field.type)}"
        )


def type_title(avro: AvroType) -> str:
    """A type in a few words, for messages."""
    match avro:
        case UnionType():
            return "the union of " + (", ".join(type_title(branch) for branch in avro.branches) or "nothing")
        case RecordType() | EnumType() | FixedType():
            return f"{avro.kind} '{avro.name.full}'"
        case _:
            return avro.kind


def _at(path: str) -> str:
    return f"at {path or '/'}"


def _excerpt(json: Any) -> str:
    text = compact_json(json)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
