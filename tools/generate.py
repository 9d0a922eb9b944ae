"""Generator of the message modules of moldau.wire from definitions/.

    python tools/generate.py            write the modules, and delete those without a definition
    python tools/generate.py --check    write nothing; exit with 1 and list modules that are stale, missing or extra

The output is meant to be read: one class per message for all its versions, one line per field or run of fields.
notation.py parses the definitions.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from notation import FIXED, Definition, DefinitionError, Field, Message, Parser, Struct, Versions, snake_case

ROOT = Path(__file__).resolve().parent.parent
DEFINITIONS = ROOT / "definitions"
WIRE = ROOT / "src" / "moldau" / "wire"


def init_type(one: Field) -> str:
    """The Python type of a field."""
    if one.struct is not None:
        name = one.struct.name
    elif one.type in FIXED:
        name = {"bool": "bool", "float64": "float", "uuid": "bytes"}.get(one.type, "int")
    else:
        name = {"string": "str", "bytes": "bytes", "records": "Buffer"}[one.type]
    if one.array:
        name = f"list[{name}]"
    return f"{name} | None" if one.optional else name


def default_value(one: Field) -> str:
    """The default of a field. Arrays and structs are created for each message."""
    if one.default is not None:
        return {"null": "None", "true": "True", "false": "False"}.get(one.default, one.default)
    if one.array:
        return "[]"
    if one.struct is not None:
        return "None" if one.optional else f"{one.struct.name}()"
    if one.type in FIXED:
        return FIXED[one.type][2]
    if one.type == "records":
        return "None" if one.optional else 'b""'
    return {"string": '""', "bytes": 'b""'}[one.type]


IN_NAMES = str.maketrans("?H", "tu")
"""Format characters that cannot be part of the names `pack_…` and `unpack_…`, and their replacements."""
FROM_NAMES = str.maketrans("tu", "?H")


def name_of(run: list[Field]) -> str:
    """The format of consecutive fixed-size fields, as used in the names `pack_…` and `unpack_…`."""
    return "".join(FIXED[one.type][0] for one in run).translate(IN_NAMES)


def runs(fields: list[Field]) -> Iterator[list[Field]]:
    """Split into single fields and runs of fixed-size ones, which are packed with one struct call."""
    run: list[Field] = []
    for one in fields:
        if one.fixed:
            run.append(one)
            continue
        if run:
            yield run
        run = []
        yield [one]
    if run:
        yield run


class StructWriter:
    """Writes the class of one struct."""

    def __init__(self, message: Message, struct: Struct) -> None:
        assert struct.versions is not None
        self.message = message
        self.struct = struct
        self.versions = struct.versions
        self.plain = [one for one in struct.fields if one.tag is None]
        self.tagged = [one for one in struct.fields if one.tag is not None]
        # Whether lengths are compact: "True", "False", or the local variable `flexible` if it depends on the version.
        self.flexible_from = message.flexible_from
        if self.flexible_from is None or self.flexible_from > self.versions.last:
            self.flexible = "False"
        else:
            self.flexible = "True" if self.flexible_from <= self.versions.first else "flexible"

    def lines(self) -> Iterator[str]:
        top = self.struct is self.message.top
        yield f"class {self.struct.name}({self.message.base if top else 'WireStruct'}):"
        yield f'    """{self.docstring()}"""'
        yield ""
        names = ", ".join(f'"{one.name}"' for one in self.struct.fields)
        yield f"    __slots__ = ({names}{',' * (len(self.struct.fields) == 1)})"
        if top:
            yield ""
            if self.message.api_key is not None:
                yield f"    API_KEY = {self.message.api_key}"
            yield f"    MIN_VERSION = {self.versions.first}"
            yield f"    MAX_VERSION = {self.versions.last}"
            yield f"    FLEXIBLE_FROM = {self.flexible_from}"
            if any(one.type == "records" for struct in self.message.structs for one in struct.fields):
                yield "    HAS_RECORDS = True"
        for method in (self.init(), self.reader(), self.writer()):
            yield ""
            yield from ("    " + line for line in method)

    def docstring(self) -> str:
        if self.struct is self.message.top:
            first, last = self.versions.first, self.versions.last
            return f"{self.message.name}, version {first if first == last else f'{first} to {last}'}."
        uses = [f"`{one.name}`" for one in self.struct.used_by]
        what = "An element of" if self.struct.used_by[0].array else "What is in"
        return f"{what} {' and '.join(filter(None, [', '.join(uses[:-1]), uses[-1]]))}."

    # --- __init__

    def init(self) -> Iterator[str]:
        yield "def __init__("
        yield "    self, *,"
        for one in self.struct.fields:
            yield f"    {self.parameter(one)},{self.remark(one)}"
        yield "    unknown_tags: Mapping[int, bytes] = NO_TAGS,"
        yield ") -> None:"
        for one in self.struct.fields:
            value = one.name
            if one.array and one.default is None:
                value = f"[] if {one.name} is EMPTY else {one.name}"
            elif one.struct is not None and not one.optional:
                value = f"{one.struct.name}() if {one.name} is None else {one.name}"
            yield f"    self.{one.name} = {value}"
        yield "    self.unknown_tags = unknown_tags"

    @staticmethod
    def parameter(one: Field) -> str:
        if one.array and one.default is None:
            return f"{one.name}: {init_type(one)} = EMPTY"
        if one.struct is not None and not one.optional:
            return f"{one.name}: {init_type(one)} | None = None"
        return f"{one.name}: {init_type(one)} = {default_value(one)}"

    def remark(self, one: Field) -> str:
        """The versions of a field, if it is not in all of them."""
        parts = []
        condition = one.versions.condition(self.versions)
        if condition is not None:
            parts.append(condition)
        if one.tag is not None:
            parts.append(f"tag {one.tag}")
        return f"  # {', '.join(parts)}" if parts else ""

    # --- read_from

    def reader(self) -> Iterator[str]:
        yield "@classmethod"
        yield "def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:"
        yield "    self = cls.__new__(cls)"
        body = list(self.read_body())
        yield from self.flexible_variable(body)
        yield from ("    " + line for line in body)
        yield "    return self, pos"

    def flexible_variable(self, body: list[str]) -> Iterator[str]:
        if any(re.search(r"\bflexible\b", line) for line in body):
            yield f"    flexible = version >= {self.flexible_from}"

    def groups(self) -> Iterator[tuple[str | None, list[Field]]]:
        """Consecutive untagged fields of the same versions, with the condition for them."""
        group: list[Field] = []
        for one in self.plain:
            if group and one.versions != group[0].versions:
                yield group[0].versions.condition(self.versions), group
                group = []
            group.append(one)
        if group:
            yield group[0].versions.condition(self.versions), group

    def read_body(self) -> Iterator[str]:
        for condition, group in self.groups():
            lines = [line for run in runs(group) for line in self.read_run(run)]
            if condition is None:
                yield from lines
                continue
            yield f"if {condition}:"
            yield from ("    " + line for line in lines)
            yield "else:"
            yield from (f"    self.{one.name} = {default_value(one)}" for one in group)
        yield from (f"self.{one.name} = {default_value(one)}" for one in self.tagged)
        yield "self.unknown_tags = NO_TAGS"
        if self.flexible == "False":
            return
        indent = ""
        if self.flexible == "flexible":
            yield "if flexible:"
            indent = "    "
        yield from (indent + line for line in self.read_tags())

    def read_run(self, run: list[Field]) -> Iterator[str]:
        if run[0].fixed:
            size = sum(FIXED[one.type][1] for one in run)
            targets = ", ".join(f"self.{one.name}" for one in run)
            yield f"{f'({targets},)' if len(run) == 1 else targets} = unpack_{name_of(run)}(data, pos)"
            yield f"pos += {size}"
            return
        (one,) = run

        def line(nullable: bool) -> str:
            return f"self.{one.name}, pos = {self.read_call(one, nullable, 'data', 'pos', self.flexible)}"

        yield from self.by_nullability(one, line)

    def by_nullability(self, one: Field, line: Callable[[bool], str]) -> Iterator[str]:
        """One line, or two if the field may be null only in some of its versions."""
        condition = one.nullable.condition(one.versions) if one.nullable is not None else None
        if condition is None:
            yield line(one.nullable is not None)
            return
        if one.struct is not None and not one.array:
            raise DefinitionError(f"{one.name}: a struct is null in all of its versions or in none")
        yield f"if {condition}:"
        yield f"    {line(True)}"
        yield "else:"
        yield f"    {line(False)}"

    @staticmethod
    def read_call(one: Field, nullable: bool, data: str, pos: str, flexible: str) -> str:
        null = "nullable_" if nullable else ""
        if one.struct is not None:
            read = f"{one.struct.name}.read_from"
            if one.array:
                return f"read_{null}array({data}, {pos}, version, {flexible}, {read})"
            if nullable:
                return f"read_nullable_struct({data}, {pos}, version, {read})"
            return f"{read}({data}, {pos}, version)"
        if not one.array:
            return f"read_{null}{one.type}({data}, {pos}, {flexible})"
        if one.type == "string":
            return f"read_{null}strings({data}, {pos}, {flexible})"
        return f'read_{null}numbers({data}, {pos}, {flexible}, "{FIXED[one.type][0]}")'

    def read_tags(self) -> Iterator[str]:
        yield "if data[pos]:"
        if self.tagged:
            yield "    tags, pos = read_tags(data, pos)"
            for one in self.tagged:
                condition = one.versions.condition(self.flexible_versions())
                found = f"(raw := tags.pop({one.tag}, None)) is not None"
                yield f"    if {condition + ' and ' if condition else ''}{found}:"
                if one.type in FIXED and not one.array:
                    yield f"        (self.{one.name},) = unpack_{name_of([one])}(raw)"
                else:
                    call = self.read_call(one, one.nullable is not None, "raw", "0", "True")
                    yield f"        self.{one.name}, _ = {call}"
            yield "    self.unknown_tags = tags"
        else:
            yield "    self.unknown_tags, pos = read_tags(data, pos)"
        yield "else:"
        yield "    pos += 1"

    def flexible_versions(self) -> Versions:
        assert self.flexible_from is not None
        return Versions(max(self.flexible_from, self.versions.first), self.versions.last)

    # --- write_to

    def writer(self) -> Iterator[str]:
        yield "def write_to(self, write: Write, version: int) -> None:"
        body = list(self.write_body())
        yield from self.flexible_variable(body)
        yield from ("    " + line for line in body or ["pass"])

    def write_body(self) -> Iterator[str]:
        for condition, group in self.groups():
            lines = [line for run in runs(group) for line in self.write_run(run)]
            if condition is None:
                yield from lines
            else:
                yield f"if {condition}:"
                yield from ("    " + line for line in lines)
        if self.flexible == "False":
            return
        indent = ""
        if self.flexible == "flexible":
            yield "if flexible:"
            indent = "    "
        yield from (indent + line for line in self.write_tags())

    def write_run(self, run: list[Field]) -> Iterator[str]:
        if run[0].fixed:
            yield f"write(pack_{name_of(run)}({', '.join(f'self.{one.name}' for one in run)}))"
            return
        (one,) = run
        partly = one.nullable is not None and one.nullable.condition(one.versions) is not None

        def line(nullable: bool) -> str:
            value = f"self.{one.name}"
            if partly and not nullable:
                value = f'require({value}, "{one.name}", version)'
            function, arguments = self.write_call(one, nullable, value, self.flexible)
            return f"{function}({', '.join(['write', *arguments])})"

        yield from self.by_nullability(one, line)

    @staticmethod
    def write_call(one: Field, nullable: bool, value: str, flexible: str) -> tuple[str, list[str]]:
        """The function that writes a field, and its arguments after `write`."""
        null = "nullable_" if nullable else ""
        if one.struct is not None:
            if one.array:
                return f"write_{null}array", [value, "version", flexible]
            return ("write_nullable_struct", [value, "version"]) if nullable else (f"{value}.write_to", ["version"])
        if not one.array:
            return f"write_{null}{'bytes' if one.type == 'records' else one.type}", [value, flexible]
        if one.type == "string":
            return f"write_{null}strings", [value, flexible]
        return f"write_{null}numbers", [value, flexible, f'"{FIXED[one.type][0]}"']

    def write_tags(self) -> Iterator[str]:
        if not self.tagged:
            yield "write_tags(write, self.unknown_tags)"
            return
        yield "tags = dict(self.unknown_tags)"
        for one in self.tagged:
            condition = one.versions.condition(self.flexible_versions())
            yield f"if {condition + ' and ' if condition else ''}{self.differs(one)}:"
            if one.type in FIXED and not one.array:
                yield f"    tags[{one.tag}] = pack_{name_of([one])}(self.{one.name})"
            else:
                function, arguments = self.write_call(one, one.nullable is not None, f"self.{one.name}", "True")
                yield f"    tags[{one.tag}] = content({', '.join([function, *arguments])})"
        yield "write_tags(write, tags)"

    @staticmethod
    def differs(one: Field) -> str:
        """The test that a tagged field differs from its default; defaults are not sent."""
        default = default_value(one)
        if default == "None":
            return f"self.{one.name} is not None"
        return f"self.{one.name}" if default in ("[]", "False", '""', 'b""') else f"self.{one.name} != {default}"


PRIMITIVES = (WIRE / "primitives.py").read_text(encoding="utf-8")


def module_text(definition: Definition) -> str:
    """The module of one definition, not formatted yet."""
    body: list[str] = []
    for message in definition.messages:
        for struct in message.structs:
            body += ["", "", *StructWriter(message, struct).lines()]
    text = "\n".join(body)
    title = f"{definition.api}: {definition.doc[0].lower()}{definition.doc[1:]}" if definition.api else definition.doc
    source = definition.path.relative_to(DEFINITIONS).as_posix()
    head = [f'"""{title}', "", f"Generated from definitions/{source}; change that, not this.", '"""']
    return "\n".join([*head, "", *imports(text), "", *packers(text), text, ""])


def used(names: Iterable[str], text: str) -> str:
    return ", ".join(sorted((n for n in names if re.search(rf"\b{n}\b", text)), key=import_order))


def import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as the linter requires."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def imports(text: str) -> Iterator[str]:
    yield "from __future__ import annotations"
    yield ""
    yield "from collections.abc import Mapping"
    if "pack_" in text:
        yield "from struct import Struct"
    yield "from typing import Self"
    yield ""
    yield f"from moldau.wire.message import {used(['Message', 'Request', 'Response', 'WireStruct'], text)}"
    names = re.findall(r"^(?:def |class )?([A-Za-z]\w*)(?:\(|: )", PRIMITIVES, re.MULTILINE)
    yield f"from moldau.wire.primitives import {used(set(names) - {'T', 'Writable'}, text)}"


def packers(text: str) -> Iterator[str]:
    """The struct formats that the module uses."""
    for code in sorted(set(re.findall(r"\bunpack_(\w+)\(", text))):
        yield f'unpack_{code} = Struct(">{code.translate(FROM_NAMES)}").unpack_from'
    for code in sorted(set(re.findall(r"\bpack_(\w+)\(", text))):
        yield f'pack_{code} = Struct(">{code.translate(FROM_NAMES)}").pack'


API_MODULE = '''"""Table of all APIs of the protocol with their known versions: ApiKey, Api and APIS.

A broker serves at most these versions, and fewer while a handler is missing.

Generated from definitions/; change those, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple

from moldau.wire.message import Request, Response


class ApiKey(IntEnum):
    """The number of an API in a request header."""

{keys}


class Api(NamedTuple):
    """The name of an API, its versions, and the module of its messages."""

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None
    latest_unstable: bool
    module: str

    @property
    def max_stable_version(self) -> int:
        """The highest version that is stable in Apache Kafka."""
        return self.max_version - self.latest_unstable

    def request_type(self) -> type[Request]:
        """The class of its request; imports the module on first use."""
        found: type[Request] = getattr(import_module(self.module), self.name + "Request")
        return found

    def response_type(self) -> type[Response]:
        """The class of its response; imports the module on first use."""
        found: type[Response] = getattr(import_module(self.module), self.name + "Response")
        return found


_MESSAGES = "moldau.wire.messages."

APIS: Final[Mapping[ApiKey, Api]] = MappingProxyType(
    {{
        api.key: api
        for api in (
{apis}
        )
    }}
)
'''


def api_text(apis: list[Definition]) -> str:
    """The table of all APIs, not formatted yet."""
    keys, rows = [], []
    for api in apis:
        constant = snake_case(api.api).upper()
        message = api.messages[0]
        keys.append(f"    {constant} = {api.key}")
        rows.append(
            f'            Api(ApiKey.{constant}, "{api.api}", {message.versions.first}, {message.versions.last},'
            f' {message.flexible_from}, {api.latest_unstable}, _MESSAGES + "{api.module}"),'
        )
    return API_MODULE.format(keys="\n".join(keys), apis="\n".join(rows))


PACKAGES = {
    "messages": "Requests and responses, one generated module per API, and data that they carry.",
    "stored": "Records that coordinators store in their logs, one generated module per record type.",
}


def generate() -> dict[str, str]:
    """All generated files, by path under wire/, formatted."""
    definitions = [Parser(path).parse() for path in sorted(DEFINITIONS.rglob("*.def"))]
    apis = sorted((d for d in definitions if d.api), key=lambda d: d.key)
    if len({api.key for api in apis}) != len(apis):
        raise DefinitionError("two definitions have the same API key")
    files = {"api.py": api_text(apis)}
    files |= {f"{package}/__init__.py": f'"""{doc}"""\n' for package, doc in PACKAGES.items()}
    for definition in definitions:
        package = "stored" if definition.path.parent.name == "stored" else "messages"
        path = f"{package}/{definition.module}.py"
        if path in files:
            raise DefinitionError(f"two definitions generate {path}")
        files[path] = module_text(definition)
    return formatted(files)


def formatted(files: dict[str, str]) -> dict[str, str]:
    """Run the formatter over all files at once, isolated from the project's settings."""
    with tempfile.TemporaryDirectory() as directory:
        for path, text in files.items():
            target = Path(directory, path)
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "ruff", "format", "--isolated", "--silent", "--no-cache"]
        subprocess.run([*command, "--line-length=120", "--target-version=py311", directory], check=True)
        return {path: Path(directory, path).read_text(encoding="utf-8") for path in files}


def present() -> dict[str, str]:
    """All existing files in the directories that belong to the generator, and api.py."""
    paths = [WIRE / "api.py", *(path for package in PACKAGES for path in (WIRE / package).glob("*.py"))]
    return {path.relative_to(WIRE).as_posix(): path.read_text(encoding="utf-8") for path in paths if path.exists()}


def main() -> int:
    """Generate the files, or check that they are up to date."""
    parser = argparse.ArgumentParser(description="Write the message modules of moldau.wire from definitions/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not up to date")
    check = parser.parse_args().check
    try:
        wanted, found = generate(), present()
    except DefinitionError as error:
        print(f"generate: {error}", file=sys.stderr)
        return 2
    differences = [f"missing: {path}" for path in wanted if path not in found]
    differences += [f"extra: {path}" for path in found if path not in wanted]
    differences += [f"stale: {path}" for path in wanted if path in found and found[path] != wanted[path]]
    if check:
        for line in sorted(differences):
            print(f"generate: {line}", file=sys.stderr)
        if differences:
            print("generate: run `python tools/generate.py` and commit what it writes", file=sys.stderr)
        return 1 if differences else 0
    for path in found.keys() - wanted.keys():
        (WIRE / path).unlink()
    for path, text in wanted.items():
        if found.get(path) != text:
            target = WIRE / path
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
    print(f"generate: {len(wanted)} files, {len(differences)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
