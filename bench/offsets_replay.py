"""Offsets replay: the speed at which a group coordinator loads a million live records of `__consumer_offsets`.

The segment is written here, in batches as a broker stores them: one batch for each commit of a consumer of ten
partitions, and for comparison one batch for each offset. A broker in a separate process then repeatedly loads the
partition with the code that runs at every start. The page cache is warm, so the disk is not measured.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.harness import Context, Row, median, spread

TOPIC = "__consumer_offsets"
LIVE = 1_000_000
LIVE_QUICK = 200_000
PARTITIONS_A_GROUP = 100
LEAST_RECORDS_PER_SECOND = 300_000
PAUSE_S = 0.002
SETTINGS = {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "1000000000"}


def run(context: Context) -> Iterator[Row]:
    live = context.sized(LIVE, LIVE_QUICK)
    for partitions_a_commit, limit in ((10, LEAST_RECORDS_PER_SECOND), (1, None)):
        with context.scratch("replay") as directory:
            command = [sys.executable, "-m", "bench.offsets_replay", str(directory / "data")]
            arguments = [str(live), str(partitions_a_commit), str(context.repeats)]
            result = subprocess.run([*command, *arguments], check=True, stdout=subprocess.PIPE)
        found = json.loads(result.stdout)
        rates = [live / seconds for seconds in found["seconds"]]
        context.say(f"replay, {partitions_a_commit} offsets per batch: {median(rates):,.0f} records/s")
        note = (
            f"{live:,} live entries, {partitions_a_commit} per batch, in {median(found['seconds']):.1f} s; a turn of "
            f"the loop took {found['longest_turn_ms']:.0f} ms at most; repeats {spread(rates)}"
        )
        name = "Replay of committed offsets" if limit else "Replay, one offset per batch"
        yield Row(name, median(rates), "records/s", limit, at_least=True, note=note)


# -- in a separate process ---------------------------------------------------------------------------------------------


async def _measure(data: Path, live: int, partitions_a_commit: int, repeats: int) -> dict[str, object]:
    from moldau.wire.errors import ErrorCode

    first = await _start(data)
    await first.groups.runtime.ensure_topic()
    await first.stop()
    _write_segment(data / f"{TOPIC}-0", live, partitions_a_commit)
    broker = await _start(data)
    seconds = []
    longest_turn = 0.0
    for _ in range(repeats + 1):  # the start of the broker may already have begun the first load
        broker.groups.runtime.unload(0)
        began = turn = time.perf_counter()
        while isinstance(found := broker.groups.runtime.shard_at(0), ErrorCode):
            assert found == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, found
            await asyncio.sleep(PAUSE_S)
            now = time.perf_counter()
            longest_turn, turn = max(longest_turn, now - turn), now
        seconds.append(time.perf_counter() - began)
        assert sum(len(group.offsets.committed) for group in found.shard.groups.values()) == live
        del found
    await broker.stop()
    return {"seconds": seconds[1:], "longest_turn_ms": longest_turn * 1000}


async def _start(data: Path) -> Any:
    from moldau.broker.assembly import assemble

    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data), **SETTINGS}
    broker = await assemble(texts)
    await broker.start()
    return broker


def _write_segment(directory: Path, live: int, partitions_a_commit: int) -> None:
    from moldau.groups.stored_records import offset_key, offset_tail, offset_value
    from moldau.log.checkpoints import CLEAN_SHUTDOWN
    from moldau.records import BatchRecord, encode_batch, stamp

    for path in directory.iterdir():
        if path.name[:20].isdigit():
            path.unlink()
    (directory.parent / CLEAN_SHUTDOWN).unlink()  # it would claim that the log is empty
    now_ms = time.time_ns() // 1_000_000
    tails = [offset_tail(f"topic-{number // 10}", number % 10) for number in range(PARTITIONS_A_GROUP)]
    with (directory / f"{0:020}.log").open("wb") as file:
        offset = 0
        while offset < live:
            group = b"application-%06d" % (offset // PARTITIONS_A_GROUP)
            at = offset % PARTITIONS_A_GROUP
            records = [
                BatchRecord(place, now_ms, offset_key(group, tail), offset_value(offset, 0, "", now_ms))
                for place, tail in enumerate(tails[at : at + partitions_a_commit])
            ]
            batch = encode_batch(records)
            stamp(batch, 0, offset, 0)
            file.write(batch)
            offset += len(records)


if __name__ == "__main__":
    import uvloop

    Path(sys.argv[1]).mkdir(parents=True)
    print(json.dumps(uvloop.run(_measure(Path(sys.argv[1]), *map(int, sys.argv[2:])))))
