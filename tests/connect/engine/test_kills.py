"""Engine under kill -9, at random points: each number of each source is in its topic once, and once in the sink."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin
from moldau.client.admin import NewTopic
from moldau.client.errors import MoldauError
from tests.connect.engine.conftest import all_records, values_of
from tests.connect.engine.plugins.engine_plugins import written_batches
from tests.support.process import BrokerProcess
from tests.support.waiting import NotYet, wait_until

PROCESS = Path(__file__).with_name("engine_process.py")
PATIENCE_S = 180.0
STOP_S = 60.0
STEP = 40
BATCHES = 12
BROKER_KILLS = 0.3
"""How often the broker is killed first, and the engine only after it has gone on."""

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(900)]


class EngineProcess:
    """An engine with its JVM, in a process group of its own."""

    def __init__(self, bootstrap: str, directory: Path, connectors: dict[str, Any]) -> None:
        config = directory / "connectors.json"
        config.write_text(json.dumps(connectors))
        self._log = directory / "engine.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROCESS), bootstrap, "kills", str(config)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-6_000:]

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(STOP_S) == 0, self.log


def connectors(directory: Path, limit: int) -> dict[str, dict[str, str]]:
    counted = {"limit": str(limit), "step": str(STEP)}
    return {
        "counting": {
            "connector.class": "Counting",
            "topic": "counted",
            "partitions": "2",
            "tasks.max": "2",
            **counted,
        },
        "ticking": {"connector.class": "Ticking", "topic": "ticked", **counted},
        "files": {
            "connector.class": "Files",
            "topics": "counted,ticked",
            "directory": str(directory / "target"),
            "batch.max.offsets": "100",
            "tasks.max": "2",
        },
    }


def visible(bootstrap: str) -> list[str]:
    return values_of(all_records(bootstrap, "counted"))


def in_sink(directory: Path) -> list[str]:
    return [line for batch in written_batches(str(directory / "target")) for line in batch["lines"]]


def test_nothing_is_lost_or_doubled_when_the_whole_process_is_killed(
    tmp_path: Path, count: Callable[[int, int], int], seed: int
) -> None:
    chance = random.Random(seed)
    kills = count(1, 40)
    limit = STEP * BATCHES * (kills + 1)
    with BrokerProcess(tmp_path / "data") as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("counted", 2), NewTopic("ticked", 1)])
        for _ in range(kills):
            seen = len(visible(broker.bootstrap)), len(in_sink(tmp_path))
            engine = EngineProcess(broker.bootstrap, tmp_path, connectors(tmp_path, limit))
            wanted = seen[0] + chance.randrange(1, 2 * STEP * BATCHES), seen[1] + chance.randrange(1, STEP)

            def has_gone_on(engine: EngineProcess = engine, wanted: tuple[int, int] = wanted) -> bool:
                found = len(visible(broker.bootstrap)), len(in_sink(tmp_path))
                if not (found[0] >= min(wanted[0], 2 * limit) and found[1] >= min(wanted[1], 3 * limit)):
                    raise NotYet(f"{found} of {wanted}: {engine.log}")
                return True

            wait_until(has_gone_on, timeout_s=PATIENCE_S, retry_on=(MoldauError,))
            if chance.random() < BROKER_KILLS:
                broker.kill()
                broker.start()
            else:
                engine.kill()
                continue
            goal = min(wanted[0] + STEP, 2 * limit)
            wait_until(lambda goal=goal: len(visible(broker.bootstrap)) >= goal, engine.log, PATIENCE_S)
            engine.kill()
        engine = EngineProcess(broker.bootstrap, tmp_path, connectors(tmp_path, limit))
        wait_until(lambda: len(in_sink(tmp_path)) >= 3 * limit, engine.log, PATIENCE_S)
        engine.stop()
        expected = sorted(f"{part}:{n}" for part in range(2) for n in range(limit))
        assert sorted(visible(broker.bootstrap)) == expected
        assert values_of(all_records(broker.bootstrap, "ticked")) == [f"0:{n}" for n in range(limit)]
        assert sorted(in_sink(tmp_path)) == sorted([*expected, *(f"0:{n}" for n in range(limit))])
