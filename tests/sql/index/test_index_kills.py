"""Processes with an index that are killed: the next one continues, and has exactly what the topic has."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from moldau import Producer
from moldau.sql.declarations import Declaration
from moldau.sql.index.key_index import KeyIndex
from tests.support.process import start_mortal

PROGRAM = Path(__file__).with_name("indexing_process.py")
KEYS = 500


class Writer:
    """Writes random updates and deletes until it is stopped, and knows the resulting table."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self.table: dict[bytes, bytes] = {}
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            number = 0
            while not self._stop.is_set():
                for _ in range(200):
                    key, number = b"%d" % self._random.randrange(KEYS), number + 1
                    if self._random.random() < 0.2:
                        self.table.pop(key, None)
                        producer.send(self._topic, None, key=key)
                    else:
                        self.table[key] = b"%d" % number
                        producer.send(self._topic, self.table[key], key=key)
                producer.flush()

    def stop(self) -> None:
        self._stop.set()
        self.thread.join()


def test_a_killed_index_continues_and_is_complete(
    table: Callable[..., Declaration],
    bootstrap: str,
    tmp_path: Path,
    seed: int,
    count: Callable[[int, int], int],
) -> None:
    declaration = table(3)
    chance = random.Random(seed)
    writer = Writer(bootstrap, declaration.topic, seed)
    try:
        for _ in range(count(2, 20)):
            command = [sys.executable, str(PROGRAM), bootstrap, declaration.topic, str(tmp_path / "index")]
            process = start_mortal(command, dict(os.environ))
            try:
                assert process.stderr is not None
                for _ in range(chance.randrange(1, 8)):
                    assert process.stderr.readline().startswith(b"rows: "), "the process ended"
            finally:
                process.kill()
                process.communicate()
    finally:
        writer.stop()
    with KeyIndex(declaration, {"bootstrap.servers": bootstrap}, str(tmp_path / "index")) as index:
        found = {one.key: one.value for one in index.get([b"%d" % key for key in range(KEYS)], timeout_s=60)}
        assert found == writer.table
        assert index.count() == len(writer.table)


def test_two_processes_cannot_damage_one_index(
    table: Callable[..., Declaration], bootstrap: str, tmp_path: Path
) -> None:
    """A server that was replaced may still run for a moment: both write the same rows, in SQLite's transactions."""
    declaration = table()
    command = [sys.executable, str(PROGRAM), bootstrap, declaration.topic, str(tmp_path / "index")]
    process = start_mortal(command, dict(os.environ))
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == b"rows: 0\n"
        with (
            KeyIndex(declaration, {"bootstrap.servers": bootstrap}, str(tmp_path / "index")) as index,
            Producer(bootstrap_servers=bootstrap) as producer,
        ):
            for number in range(100):
                producer.send(declaration.topic, b"%d" % number, key=b"a").result()
                assert [int(one.value) for one in index.get([b"a"], timeout_s=60)] == [number]
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
