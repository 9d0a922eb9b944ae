"""Log collector: reads the log files of several hosts as they grow, and writes each line once to a topic.

Lines and positions in the files are written in one transaction. A collector that is killed and started again continues
at the positions that were committed: readers of committed records see no line twice, and none is missing.

`moldau connect` has connectors that do the same (`FileStreamSource` for one file). This shows how they work inside.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau import Producer
from moldau.examples.place import Place, read_topic
from moldau.examples.study import StudyError

HOST_LOGS = "web.host-logs"
POSITIONS = "web.log-positions"
COLLECTOR = "web.log-collector"
"""The transactional id. A new collector fences an old one: it can commit nothing more."""
LOOK_EVERY_S = 0.2
MAX_BYTES = 256 * 1024
"""The most that is read from one file for one transaction; a longer line is an error."""


class LogCollector:
    """Collects in a thread. Leaving the `with` block collects what is left in the files."""

    def __init__(self, place: Place, logs: Path) -> None:
        self._place = place
        self._logs = logs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with Producer(dict(self._place.client), transactional_id=COLLECTOR) as producer:
                producer.init_transactions()
                positions = committed_positions(self._place)
                last_round = False
                while not last_round:
                    last_round = self._stop.wait(LOOK_EVERY_S)
                    while collect(producer, self._logs, positions):
                        pass
        except Exception as failure:  # noqa: BLE001 - raised where the collector was started
            self._failure = failure


def committed_positions(place: Place) -> dict[str, int]:
    """How far each file was read, by the name of the host."""
    return {record.key: (record.value or {})["position"] for record in read_topic(place, POSITIONS)}


def collect(producer: Producer, logs: Path, positions: dict[str, int]) -> int:
    """Send the new lines of all files in one transaction; return their number."""
    found = {path.stem: new_lines(path, positions.get(path.stem, 0)) for path in sorted(logs.glob("*.log"))}
    found = {host: data for host, data in found.items() if data}
    if not found:
        return 0
    with producer.transaction():
        for host, data in found.items():
            for line in data.decode(errors="replace").removesuffix("\n").split("\n"):
                producer.send(HOST_LOGS, json.dumps({"host": host, "line": line}).encode(), key=host.encode())
            position = positions.get(host, 0) + len(data)
            producer.send(POSITIONS, json.dumps({"position": position}).encode(), key=host.encode())
    positions.update({host: positions.get(host, 0) + len(data) for host, data in found.items()})
    return sum(data.count(b"\n") for data in found.values())


def new_lines(path: Path, position: int) -> bytes:
    """The complete lines after a position. The host may be in the middle of the last one."""
    with path.open("rb") as file:
        file.seek(position)
        data = file.read(MAX_BYTES)
    complete = data[: data.rfind(b"\n") + 1]
    if not complete and len(data) == MAX_BYTES:
        raise StudyError(f"{path} has a line of more than {MAX_BYTES} bytes at position {position}; make it shorter")
    return complete
