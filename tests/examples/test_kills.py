"""Numbers of all case studies after `kill -9` of their Spark process: equal to those of plain Python."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from moldau.examples import study as studies
from moldau.examples.place import Place
from moldau.examples.processes import PipelineProcess
from moldau.examples.results import check
from moldau.examples.study import Study

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(1200)]

RECORDS = 300
BATCHES = 2
"""The number of micro-batches in which a query reads the records."""
PATIENCE_S = 600.0


class KilledAt:
    """Waits until a study has completed its first batch, and has another one to do."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self.reached = threading.Event()

    def heard(self, said: dict[str, Any]) -> None:
        if said.get("study") == self._study.name or "error" in said:
            self.reached.set()


def test_numbers_are_exact_after_the_pipeline_was_killed(
    place: Place, generated: Callable[[Study, int], Place], seed: int, count: Callable[[int, int], int]
) -> None:
    names = studies.names()
    found = [studies.find(name) for name in names]
    places = [generated(study, RECORDS) for study in found]
    place = place._replace(max_per_batch=RECORDS // BATCHES)
    # In the short form one study is hit, another one in each run.
    chance = random.Random(seed)
    for victim in sorted(chance.sample(found, count(1, len(found))), key=found.index):
        killed = KilledAt(victim)
        process = PipelineProcess.finishing(names, place, killed.heard)
        try:
            assert killed.reached.wait(PATIENCE_S), process.problem()
            assert process.error is None
        finally:
            process.kill()
    process = PipelineProcess.finishing(names, place)
    try:
        process.wait()
    finally:
        process.kill()
    for study, own in zip(found, places, strict=True):
        for result in check(study, own):
            assert result.compared > 0, f"{study.name}, {result.name}: nothing to compare"
            assert not result.differences, f"{study.name}, {result}"
