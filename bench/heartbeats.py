"""Group heartbeats: response time for 1,000 groups of 10 members.

Each member has its own connection and sends a heartbeat every three seconds, the default of clients, all at different
times. A wait is counted from the time when the heartbeat was due, so a stall affects every member that should have sent
one in the meantime. All members are in one process; its delays and those of the machine are in the numbers. The result
is the median of several windows, with their range.
"""

from __future__ import annotations

import gc
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
from bench.harness import Context, Row, median, percentile, spread

GROUPS = 1_000
MEMBERS = 10
INTERVAL_S = 3.0
WINDOW_S = 3.0
MOST_P99_MS = 50.0
ANSWER_BYTES = 256


def run(context: Context) -> Iterator[Row]:
    groups = context.sized(GROUPS, 300)
    windows = context.sized(5, 2)
    with context.broker("group.initial.rebalance.delay.ms=5000") as broker:
        command = [sys.executable, "-m", "bench.heartbeats", str(broker.port), str(groups), str(windows)]
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
    p99s = found["p99_ms"]
    context.say(f"{groups * MEMBERS:,} members with heartbeats: p99 {median(p99s):.1f} ms ({spread(p99s)})")
    note = (
        f"{groups:,} groups; windows of {WINDOW_S:.0f} s: {spread(p99s)}; median {found['median_ms']:.1f} ms, longest "
        f"{found['longest_ms']:.0f} ms; {found['count'] / windows / WINDOW_S:,.0f} heartbeats/s, "
        f"{cpu / found['count'] * 1e6:.0f} µs of broker CPU each; {memory:.0f} MB"
    )
    yield Row(f"{groups * MEMBERS:,} heart-beating members, p99", median(p99s), "ms", MOST_P99_MS, note=note)


# -- in a separate process ---------------------------------------------------------------------------------------------


def _beat(port: int, groups: int, windows: int) -> None:
    selector = selectors.DefaultSelector()
    crowd = members.join(port, groups, MEMBERS)
    requests = [member.heartbeat() for member in crowd]
    for place, member in enumerate(crowd):
        member.connection.setblocking(False)
        selector.register(member.connection, selectors.EVENT_READ, place)
    gc.collect()
    gc.disable()  # a pause of this process would look like a pause of the broker
    print("joined", flush=True)
    sys.stdin.readline()
    clock = time.perf_counter
    began = clock()
    due = [(began + random.random() * INTERVAL_S, place) for place in range(len(crowd))]
    heapq.heapify(due)
    due_at = [0.0] * len(crowd)
    waits: list[list[float]] = [[] for _ in range(windows)]
    while (now := clock()) < began + windows * WINDOW_S:
        while due[0][0] <= now:
            at, place = heapq.heapreplace(due, (due[0][0] + INTERVAL_S, due[0][1]))
            due_at[place] = at
            crowd[place].connection.send(requests[place])
        window = waits[int((now - began) // WINDOW_S)]
        for key, _ in selector.select(max(0.0, due[0][0] - now)):
            answer = crowd[key.data].connection.recv(ANSWER_BYTES)
            assert struct.unpack_from(">h", answer, 13)[0] == 0, f"a heartbeat was refused: {answer!r}"
            window.append(clock() - due_at[key.data])
    everything = [wait for window in waits for wait in window]
    found = {
        "count": len(everything),
        "median_ms": median(everything) * 1000,
        "p99_ms": [percentile(window, 0.99) * 1000 for window in waits],
        "longest_ms": max(everything) * 1000,
    }
    print(json.dumps(found), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    _beat(*map(int, sys.argv[1:]))
