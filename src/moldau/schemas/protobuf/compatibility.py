"""Compatibility rules of Protobuf: Confluent's rules for what a new schema may change.

Fields are matched by their number, messages by their name without the package. Paths are Confluent's:
`#/Message/Nested/3` is the field with the number 3, `#/Message/choice/3` the same in a oneof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from moldau.schemas.parsed_schema import Incompatibility
from moldau.schemas.protobuf.descriptors import FieldDescriptorProto, descriptor_pb2
from moldau.schemas.protobuf.message_parser import SCALARS
from moldau.schemas.protobuf.schema_files import SchemaFiles
from moldau.schemas.protobuf.symbols import Symbol, SymbolKind, file_symbols

_F: Final = FieldDescriptorProto
_REQUIRED: Final = descriptor_pb2.FeatureSet.LEGACY_REQUIRED
_DELIMITED: Final = descriptor_pb2.FeatureSet.DELIMITED
_TYPE_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABEL_NAMES: Final = {_F.LABEL_OPTIONAL: "optional", _F.LABEL_REQUIRED: "required", _F.LABEL_REPEATED: "repeated"}
# Types of one group have the same form on the wire; https://protobuf.dev/programming-guides/proto3/#updating
_GROUPS: Final[dict[int, str]] = {
    **dict.fromkeys(
        (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM), "integer"
    ),
    **dict.fromkeys((_F.TYPE_SINT32, _F.TYPE_SINT64), "zigzag integer"),
    **dict.fromkeys((_F.TYPE_STRING, _F.TYPE_BYTES), "string"),
    **dict.fromkeys((_F.TYPE_FIXED32, _F.TYPE_SFIXED32), "32-bit integer"),
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64), "64-bit integer"),
    _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double",
}


def file_incompatibilities(reader: SchemaFiles, writer: SchemaFiles) -> list[Incompatibility]:
    """Why data of the writer's messages cannot be read with the reader's."""
    return _Comparison(_Side(writer), _Side(reader)).run()


class _Side:
    """One of the two schemas: its file and all types by their full name."""

    def __init__(self, files: SchemaFiles) -> None:
        self.file = files.linked
        self._symbols: dict[str, Symbol] = {}
        for file in [*files.imports.values(), files.linked]:
            for symbol in file_symbols(file):
                if symbol.kind in (SymbolKind.MESSAGE, SymbolKind.ENUM):
                    self._symbols["." + symbol.name] = symbol

    def type(self, field: Any) -> Symbol:
        return self._symbols[field.type_name]

    def map_entry(self, field: Any) -> Any:
        if field.type != _F.TYPE_MESSAGE:
            return None
        definition = self.type(field).definition
        return definition if definition.options.map_entry else None

    def kind(self, field: Any) -> str:
        if self.map_entry(field) is not None:
            return "map"
        if field.type == _F.TYPE_GROUP or field.options.features.message_encoding == _DELIMITED:
            return "group"
        return "message" if field.type == _F.TYPE_MESSAGE else "scalar"

    def describe(self, field: Any) -> str:
        """The type of a field in words."""
        entry = self.map_entry(field)
        if entry is not None:
            return f"map<{self.describe(entry.field[0])}, {self.describe(entry.field[1])}>"
        return _TYPE_NAMES.get(field.type) or str(field.type_name).lstrip(".")


@dataclass(frozen=True)
class _Fields:
    """The fields of a message by number, and the oneof of each that is in one."""

    by_number: dict[int, Any]
    oneof: dict[int, str]

    @classmethod
    def of(cls, message: Any) -> _Fields:
        oneof = {
            one.number: message.oneof_decl[one.oneof_index].name
            for one in message.field
            if one.HasField("oneof_index") and not one.proto3_optional
        }
        return cls({one.number: one for one in message.field}, oneof)


class _Comparison:
    """One comparison. `old` is the writer, `new` the reader."""

    def __init__(self, old: _Side, new: _Side) -> None:
        self._old = old
        self._new = new
        self._found: list[Incompatibility] = []
        self._imported: dict[tuple[str, str], bool] = {}
        """Pairs of types that are not both in the two files, and whether their comparison found something."""

    def run(self) -> list[Incompatibility]:
        old, new = self._old.file, self._new.file
        if old.package != new.package:
            self._add("PACKAGE_CHANGED", "#/", f'the package was "{old.package}" and is "{new.package}"; keep it')
        self._messages(old.message_type, new.message_type, "#")
        return self._found

    def _add(self, kind: str, path: str, message: str) -> None:
        self._found.append(Incompatibility(kind, path, f"{path}: {message}"))

    def _messages(self, old: Any, new: Any, path: str) -> None:
        by_name = {message.name: message for message in new}
        for message in old:
            if message.options.map_entry:
                continue
            place = f"{path}/{message.name}"
            if message.name in by_name:
                self._message(message, by_name[message.name], place)
            else:
                self._add("MESSAGE_REMOVED", place, f'the message "{message.name}" is missing; keep it')

    def _message(self, old: Any, new: Any, path: str) -> None:
        before, after = _Fields.of(old), _Fields.of(new)
        self._oneofs(before, after, path)
        # A oneof that is gone with all its fields is like optional fields that are gone.
        kept = {one.name for one in new.oneof_decl}
        kept |= {name for number, name in before.oneof.items() if number in after.by_number}
        for number in sorted(before.by_number.keys() | after.by_number.keys()):
            if number not in after.by_number:
                self._removed(before, kept, number, path)
            elif number not in before.by_number:
                self._added(after, number, path)
            else:
                oneof = after.oneof.get(number)
                place = f"{path}/{oneof}/{number}" if oneof else f"{path}/{number}"
                self._field(before.by_number[number], after.by_number[number], place)
        self._messages(old.nested_type, new.nested_type, path)

    # Fields -----------------------------------------------------------------------------------------------------------

    def _removed(self, before: _Fields, kept_oneofs: set[str], number: int, path: str) -> None:
        field = before.by_number[number]
        oneof = before.oneof.get(number)
        if oneof is not None:
            if oneof in kept_oneofs:
                self._add(
                    "ONEOF_FIELD_REMOVED",
                    f"{path}/{oneof}/{number}",
                    f'the field "{field.name}" is missing in the oneof "{oneof}": a reader takes its data for none; '
                    "keep the field",
                )
        elif _is_required(field):
            self._add(
                "REQUIRED_FIELD_REMOVED",
                f"{path}/{number}",
                f'the required field "{field.name}" is missing; make it optional in an earlier version, or keep it',
            )

    def _added(self, after: _Fields, number: int, path: str) -> None:
        field = after.by_number[number]
        if _is_required(field) and number not in after.oneof:
            self._add(
                "REQUIRED_FIELD_ADDED",
                f"{path}/{number}",
                f'the new field "{field.name}" is required, and earlier data does not have it; make it optional',
            )

    def _oneofs(self, before: _Fields, after: _Fields, path: str) -> None:
        """Fields that could be set together before, and of which a oneof now keeps only one."""
        moved: dict[str, list[int]] = {}
        for number, oneof in after.oneof.items():
            if number in before.by_number:
                moved.setdefault(oneof, []).append(number)
        for oneof, members in moved.items():
            alone = [number for number in members if number not in before.oneof]
            origins = {before.oneof[number] for number in members if number in before.oneof}
            if len(alone) + len(origins) < 2:
                continue
            names = ", ".join(f'"{before.by_number[number].name}"' for number in members)
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(alone) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            self._add(
                kind,
                f"{path}/{oneof}",
                f'{names} could be set together, and the oneof "{oneof}" keeps only one of them; '
                "move at most one field into a new oneof",
            )

    def _field(self, old: Any, new: Any, path: str) -> None:
        kind, new_kind = self._old.kind(old), self._new.kind(new)
        if kind != new_kind:
            self._add("FIELD_KIND_CHANGED", path, self._changed(old, new, "a field cannot become that"))
        elif kind == "scalar":
            if _GROUPS[old.type] != _GROUPS[new.type]:
                self._add(
                    "FIELD_SCALAR_KIND_CHANGED",
                    path,
                    self._changed(old, new, "their data differ; use a new field with a new number"),
                )
            elif _GROUPS[old.type] != "string":
                self._labels(old, new, path)
        elif kind == "map":
            for one, other in zip(self._old.map_entry(old).field, self._new.map_entry(new).field, strict=True):
                self._field(one, other, path)
        else:
            self._named_type(old, new, path)

    def _changed(self, old: Any, new: Any, reason: str) -> str:
        types = f"was {self._old.describe(old)} and is {self._new.describe(new)}"
        return f'the field "{new.name}" {types}: {reason}'

    def _labels(self, old: Any, new: Any, path: str) -> None:
        label, new_label = _label(self._old.file, old), _label(self._new.file, new)
        # Without a label, a reader of one number cannot read the packed list that a repeated field writes.
        unread = label == _F.LABEL_REPEATED and new_label is None
        if unread or (label is not None and new_label is not None and label != new_label):
            was, now = _LABEL_NAMES[label], _LABEL_NAMES.get(new_label, "single")
            self._add(
                "FIELD_NUMERIC_LABEL_CHANGED",
                path,
                f'the field "{new.name}" was {was} and is {now}, which changes its data; keep the label',
            )

    def _named_type(self, old: Any, new: Any, path: str) -> None:
        before, after = self._old.type(old), self._new.type(new)
        if _local_name(before) != _local_name(after):
            self._add("FIELD_NAMED_TYPE_CHANGED", path, self._changed(old, new, "use a new field with a new number"))
        elif self._imported_differs(before, after):
            reason = "the two are not compatible, see the other messages"
            self._add("FIELD_NAMED_TYPE_CHANGED", path, self._changed(old, new, reason))

    def _imported_differs(self, before: Symbol, after: Symbol) -> bool:
        if before.file.name == self._old.file.name and after.file.name == self._new.file.name:
            return False  # Both are compared as messages of the two files.
        pair = (before.name, after.name)
        if pair not in self._imported:
            self._imported[pair] = False
            if before.definition != after.definition or before.file != after.file:
                count = len(self._found)
                self._message(before.definition, after.definition, f"#/{_local_name(before).replace('.', '/')}")
                self._imported[pair] = len(self._found) > count
        return self._imported[pair]


def _local_name(symbol: Symbol) -> str:
    package = symbol.file.package
    return symbol.name.removeprefix(f"{package}.") if package else symbol.name


def _is_required(field: Any) -> bool:
    return bool(field.label == _F.LABEL_REQUIRED or field.options.features.field_presence == _REQUIRED)


def _label(file: Any, field: Any) -> int | None:
    """The label of a field as the text has it; None if the text has none."""
    if field.label == _F.LABEL_OPTIONAL:
        if file.syntax == "editions":
            return _F.LABEL_REQUIRED if _is_required(field) else None
        if (file.syntax == "proto3" and not field.proto3_optional) or _in_real_oneof(field):
            return None
    return int(field.label)


def _in_real_oneof(field: Any) -> bool:
    return bool(field.HasField("oneof_index") and not field.proto3_optional)
