"""Parser of enums, and of the ranges that enums and messages reserve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from moldau.schemas.protobuf.option_parser import parse_bracketed_options, parse_option_statement
from moldau.schemas.protobuf.token_stream import TokenStream
from moldau.schemas.protobuf.tokenizer import ProtoTokenKind

MAX_INT32: Final = (1 << 31) - 1
MIN_INT32: Final = -(1 << 31)


@dataclass(frozen=True)
class Syntax:
    """The language of a file: "proto2", "proto3" or "editions" with the number of the edition."""

    name: str
    edition: int = 0

    @property
    def editions(self) -> bool:
        return self.name == "editions"


def parse_enum(stream: TokenStream, enum: Any, syntax: Syntax) -> None:
    stream.expect("enum")
    enum.name = stream.identifier("the name of an enum")
    stream.expect("{")
    while not stream.accept("}"):
        if stream.accept(";"):
            continue
        if stream.at("option"):
            parse_option_statement(stream, enum.options)
        elif stream.at("reserved"):
            _reserved(stream, enum, syntax)
        else:
            _value(stream, enum)


def _value(stream: TokenStream, enum: Any) -> None:
    value = enum.value.add()
    value.name = stream.identifier("the name of an enum value")
    stream.expect("=")
    value.number = stream.integer(f'the number of "{value.name}"', lowest=MIN_INT32, highest=MAX_INT32)
    parse_bracketed_options(stream, value.options)
    stream.expect(";")


def _reserved(stream: TokenStream, enum: Any, syntax: Syntax) -> None:
    stream.expect("reserved")
    if parse_reserved_names(stream, enum, syntax):
        return
    while True:
        start = stream.integer("a reserved number", lowest=MIN_INT32, highest=MAX_INT32)
        end = parse_range_end(stream, start, lowest=MIN_INT32, maximum=MAX_INT32)
        enum.reserved_range.add(start=start, end=end)
        if not stream.accept(","):
            break
    stream.expect(";")


def parse_reserved_names(stream: TokenStream, owner: Any, syntax: Syntax) -> bool:
    """The names of a reserved statement, whose keyword was read; False if it has numbers."""
    if stream.token.kind is ProtoTokenKind.STRING:
        if syntax.editions:
            raise stream.error("in an edition, reserved names are identifiers without quotes")
        read = stream.text
    elif stream.token.kind is ProtoTokenKind.IDENTIFIER:
        if not syntax.editions:
            raise stream.error("reserved names are strings, with quotes; only editions have identifiers here")
        read = stream.identifier
    else:
        return False
    owner.reserved_name.append(read("a reserved name"))
    while stream.accept(","):
        owner.reserved_name.append(read("a reserved name"))
    stream.expect(";")
    return True


def parse_range_end(stream: TokenStream, start: int, *, lowest: int, maximum: int) -> int:
    """The last number of a range, which may be its first one: `to N`, `to max`, or nothing."""
    if not stream.accept("to"):
        return start
    if stream.accept("max"):
        return maximum
    return stream.integer("the end of a range", lowest=lowest, highest=MAX_INT32)
