"""Exercises of docs/course: each runs to its end, and its own assertions hold."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COURSE = ROOT / "examples" / "course"
CHAPTERS = ROOT / "docs" / "course"
SHARED = "course.py"
EXERCISES = sorted(path.name for path in COURSE.glob("*.py") if path.name != SHARED)
PATIENCE_S = 60.0


@pytest.fixture
def arguments(request: pytest.FixtureRequest) -> list[str]:
    """The exercise's arguments: without --bootstrap it starts its own broker."""
    given: str | None = request.config.getoption("--bootstrap")
    return [] if given is None else ["--bootstrap", given]


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Exercises import their shared module as if they were started from their directory."""
    monkeypatch.syspath_prepend(str(COURSE))
    yield
    sys.modules.pop("course", None)


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_exercise_prints_what_its_page_shows(
    exercise: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [exercise, *arguments])
    runpy.run_path(str(COURSE / exercise), run_name="__main__")
    assert capsys.readouterr().out


def test_an_exercise_runs_as_a_program(arguments: list[str]) -> None:
    command = [sys.executable, str(COURSE / "log_offsets.py"), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "after seek(7)" in ran.stdout
    assert not ran.stderr


def test_every_exercise_is_in_a_chapter_and_every_program_of_a_chapter_exists() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in CHAPTERS.glob("*.md"))
    named = set(re.findall(r"examples/course/(\w+\.py)", text))
    assert named - {SHARED} == set(EXERCISES)


def test_links_between_the_chapters_lead_to_files() -> None:
    for page in CHAPTERS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
