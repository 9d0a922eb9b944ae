"""Cluster faults during writes and reads: acknowledged records are there, once and in order.

Two producers, librdkafka's and ours, number their records. A group with consumers of both libraries, some of which are
killed, processes one topic. After each fault the cluster must be whole again and make progress within PATIENCE_S.

The secured form does the same over TLS and SCRAM, between brokers and for clients, and with access control: the clients
may do what rules allow, and every denial or failed login would make a writer or a member fail.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.system.chaos.group_members import GroupMembers, Processed
from tests.system.chaos.member import Options
from tests.system.chaos.observer import now
from tests.system.cluster.checks import READERS_GROUP, check_numbers, check_replicas
from tests.system.cluster.harness import PATIENCE_S, ProcessCluster, accidents
from tests.system.cluster.nemesis import Nemesis
from tests.system.cluster.network import Bridge, Loopback
from tests.system.cluster.writers import ConfluentWriter, MoldauWriter, Writer

PARTITIONS = 3
RECORDS_A_TICK = 6
RECORDS_BETWEEN = 100
"""The number of records that each writer must get acknowledged between two faults."""

GROUP = "members"
MEMBERS = 2
CATCH_UP_S = 60.0

SHORT_S = {"plain": 40, "secured": 20}
SOAK_S = 1_800
OVERLAP = 0.25
"""The probability that a second fault begins before the first has ended; only with `make soak`."""

TOGETHER_TOO_MUCH = {"kill all brokers", "kill the controller"}
"""Faults of the whole cluster. No other fault is added while one of these lasts."""

DISK_MB = 64
SOAK_DISK_MB = 1_024


@pytest.mark.needs_java
@pytest.mark.timeout(180)
@pytest.mark.parametrize("form", SHORT_S)
def test_acknowledged_records_are_there_once_and_in_order_under_any_fault(
    tmp_path: Path, network: Bridge | Loopback, seed: int, soak: bool, count: Callable[[int, int], int], form: str
) -> None:
    rng = random.Random(seed)
    until = now() + count(SHORT_S[form], SOAK_S)
    # With `make soak`, every other seed runs an ensemble of ZooKeeper servers, one of which may fail unnoticed. In
    # every other pair of seeds, brokers of the plain form log in to each other by SCRAM over TLS.
    zookeepers = 3 if soak and seed % 2 else 1
    cluster = ProcessCluster(
        tmp_path, network, zookeepers=zookeepers, secured=form == "secured", secured_brokers=bool(seed & 2)
    )
    disks = {}
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(cluster.brokers[3].data, count(DISK_MB, SOAK_DISK_MB)))
        if disk is not None:
            cluster.add(3, disk / "data")
            disks = {3: disk}
        stack.enter_context(cluster)
        for name in ("confluent", "moldau"):
            cluster.create_topic(name, PARTITIONS)
        cluster.allow_clients(("confluent", "moldau"), (GROUP, READERS_GROUP))
        writers: list[Writer] = [
            stack.enter_context(ConfluentWriter(cluster.client_settings, "confluent", PARTITIONS, RECORDS_A_TICK)),
            stack.enter_context(MoldauWriter(cluster.client_settings, "moldau", PARTITIONS, RECORDS_A_TICK)),
        ]
        processed = Processed(PARTITIONS)
        members = stack.enter_context(GroupMembers(processed))
        nemesis = Nemesis(cluster, members, member_of(cluster), rng)
        nemesis.small_disks = disks
        for _ in range(MEMBERS):
            nemesis.new_member()
        struck = strike(nemesis, writers, rng, until, overlap=soak)
        finish(cluster, writers, members, processed)
        print(f"{struck} faults, {sum(sum(writer.written) for writer in writers)} records")
    assert not "\n".join(accidents(cluster.brokers.values()))


def strike(nemesis: Nemesis, writers: list[Writer], rng: random.Random, until: float, *, overlap: bool) -> int:
    """Cause faults in random order, each equally often, until the time is over. Returns their number."""
    faults = nemesis.faults()
    deck: list[str] = []
    struck = 0
    while now() < until:
        deck = deck or rng.sample(sorted(faults), len(faults))
        names = [deck.pop()]
        if overlap and deck and rng.random() < OVERLAP and not TOGETHER_TOO_MUCH & {names[0], deck[-1]}:
            # The last fault is repaired first: brokers cannot start without ZooKeeper.
            names = sorted([*names, deck.pop()], key=lambda name: "zookeeper" in name)
        began = now()
        with ExitStack() as lasting:
            told = [lasting.enter_context(faults[name]()) for name in names]
        lasted = now() - began
        nemesis.cluster.wait_whole()
        for writer in writers:
            writer.wait_for_progress(RECORDS_BETWEEN, PATIENCE_S)
        nemesis.members.check()
        struck += len(names)
        print(f"{', '.join(told)}: mended after {lasted:.1f} s, whole after {now() - began - lasted:.1f} s")
    return struck


def finish(cluster: ProcessCluster, writers: list[Writer], members: GroupMembers, processed: Processed) -> None:
    """Stop all writers and members, and check what they wrote and read."""
    for writer in writers:
        writer.end(PATIENCE_S)
    written = writers[0].written
    assert processed.wait_for(lambda: processed.total() >= sum(written), CATCH_UP_S), (
        f"not processed by any member: {processed.missing(written)}"
    )
    for name in list(members.running):
        members.remove(name).leave()
    members.check()
    for reader, writer in zip(("moldau", "confluent-kafka"), writers, strict=True):
        check_numbers(reader, cluster.client_settings, writer.topic, writer.written)
    assert check_replicas(cluster)


def member_of(cluster: ProcessCluster) -> Options:
    return Options(
        client="",
        bootstrap=cluster.bootstrap,
        topic="confluent",
        group=GROUP,
        name="",
        assignors=("range",),
        session_ms=3_000,
        rebalance_ms=6_000,
        heartbeat_ms=300,
        login_file="" if cluster.security is None else str(cluster.security.client_file()),
    )


@contextmanager
def small_disk(root: Path, megabytes: int) -> Iterator[Path | None]:
    """A small file system, or None if this machine does not allow mounting one."""
    root.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(root)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield root
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)
