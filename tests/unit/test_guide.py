"""Names in the guide to the code: the files, classes and methods of ARCHITECTURE.md and CONTRIBUTING.md exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "moldau"
PAGES = ("docs/ARCHITECTURE.md", "CONTRIBUTING.md")

PATH = re.compile(r"[\w.-]+(?:/[\w.*-]+)*(?:/|\.(?:py|pyx|def|md|toml|txt))")
METHOD = re.compile(r"([A-Z]\w*[a-z]\w*)\.(\w+)")
CAP_WORDS = re.compile(r"(?:[A-Z][a-z0-9]+)+")
DEFINED_THERE = re.compile(r"`([\w/]+\.py)`: `([\w.]+)`")
"""References into a file in the guide: "`log/log.py`: `Log.append`"."""
MADE_UP = re.compile(r"\b(?:NAME|NN_name|name)\.")
"""The file that the reader of a recipe creates."""

SOURCES = (".py", ".pyx")

OUTSIDE = {"KeyError", "AttributeError", "CancelledError"}
"""Python's own classes."""


def code_spans(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^(?:    .*\n)+", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", text))


def exists(path: str) -> bool:
    """A path is relative to the package or to the repository; a name without a folder may be in any of their
    folders."""
    path = path.rstrip("/")
    if any(found for root in (PACKAGE, ROOT) for found in root.glob(path)):
        return True
    return "/" not in path and any(next((ROOT / top).rglob(path), None) for top in ("src", "tests", "tools"))


def missing_paths(spans: set[str]) -> list[str]:
    paths = {span for span in spans if PATH.fullmatch(span) and not MADE_UP.search(span)}
    return sorted(path for path in paths if not exists(path))


def class_bodies() -> dict[str, str]:
    """The text of each class by its name; classes of the same name count as one."""
    bodies: dict[str, str] = {}
    for path in (path for root in (PACKAGE, ROOT / "bench") for path in root.rglob("*") if path.suffix in SOURCES):
        source = path.read_text(encoding="utf-8")
        starts = [*re.finditer(r"^(?:cdef )?class (\w+)", source, re.MULTILINE)]
        for found in starts:
            end = re.compile(r"^\S", re.MULTILINE).search(source, source.index("\n", found.end()) + 1)
            # A class statement may close its bracket in the first column.
            body = source[found.start() : end.start() if end and source[end.start()] != ")" else len(source)]
            bodies[found[1]] = bodies.get(found[1], "") + body
        for found in re.finditer(r"^(?:type )?(\w+)\b.* = ", source, re.MULTILINE):
            bodies.setdefault(found[1], "")
    return bodies


def missing_names(spans: set[str], bodies: dict[str, str]) -> list[str]:
    found = [span for span in spans if CAP_WORDS.fullmatch(span) and span not in {*bodies, *OUTSIDE}]
    for span in spans:
        if method := METHOD.fullmatch(span):
            body = bodies.get(method[1], "")
            if not re.search(rf"\bdef {method[2]}\b|^    {method[2]}\b|\bself\.{method[2]}\b", body, re.MULTILINE):
                found.append(span)
    return sorted(found)


@pytest.mark.parametrize("page", PAGES)
def test_every_path_of_the_guide_exists(page: str) -> None:
    spans = code_spans(page)
    assert len([span for span in spans if PATH.fullmatch(span)]) > 40
    assert missing_paths(spans) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_class_and_method_of_the_guide_exists(page: str) -> None:
    assert missing_names(code_spans(page), class_bodies()) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_name_is_defined_in_the_file_that_the_guide_gives(page: str) -> None:
    wrong = [
        f"{path}: {name}"
        for path, name in DEFINED_THERE.findall((ROOT / page).read_text(encoding="utf-8"))
        if not re.search(rf"\b(?:def|class) {name.rpartition('.')[2]}\b", (PACKAGE / path).read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_a_name_that_is_gone_is_found() -> None:
    spans = {
        "log/log.py",
        "log/gone.py",
        "gone.py",
        "gone/",
        "LogConfig",
        "GoneClass",
        "Log.append",
        "Log.gone",
        "Gone.x",
    }
    assert missing_paths(spans) == ["gone.py", "gone/", "log/gone.py"]
    assert missing_names(spans, class_bodies()) == ["Gone.x", "GoneClass", "Log.gone"]
