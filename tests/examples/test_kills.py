"""Numbers of all case studies after `kill -9` of their Spark process: equal to those of plain Python."""

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
from moldau.examples.study import Study, StudyError

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(1800)]

RECORDS = 300
BATCHES = 2
"""The number of micro-batches in which a query reads the records."""
PATIENCE_S = 900.0

TOO_SLOW = "Python worker failed to connect back"
"""Spark gives up if a Python process takes longer than 10 seconds to start, as on a machine with too much to do."""
STARTS = 5
"""The number of times that the pipeline is started again after that, as an operator would do."""


def run_to_the_end(names: list[str], place: Place) -> None:
    for _ in range(STARTS):
        process = PipelineProcess.finishing(names, place)
        try:
            process.wait()
            return
        except StudyError as error:
            if TOO_SLOW not in str(error):
                raise
        finally:
            process.kill()
    raise AssertionError(f"the pipeline was started {STARTS} times, and was too slow each time")


def kill_in_the_middle(names: Iterable[str], place: Place) -> None:
    """Start these studies, and kill the process when each has completed a batch. None has completed all of them."""
    missing = set(names)
    reached = threading.Event()

    def heard(said: dict[str, Any]) -> None:
        missing.discard(said.get("study", ""))
        if not missing or "error" in said:
            reached.set()

    process = PipelineProcess.finishing(sorted(missing), place, heard)
    try:
        assert reached.wait(PATIENCE_S), process.problem()
        assert process.error is None or TOO_SLOW in process.error
    finally:
        process.kill()


def test_numbers_are_exact_after_the_pipeline_was_killed(
    place: Place, generated: Callable[[Study, int], Place], seed: int, count: Callable[[int, int], int]
) -> None:
    names = studies.names()
    found = [studies.find(name) for name in names]
    places = [generated(study, RECORDS) for study in found]
    place = place._replace(max_per_batch=RECORDS // BATCHES)
    # In the short form some studies are hit, others in each run.
    victims = random.Random(seed).sample(names, count(FINISHED_AT_ONCE, len(names)))
    while victims:
        kill_in_the_middle(victims[:FINISHED_AT_ONCE], place)
        del victims[:FINISHED_AT_ONCE]
    run_to_the_end(names, place)
    for study, own in zip(found, places, strict=True):
        for result in check(study, own):
            assert result.compared > 0, f"{study.name}, {result.name}: nothing to compare"
            assert not result.differences, f"{study.name}, {result}"
