"""Live views and pictures of the case studies."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from moldau.examples import study as studies
from moldau.examples.place import Place, read_topic
from moldau.examples.results import Results
from moldau.examples.study import Study, StudyRecord

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 300


def printed(study: Study, results: Results) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(study.picture(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", studies.names())
def test_a_view_shows_results_as_soon_as_there_are_some(name: str, generated: Callable[[Study, int], Place]) -> None:
    study = studies.find(name)
    empty = printed(study, Results())
    place = generated(study, RECORDS)
    expected = study.expected(lambda topic: read_topic(place, topic, study.decode))
    results = Results()
    results.stored = {**study.stored(place), **expected}
    for topic, content in expected.items():
        rows = content.items() if isinstance(content, dict) else [("key", value) for value in content]
        for key, value in rows:
            if isinstance(value, dict):
                results.add(StudyRecord(topic, key, value, 0))
    assert len(printed(study, results)) > len(empty)


@pytest.mark.parametrize("name", studies.names())
def test_the_same_seed_gives_the_same_records(name: str) -> None:
    study = studies.find(name)
    first, second, other = (list(islice(study.records(seed, 0, 100), 200)) for seed in (5, 5, 6))
    assert first == second
    assert first != other
    assert [record.at_ms for record in first] == sorted(record.at_ms for record in first)


def test_pictures_are_current() -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "draw_examples.py", "--check"], check=True)


@pytest.mark.parametrize("path", sorted(studies.HERE.glob("*/*.svg")), ids=lambda path: path.parent.name)
def test_a_picture_is_well_formed_and_on_the_page_of_its_study(path: Path) -> None:
    assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert f"({path.name})" in (path.parent / "README.md").read_text()
