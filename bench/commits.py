"""Offset commits: the rate that a broker stores and acknowledges, by wall time and per core.

Fifty groups of one member each, with their own connections and one commit in flight, like consumers that commit after
processing. All members are in one process, which needs a core for itself. If other processes use that core, the rate by
wall time falls; the rate per second of broker CPU time still shows what the broker could do.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from bench import members
from bench.harness import Context, Row, median, percentile, settle, spread

MEMBERS = 50
TOPIC = "committed"
PARTITIONS = 10
LEAST_PER_SECOND = 10_000
ANSWER_BYTES = 4096


def run(context: Context) -> Iterator[Row]:
    commits = context.sized(60_000, 20_000)
    with context.broker("group.initial.rebalance.delay.ms=200") as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        for partitions, limit in ((1, LEAST_PER_SECOND), (PARTITIONS, None)):
            per_core, by_clock, waits = [], [], []
            for _ in range(context.repeats):
                settle()
                found = _load(broker.port, commits, partitions, broker.cpu_seconds)
                per_core.append(commits / found["cpu"])
                by_clock.append(commits / found["seconds"])
                waits.append(found["p99_ms"])
                context.say(
                    f"commits of {partitions} offsets: {per_core[-1]:,.0f}/s per core, {by_clock[-1]:,.0f}/s by clock"
                )
            name = "Offset commits" if partitions == 1 else f"Offset commits of {partitions} partitions"
            note = (
                f"by the clock, from {MEMBERS} connections with one in flight each; p99 {median(waits):.1f} ms; "
                f"repeats {spread(by_clock)}"
            )
            yield Row(name, median(by_clock), "commits/s", limit, at_least=True, note=note)
            note = f"{1e6 / median(per_core):.0f} µs of broker CPU per commit; repeats {spread(per_core)}"
            yield Row(f"{name}, per core", median(per_core), "commits/s", limit=None, note=note)


def _load(port: int, commits: int, partitions: int, cpu_seconds: Callable[[], float]) -> dict[str, float]:
    """Run the commits in another process. The broker's CPU time is counted after all members have joined."""
    command = [sys.executable, "-m", "bench.commits", str(port), str(commits), str(partitions)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loader:
        assert loader.stdin is not None
        assert loader.stdout is not None
        assert loader.stdout.readline() == "joined\n"
        before = cpu_seconds()
        loader.stdin.write("go\n")
        loader.stdin.flush()
        line = loader.stdout.readline()
        cpu = cpu_seconds() - before
        loader.stdin.close()
    found: dict[str, float] = json.loads(line)
    return found | {"cpu": cpu}


# -- in a separate process ---------------------------------------------------------------------------------------------


def _commit(port: int, commits: int, partitions: int) -> None:
    selector = selectors.DefaultSelector()
    group = members.join(port, MEMBERS, 1)
    for member in group:
        request = member.commit(TOPIC, partitions)
        member.connection.sendall(request)
        answer = member.connection.recv(ANSWER_BYTES)
        # Check that all error codes of the first response are zero. Later responses must be equal to it.
        assert answer.count(b"\0\0\0") >= partitions, answer
        member.connection.setblocking(False)
        selector.register(member.connection, selectors.EVENT_READ, (member.connection, request, answer))
    print("joined", flush=True)
    sys.stdin.readline()
    clock = time.perf_counter
    sent_at: dict[int, float] = {}
    waits = []
    began = clock()
    for member in group:
        member.connection.send(member.commit(TOPIC, partitions))
        sent_at[member.connection.fileno()] = began
    left = commits - len(group)
    while len(waits) < commits:
        for key, _ in selector.select():
            connection, request, expected = key.data
            assert connection.recv(ANSWER_BYTES) == expected, "a commit was refused"
            now = clock()
            waits.append(now - sent_at[key.fd])
            if left > 0:
                left -= 1
                sent_at[key.fd] = now
                connection.send(request)
    seconds = clock() - began
    print(json.dumps({"seconds": seconds, "p99_ms": percentile(waits, 0.99) * 1000}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    _commit(*map(int, sys.argv[1:]))
