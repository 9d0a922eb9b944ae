"""1,000 groups of 10 members that heartbeat: how long a member waits for the answer.

Each member has its own connection and heartbeats every three seconds, as clients do by default, all at different times.
A wait is counted from when the heartbeat was due, so that a stall meets everybody who would have come meanwhile. The
members are one process, whose own delays are in the numbers.
"""

from __future__ import annotations

import heapq
import json
import random
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

from bench import members
from bench.harness import Context, Row, median, percentile

GROUPS = 1_000
MEMBERS = 10
INTERVAL_S = 3.0
MOST_P99_MS = 50.0
ANSWER_BYTES = 256


def run(context: Context) -> Iterator[Row]:
    groups = context.sized(GROUPS, 300)
    seconds = context.sized(15, 5)
    with context.broker("group.initial.rebalance.delay.ms=5000", "offsets.topic.num.partitions=50") as broker:
        command = [sys.executable, "-m", "bench.heartbeats", str(broker.port), str(groups), str(seconds)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loader:
            assert loader.stdin is not None
            assert loader.stdout is not None
            assert loader.stdout.readline() == "joined\n"
            before = broker.cpu_seconds()
            loader.stdin.write("go\n")
            loader.stdin.flush()
            found = json.loads(loader.stdout.readline())
            cpu = broker.cpu_seconds() - before
            memory = broker.memory_mb()
            loader.stdin.close()
    context.say(f"{groups * MEMBERS:,} heart-beating members: p99 {found['p99_ms']:.1f} ms")
    note = (
        f"{groups:,} groups; median {found['median_ms']:.1f} ms, longest {found['longest_ms']:.0f} ms; "
        f"{found['count'] / seconds:,.0f} heartbeats/s, {cpu / found['count'] * 1e6:.0f} µs of broker CPU each; "
        f"{memory:.0f} MB"
    )
    yield Row(f"{groups * MEMBERS:,} heart-beating members, p99", found["p99_ms"], "ms", MOST_P99_MS, note=note)


# -- in a process of its own -------------------------------------------------------------------------------------------


def _beat(port: int, groups: int, seconds: int) -> None:
    selector = selectors.DefaultSelector()
    crowd = members.join(port, groups, MEMBERS)
    requests = [member.heartbeat() for member in crowd]
    for place, member in enumerate(crowd):
        member.connection.setblocking(False)
        selector.register(member.connection, selectors.EVENT_READ, place)
    print("joined", flush=True)
    sys.stdin.readline()
    clock = time.perf_counter
    began = clock()
    due = [(began + random.random() * INTERVAL_S, place) for place in range(len(crowd))]
    heapq.heapify(due)
    due_at = [0.0] * len(crowd)
    waits: list[float] = []
    while (now := clock()) < began + seconds:
        while due[0][0] <= now:
            at, place = heapq.heapreplace(due, (due[0][0] + INTERVAL_S, due[0][1]))
            due_at[place] = at
            crowd[place].connection.send(requests[place])
        for key, _ in selector.select(max(0.0, due[0][0] - now)):
            answer = crowd[key.data].connection.recv(ANSWER_BYTES)
            assert struct.unpack_from(">h", answer, 13)[0] == 0, f"a heartbeat was refused: {answer!r}"
            waits.append(clock() - due_at[key.data])
    print(
        json.dumps(
            {
                "count": len(waits),
                "median_ms": median(waits) * 1000,
                "p99_ms": percentile(waits, 0.99) * 1000,
                "longest_ms": max(waits) * 1000,
            }
        ),
        flush=True,
    )
    sys.stdin.readline()


if __name__ == "__main__":
    _beat(*map(int, sys.argv[1:]))
