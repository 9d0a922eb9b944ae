"""Tokens of SQL: words, quoted names, strings, numbers and symbols, each with its line and column.

The rules are those of Spark's lexer, as far as they decide where a token ends: a backslash escapes a character of a
string unless the string is raw (r'…'), a doubled quote stands for the quote, comments in brackets nest. A semicolon in
a string, in a quoted name or in a comment does not end a statement. Nothing here knows a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from moldau.sql.errors import SqlError
from moldau.sql.text_positions import SourceText, TextPosition


class TokenKind(Enum):
    WORD = auto()
    QUOTED_NAME = auto()
    STRING = auto()
    NUMBER = auto()
    SYMBOL = auto()


@dataclass(frozen=True)
class Token:
    """`text` is as written, `value` without quotes and escapes. `start` and `end` are offsets in the text."""

    kind: TokenKind
    text: str
    start: int
    position: TextPosition
    value: str = ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def upper(self) -> str:
        """The word in upper case, to compare it with a keyword; empty for everything that is quoted."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    def is_symbol(self, text: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.text == text


class UnclosedError(SqlError):
    """A string, a quoted name or a comment that does not end: the rest of the statement may still come."""


_BLANK: Final = re.compile(r"\s+")
_NUMBER: Final = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(BD|[LSYFD])?(?!\w)", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")
_LINE_COMMENT: Final = re.compile(r"--(\\\n|[^\n])*")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_STRING: Final = {
    "'": re.compile(r"'(\\.|''|[^'\\])*'", re.DOTALL),
    '"': re.compile(r'"(\\.|""|[^"\\])*"', re.DOTALL),
}
_RAW_STRING: Final = re.compile(r"""[rR]('[^']*'|"[^"]*")""")
_QUOTED_NAME: Final = re.compile(r"`([^`]|``)*`")
_ESCAPE: Final = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}


def tokenise(source: SourceText) -> list[Token]:
    """All tokens except blanks and comments. Raises UnclosedError with the place where the open token begins."""
    found: list[Token] = []
    at = 0
    while at < len(source.text):
        token, at = _next(source, at)
        if token is not None:
            found.append(token)
    return found


def _next(source: SourceText, at: int) -> tuple[Token | None, int]:
    text = source.text
    if match := _BLANK.match(text, at) or _LINE_COMMENT.match(text, at):
        return None, match.end()
    if text.startswith("/*", at):
        return None, _comment_end(source, at)
    if text[at] in "'\"" or _RAW_STRING.match(text, at) or (text[at] in "rR" and text[at + 1 : at + 2] in ("'", '"')):
        token = _string(source, at)
    elif text[at] == "`":
        token = _quoted_name(source, at)
    elif match := _NUMBER.match(text, at):
        token = Token(TokenKind.NUMBER, match.group(), at, source.position(at), match.group())
    elif match := _WORD.match(text, at):
        token = Token(TokenKind.WORD, match.group(), at, source.position(at), match.group())
    else:
        token = Token(TokenKind.SYMBOL, text[at], at, source.position(at), text[at])
    return token, token.end


def _comment_end(source: SourceText, at: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(source.text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise _unclosed(source, at, "comment", "*/")


def _string(source: SourceText, at: int) -> Token:
    text = source.text
    if text[at] in "rR":
        match = _RAW_STRING.match(text, at)
        if match is None:
            raise _unclosed(source, at, "string", text[at + 1])
        return Token(TokenKind.STRING, match.group(), at, source.position(at), match.group()[2:-1])
    match = _STRING[text[at]].match(text, at)
    if match is None:
        raise _unclosed(source, at, "string", text[at])
    value = _ESCAPE.sub(lambda escape: _unescaped(escape, text[at]), match.group()[1:-1])
    return Token(TokenKind.STRING, match.group(), at, source.position(at), value)


def _unescaped(escape: re.Match[str], quote: str) -> str:
    if escape.group(1) is not None:
        return _ESCAPED.get(escape.group(1), escape.group(1))
    return quote if escape.group()[0] == quote else escape.group()


def _quoted_name(source: SourceText, at: int) -> Token:
    match = _QUOTED_NAME.match(source.text, at)
    if match is None:
        raise _unclosed(source, at, "quoted name", "`")
    value = match.group()[1:-1].replace("``", "`")
    return Token(TokenKind.QUOTED_NAME, match.group(), at, source.position(at), value)


def _unclosed(source: SourceText, at: int, what: str, closing: str) -> UnclosedError:
    where = source.position(at)
    return UnclosedError(
        f"the {what} that begins here does not end",
        line=where.line,
        column=where.column,
        hint=f"close it with {closing}",
    )


_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


def check_brackets(tokens: Sequence[Token]) -> None:
    """Refuse brackets that are not closed, or that were not opened, with the place of the bracket."""
    opened: list[Token] = []
    for token in tokens:
        if token.kind is not TokenKind.SYMBOL:
            continue
        if token.text in _CLOSING:
            opened.append(token)
        elif token.text in _CLOSING.values():
            if not opened:
                raise error_at(token, f"{token.text} closes nothing: no bracket is open here")
            last = opened.pop()
            if _CLOSING[last.text] != token.text:
                where = f"the {last.text} of line {last.position.line}, column {last.position.column}"
                raise error_at(token, f"{token.text} does not close {where}", f"write {_CLOSING[last.text]}")
    if opened:
        last = opened[-1]
        raise error_at(last, f"the {last.text} that opens here is not closed", f"close it with {_CLOSING[last.text]}")


def error_at(token: Token, message: str, hint: str | None = None) -> SqlError:
    return SqlError(message, line=token.position.line, column=token.position.column, hint=hint)
