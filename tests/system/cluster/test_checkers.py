"""The checks of cluster tests find planted errors; one broker is enough for that."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.cluster.checks import READERS, check_files, check_numbers

WRONG = {
    "missing": [0, 1, 3],
    "twice": [0, 1, 1, 2],
    "out of order": [0, 2, 1],
    "too few": [0, 1],
    "too many": [0, 1, 2, 3],
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with BrokerProcess(tmp_path_factory.mktemp("checkers") / "data") as process:
        yield process


def write(broker: BrokerProcess, topic: str, numbers: list[int]) -> None:
    with RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, topic)
        calls.produce(connection, topic, 0, [b"%d" % number for number in numbers])


@pytest.mark.parametrize("reader", READERS)
def test_numbers_in_order_are_right(broker: BrokerProcess, reader: str) -> None:
    write(broker, f"right-{reader}", [0, 1, 2])
    check_numbers(reader, {"bootstrap.servers": broker.bootstrap}, f"right-{reader}", [3])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", WRONG)
def test_numbers_that_are_not_as_they_were_written_are_found(broker: BrokerProcess, reader: str, what: str) -> None:
    topic = f"{what.replace(' ', '-')}-{reader}"
    write(broker, topic, WRONG[what])
    with pytest.raises(AssertionError):
        check_numbers(reader, {"bootstrap.servers": broker.bootstrap}, topic, [3])


def test_replicas_that_differ_are_found(broker: BrokerProcess, tmp_path: Path) -> None:
    write(broker, "copied", [0, 1, 2])
    with RawConnection(broker.bootstrap) as connection:
        calls.produce(connection, "copied", 0, [b"3"])
    original = broker.data / "copied-0"
    copy = Path(shutil.copytree(original, tmp_path / "copied-0"))
    brokers: dict[int, Any] = {1: SimpleNamespace(data=broker.data), 2: SimpleNamespace(data=tmp_path)}
    assert check_files(brokers, "copied-0", (1, 2), 4) > 0
    (segment,) = copy.glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(AssertionError, match="differ from offset 3"):
        check_files(brokers, "copied-0", (1, 2), 4)
    assert check_files(brokers, "copied-0", (1, 2), 3) > 0, "the high watermark is below the difference"
    segment.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AssertionError):
        check_files(brokers, "copied-0", (1, 2), 4)
