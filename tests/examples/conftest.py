"""Case studies on a broker of their own, with a fixed number of records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from moldau.examples.pipeline_process import study_place
from moldau.examples.place import Place
from moldau.examples.run import create_topics
from moldau.examples.study import Study
from moldau.testing import Broker

HOUR_MS = 3_600_000
RATE = 2.0
"""Records per second of the records' own time: slow enough that sessions end and sensors fall silent in 300 records."""
SEED = 7


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """The place of all studies of a test. Each study gets a directory in it."""
    with Broker({"transaction.two.phase.commit.enable": True}) as broker:
        yield Place({"bootstrap.servers": broker.bootstrap_servers}, tmp_path / "studies")


@pytest.fixture
def generated(place: Place) -> Callable[[Study, int], Place]:
    """`generated(study, records)`: create the topics of a study and send records. Returns the study's place."""

    def generate(study: Study, records: int) -> Place:
        own = study_place(place, study)
        own.directory.mkdir(parents=True)
        create_topics(study, own, fresh=False)
        # Records are at least an hour old. The same minute and second in each run gives the same windows.
        begin_ms = (time.time_ns() // 1_000_000 // HOUR_MS - 1) * HOUR_MS
        with study.sender(own) as send:
            for record in islice(study.records(SEED, begin_ms, RATE), records):
                send(record)
        return own

    return generate
