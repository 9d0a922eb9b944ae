"""Features of definitions: what editions set by options and proto2 and proto3 have fixed."""

from __future__ import annotations

from typing import Any, Final

from moldau.schemas.protobuf.descriptors import descriptor_pb2
from moldau.schemas.protobuf.symbols import Symbol, SymbolKind

_S: Final = descriptor_pb2.FeatureSet
_EDITIONS: Final = {
    "field_presence": _S.EXPLICIT,
    "enum_type": _S.OPEN,
    "repeated_field_encoding": _S.PACKED,
    "utf8_validation": _S.VERIFY,
    "message_encoding": _S.LENGTH_PREFIXED,
    "json_format": _S.ALLOW,
}
DEFAULTS: Final[dict[str, dict[str, int]]] = {
    "editions": _EDITIONS,
    "proto3": {**_EDITIONS, "field_presence": _S.IMPLICIT},
    "proto2": {
        **_EDITIONS,
        "enum_type": _S.CLOSED,
        "repeated_field_encoding": _S.EXPANDED,
        "utf8_validation": _S.NONE,
        "json_format": _S.LEGACY_BEST_EFFORT,
    },
}


def feature(symbol: Symbol, name: str) -> int:
    """The value of a feature for a definition: its own, or that of the nearest definition around it that sets it."""
    if symbol.file.syntax == "editions":
        current: Symbol | None = symbol
        while current is not None:
            found = _own(current.definition, name)
            if found is None and current.kind is SymbolKind.FIELD and current.parent is not None:
                found = _of_oneof(current, current.parent, name)
            if found is not None:
                return found
            current = current.parent
        found = _own(symbol.file, name)
        if found is not None:
            return found
    return DEFAULTS[symbol.file.syntax or "proto2"][name]


def _own(definition: Any, name: str) -> int | None:
    features = definition.options.features
    return int(getattr(features, name)) if features.HasField(name) else None


def _of_oneof(field: Symbol, message: Symbol, name: str) -> int | None:
    if not field.definition.HasField("oneof_index"):
        return None
    return _own(message.definition.oneof_decl[field.definition.oneof_index], name)


def own_features(definition: Any) -> Any:
    """The features that the options of a definition set."""
    return definition.options.features


def is_open(enum: Symbol) -> bool:
    return bool(feature(enum, "enum_type") == _S.OPEN)


def has_json(symbol: Symbol) -> bool:
    """True if names must be clear in JSON; for others a conflict is only a warning of protoc."""
    return bool(feature(symbol, "json_format") == _S.ALLOW)
