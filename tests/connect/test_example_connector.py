"""The example connector of the documents, with its own test."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"
MOST_LINES = 40


@pytest.mark.needs_java
@pytest.mark.timeout(200)
def test_the_example_passes_its_own_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / "test_primes.py"))["test_all_primes_below_a_limit_are_in_the_topic_once"]()


def test_the_example_is_as_short_as_the_documents_say() -> None:
    text = (EXAMPLES / "primes.py").read_text()
    code = [line for line in text.partition('"""\n\nfrom')[2].splitlines() if line.strip()]
    assert len(code) < MOST_LINES


@pytest.mark.parametrize("name", ["primes.py", "test_primes.py"])
def test_the_documents_show_the_example_as_it_is(name: str) -> None:
    assert (EXAMPLES / name).read_text().strip() in (EXAMPLES.parents[1] / "docs" / "connect.md").read_text()
