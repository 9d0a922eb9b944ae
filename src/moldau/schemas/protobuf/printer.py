"""Printer of Protobuf files: a descriptor as text, in the form in which Confluent's registry stores it.

Comments and the order of different kinds of definitions are not kept: a message has its reserved parts, options,
fields, oneofs, groups, extension ranges, extensions, messages and enums in this order. Messages keep their order among
each other, because the wire format counts them. It counts the entries of maps too: a map that was declared after a
message is printed after it. With `normalize`, fields, enum values, imports and options are sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import FieldDescriptorProto, descriptor_pb2
from moldau.schemas.protobuf.enum_parser import MAX_INT32
from moldau.schemas.protobuf.message_parser import LABELS, MAX_FIELD_NUMBER, SCALARS, VISIBILITIES
from moldau.schemas.protobuf.names import json_name
from moldau.schemas.protobuf.option_printer import OptionPrinter, OptionsClass, bracketed, indented, quoted

_F: Final = FieldDescriptorProto
_TYPE_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABEL_NAMES: Final = {number: name for name, number in LABELS.items()}
_VISIBILITY_NAMES: Final = {number: name for name, number in VISIBILITIES.items()}


def print_file(file: Any, options_class: OptionsClass, *, normalize: bool = False, map_entries: bool = False) -> str:
    """The text of a file. With `map_entries`, the entry message of a map is printed, and not `map<…>`.

    Confluent's registry prints a descriptor so. A Java client needs it: it does not count the entries of `map<…>`.
    """
    return _Printer(file, options_class, normalize, map_entries).file()


class _Printer:
    def __init__(self, file: Any, options_class: OptionsClass, normalize: bool, map_entries: bool) -> None:
        self._file = file
        self._normalize = normalize
        self._map_entries = map_entries
        self._options = OptionPrinter(options_class, normalize=normalize, map_entries=map_entries)

    def file(self) -> str:
        file = self._file
        groups = _extension_groups(file.extension)
        messages = "".join(
            self._extend([groups[one.name]], file.message_type) if one.name in groups else self._message(one)
            for one in file.message_type
        )
        sections = [
            self._imports(),
            self._options.statements(file.options),
            messages + "".join(self._enum(one) for one in file.enum_type),
            self._extends(file.extension, file.message_type),
            "".join(self._service(one) for one in file.service),
        ]
        return self._head() + "".join(f"\n{section}" for section in sections if section)

    def _head(self) -> str:
        file, head = self._file, ""
        if file.syntax == "editions":
            edition = descriptor_pb2.Edition.Name(file.edition).removeprefix("EDITION_")
            head = f'edition = "{edition}";\n'
        elif file.syntax and not (self._normalize and file.syntax == "proto2"):
            head = f'syntax = "{file.syntax}";\n'
        return head + (f"package {file.package};\n" if file.package else "")

    def _imports(self) -> str:
        file = self._file
        kinds: dict[str, list[str]] = {"": [], "public ": [], "weak ": [], "option ": list(file.option_dependency)}
        for index, path in enumerate(file.dependency):
            public, weak = index in file.public_dependency, index in file.weak_dependency
            kinds["public " if public else "weak " if weak else ""].append(path)
        return "".join(
            f"import {kind}{quoted(path)};\n"
            for kind, paths in kinds.items()
            for path in (sorted(paths) if self._normalize else paths)
        )

    # Messages ---------------------------------------------------------------------------------------------------------

    def _message(self, message: Any) -> str:
        return f"{_visibility(message)}message {message.name} {self._body(message)}"

    def _body(self, message: Any) -> str:
        fields = [one for one in message.field if one.proto3_optional or not one.HasField("oneof_index")]
        plain = self._sorted(one for one in fields if one.type != _F.TYPE_GROUP)
        groups = self._sorted(one for one in fields if one.type == _F.TYPE_GROUP)
        brought = self._brought(message)
        late = {} if self._in_order(message, plain, brought) else {one.number: one for one in brought.values()}
        sections = [
            self._reserved(message.reserved_range, message.reserved_name, MAX_FIELD_NUMBER, open_end=1),
            self._options.statements(message.options),
            "".join(self._field(one, message) for one in plain if one.number not in late),
            self._oneofs(message, late),
            "".join(self._field(one, message) for one in groups if one.number not in late),
            self._extension_ranges(message),
            self._extends(message.extension, message.nested_type),
            self._nested(message, brought, late) + "".join(self._enum(one) for one in message.enum_type),
        ]
        return "{" + "".join(f"\n{indented(section)}" for section in sections if section) + "}\n"

    def _brought(self, message: Any) -> dict[str, Any]:
        """The fields that bring a nested message with them, maps and groups, by the name of the message."""
        return {
            field.type_name.rpartition(".")[2]: field
            for field in message.field
            if (not self._map_entries and _map_entry(field, message) is not None) or field.type == _F.TYPE_GROUP
        }

    def _in_order(self, message: Any, plain: list[Any], brought: dict[str, Any]) -> bool:
        """True if the nested messages have the same order after the usual order of fields, oneofs and groups is read.

        Nobody counts up to the entry of a map: which of two is first does not matter.
        """
        maps = sum(field.type != _F.TYPE_GROUP for field in brought.values())
        in_oneofs = [one for one in message.field if one.HasField("oneof_index") and one.type == _F.TYPE_GROUP]
        others = self._sorted(one for one in message.field if one.type == _F.TYPE_GROUP and one not in in_oneofs)
        groups = [one.type_name.rpartition(".")[2] for one in [*in_oneofs, *others]]
        names = [one.name for one in message.nested_type][: len(brought)]
        return all(name in brought for name in names) and names[maps:] == groups

    def _nested(self, message: Any, brought: dict[str, Any], late: dict[int, Any]) -> str:
        """The nested messages, and between them the fields that bring a message whose place is there."""
        extensions = _extension_groups(message.extension)
        oneofs = self._members(message) if late else {}
        text = ""
        for nested in message.nested_type:
            field = brought.get(nested.name)
            if nested.name in extensions:
                text += self._extend([extensions[nested.name]], message.nested_type)
            elif field is None:
                text += self._message(nested)
            elif field.number not in late:
                continue
            elif not field.HasField("oneof_index"):
                text += self._field(field, message)
            elif field.oneof_index in oneofs:
                text += self._oneof(message, field.oneof_index, oneofs.pop(field.oneof_index))
        return text

    def _sorted(self, fields: Iterable[Any]) -> list[Any]:
        return sorted(fields, key=lambda field: field.number) if self._normalize else list(fields)

    def _reserved(self, ranges: Sequence[Any], names: Sequence[str], last: int, *, open_end: int) -> str:
        """Reserved numbers and names, one per line. The end of a range is `open_end` after its last number."""
        spans = [(one.start, one.end - open_end) for one in ranges]
        listed = list(names)
        if self._normalize:
            spans.sort()
            listed.sort()
        editions = self._file.syntax == "editions"
        texts = [_span(start, end, last) for start, end in spans]
        texts += listed if editions else [quoted(name) for name in listed]
        return "".join(f"reserved {text};\n" for text in texts)

    def _extension_ranges(self, message: Any) -> str:
        ranges = list(message.extension_range)
        if self._normalize:
            ranges.sort(key=lambda one: one.start)
        return "".join(
            f"extensions {_span(one.start, one.end - 1, MAX_FIELD_NUMBER)}"
            f"{bracketed(self._options.options(one.options))};\n"
            for one in ranges
        )

    def _oneofs(self, message: Any, late: dict[int, Any]) -> str:
        oneofs = self._members(message)
        if self._normalize:
            oneofs = dict(sorted(oneofs.items(), key=lambda pair: pair[1][0].number))
        return "".join(
            self._oneof(message, index, members)
            for index, members in oneofs.items()
            if not any(one.number in late for one in members)
        )

    def _members(self, message: Any) -> dict[int, list[Any]]:
        """The fields of each oneof by its index, without the synthetic ones of optional fields."""
        oneofs: dict[int, list[Any]] = {}
        for field in self._sorted(message.field):
            if field.HasField("oneof_index") and not field.proto3_optional:
                oneofs.setdefault(field.oneof_index, []).append(field)
        return dict(sorted(oneofs.items()))

    def _oneof(self, message: Any, index: int, members: list[Any]) -> str:
        oneof = message.oneof_decl[index]
        sections = [
            self._options.statements(oneof.options),
            "".join(self._field(one, message) for one in members),
        ]
        body = "".join(f"\n{indented(section)}" for section in sections if section)
        return f"oneof {oneof.name} {{{body}}}\n"

    def _extends(self, extensions: Sequence[Any], messages: Sequence[Any]) -> str:
        """The extensions that are no groups: a group stands where its message does."""
        blocks: dict[str, list[Any]] = {}
        for extension in extensions:
            if extension.type != _F.TYPE_GROUP:
                blocks.setdefault(extension.extendee, []).append(extension)
        return "".join(self._extend(self._sorted(fields), messages) for fields in blocks.values())

    def _extend(self, fields: list[Any], messages: Sequence[Any]) -> str:
        body = "".join(indented(self._field(one, None, messages)) for one in fields)
        return f"extend {fields[0].extendee} {{\n{body}}}\n"

    # Fields -----------------------------------------------------------------------------------------------------------

    def _field(self, field: Any, message: Any, messages: Sequence[Any] | None = None) -> str:
        around = message.nested_type if messages is None else messages
        options = bracketed(self._field_options(field))
        entry = None if self._map_entries else _map_entry(field, message)
        if entry is not None:
            key, value = (_type_name(one) for one in entry.field)
            return f"map<{key}, {value}> {field.name} = {field.number}{options};\n"
        label = self._label(field)
        if field.type == _F.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            group = next((one for one in around if one.name == name), None)
            if group is None:
                raise InvalidSchema(f'the group "{field.name}" has no message "{name}" beside it')
            return f"{label}group {group.name} = {field.number}{options} {self._body(group)}"
        return f"{label}{_type_name(field)} {field.name} = {field.number}{options};\n"

    def _label(self, field: Any) -> str:
        if field.HasField("oneof_index") and not field.proto3_optional:
            return ""
        implicit = field.label == _F.LABEL_OPTIONAL and self._file.syntax in ("proto3", "editions")
        return "" if implicit and not field.proto3_optional else f"{_LABEL_NAMES[field.label]} "

    def _field_options(self, field: Any) -> list[str]:
        options = self._options.options(field.options)
        if field.HasField("default_value"):
            options.append(f"default = {_default(field)}")
        if field.HasField("json_name") and field.json_name != json_name(field.name):
            options.append(f"json_name = {quoted(field.json_name)}")
        return sorted(options) if self._normalize else options

    # Enums and services -----------------------------------------------------------------------------------------------

    def _enum(self, enum: Any) -> str:
        values = list(enum.value)
        if self._normalize:
            # The first value is the default one, which sorting must not change.
            values[1:] = sorted(values[1:], key=lambda value: (value.number, value.name))
        body = self._reserved(enum.reserved_range, enum.reserved_name, MAX_INT32, open_end=0)
        body += self._options.statements(enum.options)
        for value in values:
            body += f"{value.name} = {value.number}{bracketed(self._options.options(value.options))};\n"
        return f"{_visibility(enum)}enum {enum.name} {{" + (f"\n{indented(body)}" if body else "") + "}\n"

    def _service(self, service: Any) -> str:
        methods = "".join(self._method(one) for one in service.method)
        sections = [self._options.statements(service.options), methods]
        body = "".join(f"\n{indented(section)}" for section in sections if section)
        return f"service {service.name} {{{body}}}\n"

    def _method(self, method: Any) -> str:
        request = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        answer = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        options = self._options.statements(method.options)
        block = f" {{\n{indented(options)}}}" if options else ""
        return f"rpc {method.name} ({request}) returns ({answer}){block};\n"


def _extension_groups(extensions: Iterable[Any]) -> dict[str, Any]:
    """The extensions that are groups, by the name of their message."""
    return {one.type_name.rpartition(".")[2]: one for one in extensions if one.type == _F.TYPE_GROUP}


def _visibility(definition: Any) -> str:
    return f"{_VISIBILITY_NAMES[definition.visibility]} " if definition.visibility else ""


def _span(start: int, end: int, last: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end >= last else end}"


def _type_name(field: Any) -> str:
    return str(field.type_name) if field.HasField("type_name") else _TYPE_NAMES[field.type]


def _map_entry(field: Any, message: Any) -> Any:
    """The entry message of a map field; None if the field is not a map."""
    if message is None or field.label != _F.LABEL_REPEATED or not field.HasField("type_name"):
        return None
    scope, _, name = field.type_name.rpartition(".")
    if scope and scope.rpartition(".")[2] != message.name:
        return None
    return next((one for one in message.nested_type if one.name == name and one.options.map_entry), None)


def _default(field: Any) -> str:
    if field.type == _F.TYPE_STRING:
        return quoted(field.default_value)
    # Bytes have their escapes already.
    return f'"{field.default_value}"' if field.type == _F.TYPE_BYTES else str(field.default_value)
