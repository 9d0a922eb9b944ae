"""Reader of the tokens of one statement: takes what the grammar expects, and says what is missing and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from moldau.sql.errors import SqlError
from moldau.sql.text_positions import SourceText
from moldau.sql.tokens import Token, TokenKind, error_at

NEAR: Final = 0.6
"""How similar a name must be to be suggested, as in the errors of settings."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that the user probably meant. The case does not matter."""
    by_upper = {one.upper(): one for one in known}
    matches = get_close_matches(name.upper(), list(by_upper), n=1, cutoff=NEAR)
    return by_upper[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    near = nearest(name, known)
    return otherwise if near is None else f"did you mean {near}?"


class TokenReader:
    """The tokens of one statement, and how far they have been read."""

    def __init__(self, source: SourceText, tokens: Sequence[Token], end: int) -> None:
        self.source = source
        self.tokens = tokens
        self.end = end
        """The offset of the end of the statement: its semicolon, or the end of the text."""
        self.at = 0

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def at_words(self, *words: str) -> bool:
        """Whether the next tokens are these words, in upper case."""
        found = self.tokens[self.at : self.at + len(words)]
        return len(found) == len(words) and all(token.upper == word for token, word in zip(found, words, strict=True))

    def took_words(self, *words: str) -> bool:
        if not self.at_words(*words):
            return False
        self.at += len(words)
        return True

    def at_symbol(self, symbol: str) -> bool:
        token = self.peek()
        return token is not None and token.is_symbol(symbol)

    def took_symbol(self, symbol: str) -> bool:
        if not self.at_symbol(symbol):
            return False
        self.at += 1
        return True

    def expect_word(self, *words: str, after: str) -> str:
        """The next token, which must be one of these words."""
        token = self.peek()
        if token is not None and token.upper in words:
            return self.take().upper
        hint = did_you_mean(token.text, words) if token is not None and token.kind is TokenKind.WORD else None
        raise self.missing(_one_of(words), after, hint)

    def expect_symbol(self, symbol: str, after: str) -> Token:
        if not self.at_symbol(symbol):
            raise self.missing(symbol, after)
        return self.take()

    def name(self, what: str, after: str) -> str:
        """A name: a word, or quoted. The parts of a topic's name with dots and dashes need no quotes here."""
        token = self.peek()
        if token is None or token.kind not in (TokenKind.WORD, TokenKind.NUMBER, *_QUOTED):
            raise self.missing(what, after)
        self.take()
        if token.kind in _QUOTED:
            return token.value
        end = token.end
        while (more := self.peek()) is not None and more.start == end and _continues(more):
            end = self.take().end
        return self.source.text[token.start : end]

    def column_name(self, what: str, after: str) -> str:
        token = self.peek()
        if token is None or not (token.kind in (TokenKind.WORD, TokenKind.QUOTED_NAME) or token.text.startswith('"')):
            raise self.missing(what, after)
        return self.take().value

    def string(self, what: str, after: str) -> str:
        token = self.peek()
        if token is None or token.kind is not TokenKind.STRING:
            raise self.missing(what, after)
        return self.take().value

    def whole_number(self, what: str, after: str) -> int:
        token = self.peek()
        if token is None or not (token.kind is TokenKind.NUMBER and token.text.isdecimal()):
            raise self.missing(what, after)
        return int(self.take().text)

    def finish(self, statement: str) -> None:
        """Refuse whatever is left."""
        token = self.peek()
        if token is not None:
            raise error_at(token, f"{token.text} is not expected here", f"{statement} ends before it")

    def missing(self, what: str, after: str, hint: str | None = None) -> SqlError:
        """The error for a part that is not there: at the token which is there instead, or at the end."""
        token = self.peek()
        if token is not None:
            return error_at(token, f"{what} is missing after {after}: {token.text} is not that", hint)
        end = self.tokens[-1].end if self.tokens else self.end
        where = self.source.position(end)
        return SqlError(f"{what} is missing after {after}", line=where.line, column=where.column, hint=hint)


_QUOTED: Final = (TokenKind.QUOTED_NAME, TokenKind.STRING)


def _continues(token: Token) -> bool:
    return token.kind in (TokenKind.WORD, TokenKind.NUMBER) or token.text in ("-", ".")


def _one_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
