"""Examples of the three delivery semantics: they hold when the process is killed several times."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau import Consumer
from tests.compat import wire
from tests.support.raw import RawConnection

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PARTITIONS = 2
PATIENCE_S = 60.0


class Example:
    """One of the example programs, on topics of this test."""

    def __init__(self, name: str, bootstrap: str, payments: str, receipts: str) -> None:
        self._command = [
            sys.executable, str(EXAMPLES / f"{name}.py"), bootstrap, "--payments", payments, "--receipts", receipts,
            "--name", receipts, "--batch", "5", "--stop-at-the-end",
        ]  # fmt: skip

    def killed_after(self, lines: int) -> int:
        """Run the example until it has printed this many lines, then kill it. Returns the number of lines in all."""
        with subprocess.Popen(self._command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            said = sum(1 for _ in zip(range(lines), process.stdout, strict=False))
            process.kill()
            said += sum(1 for _ in process.stdout)
        return said

    def to_the_end(self) -> None:
        subprocess.run(self._command, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)


def receipts_in(bootstrap: str, topic: str) -> Counter[str]:
    """The number of committed receipts for each payment."""
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        places = [(topic, index) for index in range(PARTITIONS)]
        reader.assign(places)
        ends = reader.end_offsets(*places)
        found: Counter[str] = Counter()
        while any(reader.position(place) < end for place, end in ends.items()):
            found.update((record.value or b"").decode().removeprefix("receipt for ") for record in reader.poll(1.0))
    return found


@pytest.mark.parametrize(
    ("name", "nothing_lost", "nothing_doubled"),
    [("at_most_once", False, True), ("at_least_once", True, False), ("exactly_once", True, True)],
)
def test_a_process_that_is_killed_midway_keeps_its_promise(
    bootstrap: str,
    new_topic: Callable[..., str],
    count: Callable[[int, int], int],
    name: str,
    nothing_lost: bool,
    nothing_doubled: bool,
) -> None:
    payments, receipts = new_topic(PARTITIONS), new_topic(PARTITIONS)
    total, kills = count(300, 5_000), count(1, 40)
    written = [str(number) for number in range(total)]
    with RawConnection(bootstrap) as connection:
        for index in range(PARTITIONS):
            wire.produced(connection, payments, *(one.encode() for one in written[index::PARTITIONS]), partition=index)
    example = Example(name, bootstrap, payments, receipts)
    for kill in range(kills):
        assert example.killed_after(5 + 3 * (kill % 3)), "the process did nothing before it was killed"
    example.to_the_end()
    found = receipts_in(bootstrap, receipts)
    assert set(found) <= set(written)
    if nothing_lost:
        assert not set(written) - set(found)
    if nothing_doubled:
        assert {one: times for one, times in found.items() if times > 1} == {}
