"""Tokenizer of .proto texts: identifiers, numbers, strings and symbols with their places; comments are left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from moldau.schemas.errors import InvalidSchema

MAX_TEXT: Final = 8 * 1024 * 1024
"""Characters of a text that are read at most."""


class ProtoTokenKind(Enum):
    IDENTIFIER = auto()
    INTEGER = auto()
    FLOAT = auto()
    STRING = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class ProtoToken:
    kind: ProtoTokenKind
    text: str
    """As in the source; a string has its quotes and escapes."""
    line: int
    column: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind is ProtoTokenKind.END else f'"{self.text}"'


# The order matters: a float before an integer, a comment before the symbol "/".
_PATTERN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v]+)
  | (?P<line_comment>//[^\n]*)
  | (?P<block_comment>/\*.*?\*/)
  | (?P<identifier>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<integer>0[xX][0-9a-fA-F]+|[0-9]+)
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
  | (?P<symbol>[^\s\w"'])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_KINDS: Final = {
    "identifier": ProtoTokenKind.IDENTIFIER,
    "float": ProtoTokenKind.FLOAT,
    "integer": ProtoTokenKind.INTEGER,
    "string": ProtoTokenKind.STRING,
    "symbol": ProtoTokenKind.SYMBOL,
}
_SYMBOLS: Final = frozenset("{}[]()<>;,=.:-+/")
_OCTAL: Final = re.compile("0[0-7]*|[1-9][0-9]*|0[xX][0-9a-fA-F]+")


def tokens(text: str) -> list[ProtoToken]:
    """All tokens of a text; the last one has the kind END."""
    if len(text) > MAX_TEXT:
        raise InvalidSchema(f"the text has {len(text)} characters; {MAX_TEXT} is the limit")
    found: list[ProtoToken] = []
    position, line, line_start = 0, 1, 0
    if text.startswith("\ufeff"):
        position = line_start = 1
    while position < len(text):
        column = position - line_start + 1
        match = _PATTERN.match(text, position)
        if match is None:
            raise error(line, column, _unreadable(text, position))
        group, value = str(match.lastgroup), match.group()
        kind = _KINDS.get(group)
        if kind is not None:
            token = ProtoToken(kind, value, line, column)
            _check(token, text, match.end())
            found.append(token)
        else:
            if group == "block_comment" and "/*" in value[2:]:
                raise error(line, column, 'the comment has "/*" inside: comments do not nest')
            newlines = value.count("\n")
            if newlines:
                line += newlines
                line_start = position + value.rindex("\n") + 1
        position = match.end()
    found.append(ProtoToken(ProtoTokenKind.END, "", line, position - line_start + 1))
    return found


def error(line: int, column: int, message: str) -> InvalidSchema:
    return InvalidSchema(f"line {line}, column {column}: {message}")


def _check(token: ProtoToken, text: str, end: int) -> None:
    following = text[end] if end < len(text) else ""
    if token.kind in (ProtoTokenKind.INTEGER, ProtoTokenKind.FLOAT):
        if following == "_" or (following.isascii() and following.isalnum()):
            raise error(token.line, token.column, f'"{token.text}{following}": a space is missing after the number')
        if following == "." and token.kind is ProtoTokenKind.FLOAT:
            raise error(token.line, token.column, f'"{token.text}." is not a number')
        if token.kind is ProtoTokenKind.INTEGER and not _OCTAL.fullmatch(token.text):
            raise error(token.line, token.column, f'"{token.text}" begins with 0 and is not an octal number')
    elif token.kind is ProtoTokenKind.SYMBOL:
        if token.text == "/" and following == "*":
            raise error(token.line, token.column, "the comment has no end")
        if token.text not in _SYMBOLS:
            raise error(token.line, token.column, f"the character {token.text!r} has no meaning here")


def _unreadable(text: str, position: int) -> str:
    character = text[position]
    if character in "\"'":
        return "the string has no end on its line"
    return f"the character {character!r} has no meaning here"


# Strings --------------------------------------------------------------------------------------------------------------

_ESCAPE: Final = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|[xX](?P<hex>[0-9a-fA-F]{1,2})|u(?P<short>[0-9a-fA-F]{4})"
    r"|U(?P<long>[0-9a-fA-F]{8})|(?P<simple>.))",
    re.DOTALL,
)
_SIMPLE: Final = {
    "a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v",
    "\\": b"\\", "?": b"?", "'": b"'", '"': b'"',
}  # fmt: skip


def string_value(token: ProtoToken) -> bytes:
    """The bytes that a string stands for: its text as UTF-8, escapes resolved."""
    body = token.text[1:-1]
    out, position = bytearray(), 0
    for match in _ESCAPE.finditer(body):
        out += _utf8(token, body[position : match.start()])
        out += _escaped(token, match)
        position = match.end()
    out += _utf8(token, body[position:])
    return bytes(out)


def _utf8(token: ProtoToken, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise error(token.line, token.column, "the string has half of a surrogate pair") from None


def _escaped(token: ProtoToken, match: re.Match[str]) -> bytes:
    if octal := match["octal"]:
        return bytes([int(octal, 8) & 0xFF])
    if digits := match["hex"]:
        return bytes([int(digits, 16)])
    if digits := match["short"] or match["long"]:
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise error(token.line, token.column, f"{match.group()} is not a character of Unicode")
        return chr(code).encode("utf-8", "surrogatepass")
    simple = _SIMPLE.get(match["simple"])
    if simple is None:
        raise error(token.line, token.column, f"the escape sequence {match.group()} is not known")
    return simple
