"""Transactional copies while brokers and ZooKeeper fail and copiers die: each record is copied once.

A copier may fail when its time-outs are over. The next one replaces it, as with a supervisor; records of its open
transaction must never become visible.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from tests.system.chaos.group_members import GroupMembers, Processed
from tests.system.chaos.observer import now
from tests.system.chaos.test_exactly_once import copying
from tests.system.cluster.checks import READERS, check_numbers, check_replicas
from tests.system.cluster.harness import PATIENCE_S, ProcessCluster, accidents
from tests.system.cluster.nemesis import Nemesis
from tests.system.cluster.network import Bridge, Loopback
from tests.system.cluster.test_nemesis import member_of
from tests.system.cluster.writers import ConfluentWriter

PARTITIONS = 2
RECORDS_A_TICK = 2
RECORDS_BETWEEN = 50
SOAK_S = 900
MOST_COPIERS_IN_A_ROW = 50
"""The number of copiers that may fail in a row in the final phase, in which no fault is active."""

OF_MEMBERS = {"kill a member", "pause a member"}


class Copiers:
    """Runs copiers one after the other, in its own thread, and kills one now and then."""

    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        self.rounds = 0
        self.failed = 0
        self._bootstrap = bootstrap
        self._rng = rng
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.copy(kill=self._rng.random() < 0.3)

    def copy(self, *, kill: bool = False) -> bool:
        """Run one copier to its end. Returns whether it has copied all of the input."""
        with copying(self._bootstrap) as copier:
            if kill:
                for _ in range(self._rng.randrange(1, 40)):
                    if not copier.process.stdout or not copier.process.stdout.readline():
                        break
                copier.process.kill()
            elif copier.process.stdout:
                copier.process.stdout.read()
            done = copier.wait() == 0
        self.rounds += 1
        self.failed += not done
        return done

    def end(self) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_S * 2)
        assert not self._thread.is_alive(), "a copier does not end"
        for _ in range(MOST_COPIERS_IN_A_ROW):
            if self.copy():
                return
        raise AssertionError("no copier has copied everything")


@pytest.mark.needs_java
def test_each_record_is_copied_exactly_once_under_any_fault(
    tmp_path: Path, network: Bridge | Loopback, seed: int, soak: bool
) -> None:
    if not soak:
        pytest.skip("with make soak")
    rng = random.Random(seed)
    with ProcessCluster(tmp_path, network) as cluster:
        for topic in ("source", "sink"):
            cluster.create_topic(topic, PARTITIONS)
        nemesis = Nemesis(cluster, GroupMembers(Processed(PARTITIONS)), member_of(cluster), rng)
        faults = {name: fault for name, fault in nemesis.faults().items() if name not in OF_MEMBERS}
        with ConfluentWriter(cluster.client_settings, "source", PARTITIONS, RECORDS_A_TICK) as writer:
            copiers = Copiers(cluster.bootstrap, rng)
            until = now() + SOAK_S
            while now() < until:
                name = rng.choice(sorted(faults))
                with faults[name]() as what:
                    print(what)
                cluster.wait_whole()
                writer.wait_for_progress(RECORDS_BETWEEN, PATIENCE_S)
            written = writer.end(PATIENCE_S)
        copiers.end()
        print(f"{sum(written)} records, {copiers.rounds} copiers, of which {copiers.failed} did not get to the end")
        check_numbers("moldau", cluster.client_settings, "source", written)
        for partition, expected in enumerate(written):
            found = [number for _, number in READERS["confluent-kafka"](cluster.client_settings, "sink", partition)]
            assert found == list(range(expected)), f"sink-{partition}: {first_difference(found)}"
        assert check_replicas(cluster)
    assert not "\n".join(accidents(cluster.brokers.values()))


def first_difference(found: list[int]) -> str:
    for expected, number in enumerate(found):
        if number != expected:
            return f"{number} where {expected} was expected"
    return f"it ends after {len(found)}"
