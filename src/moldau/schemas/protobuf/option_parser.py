"""Parser of options: names and values as written, before their meaning is known."""

from __future__ import annotations

from typing import Any, Final

from moldau.schemas.protobuf.descriptors import FieldDescriptorProto, UninterpretedOption
from moldau.schemas.protobuf.number_text import double_text, float_text
from moldau.schemas.protobuf.token_stream import MAX_DEPTH, TokenStream, integer_value
from moldau.schemas.protobuf.tokenizer import ProtoTokenKind

MAX_UINT64: Final = (1 << 64) - 1
_BRACKETS: Final = {"{": "}", "[": "]", "<": ">", "(": ")"}

_F: Final = FieldDescriptorProto
INTEGER_RANGES: Final[dict[int, tuple[int, int]]] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), (0, MAX_UINT64)),
}


def parse_option_statement(stream: TokenStream, options: Any) -> None:
    """`option NAME = VALUE;`"""
    stream.expect("option")
    _assignment(stream, options)
    stream.expect(";")


def parse_bracketed_options(stream: TokenStream, options: Any) -> None:
    """`[NAME = VALUE, …]`, if the stream is at a bracket."""
    if not stream.accept("["):
        return
    _assignment(stream, options)
    while stream.accept(","):
        _assignment(stream, options)
    stream.expect("]")


def parse_field_options(stream: TokenStream, field: Any) -> None:
    """The options of a field. `default` and `json_name` look like options and are parts of the field."""
    if not stream.accept("["):
        return
    while True:
        if stream.at("default") and stream.following().text == "=":
            _default(stream, field)
        elif stream.at("json_name") and stream.following().text == "=":
            _json_name(stream, field)
        else:
            _assignment(stream, field.options)
        if not stream.accept(","):
            break
    stream.expect("]")


def _assignment(stream: TokenStream, options: Any) -> None:
    option = options.uninterpreted_option.add()
    _name_part(stream, option)
    while stream.accept("."):
        _name_part(stream, option)
    stream.expect("=")
    if not stream.accept("["):
        _value(stream, option)
        return
    # Several values in brackets, one after the other. protoc does not know it; Confluent's registry stores such texts.
    _value(stream, option)
    while stream.accept(","):
        other = options.uninterpreted_option.add()
        other.name.extend(option.name)
        _value(stream, other)
    stream.expect("]")


def _name_part(stream: TokenStream, option: UninterpretedOption) -> None:
    if stream.accept("("):
        option.name.add(name_part=stream.type_name("the name of an option"), is_extension=True)
        stream.expect(")")
    else:
        option.name.add(name_part=stream.identifier("the name of an option"), is_extension=False)


def _value(stream: TokenStream, option: UninterpretedOption) -> None:
    if stream.at("{"):
        option.aggregate_value = _aggregate(stream)
        return
    negative = stream.accept("-")
    token = stream.token
    if token.kind is ProtoTokenKind.IDENTIFIER:
        if not negative:
            option.identifier_value = stream.take().text
        elif token.text in ("inf", "nan"):
            option.double_value = -float(stream.take().text)
        else:
            raise stream.error(f'"-" before {token}')
    elif token.kind is ProtoTokenKind.INTEGER:
        value = integer_value(stream.take())
        if value > (1 << 63 if negative else MAX_UINT64):
            raise stream.error(f"{token.text} is out of the range of integers", token)
        if negative:
            option.negative_int_value = -value
        else:
            option.positive_int_value = value
    elif token.kind is ProtoTokenKind.FLOAT:
        value_text = stream.take().text
        option.double_value = -float(value_text) if negative else float(value_text)
    elif token.kind is ProtoTokenKind.STRING and not negative:
        option.string_value = stream.string("the value of an option")
    else:
        raise stream.error(f"expected the value of an option, found {token}")


def _aggregate(stream: TokenStream) -> str:
    """`{ … }` as its tokens with one space between them, without the braces: Protobuf's text format."""
    stream.expect("{")
    open_brackets = ["}"]
    parts: list[str] = []
    while open_brackets:
        token = stream.take()
        if token.kind is ProtoTokenKind.END:
            raise stream.error('the value of an option has no "}" at its end')
        if token.kind is ProtoTokenKind.SYMBOL:
            if token.text in _BRACKETS:
                if len(open_brackets) >= MAX_DEPTH:
                    raise stream.error(f"the value of an option has more than {MAX_DEPTH} levels", token)
                open_brackets.append(_BRACKETS[token.text])
            elif token.text == open_brackets[-1]:
                open_brackets.pop()
        parts.append(token.text)
    return " ".join(parts[:-1])


# Parts of a field -----------------------------------------------------------------------------------------------------


def _json_name(stream: TokenStream, field: Any) -> None:
    if field.HasField("json_name"):
        raise stream.error(f'the field "{field.name}" has two options json_name')
    stream.expect("json_name")
    stream.expect("=")
    field.json_name = stream.text("a string for json_name")


def _default(stream: TokenStream, field: Any) -> None:
    if field.HasField("default_value"):
        raise stream.error(f'the field "{field.name}" has two default values')
    stream.expect("default")
    stream.expect("=")
    field.default_value = _default_text(stream, field)


def _default_text(stream: TokenStream, field: Any) -> str:
    what = f'the default value of "{field.name}"'
    if not field.HasField("type"):
        return stream.identifier(f"an enum value as {what}")
    if field.type in INTEGER_RANGES:
        lowest, highest = INTEGER_RANGES[field.type]
        return str(stream.integer(what, lowest=lowest, highest=highest))
    if field.type == _F.TYPE_FLOAT:
        return float_text(_number(stream, what))
    if field.type == _F.TYPE_DOUBLE:
        return double_text(_number(stream, what))
    if field.type == _F.TYPE_BOOL:
        if stream.at("true") or stream.at("false"):
            return stream.take().text
        raise stream.error(f"expected true or false as {what}, found {stream.token}")
    if field.type == _F.TYPE_STRING:
        return stream.text(what)
    if field.type == _F.TYPE_BYTES:
        return c_escaped(stream.string(what))
    raise stream.error("messages have no default value")


def _number(stream: TokenStream, what: str) -> float:
    sign = -1.0 if stream.accept("-") else 1.0
    token = stream.take()
    if token.kind is ProtoTokenKind.FLOAT or token.text in ("inf", "nan"):
        return sign * float(token.text)
    if token.kind is ProtoTokenKind.INTEGER:
        return sign * float(integer_value(token))
    raise stream.error(f"expected a number as {what}, found {token}", token)


_ESCAPES: Final = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}


def c_escaped(value: bytes) -> str:
    """Bytes as Protobuf writes the default value of a bytes field: escapes of C, octal ones for what is not ASCII."""
    return "".join(_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value)
