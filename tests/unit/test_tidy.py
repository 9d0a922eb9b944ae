"""Rules about the repository: access to the machine, lengths of files, and correct lists."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import moldau
from moldau.settings import BROKER, TOPIC
from tests.unit import seams

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "moldau"
MAX_LINES = 600

MAX_TITLE = 110
QUESTION_WORD = re.compile(r"(What|Which|Who|Whose|How|Where|Whether|When)\b")

GENERATED = ("src/moldau/wire/messages/", "src/moldau/wire/stored/")


def sources(*folders: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".pyx", ".pxd", ".pyi") and "__pycache__" not in path.parts
    )


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Seams ----------------------------------------------------------------------------------------------------------------


def test_nothing_touches_the_machine_past_its_seams() -> None:
    found = seams.package_findings(PACKAGE)
    assert not found, "\n" + "\n".join(f"src/moldau/{one}" for one in found)


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import os.path, threading",
        "from urllib import request",
        "import os\nos.open('x', 0)",
        "import os\nos.path.exists('x')",
        "from os import unlink",
        "from os.path import getsize",
        "open('x')",
        "def f():\n    import random",
        "import asyncio\nasyncio.to_thread(print)",
        "loop.run_in_executor(None, print)",
        "loop.create_server(None)",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
        "if TYPE_CHECKING:\n    import time\nelse:\n    import time",
    ],
)
def test_every_way_past_a_seam_is_found(source: str) -> None:
    assert len(seams.findings("log/segment.py", source)) == 1
    assert seams.findings("host/fs.py", source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.path.join('a', 'b')",
        "import os\nos.environ.get('MOLDAU_PURE')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket",
        "import asyncio\nasyncio.get_running_loop().time()",
        "fs.open('x')",
        "from moldau.host import time",
        "from urllib.parse import quote",
    ],
)
def test_code_that_does_not_touch_the_machine_is_accepted(source: str) -> None:
    assert seams.findings("log/segment.py", source) == []


def test_an_exception_for_a_module_covers_only_its_own_seam() -> None:
    assert seams.findings("net/server.py", "import socket") == []
    assert seams.findings("net/server.py", "import time") == ["net/server.py:1: import time (clock)"]
    assert seams.findings("cluster/sqlite_store.py", "import sqlite3") == []
    assert seams.findings("cluster/controller.py", "import sqlite3") != []


def test_compiled_code_does_not_read_the_clock() -> None:
    assert seams.findings("records/_native.pyx", "from libc.time cimport time") != []
    assert seams.findings("records/_native.pyx", "from libc.string cimport memcpy") == []


# Files ----------------------------------------------------------------------------------------------------------------


def test_every_file_fits_a_head() -> None:
    lengths = {
        relative(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources("src", "tests", "tools", "bench")
        if not relative(path).startswith(GENERATED)
    }
    too_long = {name: length for name, length in lengths.items() if length > MAX_LINES}
    assert not too_long


def first_line_faults(source: str) -> list[str]:
    """The rules that the first line of a module's docstring breaks."""
    docstring = ast.get_docstring(ast.parse(source))
    if not docstring:
        return ["no docstring"]
    line, *rest = docstring.split("\n")
    faults = {
        "the first sentence goes on in the second line": bool(rest and rest[0]),
        f"longer than {MAX_TITLE}": len(line) > MAX_TITLE,
        "does not begin with an upper-case letter": not line[0].isupper(),
        "does not end with a period": not line.endswith("."),
        "opens with a question word": QUESTION_WORD.match(line) is not None,
    }
    return [fault for fault, found in faults.items() if found]


def test_every_module_opens_with_a_title() -> None:
    """The first line of a docstring is the module's entry in docs/file-map.md."""
    found = [
        f"{relative(path)}: {', '.join(faults)}"
        for path in sources("src/moldau")
        if path.suffix == ".py"
        and not relative(path).startswith(GENERATED)
        and (faults := first_line_faults(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ('"""Follower fetch loop: copies records from leaders."""', []),
        ('"""Retention rules.\n\nPure functions."""', []),
        ("x = 1", ["no docstring"]),
        ('"""What a topic asks of a batch."""', ["opens with a question word"]),
        ('"""Whether a batch is valid."""', ["opens with a question word"]),
        ('"""`moldau up`: a broker."""', ["does not begin with an upper-case letter"]),
        ('"""Retention rules"""', ["does not end with a period"]),
        (f'"""{"L" * 110}."""', ["longer than 110"]),
        ('"""Retention rules by size.\nAnd by time."""', ["the first sentence goes on in the second line"]),
    ],
)
def test_a_bad_title_is_found(source: str, faults: list[str]) -> None:
    assert first_line_faults(source) == faults


OLD_VOICE = re.compile(
    r"\b(anew|whoever|whomever|whosoever|be it|behind (?:such|these|one another|each other)|what is behind|of which is"
    r"|(?:is|was|are|were) let in|to and fro|all the same|in (?:its|their) stead|as many as it takes|the poorer|comers?"
    r"|what became of|former life|earlier life|goes home|going home|reborn|cannot be (?:is|are)|is as good as"
    r"|of another make|without a word)\b",
    re.IGNORECASE,
)
"""Words that a reader with English as a third language has to read twice. STYLE.md has plain ones for them."""

OLD_VOICE_ACCEPTED = {"tests/unit/test_tidy.py"}
"""This file has the words themselves."""


def old_voice(text: str) -> list[str]:
    """The lines of a text with such words, also in names: `made_anew`."""
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.split("\n"), 1) if _is_old_voice(line)]


def _is_old_voice(line: str) -> bool:
    return OLD_VOICE.search(line.replace("_", " ")) is not None


def test_prose_is_plain_english() -> None:
    pages = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    code = sources("src", "tests", "tools", "bench", "examples")
    found = [
        f"{relative(path)}:{line}"
        for path in [*pages, *code]
        if relative(path) not in OLD_VOICE_ACCEPTED and not relative(path).startswith(GENERATED)
        for line in old_voice(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("# told to whoever waits", True),
        ("def test_a_topic_that_is_made_anew() -> None:", True),
        ('"""What is behind such a batch is refused like it."""', True),
        ("# All waiting requests are answered with NOT_LEADER_OR_FOLLOWER.", False),
        ("# five seconds to lag behind it", False),
        ("renewed = names.let_inner", False),
    ],
)
def test_old_words_are_found(line: str, is_found: bool) -> None:
    assert bool(old_voice(line)) == is_found


def awaited_parameters(source: str) -> list[int]:
    """The lines where a coroutine awaits a coroutine that its caller created."""
    found: list[int] = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        annotated = {one.arg: ast.unparse(one.annotation) for one in arguments if one.annotation is not None}
        made = {name for name, type_ in annotated.items() if type_.startswith(("Coroutine", "Awaitable"))}
        awaits = [node for node in ast.walk(function) if isinstance(node, ast.Await)]
        found += [one.lineno for one in awaits if isinstance(one.value, ast.Name) and one.value.id in made]
    return found


def test_no_coroutine_waits_for_one_that_it_was_given() -> None:
    """A task that is cancelled before its first step closes its own coroutine, but not one that it was given: Python
    warns that this one was never awaited. Make the given coroutine the task, and do the rest in a done callback."""
    found = [
        f"{relative(path)}:{line}"
        for path in sources("src")
        if path.suffix == ".py"
        for line in awaited_parameters(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("async def run(work: Coroutine[Any, Any, None]) -> None:\n    await work", [2]),
        ("def run(work: Awaitable[None]) -> None:\n    async def inner() -> None:\n        await work", [3]),
        ("def run(work: Coroutine[Any, Any, None]) -> None:\n    loop.create_task(work)", []),
        ("async def run(work: Callable[[], Awaitable[None]]) -> None:\n    await work()", []),
    ],
)
def test_a_coroutine_that_waits_for_one_it_was_given_is_found(source: str, lines: list[int]) -> None:
    assert awaited_parameters(source) == lines


TWO_OF_A_NAME = {
    "Admin": "the asyncio and the blocking admin client",
    "Consumer": "the asyncio and the blocking consumer",
    "Producer": "the asyncio and the blocking producer",
    "Broker": "the broker, and the one in a thread that tests start",
    "Stage": "a step of a login, and a step of a connector, with the name that dead letters give it",
    "Registry": "the interface of a schema registry, and the one that tests start",
    "RowError": "rows that a producer cannot write, and rows that a step of a connector cannot process",
    "Schema": "a schema of the registry, and the schema of a connector's records",
    "SchemaType": "a language of schemas, and a type of a connector's values",
    "Request": "a request message, and a request while a session handles it",
}
"""Class names with two meanings on purpose. All others lead a search to one place."""


def class_names(source: str) -> list[str]:
    """The classes of a module, without those inside of functions and classes."""
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in sources("src/moldau"):
        if path.suffix == ".py" and not relative(path).startswith(GENERATED):
            for name in class_names(path.read_text(encoding="utf-8")):
                places.setdefault(name, []).append(relative(path))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not {name: found for name, found in twice.items() if name not in TWO_OF_A_NAME or len(found) > 2}
    assert set(TWO_OF_A_NAME) <= set(twice), "only names that two classes have are on the list"


def test_classes_of_a_module_are_found() -> None:
    assert class_names("class A:\n    class B: ...\n\nclass _C(A): ...\n\ndef f():\n    class D: ...") == ["A", "_C"]


LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
SETS_UP_LOGGERS = (
    "src/moldau/host/event_log.py",
    "src/moldau/cli/logs.py",
    "src/moldau/connect/connectors/http_requests.py",
    "src/moldau/connect/herder/worker_loggers.py",
    "src/moldau/sql/spark_errors.py",
    "src/moldau/testing/log_silencer.py",
    "src/moldau/testing/simulation/trace.py",
)
"""The modules that configure loggers. All others log, with `event_logger`."""


def log_faults(source: str) -> list[str]:
    """The log calls that do not follow docs/decisions/0012: an event in a few words, its facts as fields."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = node.func
        if called.attr == "getLogger":
            found.append(f"{node.lineno}: use event_logger of host/event_log.py")
        elif (
            called.attr in LOG_METHODS
            and isinstance(called.value, ast.Name)
            and called.value.id.strip("_")
            in (
                "log",
                "logger",
            )
        ):
            text, *values = node.args[1:] if called.attr == "log" else node.args
            plain = isinstance(text, ast.Name) or (
                isinstance(text, ast.Constant) and isinstance(text.value, str) and "%" not in text.value
            )
            if values or not plain:
                found.append(f"{node.lineno}: name the event in a constant text, and pass its facts as extra={{...}}")
    return found


def test_log_messages_name_an_event_and_carry_its_facts_as_fields() -> None:
    found = [
        f"{relative(path)}:{fault}"
        for path in sources("src/moldau")
        if path.suffix == ".py" and relative(path) not in SETS_UP_LOGGERS
        for fault in log_faults(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("logger = logging.getLogger(__name__)", 1),
        ("log.warning('commit failed: %s', error)", 1),
        ("log.warning(f'commit failed: {error}')", 1),
        ("_log.log(level, 'commit failed: ' + error)", 1),
        ("log.info('{} failed'.format(name))", 1),
        ("log.info('commit failed', error)", 1),
        ("log.warning('commit failed', extra={'reason': str(error)})", 0),
        ("log.log(level, 'commit failed', extra={'reason': str(error)})", 0),
        ("answer.error(1, 2)", 0),
    ],
)
def test_a_log_message_with_facts_in_its_text_is_found(source: str, count: int) -> None:
    assert len(log_faults(source)) == count


def test_nothing_is_left_for_later() -> None:
    left = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in sources("src")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if left.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_changelog_mentions_only_existing_things() -> None:
    headings = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings
    assert headings[0] == "Unreleased" or moldau.__version__ in headings[0]


# Lists that must agree ------------------------------------------------------------------------------------------------


def test_every_handler_file_registers_a_handler() -> None:
    importlib.import_module("moldau.broker.handlers")
    registry = importlib.import_module("moldau.broker.requests.handler_registry")
    registered = {handler.function.__module__.rpartition(".")[2] for handler in registry.HANDLERS.values()}
    files = {path.stem for path in (PACKAGE / "broker" / "handlers").glob("*.py")} - {"__init__"}
    assert files == registered


def test_every_setting_that_claims_an_effect_is_read_somewhere() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sources("src/moldau")
        if not relative(path).startswith((*GENERATED, "src/moldau/testing/", "src/moldau/client/"))
    )
    defaults_of_topics = {synonym for setting in TOPIC for synonym in setting.synonyms}

    def is_read(name: str) -> bool:
        """The name is in quotes once in its declaration, and once more where it is read."""
        return code.count(f'"{name}"') > 1

    unread = [
        setting.name
        for setting in BROKER
        if not setting.no_effect and setting.name not in defaults_of_topics and not is_read(setting.name)
    ]
    unread += [
        setting.name
        for setting in TOPIC
        if not setting.no_effect
        and not is_read(setting.name)
        and not re.search(rf"\.{setting.name.replace('.', '_')}\b", code)
    ]
    assert not unread, "declared without no_effect, and read nowhere: " + ", ".join(unread)


def test_every_dependency_is_pinned_and_no_pin_names_a_host() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(one for e in extras for one in e),
    ]
    names = {re.split(r"[\[<>=;! ]", requirement)[0].lower().replace("_", "-") for requirement in wanted} - {"moldau"}
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+", line) for line in lines)
    assert names <= {line.partition("==")[0].lower().replace("_", "-") for line in lines}
