"""Many replicas: cold start of three brokers with 3,000 partitions of factor 3, and the death of one broker.

A cold start begins with nothing running: ZooKeeper and the brokers are started on directories left by a clean stop. It
ends when every broker knows a leader for every partition and all replicas are in sync. The broker that dies leads 1,000
partitions. The time is from the end of its session, as seen by a separate ZooKeeper client, until other brokers confirm
that they lead all 1,000.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from bench import cluster
from bench.harness import Context, Row, median, spread

LED_BY_ONE = 1_000
PARTITIONS = LED_BY_ONE * cluster.BROKERS
MOST_START_S = 20.0
MOST_MOVE_S = 5.0
SESSION_S = 3.0
TIMEOUT_S = 120.0


def run(context: Context) -> Iterator[Row]:
    starts, moves = [], []
    with context.scratch("replicas") as directory:
        settings = (f"zookeeper.session.timeout.ms={int(SESSION_S * 1000)}",)
        with cluster.Cluster(directory, settings) as running:
            running.start()
            cluster.wait_until(lambda: cluster.live_brokers(running) == cluster.BROKERS, cluster.READY_TIMEOUT_S)
            began = time.perf_counter()
            running.brokers[1].create_topic("led", PARTITIONS, 3)
            cluster.wait_whole(running, "led", PARTITIONS)
            made = time.perf_counter() - began
            context.say(f"{PARTITIONS:,} partitions created and in sync in {made:.1f} s")
            for _ in range(context.sized(3, 1)):
                running.stop()
                began = time.perf_counter()
                running.start()
                cluster.wait_whole(running, "led", PARTITIONS)
                starts.append(time.perf_counter() - began)
                context.say(f"cold start: {starts[-1]:.1f} s")
            for turn in range(context.sized(3, 1)):
                moves.append(_death(running, turn % cluster.BROKERS + 1))
                context.say(f"a broker's death: its leaders moved in {moves[-1]:.2f} s")
    note = f"ZooKeeper, three brokers, all in sync; created in {made:.1f} s; starts {spread(starts)}"
    yield Row("3,000 partitions, 3 replicas: cold start", median(starts), "s", MOST_START_S, note=note)
    note = f"of one broker of three, after the end of its session; the worst of {len(moves)}: {spread(moves)}"
    yield Row("1,000 leaders move after a death", max(moves), "s", MOST_MOVE_S, note=note)


def _death(running: cluster.Cluster, number: int) -> float:
    """Kill a broker and start it again; returns the seconds from the end of its session until others lead all its
    partitions."""
    leaders = running.balance("led", PARTITIONS)
    led = [one for one, leader in leaders.items() if leader == number]
    assert len(led) == LED_BY_ONE, f"broker {number} leads {len(led)} partitions"
    ended = threading.Event()
    ended_at = [0.0]

    def gone(_: WatchedEvent) -> None:
        ended_at[0] = time.perf_counter()
        ended.set()

    client = KazooClient(running.zookeeper.connect)
    client.start()
    try:
        assert client.exists(f"/brokers/ids/{number}", watch=gone) is not None
        watch = cluster.LeaderWatch([one for other, one in running.brokers.items() if other != number], "led", led)
        running.brokers[number].kill()
        assert ended.wait(TIMEOUT_S), "the session did not end"
        while len(watch.look()) < len(led):
            assert time.perf_counter() - ended_at[0] < TIMEOUT_S, "some partitions have no leader"
        moved = time.perf_counter() - ended_at[0]
        watch.close()
    finally:
        client.stop()
        client.close()
    running.brokers[number].start()
    return moved
