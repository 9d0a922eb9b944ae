"""Values of options in braces: Protobuf's text format, read for its structure without knowing the types."""

from __future__ import annotations

from moldau.schemas.protobuf.token_stream import TokenStream
from moldau.schemas.protobuf.tokenizer import ProtoTokenKind

TextMessage = list[tuple[str, "TextValue"]]
"""Fields in their order: an identifier, or the name of an extension in brackets, and its value."""
TextValue = str | bytes | tuple[TextMessage] | list["TextValue"]
"""A number or identifier as written, a string, a message (in a tuple), or a list."""

_CLOSING = {"{": "}", "<": ">"}


def read_text_message(text: str) -> TextMessage:
    return _fields(TokenStream(text), None)


def _fields(stream: TokenStream, closing: str | None) -> TextMessage:
    stream.enter()
    fields: TextMessage = []
    while not (stream.at_end() if closing is None else stream.accept(closing)):
        key = _key(stream)
        # The colon may be left out before a message.
        if not stream.accept(":") and stream.token.text not in ("{", "<", "["):
            raise stream.error(f'expected ":" after "{key}", found {stream.token}')
        fields.append((key, _value(stream)))
        if not stream.accept(","):
            stream.accept(";")
    stream.leave()
    return fields


def _key(stream: TokenStream) -> str:
    if not stream.accept("["):
        return stream.identifier("the name of a field")
    name = stream.type_name("the name of an extension")
    # The type URL of google.protobuf.Any.
    while stream.accept("/"):
        name += "/" + stream.dotted_name("the name of a type")
    stream.expect("]")
    return f"[{name}]"


def _value(stream: TokenStream) -> TextValue:
    if stream.token.text in _CLOSING and stream.token.kind is ProtoTokenKind.SYMBOL:
        return (_fields(stream, _CLOSING[stream.take().text]),)
    if stream.accept("["):
        values: list[TextValue] = []
        while not stream.accept("]"):
            values.append(_value(stream))
            if not stream.at("]"):
                stream.expect(",")
        return values
    if stream.token.kind is ProtoTokenKind.STRING:
        return stream.string("a value")
    sign = "-" if stream.accept("-") else ""
    if stream.token.kind in (ProtoTokenKind.IDENTIFIER, ProtoTokenKind.INTEGER, ProtoTokenKind.FLOAT):
        return sign + stream.take().text
    raise stream.error(f"expected a value, found {stream.token}")
