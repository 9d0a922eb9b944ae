"""Rules about the repository itself: what may touch the machine, how long a file may be, that its lists are true."""

from __future__ import annotations

import importlib
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import moldau
from moldau.settings import BROKER, TOPIC
from tests.unit import seams

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "moldau"
MAX_LINES = 600

GENERATED = ("src/moldau/wire/messages/", "src/moldau/wire/stored/")

# - `path` — text
MAP_LINE = re.compile(r"^\s*- `([^`]+)` — \S")


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
    ],
)
def test_what_touches_nothing_is_not_found(source: str) -> None:
    assert seams.findings("log/segment.py", source) == []


def test_a_room_is_open_for_its_own_seam_only() -> None:
    assert seams.findings("net/server.py", "import socket") == []
    assert seams.findings("net/server.py", "import time") == ["net/server.py:1: import time (clock)"]
    assert seams.findings("cluster/sqlite_store.py", "import sqlite3") == []
    assert seams.findings("cluster/controller.py", "import sqlite3") != []


def test_compiled_code_has_no_clock_of_its_own() -> None:
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


def test_nothing_is_left_for_later() -> None:
    left = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in sources("src")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if left.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_changelog_speaks_of_what_is_here() -> None:
    headings = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings
    assert headings[0] == "Unreleased" or moldau.__version__ in headings[0]


# The map in docs/ARCHITECTURE.md --------------------------------------------------------------------------------------


def mapped_paths() -> list[str]:
    """Paths of the map, relative to src/moldau; other places of the repository may be in the map, too."""
    lines = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    return [match[1] for line in lines if (match := MAP_LINE.match(line))]


def package_paths() -> list[str]:
    """What the map has to name: packages as `log/`, modules as `log/segment.py`; __init__ is the package itself."""
    paths = {path.relative_to(PACKAGE).as_posix() for path in sources("src/moldau")}
    packages = {f"{path.rpartition('/')[0]}/" for path in paths if "/" in path}
    return sorted(packages | {path for path in paths if not path.endswith(("__init__.py", ".pyi"))})


def covers(entry: str, path: str) -> bool:
    """`log/segment.py` and `src/moldau/log/segment.py` name one file; `broker/handlers/*.py` names many."""
    entry = entry.removeprefix("src/moldau/")
    return fnmatch(path, entry) and entry.count("/") == path.count("/")


def test_the_file_map_names_every_module_and_package() -> None:
    entries = mapped_paths()
    missing = [path for path in package_paths() if not any(covers(entry, path) for entry in entries)]
    assert not missing, "not in docs/ARCHITECTURE.md:\n" + "\n".join(f"- `{path}` — " for path in missing)


def test_the_file_map_names_nothing_that_is_not_there() -> None:
    paths = package_paths()
    gone = [
        entry
        for entry in mapped_paths()
        if not any(covers(entry, path) for path in paths) and not any(ROOT.glob(entry.rstrip("/")))
    ]
    assert not gone, "in docs/ARCHITECTURE.md, but not in the repository: " + ", ".join(gone)


# Lists that must agree ------------------------------------------------------------------------------------------------


def test_every_handler_file_registers_a_handler() -> None:
    importlib.import_module("moldau.broker.handlers")
    registry = importlib.import_module("moldau.broker.registry")
    registered = {handler.function.__module__.rpartition(".")[2] for handler in registry.HANDLERS.values()}
    files = {path.stem for path in (PACKAGE / "broker" / "handlers").glob("*.py")} - {"__init__"}
    assert files == registered


DECLARATIONS = ("settings/broker.py", "settings/topic.py", "settings/groups.py", "settings/transactions.py")


def test_every_setting_that_claims_an_effect_is_read_somewhere() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sources("src/moldau")
        if not relative(path).endswith(DECLARATIONS) and not relative(path).startswith(GENERATED)
    )
    defaults_of_topics = {synonym for setting in TOPIC for synonym in setting.synonyms}
    unread = [
        setting.name
        for setting in BROKER
        if not setting.no_effect and setting.name not in defaults_of_topics and f'"{setting.name}"' not in code
    ]
    unread += [
        setting.name
        for setting in TOPIC
        if not setting.no_effect
        and f'"{setting.name}"' not in code
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
