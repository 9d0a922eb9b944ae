"""Failover: time without a leader after kill -9, and during a controlled shutdown.

After a kill, the other brokers cannot know of it before the broker's ZooKeeper session ends. So the limit is the
session timeout plus half a second. The time is from the kill until the last of its partitions has a leader and accepts
a record. For a controlled shutdown, it is the longest time in which any partition had no leader, as seen by a client
that repeatedly asks all brokers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench import cluster, frames
from bench.harness import HOST, Context, Row, spread

SESSION_S = 3.0
PARTITIONS = 30
ALLOWED_AFTER_SESSION_S = 0.5
LED_BY_ONE = 1_000
MOST_WITHOUT_LEADER_S = 0.3
TIMEOUT_S = 60.0
RECORD = frames.batch(1)


def run(context: Context) -> Iterator[Row]:
    yield _killed(context)
    yield _stopped(context)


def _killed(context: Context) -> Row:
    times = []
    with cluster.running(context, f"zookeeper.session.timeout.ms={int(SESSION_S * 1000)}") as running:
        running.brokers[1].create_topic("led", PARTITIONS, 3)
        for turn in range(context.sized(6, 3)):
            leaders = cluster.wait_whole(running, "led", PARTITIONS)
            number = turn % cluster.BROKERS + 1
            victim = running.brokers[number]
            orphans = {partition for partition, leader in leaders.items() if leader == number}
            began = time.perf_counter()
            victim.kill()
            while orphans:
                assert time.perf_counter() - began < TIMEOUT_S, f"{orphans} have no leader"
                orphans -= _taken_by_others(running, orphans)
            times.append(time.perf_counter() - began)
            context.say(f"kill -9: {times[-1]:.2f} s until all have a leader again")
            victim.start()
    limit = SESSION_S + ALLOWED_AFTER_SESSION_S
    note = (
        f"session time-out {SESSION_S:.0f} s; 30 partitions factor 3, a third of them led by the one that was killed; "
    )
    return Row(
        "Failover after kill -9", max(times), "s", limit, note=f"{note}the worst of {len(times)}: {spread(times)}"
    )


def _taken_by_others(running: cluster.Cluster, partitions: set[int]) -> set[int]:
    """The partitions for which some broker has accepted a record."""
    taken = set()
    for broker in running.brokers.values():
        if broker.running:
            with frames.connect(HOST, broker.port) as connection:
                for partition in partitions - taken:
                    answer = frames.call(connection, frames.produce("led", partition, RECORD))
                    if frames.produce_error(answer) == 0:
                        taken.add(partition)
    return taken


def _stopped(context: Context) -> Row:
    partitions = LED_BY_ONE * cluster.BROKERS
    gaps, rounds = [], []
    with cluster.running(context) as running:
        running.brokers[1].create_topic("led", partitions, 3)
        for turn in range(context.sized(4, 2)):
            leaders = running.balance("led", partitions)
            number = turn % cluster.BROKERS + 1
            watch = _watched_stop(running, number, [one for one, leader in leaders.items() if leader == number])
            gaps.append(max(watch.longest_gap_s.values()))
            rounds.append(watch.longest_round_s)
            context.say(f"controlled shutdown: {gaps[-1]:.3f} s without a leader, rounds of {rounds[-1]:.3f} s")
            running.brokers[number].start()
    note = f"the worst of {LED_BY_ONE:,} that the broker led, of 3,000 factor 3; "
    note += f"asked at least every {max(rounds):.2f} s; {len(gaps)} stops: {spread(gaps)}"
    return Row("Controlled shutdown: without a leader", max(gaps), "s", MOST_WITHOUT_LEADER_S, note=note)


def _watched_stop(running: cluster.Cluster, number: int, led: list[int]) -> cluster.LeaderWatch:
    """Stop a broker, and watch until it has stopped and others lead all its partitions."""
    assert len(led) == LED_BY_ONE, f"broker {number} leads {len(led)} partitions"
    broker = running.brokers[number]
    watch = cluster.LeaderWatch(running.brokers.values(), "led", led)
    assert len(watch.look()) == len(led)
    watch.begin()
    broker.ask_to_stop()
    deadline = time.perf_counter() + TIMEOUT_S
    while len(watch.look()) < len(led) or watch.hears(broker):
        assert time.perf_counter() < deadline, "some partitions have no leader"
    watch.close()
    broker.wait_stopped()
    return watch
