"""ProtoToken stream: the cursor of the recursive descent over the tokens of a .proto text."""

from __future__ import annotations

from typing import Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.tokenizer import ProtoToken, ProtoTokenKind, error, string_value, tokens

MAX_DEPTH: Final = 32
"""Messages, groups and option values nested in each other at most: the limit of protoc for messages."""
MAX_DIGITS: Final = 100
"""Digits of an integer at most."""


class TokenStream:
    """Tokens with a place in them. Each `expect` and each reader fails with the line and column of the token."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> ProtoToken:
        """The token that is read next."""
        return self._tokens[self._next]

    def following(self, distance: int = 1) -> ProtoToken:
        """A token after the next one."""
        return self._tokens[min(self._next + distance, len(self._tokens) - 1)]

    def take(self) -> ProtoToken:
        token = self._tokens[self._next]
        if token.kind is not ProtoTokenKind.END:
            self._next += 1
        return token

    def at(self, text: str) -> bool:
        token = self._tokens[self._next]
        return token.text == text and token.kind is not ProtoTokenKind.STRING

    def at_end(self) -> bool:
        return self.token.kind is ProtoTokenKind.END

    def accept(self, text: str) -> bool:
        if self.at(text):
            self._next += 1
            return True
        return False

    def expect(self, text: str) -> ProtoToken:
        if not self.at(text):
            raise self.error(f'expected "{text}", found {self.token}')
        return self.take()

    def error(self, message: str, token: ProtoToken | None = None) -> InvalidSchema:
        place = token or self.token
        return error(place.line, place.column, message)

    def enter(self) -> None:
        """One level deeper. The recursion of the parser has this bound."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} levels are nested here")

    def leave(self) -> None:
        self._depth -= 1

    # Readers ----------------------------------------------------------------------------------------------------------

    def identifier(self, what: str) -> str:
        if self.token.kind is not ProtoTokenKind.IDENTIFIER:
            raise self.error(f"expected {what}, found {self.token}")
        return self.take().text

    def dotted_name(self, what: str) -> str:
        """A name with dots between its parts: a package, an option."""
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier(what))
        return ".".join(parts)

    def type_name(self, what: str) -> str:
        """The name of a message or enum; a dot in front makes it a full name."""
        dot = "." if self.accept(".") else ""
        return dot + self.dotted_name(what)

    def integer(self, what: str, *, highest: int, lowest: int = 0) -> int:
        negative = lowest < 0 and self.accept("-")
        token = self.token
        if token.kind is not ProtoTokenKind.INTEGER:
            raise self.error(f"expected {what}, found {token}")
        self.take()
        value = -integer_value(token) if negative else integer_value(token)
        if not lowest <= value <= highest:
            raise self.error(f"{what} is {value}; it must be in {lowest} to {highest}", token)
        return value

    def string(self, what: str) -> bytes:
        """A string; several ones next to each other are one."""
        parts: list[bytes] = []
        while self.token.kind is ProtoTokenKind.STRING:
            parts.append(string_value(self.take()))
        if not parts:
            raise self.error(f"expected {what}, found {self.token}")
        return b"".join(parts)

    def text(self, what: str) -> str:
        """A string that must be UTF-8."""
        token = self.token
        try:
            return self.string(what).decode()
        except UnicodeDecodeError:
            raise self.error(f"{what} is not UTF-8", token) from None


def integer_value(token: ProtoToken) -> int:
    text = token.text
    if len(text) > MAX_DIGITS:
        raise error(token.line, token.column, f"a number has {len(text)} digits; {MAX_DIGITS} is the limit")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
