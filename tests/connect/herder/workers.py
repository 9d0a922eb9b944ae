"""Workers for tests of scheduling: real herders on a real broker, with an engine that only notes what it is told.

The engine itself has its own tests, and tests/system has workers as processes with the real engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from moldau.connect.engine import ConnectorProgress, ConnectorState, Report, StatusReport
from moldau.connect.engine.engine import Engine
from moldau.connect.herder.distributed_herder import DistributedHerder, DistributedSettings, StorageTopic
from moldau.connect.herder.plugin_facts import PluginFacts
from moldau.connect.herder.results import ValidationResult
from moldau.connect.herder.standalone_herder import StandaloneHerder
from moldau.connect.herder.stored_herder import HerderParts
from tests.support.waiting import wait_until_async


class NotingEngine:
    """An engine that runs nothing: it notes the calls and reports the states that were asked for."""

    def __init__(self, report: Report, settings: Mapping[str, Any]) -> None:
        self._report = report
        self._settings = settings
        self.calls: list[str] = []
        self.running: dict[str, Mapping[str, Any]] = {}
        self.states: dict[str, StatusReport] = {}
        self.hold_stops = False
        self.held: list[Future[None]] = []

    def start(self, name: str, config: Mapping[str, Any], target: ConnectorState = ConnectorState.RUNNING) -> None:
        if config.get("fails.to.start"):
            raise RuntimeError("cannot start")
        self.calls.append(f"start {name} {target.value}")
        self.running[name] = config
        self.tell(name, target)

    def tell(self, name: str, state: ConnectorState, **facts: Any) -> None:
        tasks = 0 if state is ConnectorState.STOPPED else int(self.running[name].get("tasks.max", 1))
        self.states[name] = StatusReport(name, state, **{"tasks": tasks, **facts})
        self._report(self.states[name])

    def worked(self, name: str, batches: int, *topics: str) -> None:
        self.tell(name, ConnectorState.RUNNING, progress=ConnectorProgress(batches=batches, topics=frozenset(topics)))

    def stop(self, name: str) -> Future[None]:
        self.calls.append(f"stop {name}")
        self.running.pop(name, None)
        done: Future[None] = Future()
        if self.hold_stops:
            self.held.append(done)
        else:
            done.set_result(None)
        return done

    def pause(self, name: str) -> None:
        self.calls.append(f"pause {name}")
        self.tell(name, ConnectorState.PAUSED)

    def suspend(self, name: str) -> None:
        self.calls.append(f"suspend {name}")
        self.tell(name, ConnectorState.STOPPED)

    def resume(self, name: str) -> None:
        self.calls.append(f"resume {name}")
        self.tell(name, ConnectorState.RUNNING)

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        self.calls.append(f"restart {name} {only_failed}")
        self.tell(name, ConnectorState.RUNNING)

    def state(self, name: str) -> StatusReport | None:
        return self.states.get(name)

    def change_offsets(self, name: str, config: Mapping[str, Any], offsets: Any) -> Future[None]:
        """The real one: it changes a topic and runs nothing."""
        real = Engine(self._settings)
        done = real.change_offsets(name, config, offsets)
        done.add_done_callback(lambda _: real.close())
        return done

    def close(self) -> Future[None]:
        self.calls.append("close")
        done: Future[None] = Future()
        done.set_result(None)
        return done


async def anything_goes(config: Mapping[str, str | None]) -> ValidationResult:
    """A validation that knows one mistake only."""
    if config.get("bad"):
        return ValidationResult(1, {"bad": ["Invalid value for configuration bad"]})
    return ValidationResult(0)


class Cluster:
    """The workers of one test."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.client: dict[str, Any] = {"bootstrap.servers": bootstrap, "retry.backoff.ms": 20}
        self.engines: dict[str, NotingEngine] = {}
        self.workers: dict[str, DistributedHerder] = {}

    def parts(self, name: str) -> HerderParts:
        def engine(report: Callable[[StatusReport], None]) -> NotingEngine:
            settings = {**self.client, "offset.storage.topic": f"{self.name}-offsets", "group.id": self.name}
            self.engines[name] = NotingEngine(report, settings)
            return self.engines[name]

        return HerderParts(engine, anything_goes, PluginFacts())

    def worker(self, name: str, **settings: Any) -> DistributedHerder:
        """A worker that is not started yet."""
        given = DistributedSettings(
            self.client,
            f"http://{name}:8083",
            f"{name}:8083",
            **{
                "group_id": self.name,
                "config_topic": StorageTopic(f"{self.name}-configs"),
                "offset_topic": StorageTopic(f"{self.name}-offsets"),
                "status_topic": StorageTopic(f"{self.name}-status"),
                "session_timeout_ms": 1_500,
                "heartbeat_interval_ms": 100,
                "rebalance_timeout_ms": 5_000,
                **settings,
            },
        )
        self.workers[name] = DistributedHerder(given, self.parts(name))
        return self.workers[name]

    async def start(self, *names: str, **settings: Any) -> list[DistributedHerder]:
        workers = [self.worker(name, **settings) for name in names]
        for worker in workers:
            await worker.start()
        return workers

    def standalone(self, name: str = "alone") -> StandaloneHerder:
        topic = StorageTopic(f"{self.name}-offsets")
        return StandaloneHerder(f"{name}:8083", self.client, self.parts(name), offset_topic=topic)

    def runs(self, name: str) -> set[str]:
        """The connectors that the engine of a worker runs."""
        return set(self.engines[name].running)

    def shared(self, *names: str) -> list[str]:
        """What these workers run, together."""
        return sorted(one for name in names for one in self.runs(name))

    async def leader(self) -> DistributedHerder:
        """The worker that leads, when no rebalance is near."""
        found = await wait_until_async(lambda: [one for one in self.workers.values() if one.leads], "there is a leader")
        leader: DistributedHerder = found[0]
        await leader._settled(owners=True)
        return leader

    async def close(self) -> None:
        for worker in self.workers.values():
            await worker.close()
