"""Search for code that bypasses the seams to the machine: files, clock, randomness, threads, sockets, processes.

A simulated broker gets its disk, time and network from outside. One `time.time()` in the wrong place, and a failure no
longer replays from its seed. So each seam names the modules that may use it, and every other use is a finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

EVERYWHERE_ALLOWED = ("host/", "cli/", "testing/", "connect/connectors/", "examples/", "pipelines/", "__main__.py")
"""The seams themselves, and the code around a broker: the command line, test fixtures, case studies and
pipelines start real processes, and connectors read and write the world outside."""

ROOMS = {
    # ZooKeeper's client has its own thread and socket. A simulation uses another store.
    "network": ("net/", "cluster/kazoo_session.py", "service/server.py"),
    # A shell runs scripts, and keeps the history of its user. fastavro writes to file objects, here in memory.
    "files": (
        "cluster/kazoo_session.py",
        "rest/avro_json.py",
        "schemas/serializers/avro_serializer.py",
        "sql/server/",
        "sql/shell/",
    ),
    "database": ("cluster/sqlite_store.py", "spark/upsert_targets.py", "sql/index/index_store.py"),
    # A call of an injected clock per record would take a quarter of the time of a producer's `send`.
    "clock": ("client/producer/_record.pxd",),
    # The type UUID; the module creates no new ones. Salts of passwords, which no simulation may make guessable.
    "chance": (
        "client/serialization.py",
        "registry/schema_fingerprint.py",
        "security/scram_keys.py",
        "service/login.py",
    ),
    # The caller of a blocking client is in another thread than the client's loop.
    # A service hashes passwords and reads certificates in threads. Calls of Spark block, so SQL has threads for them.
    "threads": (
        "client/",
        "connect/engine/",
        "cluster/memory_store.py",
        "cluster/kazoo_session.py",
        "service/login.py",
        "service/server.py",
        "sql/",
    ),
    "processes": (),
}

MODULES = {
    "_thread": "threads",
    "concurrent": "threads",
    "multiprocessing": "processes",
    "threading": "threads",
    "queue": "threads",
    "time": "clock",
    "sched": "clock",
    "random": "chance",
    "secrets": "chance",
    "uuid": "chance",
    "socket": "network",
    "socketserver": "network",
    "ssl": "network",
    "select": "network",
    "selectors": "network",
    "http": "network",
    "urllib": "network",
    "sqlite3": "database",
    "subprocess": "processes",
    "signal": "processes",
    "fcntl": "files",
    "glob": "files",
    "io": "files",
    "mmap": "files",
    "pathlib": "files",
    "shutil": "files",
    "tempfile": "files",
}

PURE_MODULES = {"urllib.parse"}
"""Modules that only compute, inside of packages that do more."""
PURE_PARTS_OF_OS = {"PathLike", "environ", "fspath", "path", "sep", "strerror"}
PURE_PARTS_OF_OS_PATH = {"basename", "dirname", "join", "normpath", "sep", "splitext"}

CALLS = {
    "open": "files",
    "asyncio.create_subprocess_exec": "processes",
    "asyncio.create_subprocess_shell": "processes",
    "asyncio.open_connection": "network",
    "asyncio.start_server": "network",
    "asyncio.to_thread": "threads",
    "date.today": "clock",
    "datetime.now": "clock",
    "datetime.today": "clock",
    "datetime.utcnow": "clock",
}
METHODS = {"create_connection": "network", "create_server": "network", "run_in_executor": "threads"}

_CYTHON_IMPORT = re.compile(r"^\s*(?:from|import|cimport)\s+(?:libc\.|posix\.)?(\w+)")


def findings(path: str, source: str) -> list[str]:
    """The findings in one file, as `file:line: what`. `path` is relative to the package."""
    if path.startswith(EVERYWHERE_ALLOWED):
        return []
    uses = _cython_uses(source) if path.endswith((".pyx", ".pxd")) else _python_uses(ast.parse(source))
    return [
        f"{path}:{line}: {what} ({seam})"
        for line, what, seam in sorted(uses)
        if not path.startswith(ROOMS[seam] or "?")
    ]


def package_findings(package: Path) -> list[str]:
    """The findings in all files of a package."""
    found: list[str] = []
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd"):
            found += findings(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8"))
    return found


def _cython_uses(source: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        match = _CYTHON_IMPORT.match(line)
        if match and match[1] in MODULES:
            yield number, line.strip(), MODULES[match[1]]


def _python_uses(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    for node in _walk_what_runs(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_use(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from _module_use(node.lineno, node.module)
            if node.module in ("os", "os.path"):
                for alias in node.names:
                    yield from _attribute_use(node.lineno, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute):
            yield from _attribute_use(node.lineno, ast.unparse(node))
        elif isinstance(node, ast.Call):
            yield from _call_use(node)


def _walk_what_runs(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those under `if TYPE_CHECKING:`, which never run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from _walk_what_runs(other)
        else:
            yield child
            yield from _walk_what_runs(child)


def _module_use(line: int, module: str) -> Iterator[tuple[int, str, str]]:
    root = module.partition(".")[0]
    if root in MODULES and module not in PURE_MODULES:
        yield line, f"import {module}", MODULES[root]


def _attribute_use(line: int, dotted: str) -> Iterator[tuple[int, str, str]]:
    parts = dotted.split(".")
    impure = parts[0] == "os" and (
        (len(parts) == 2 and parts[1] not in PURE_PARTS_OF_OS)
        or (len(parts) == 3 and parts[1] == "path" and parts[2] not in PURE_PARTS_OF_OS_PATH)
    )
    if impure:
        yield line, dotted, "chance" if dotted == "os.urandom" else "files"


def _call_use(node: ast.Call) -> Iterator[tuple[int, str, str]]:
    name = ast.unparse(node.func)
    for call, seam in CALLS.items():
        if name == call or ("." in call and name.endswith("." + call)):
            yield node.lineno, f"{name}()", seam
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        yield node.lineno, f"{name}()", METHODS[node.func.attr]
