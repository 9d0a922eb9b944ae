"""Long polls: CPU share for 5,000 consumers that wait for records that do not arrive.

Each fetch waits 500 ms and is repeated at once, as clients do: 10,000 fetches per second. A separate process does the
waiting, so that its work is not counted. The real number of polls is in the note.
"""

from __future__ import annotations

import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

from bench import frames
from bench.harness import HOST, Context, Row, median, spread

CONNECTIONS = 5_000
WAIT_MS = 500
FULL_RATE = CONNECTIONS * 1000 / WAIT_MS
MOST_SHARE = 0.30
TOPIC = "quiet"
PARTITIONS = 6
MAX_BYTES = 1_000_000


def run(context: Context) -> Iterator[Row]:
    windows = context.sized(3, 1)
    window_s = context.sized(5, 3)
    with context.broker() as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        poller = subprocess.Popen(
            [sys.executable, "-m", "bench.long_polls", str(broker.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert poller.stdin is not None
        assert poller.stdout is not None
        with poller:
            poller.stdout.readline()  # printed when all connections wait

            def answered() -> int:
                assert poller.stdin is not None
                assert poller.stdout is not None
                poller.stdin.write("how many?\n")
                poller.stdin.flush()
                return int(poller.stdout.readline())

            rates, costs = [], []
            for _ in range(windows):
                polls, cpu, began = answered(), broker.cpu_seconds(), time.perf_counter()
                time.sleep(window_s)
                polls = answered() - polls
                costs.append((broker.cpu_seconds() - cpu) / polls)
                rates.append(polls / (time.perf_counter() - began))
                context.say(f"5,000 long polls: {costs[-1] * 1e6:.1f} µs each, {rates[-1]:,.0f} per second")
            poller.stdin.close()
    # On a busy machine polls are late, and fewer polls look like a smaller share: so the share is computed for the full
    # rate.
    shares = [cost * FULL_RATE for cost in costs]
    note = f"{median(costs) * 1e6:.1f} µs per poll at {FULL_RATE:,.0f} polls/s; {median(rates):,.0f} polls/s reached; "
    yield Row(
        "5,000 parked long polls", median(shares), "of a core", MOST_SHARE, note=f"{note}repeats {spread(shares)}"
    )


def _poll(port: int) -> None:
    """Keep every connection waiting. Answers each line on standard input with the number of polls so far; ends with the
    input."""
    selector = selectors.DefaultSelector()
    for number in range(CONNECTIONS):
        connection = frames.connect(HOST, port)
        # Wait for a response: until then the broker has not accepted, and a full accept queue drops connections for
        # seconds.
        frames.call(connection, frames.api_versions())
        connection.setblocking(False)
        frame = frames.fetch(TOPIC, number % PARTITIONS, 0, max_bytes=MAX_BYTES, max_wait_ms=WAIT_MS)
        connection.send(frame)
        selector.register(connection, selectors.EVENT_READ, (connection, frame))
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("waiting", flush=True)
    answered = 0
    while True:
        for key, _ in selector.select():
            if key.data is None:
                if not sys.stdin.readline():
                    return
                print(answered, flush=True)
                continue
            connection, frame = key.data
            answer = connection.recv(4096)
            assert len(answer) == 4 + struct.unpack_from(">i", answer)[0], "an incomplete response"
            connection.send(frame)
            answered += 1


if __name__ == "__main__":
    _poll(int(sys.argv[1]))
