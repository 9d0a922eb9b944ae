"""Notation of definitions/: its data model and parser.

definitions/README.md describes the notation. A line that cannot be parsed is an error with file name and line number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

OPEN_END = 1 << 15  # above every int16 version: the end of an open range such as "3+"

# Types of fixed size: struct format character, size, and default in Python.
FIXED = {
    "bool": ("?", 1, "False"),
    "int8": ("b", 1, "0"),
    "int16": ("h", 2, "0"),
    "uint16": ("H", 2, "0"),
    "int32": ("i", 4, "0"),
    "int64": ("q", 8, "0"),
    "float64": ("d", 8, "0.0"),
    "uuid": ("16s", 16, "ZERO_UUID"),
}
NUMBER_ARRAYS = ("int8", "int16", "int32", "int64")
VARIABLE = ("string", "bytes", "records")


class DefinitionError(Exception):
    """An invalid definition."""


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends inclusive."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
        if match is None:
            raise DefinitionError(f"{text!r} is not a range of versions")
        first = int(match[1])
        last = OPEN_END if match[2] else int(match[3] or first)
        if last < first:
            raise DefinitionError(f"{text!r} is an empty range of versions")
        return cls(first, last)

    def within(self, outer: Versions) -> Versions | None:
        first, last = max(self.first, outer.first), min(self.last, outer.last)
        return Versions(first, last) if first <= last else None

    def hull(self, other: Versions | None) -> Versions:
        return self if other is None else Versions(min(self.first, other.first), max(self.last, other.last))

    def condition(self, outer: Versions) -> str | None:
        """The condition that selects these versions among those of `outer`; None if they are the same."""
        if self.first <= outer.first and self.last >= outer.last:
            return None
        if self.last >= outer.last:
            return f"version >= {self.first}"
        if self.first == self.last:
            return f"version == {self.first}"
        if self.first <= outer.first:
            return f"version <= {self.last}"
        return f"{self.first} <= version <= {self.last}"


@dataclass
class Struct:
    """A class to generate: a whole message or a part of one."""

    name: str
    versions: Versions | None  # the versions that contain it; known after the whole message is parsed
    fields: list[Field] = field(default_factory=list)
    used_by: list[Field] = field(default_factory=list)


@dataclass
class Field:
    """One field line of a definition."""

    name: str
    type: str  # a name of FIXED or VARIABLE, or "struct"
    array: bool
    nullable: Versions | None  # the versions in which it may be null
    versions: Versions
    tag: int | None
    default: str | None
    struct: Struct | None
    line: int

    @property
    def fixed(self) -> bool:
        return self.type in FIXED and not self.array and self.tag is None

    @property
    def optional(self) -> bool:
        """Whether it may be None in Python: null in some version, or a tagged struct, which is None if absent."""
        return self.nullable is not None or (self.tag is not None and self.type == "struct" and not self.array)


@dataclass
class Message:
    """A message: its top struct, and all structs in the order of their definition in Python."""

    name: str
    top: Struct
    base: str
    flexible_from: int | None
    api_key: int | None
    structs: list[Struct] = field(default_factory=list)

    @property
    def versions(self) -> Versions:
        assert self.top.versions is not None
        return self.top.versions


@dataclass
class Definition:
    """One file of definitions/."""

    path: Path
    doc: str
    messages: list[Message]
    api: str = ""  # the name of the API; empty for data
    key: int = -1
    latest_unstable: bool = False

    @property
    def module(self) -> str:
        return self.path.stem.removeprefix(f"{self.key:02d}_")


# --- parsing ---------------------------------------------------------------------------------------------------------

FIELD_LINE = re.compile(
    r"(?P<indent> +)(?P<name>[a-z][a-z0-9_]*) +(?P<array>\[\])?(?P<type>\w+)(?P<null>\?(?:\((?P<null_in>[\d+-]+)\))?)?"
    r"(?: +(?P<versions>\d[\d+-]*))?(?: +tag (?P<tag>\d+))?(?: +(?P<equals>=) (?P<default>\S+))?"
)


class Parser:
    """Parses one file, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.number = 0

    def fail(self, message: str) -> NoReturn:
        raise DefinitionError(f"{self.path.name}:{self.number}: {message}")

    def parse(self) -> Definition:
        doc: list[str] = []
        while self.peek().startswith("#"):
            doc.append(self.next().removeprefix("#").strip())
        if not doc:
            self.fail("a definition must start with a comment that describes it")
        definition = Definition(self.path, " ".join(doc), [])
        self.skip_blank()
        while self.number < len(self.lines):
            try:
                self.parse_block(definition)
            except DefinitionError as error:
                if str(error).startswith(self.path.name):
                    raise
                self.fail(str(error))
        return definition

    def parse_block(self, definition: Definition) -> None:
        head = re.fullmatch(r"(?:api (\d+)|data) ([A-Z]\w*)", self.next())
        if head is None:
            self.fail("expected 'api KEY Name' or 'data Name'")
        name = head[2]
        versions = Versions.parse(self.keyword("versions"))
        flexible = self.keyword("flexible")
        flexible_from = None if flexible == "none" else Versions.parse(flexible).first
        if self.peek() == "latest unstable":
            self.next()
            definition.latest_unstable = True
        self.skip_blank()
        if head[1] is None:
            self.part(definition, "fields", Message(name, Struct(name, versions), "Message", flexible_from, None))
            return
        definition.api, definition.key = name, int(head[1])
        if self.path.name != f"{definition.key:02d}_{snake_case(name)}.def":
            self.fail(f"API {definition.key} {name} does not match the file name")
        for part in ("request", "response"):
            full_name = name + part.title()
            top = Struct(full_name, versions)
            self.part(definition, part, Message(full_name, top, part.title(), flexible_from, definition.key))

    def part(self, definition: Definition, part: str, message: Message) -> None:
        if self.next() != part:
            self.fail(f"expected {part!r}")
        self.fields(message, message.top, 2)
        message.structs.append(message.top)
        definition.messages.append(message)
        self.resolve(message)
        self.skip_blank()

    def fields(self, message: Message, struct: Struct, indent: int) -> None:
        """Read the fields of a struct: the lines with its indentation."""
        while self.peek().startswith(" " * (indent - 1)):
            line = self.next()
            match = FIELD_LINE.fullmatch(line)
            if match is None or len(match["indent"]) != indent:
                self.fail(f"not a field: {line.strip()!r}")
            if any(other.name == match["name"] for other in struct.fields):
                self.fail(f"{match['name']} is defined twice")
            struct.fields.append(self.one_field(message, match, indent))

    def one_field(self, message: Message, match: re.Match[str], indent: int) -> Field:
        line = self.number
        versions = Versions.parse(match["versions"] or "0+")
        nullable = Versions.parse(match["null_in"] or "0+") if match["null"] else None
        tag = int(match["tag"]) if match["tag"] else None
        type_, array, default, child = match["type"], bool(match["array"]), match["default"], None
        if type_[0].isupper():
            child = self.child(message, message.name + type_, indent)
            type_ = "struct"
        elif type_ not in FIXED and type_ not in VARIABLE:
            self.fail(f"unknown type {type_!r}")
        if array and type_ not in (*NUMBER_ARRAYS, "string", "struct"):
            self.fail(f"arrays of {type_} do not exist")
        if nullable and type_ in FIXED and not array:
            self.fail(f"{type_} cannot be null")
        if default == "null" and nullable is None:
            self.fail("the default is null, but the type is not nullable")
        return Field(match["name"], type_, array, nullable, versions, tag, default, child, line)

    def child(self, message: Message, name: str, indent: int) -> Struct:
        """The struct of a field: a new one, with its fields on the following lines, or one defined before."""
        known = next((struct for struct in message.structs if struct.name == name), None)
        has_fields = self.peek().startswith(" " * (indent + 1))
        if known is not None:
            if has_fields:
                self.fail(f"{name} is defined twice")
            return known
        if not has_fields:
            self.fail(f"{name} has no fields")
        struct = Struct(name, None)
        self.fields(message, struct, indent + 2)
        message.structs.append(struct)
        return struct

    def resolve(self, message: Message) -> None:
        """Limit each field to the versions of its struct, from the top down."""
        here = self.number
        for struct in reversed(message.structs):  # a struct is defined before its users, so this visits the users first
            assert struct.versions is not None
            for one in struct.fields:
                self.number = one.line
                versions = one.versions.within(struct.versions)
                if versions is None:
                    self.fail(f"no version of {struct.name} carries {one.name}")
                one.versions = versions
                one.nullable = one.nullable and one.nullable.within(versions)
                if one.tag is not None and (message.flexible_from is None or versions.first < message.flexible_from):
                    self.fail("a tagged field needs flexible versions")
                if one.struct is not None:
                    one.struct.used_by.append(one)
                    one.struct.versions = versions.hull(one.struct.versions)
            self.forbid_empty(message, struct)
        self.number = here

    def forbid_empty(self, message: Message, struct: Struct) -> None:
        """Reject structs without fields: the bytes left limit an array's count, so each element needs one byte."""
        assert struct.versions is not None
        for version in range(struct.versions.first, struct.versions.last + 1):
            flexible = message.flexible_from is not None and version >= message.flexible_from
            carried = any(f.tag is None and f.versions.first <= version <= f.versions.last for f in struct.fields)
            if struct is not message.top and not flexible and not carried:
                self.fail(f"{struct.name} has no fields in version {version}")

    def peek(self) -> str:
        return self.lines[self.number] if self.number < len(self.lines) else ""

    def next(self) -> str:
        line = self.peek()
        self.number += 1
        return line

    def skip_blank(self) -> None:
        while self.number < len(self.lines) and not self.peek().strip():
            self.number += 1

    def keyword(self, word: str) -> str:
        line = self.next()
        if not line.startswith(word + " "):
            self.fail(f"expected '{word} …'")
        return line.removeprefix(word).strip()


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
