"""Numbers of the case studies after `kill -9` of their Spark process: equal to those of plain Python."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from moldau.examples import study as studies
from moldau.examples.pipeline_process import FINISHED_AT_ONCE
from moldau.examples.place import Place
from moldau.examples.processes import PipelineProcess
from moldau.examples.results import check
from moldau.examples.study import Study

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(1800)]

RECORDS = 300
A_BATCH = 150
"""The most records of a micro-batch."""
A_SMALL_BATCH = 30
"""The same before a kill: a query has many batches to do, and is killed in the middle of them."""
PATIENCE_S = 900.0
SHORT_FORM = 2
"""How many of the studies run without --soak."""


def run_to_the_end(names: list[str], place: Place) -> None:
    process = PipelineProcess.finishing(names, place)
    try:
        process.wait()
    finally:
        process.kill()


def kill_in_the_middle(names: Iterable[str], place: Place) -> None:
    """Start these studies, and kill the process with its workers when each has completed a batch."""
    missing = set(names)
    reached = threading.Event()

    def heard(said: dict[str, Any]) -> None:
        missing.discard(said.get("study", ""))
        if not missing or "error" in said:
            reached.set()

    process = PipelineProcess.finishing(sorted(missing), place._replace(max_per_batch=A_SMALL_BATCH), heard)
    try:
        assert reached.wait(PATIENCE_S), process.problem()
        assert process.error is None
    finally:
        process.kill()


def test_numbers_are_exact_after_the_pipeline_was_killed(
    place: Place, generated: Callable[[Study, int], Place], seed: int, count: Callable[[int, int], int]
) -> None:
    # In the short form some studies run, and some of these are killed: others in each run.
    chosen = random.Random(seed)
    names = sorted(chosen.sample(studies.names(), count(SHORT_FORM, len(studies.names()))))
    found = [studies.find(name) for name in names]
    places = [generated(study, RECORDS) for study in found]
    victims = chosen.sample(names, count(1, len(names)))
    while victims:
        kill_in_the_middle(victims[:FINISHED_AT_ONCE], place)
        del victims[:FINISHED_AT_ONCE]
    run_to_the_end(names, place._replace(max_per_batch=A_BATCH))
    for study, own in zip(found, places, strict=True):
        for result in check(study, own):
            assert result.compared > 0, f"{study.name}, {result.name}: nothing to compare"
            assert not result.differences, f"{study.name}, {result}"
