"""JAAS configuration: login modules with their options, from `sasl.jaas.config` or a login configuration file.

Pure text in, values out. What an option means is decided by the reader of a login module: this file knows neither
mechanisms nor users. An error names the position and what was expected there, but never quotes the text, because the
text has passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""
      (?P<blank>  \s+ | //[^\n]* | /\*.*?\*/ | \#[^\n]* )
    | (?P<quoted> " (?: [^"\\\n] | \\. )* " | ' (?: [^'\\\n] | \\. )* ' )
    | (?P<mark>   [=;{}] )
    | (?P<word>   [^\s=;{}"']+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """A text that is not a JAAS configuration. The message has no part of the text."""


class LoginModule(NamedTuple):
    """One login module: its class name, its control flag, and its options."""

    name: str
    control_flag: str
    options: Mapping[str, str]

    @property
    def simple_name(self) -> str:
        """The class name without its package, such as `PlainLoginModule`."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginModule({self.simple_name}, {len(self.options)} options not shown)"


def parse_login_modules(text: str) -> tuple[LoginModule, ...]:
    """The login modules of a setting: `CLASS FLAG [NAME=VALUE ...];`, at least one."""
    reader = _Reader(text)
    modules = []
    while not reader.at_end:
        modules.append(_login_module(reader))
    if not modules:
        raise JaasError("a JAAS configuration has no login module")
    return tuple(modules)


def parse_login_module(text: str) -> LoginModule:
    """The login module of a setting that must have exactly one, as Kafka's `sasl.jaas.config`."""
    modules = parse_login_modules(text)
    if len(modules) != 1:
        raise JaasError(f"a JAAS configuration has {len(modules)} login modules; exactly one is allowed here")
    return modules[0]


def parse_jaas_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """The sections of a login configuration file, such as `KafkaServer` and `KafkaClient`, by name."""
    reader = _Reader(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while not reader.at_end:
        name = reader.word("the name of a section")
        if name in sections:
            raise JaasError(f"a JAAS file has the section {name} twice")
        reader.mark("{")
        modules = []
        while not reader.next_is("}"):
            modules.append(_login_module(reader))
        reader.mark("}")
        reader.mark(";")
        sections[name] = tuple(modules)
    return sections


def _login_module(reader: _Reader) -> LoginModule:
    name = reader.word("the class name of a login module")
    flag = reader.word("a control flag").lower()
    if flag not in CONTROL_FLAGS:
        raise reader.error(f"one of the control flags {', '.join(CONTROL_FLAGS)}", back=1)
    options: dict[str, str] = {}
    while not reader.next_is(";"):
        option = reader.word("the name of an option, or ';'")
        reader.mark("=")
        options[option] = reader.word("the value of an option")
    reader.mark(";")
    return LoginModule(name, flag, options)


class _Reader:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._next = 0
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise JaasError(
                    f"a JAAS configuration has a quotation mark without its end, at character {position + 1}"
                )
            kind = match.lastgroup or ""
            if kind != "blank":
                self._tokens.append((kind, match[0]))
            position = match.end()

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def next_is(self, mark: str) -> bool:
        return not self.at_end and self._tokens[self._next] == ("mark", mark)

    def mark(self, mark: str) -> None:
        if not self.next_is(mark):
            raise self.error(f"'{mark}'")
        self._next += 1

    def word(self, what: str) -> str:
        if self.at_end or self._tokens[self._next][0] == "mark":
            raise self.error(what)
        kind, text = self._tokens[self._next]
        self._next += 1
        return _ESCAPED.sub(_unescaped, text[1:-1]) if kind == "quoted" else text

    def error(self, expected: str, back: int = 0) -> JaasError:
        number = self._next + 1 - back
        end = " (the text ends there)" if self.at_end and not back else ""
        return JaasError(f"a JAAS configuration needs {expected} as its word {number}{end}")


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPES.get(escaped, escaped)
