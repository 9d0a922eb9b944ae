"""Printer of options: as they were written, or from the fields of an options message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import DecodeError, FieldDescriptorProto, Message, UninterpretedOption
from moldau.schemas.protobuf.number_text import double_text, float_text
from moldau.schemas.protobuf.option_interpreter import option_name
from moldau.schemas.protobuf.text_values import TextMessage, TextValue, read_text_message

_F: Final = FieldDescriptorProto
_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", "'": "\\'", '"': '\\"', "\0": "\\000", "\x7f": "\\177",
}  # fmt: skip

OptionsClass = Callable[[str], type[Message]]


def indented(text: str) -> str:
    """Lines two spaces deeper. Empty ones too: Confluent's registry does so, and its stored texts equal ours."""
    return "".join(f"  {line}\n" for line in text.removesuffix("\n").split("\n"))


def quoted(value: str | bytes) -> str:
    try:
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return '"' + "".join(_byte(one) for one in bytes(value)) + '"'  # type: ignore[arg-type]
    return '"' + "".join(_ESCAPES.get(letter) or _letter(letter) for letter in text) + '"'


def _byte(value: int) -> str:
    return (_ESCAPES.get(chr(value)) or chr(value)) if 32 <= value < 127 else f"\\{value:03o}"


def _letter(letter: str) -> str:
    return letter if letter >= " " else f"\\{ord(letter):03o}"


def bracketed(options: list[str]) -> str:
    """Options after a field or value: on one line if there is one, else each on its own."""
    if not options:
        return ""
    if len(options) == 1:
        return f" [{options[0]}]"
    return " [\n" + "".join(indented(one) for one in _separated(options)) + "]"


class OptionPrinter:
    """Prints options messages. `options_class` knows the classes that have the custom options as extensions."""

    def __init__(self, options_class: OptionsClass, *, normalize: bool, map_entries: bool) -> None:
        self._class = options_class
        self._map_entries = map_entries
        self._normalize = normalize

    def options(self, options: Any) -> list[str]:
        """Each option as `name = value`, without `option` in front."""
        pairs = [(option_name(one), _written(one)) for one in options.uninterpreted_option]
        pairs += self._interpreted(options)
        if self._normalize:
            pairs.sort(key=lambda pair: pair[0])
        return [f"{name} = {value}" for name, value in pairs]

    def statements(self, options: Any) -> str:
        return "".join(f"option {one};\n" for one in self.options(options))

    def _interpreted(self, options: Any) -> Iterator[tuple[str, str]]:
        if not options.ByteSize():
            return
        name = options.DESCRIPTOR.full_name
        try:
            message = self._class(name).FromString(options.SerializeToString())
        except DecodeError as error:
            raise InvalidSchema(f"an options message {name} cannot be read: {error}") from None
        for field, value in message.ListFields():
            name = f"({field.full_name})" if field.is_extension else field.name
            if name == "uninterpreted_option" or (name == "map_entry" and not self._map_entries):
                continue
            if name == "features":
                yield from self._features(name, value)
            elif field.is_repeated:
                for text in self._texts(field, value):
                    yield name, text
            else:
                yield name, self._text(field, value)

    def _features(self, prefix: str, message: Any) -> Iterator[tuple[str, str]]:
        for field, value in message.ListFields():
            name = f"{prefix}.({field.full_name})" if field.is_extension else f"{prefix}.{field.name}"
            if field.message_type is not None and not field.is_repeated:
                yield from self._features(name, value)
            else:
                yield name, self._text(field, value)

    def _text(self, field: Any, value: Any) -> str:
        if field.message_type is not None:
            return _braces([(_key(inner), self._member(inner, one)) for inner, one in self._members(value)])
        return _scalar(field, value)

    def _texts(self, field: Any, value: Any) -> list[str]:
        """The values of a repeated field; those of a map as entries in the order of their keys."""
        entry = field.message_type
        if entry is None or not entry.GetOptions().map_entry:
            return [self._text(field, one) for one in value]
        keys, values = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return [
            _braces([("key", _scalar(keys, key)), ("value", self._text(values, value[key]))]) for key in sorted(value)
        ]

    def _members(self, message: Any) -> list[tuple[Any, Any]]:
        members = list(message.ListFields())
        if self._normalize:
            members.sort(key=lambda pair: _key(pair[0]))
        return members

    def _member(self, field: Any, value: Any) -> str:
        if not field.is_repeated:
            return self._text(field, value)
        texts = self._texts(field, value)
        if len(texts) == 1:
            return texts[0]
        return "[\n" + "".join(indented(one) for one in _separated(texts)) + "]"


def _key(field: Any) -> str:
    return f"[{field.full_name}]" if field.is_extension else str(field.name)


def _scalar(field: Any, value: Any) -> str:
    if field.type == _F.TYPE_BOOL:
        return "true" if value else "false"
    if field.type == _F.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(known.name) if known is not None else str(value)
    if field.type in (_F.TYPE_STRING, _F.TYPE_BYTES):
        return quoted(value)
    if field.type == _F.TYPE_FLOAT:
        return float_text(value)
    return double_text(value) if field.type == _F.TYPE_DOUBLE else str(value)


# As written -----------------------------------------------------------------------------------------------------------


def _written(option: UninterpretedOption) -> str:
    if option.HasField("identifier_value"):
        return str(option.identifier_value)
    if option.HasField("string_value"):
        return quoted(option.string_value)
    if option.HasField("aggregate_value"):
        return _text_message(read_text_message(option.aggregate_value))
    if option.HasField("double_value"):
        return double_text(option.double_value)
    negative = option.HasField("negative_int_value")
    return str(option.negative_int_value if negative else option.positive_int_value)


def _text_message(message: TextMessage) -> str:
    return _braces([(key, _text_value(value)) for key, value in message])


def _text_value(value: TextValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return quoted(value)
    if isinstance(value, tuple):
        return _text_message(value[0])
    return "[\n" + "".join(indented(one) for one in _separated([_text_value(one) for one in value])) + "]"


def _braces(members: list[tuple[str, str]]) -> str:
    return "{\n" + "".join(indented(one) for one in _separated([f"{key}: {text}" for key, text in members])) + "}"


def _separated(texts: list[str]) -> list[str]:
    return [f"{one}," for one in texts[:-1]] + texts[-1:]
