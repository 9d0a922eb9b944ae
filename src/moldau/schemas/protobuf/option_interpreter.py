"""Interpreter of options: sets the fields of the options messages that the options of a text name.

Options of descriptor.proto are fields of known classes. A custom option is an extension, perhaps of the same file: then
the options messages come from a descriptor pool that has the file and its imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import (
    FieldDescriptorProto,
    FileDescriptorProto,
    Message,
    UninterpretedOption,
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from moldau.schemas.protobuf.option_parser import INTEGER_RANGES
from moldau.schemas.protobuf.symbols import SymbolKind, SymbolTable
from moldau.schemas.protobuf.tokenizer import tokens

_F: Final = FieldDescriptorProto
_OptionsClass = Callable[[str], type[Message]]


def interpret_options(table: SymbolTable, imports: Mapping[str, FileDescriptorProto]) -> None:
    """Interpret the options of all definitions of a file, in place.

    Custom options come second: their types are built from the file itself, for which its other options matter.
    """
    elements = [
        _Element(table, element, scope, what)
        for element, scope, what in _with_options(table)
        if element.HasField("options") and element.options.uninterpreted_option
    ]
    for element in elements:
        element.interpret_known()
    waiting = [element for element in elements if element.custom]
    if waiting:
        options_class = pool_classes(build_pool([*imports.values(), table.file]))
        for element in waiting:
            element.interpret_custom(options_class)


def _with_options(table: SymbolTable) -> Iterator[tuple[Any, str, str]]:
    file = table.file
    yield file, file.package, "the file"
    for symbol in table.symbols:
        scope = symbol.name.rpartition(".")[0]
        yield symbol.definition, scope, f'the {symbol.kind} "{symbol.name}"'
        if symbol.kind is SymbolKind.MESSAGE:
            for one in symbol.definition.extension_range:
                yield one, symbol.name, f'the extension range from {one.start} of "{symbol.name}"'


def _is_custom(option: UninterpretedOption) -> bool:
    # Text format may name an extension in brackets.
    return any(part.is_extension for part in option.name) or "[" in option.aggregate_value


def _known_class(name: str) -> type[Message]:
    return getattr(descriptor_pb2, name.rpartition(".")[2])  # type: ignore[no-any-return]


def pool_classes(pool: Any) -> Callable[[str], type[Message]]:
    """The classes of options messages that know the extensions of a pool."""

    def find(name: str) -> type[Message]:
        try:
            return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))  # type: ignore[no-any-return]
        except KeyError:
            return _known_class(name)

    return find


def build_pool(files: list[Any]) -> Any:
    """A descriptor pool with these files, each one after its imports."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        try:
            pool.Add(file)
        except TypeError as error:
            raise InvalidSchema(f'"{file.name}" cannot be used: {error}') from None
    return pool


class _Element:
    """The options of one definition while they are interpreted."""

    def __init__(self, table: SymbolTable, element: Any, scope: str, what: str) -> None:
        self._table = table
        self._options = element.options
        self._scope = scope
        self._what = what
        self._already_set: set[str] = set()
        """Names of fields that have a value, with the fields around them. A field without presence does not tell."""
        self._known: list[UninterpretedOption] = []
        self.custom: list[UninterpretedOption] = []
        for option in self._options.uninterpreted_option:
            copied = UninterpretedOption.FromString(option.SerializeToString())
            (self.custom if _is_custom(option) else self._known).append(copied)
        del self._options.uninterpreted_option[:]

    def interpret_known(self) -> None:
        for option in self._known:
            self._set(self._options, option)

    def interpret_custom(self, options_class: _OptionsClass) -> None:
        message = options_class(self._options.DESCRIPTOR.full_name).FromString(self._options.SerializeToString())
        for option in self.custom:
            self._set(message, option)
        self._options.ParseFromString(message.SerializeToString(deterministic=True))

    def _set(self, message: Any, option: UninterpretedOption) -> None:
        name = option_name(option)
        if name == "uninterpreted_option":
            raise self._error(name, "the name is reserved")
        if name.startswith("features.") and self._table.file.syntax != "editions":
            raise self._error(name, "only editions have features")
        path = ""
        for part in option.name[:-1]:
            field = self._field(message, part, name)
            path += f"/{field.full_name}"
            if field.message_type is None:
                raise self._error(name, f'"{field.name}" is not a message')
            if field.is_repeated:
                raise self._error(name, f'"{field.name}" is repeated; set it as a whole, in braces')
            if path in self._already_set:
                raise self._error(name, f'"{field.name}" is set as a whole already')
            message = _value(message, field)
            message.SetInParent()
        self._assign(message, self._field(message, option.name[-1], name), option, path)

    def _error(self, option: str, message: str) -> InvalidSchema:
        return InvalidSchema(f'{self._what}, option "{option}": {message}')

    def _field(self, message: Any, part: Any, name: str) -> Any:
        descriptor = message.DESCRIPTOR
        if not part.is_extension:
            field = descriptor.fields_by_name.get(part.name_part)
            if field is None:
                raise self._error(name, f'"{descriptor.full_name}" has no field "{part.name_part}"')
            return field
        what = f'{self._what}, option "{name}"'
        symbol = self._table.resolve(part.name_part, self._scope, what, types_only=False)
        if symbol.kind is not SymbolKind.EXTENSION:
            raise self._error(name, f'"{symbol.name}" is a {symbol.kind}, not an extension')
        if symbol.definition.extendee.lstrip(".") != descriptor.full_name:
            raise self._error(name, f'"{symbol.name}" does not extend "{descriptor.full_name}"')
        return descriptor.file.pool.FindExtensionByName(symbol.name)

    def _assign(self, message: Any, field: Any, option: UninterpretedOption, path: str) -> None:
        name = option_name(option)
        path += f"/{field.full_name}"
        if not field.is_repeated:
            if any(one == path or one.startswith(path + "/") for one in self._already_set):
                raise self._error(name, "it is set twice")
            self._already_set.add(path)
        if field.message_type is not None:
            if not option.HasField("aggregate_value"):
                raise self._error(name, "its value is a message, which is written as { field: value … }")
            if field.message_type.GetOptions().map_entry:
                # An entry of a map is written like a message, which its field is not.
                self._parse_aggregate(message, f"{field.name} {{ {option.aggregate_value} }}", name)
            else:
                target = _value(message, field)
                self._parse_aggregate(target.add() if field.is_repeated else target, option.aggregate_value, name)
            return
        value = self._scalar(field, option, name)
        if field.is_repeated:
            _value(message, field).append(value)
        elif field.is_extension:
            message.Extensions[field] = value
        else:
            setattr(message, field.name, value)

    def _parse_aggregate(self, target: Any, text: str, name: str) -> None:
        target.SetInParent()
        try:
            text_format.Parse(self._with_full_names(text), target, descriptor_pool=target.DESCRIPTOR.file.pool)
        except text_format.ParseError as error:
            raise self._error(name, f"its value is not of the type {target.DESCRIPTOR.full_name}: {error}") from None

    def _with_full_names(self, text: str) -> str:
        """Text format with full names of extensions: a .proto text may have names of its scope."""
        if "[" not in text:
            return text
        read = [token.text for token in tokens(text)]
        written: list[str] = []
        at = 0
        while at < len(read):
            end = at + 1
            while read[at] == "[" and end < len(read) and (read[end] == "." or read[end].isidentifier()):
                end += 1
            # A list of enum values looks the same, up to what follows.
            if end > at + 1 and read[end : end + 1] == ["]"] and read[end + 1 : end + 2] in ([":"], ["{"], ["<"]):
                name = "".join(read[at + 1 : end])
                symbol = self._table.resolve(name, self._scope, self._what, types_only=False)
                written += ["[", symbol.name, "]"]
                at = end + 1
            else:
                written.append(read[at])
                at += 1
        return " ".join(written)

    def _scalar(self, field: Any, option: UninterpretedOption, name: str) -> object:
        kind = field.type
        if kind in INTEGER_RANGES:
            return self._integer(INTEGER_RANGES[kind], option, name)
        if kind in (_F.TYPE_FLOAT, _F.TYPE_DOUBLE):
            return self._float(option, name)
        if kind == _F.TYPE_BOOL:
            if option.identifier_value not in ("true", "false"):
                raise self._error(name, "its value must be true or false")
            return option.identifier_value == "true"
        if kind == _F.TYPE_ENUM:
            value = field.enum_type.values_by_name.get(option.identifier_value)
            if value is None:
                names = ", ".join(sorted(field.enum_type.values_by_name))
                raise self._error(name, f"its value must be one of {names}")
            return value.number
        if not option.HasField("string_value"):
            raise self._error(name, "its value must be a string")
        if kind == _F.TYPE_BYTES:
            return option.string_value
        try:
            return option.string_value.decode()
        except UnicodeDecodeError:
            raise self._error(name, "its value is not UTF-8") from None

    def _integer(self, limits: tuple[int, int], option: UninterpretedOption, name: str) -> int:
        if option.HasField("positive_int_value"):
            value = int(option.positive_int_value)
        elif option.HasField("negative_int_value"):
            value = int(option.negative_int_value)
        else:
            raise self._error(name, "its value must be an integer")
        if not limits[0] <= value <= limits[1]:
            raise self._error(name, f"its value {value} is not in {limits[0]} to {limits[1]}")
        return value

    def _float(self, option: UninterpretedOption, name: str) -> float:
        for attribute in ("double_value", "positive_int_value", "negative_int_value"):
            if option.HasField(attribute):
                return float(getattr(option, attribute))
        if option.identifier_value in ("inf", "nan"):
            return float(option.identifier_value)
        raise self._error(name, "its value must be a number")


def option_name(option: UninterpretedOption) -> str:
    return ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)


def _value(message: Any, field: Any) -> Any:
    return message.Extensions[field] if field.is_extension else getattr(message, field.name)
