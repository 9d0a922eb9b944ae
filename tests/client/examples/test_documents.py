"""Python examples of the documents: they run as shown, and the reference names everything that is public.

The blocks of a page run in their order, in one namespace, against the page's own broker, whose address replaces
`localhost:9092`. pytest runs blocks with test functions. A comment before a block makes an exception:

    <!-- reads for ever: the test stops it at the first print -->
    <!-- not run: why -->
"""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import moldau
import moldau.client.admin
import moldau.testing
from moldau import aio
from moldau.client import client_errors
from moldau.testing import Broker, Cluster, Fault, Faults

ROOT = Path(__file__).resolve().parents[3]
CLIENT_PAGES = ("docs/clients.md", "docs/producer.md", "docs/consumer.md", "docs/admin.md")
PAGES = (*CLIENT_PAGES, "docs/testing.md", "README.md")
BLOCK = re.compile(r"(?:<!-- (?P<marker>[^>]*) -->\n+)?```python\n(?P<code>.*?)```", re.DOTALL)
SPARK = 'format("moldau")'  # tests/spark runs these
MAX_NOT_RUN = 3
OPEN_TO_ALL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Rules can be described and changed, and apply to nobody."""


class Block(NamedTuple):
    line: int
    code: str
    marker: str


class Stopped(Exception):
    """Raised when an example that reads forever has printed something."""


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start("code")) + 1, found["code"], found["marker"] or "")
        for found in BLOCK.finditer(text)
        if SPARK not in found["code"]
    ]


def stop(*_printed: object, **_options: object) -> None:
    raise Stopped


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert found
    names: dict[str, Any] = {"__name__": "__example__"}
    with Broker({"num.partitions": 1, **OPEN_TO_ALL}) as broker:
        for block in found:
            if block.marker.startswith("not run: "):
                continue
            code = block.code.replace("localhost:9092", broker.bootstrap_servers)
            if re.search(r"^(async )?def test_", code, re.MULTILINE):
                run_by_pytest(code, tmp_path / f"test_line_{block.line}.py")
                continue
            names["print"] = stop if block.marker.startswith("reads for ever") else lambda *_printed: None
            try:
                # Padded, so that a traceback shows the line of the page.
                exec(compile("\n" * (block.line - 1) + code, str(ROOT / page), "exec"), names)
            except Stopped:
                pass
            except Exception as error:
                error.add_note(f"{page}, the example at line {block.line}")
                raise
        close_clients(names)


def run_by_pytest(code: str, path: Path) -> None:
    path.write_text(f"import pytest\n\n{code}", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-c", "/dev/null", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def close_clients(names: dict[str, Any]) -> None:
    """Close the clients of examples that show a single call and do not close them."""
    for client in names.values():
        if isinstance(client, moldau.Producer | moldau.Consumer | moldau.Admin):
            client.close()


def test_few_examples_are_not_run() -> None:
    assert sum(block.marker.startswith("not run: ") for page in PAGES for block in blocks(page)) <= MAX_NOT_RUN


@pytest.mark.parametrize("page", PAGES)
def test_no_python_example_escapes_the_test(page: str) -> None:
    """An indented block would not be run."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    python = r"^    (?:(?:from|import|with|async with|def|class) |producer\.|consumer\.|admin\.|broker\.).*"
    assert not re.findall(python, text, re.MULTILINE)


# The reference --------------------------------------------------------------------------------------------------------


def code_of(*pages: str) -> str:
    """All text that the pages show as code: in backticks and in blocks."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    return "\n".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))


def missing(names: list[str], code: str) -> list[str]:
    return [name for name in names if not re.search(rf"\b{re.escape(name)}\b", code)]


def test_every_public_name_is_in_the_reference() -> None:
    names = [*moldau.__all__, *aio.__all__, *moldau.client.admin.__all__]
    assert missing(names, code_of(*CLIENT_PAGES)) == []


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        (moldau.Producer, "docs/producer.md"),
        (aio.Producer, "docs/producer.md"),
        (moldau.Consumer, "docs/consumer.md"),
        (aio.Consumer, "docs/consumer.md"),
        (moldau.Admin, "docs/admin.md"),
        (aio.Admin, "docs/admin.md"),
    ],
)
def test_every_method_and_argument_is_in_the_reference(kind: type, page: str) -> None:
    code = code_of(page, "docs/clients.md")
    names = []
    for name, method in inspect.getmembers(kind, callable):
        if not name.startswith("_"):
            names += [
                name,
                *(one for one in inspect.signature(method).parameters if one not in ("self", "args", "kwargs")),
            ]
    assert missing(names, code) == []


INTERNAL = {"attach", "detach", "prepare", "refusal", "remove", "count", "ended", "meets", "used_up"}
"""Methods of faults that the test broker itself calls."""


def test_everything_of_the_testing_package_is_in_its_reference() -> None:
    names = list(moldau.testing.__all__)
    for kind in (Broker, Cluster, Fault, Faults):
        names += [name for name in dir(kind) if not name.startswith("_") and name not in INTERNAL]
    assert missing(names, code_of("docs/testing.md")) == []


def test_every_error_that_the_pages_name_exists() -> None:
    known = [moldau, moldau.errors, moldau.client.admin, builtins]
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in CLIENT_PAGES)
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z][A-Za-z]+)`", text)) - OTHER_NAMES
    assert [name for name in sorted(named) if not any(hasattr(home, name) for home in known)] == []


OTHER_NAMES = {"BatchMetadata", "LogAppendTime", "OffsetAndTimestamp", "PartitionMetadata", "RecordBatch"}


def test_the_errors_of_the_clients_are_in_the_reference() -> None:
    assert missing(client_errors.__all__, code_of("docs/clients.md")) == []
