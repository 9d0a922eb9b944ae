"""The REST API compared with that of Apache Kafka Connect 4.3, request by request: every endpoint and every error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.kafka_connect.conftest import Played
from tests.compat.kafka_connect.rest_conversation import ALL
from tests.compat.kafka_connect.rest_differences import INTENDED, difference_of

ROOT = Path(__file__).resolve().parents[3]


def test_names_of_requests_are_unique() -> None:
    assert len({request.name for request in ALL}) == len(ALL)
    listed = [name for one in INTENDED for name in one.requests]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= {request.name for request in ALL}


def test_every_intended_difference_is_documented() -> None:
    page = " ".join((ROOT / "docs" / "connect-rest.md").read_text().split())
    assert not [one.reason for one in INTENDED if one.reason not in page]
    assert f"send {len(ALL)} requests" in page


@pytest.mark.needs_java
@pytest.mark.timeout(300)
def test_every_answer_is_that_of_kafka_connect_or_an_intended_difference(played: Played) -> None:
    faults = [fault for request in ALL if (fault := _fault(played, request.name))]
    assert not faults, "\n\n".join([f"{len(faults)} of {len(ALL)} answers:", *faults])


def _fault(played: Played, name: str) -> str | None:
    kafka, moldau = played.kafka[name], played.moldau[name]
    both = f"{name}\n  Kafka:  {kafka}\n  Moldau: {moldau}"
    difference = difference_of(name)
    if difference is None:
        return None if moldau == kafka else both
    if moldau == kafka:
        return f"{both}\n  no longer a difference: {difference.reason}"
    return None if difference.holds(kafka, moldau) else f"{both}\n  another difference than: {difference.reason}"
