"""Examples that keep state in a database: killed several times, they count every record once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from moldau.records.batch_layout import BatchRecord
from moldau.records.encode import encode_batch
from tests.compat import wire
from tests.support.raw import RawConnection

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PATIENCE_S = 60.0
PARTITIONS = 2
BATCHES = 30
BATCH = 40


def command(name: str, bootstrap: str, topic: str, database: Path) -> list[str]:
    return [
        sys.executable, str(EXAMPLES / f"{name}.py"), bootstrap,
        "--topic", topic, "--database", str(database), "--group", topic, "--stop-at-the-end",
    ]  # fmt: skip


def killed_after(lines: int, arguments: list[str]) -> None:
    """Run the example until it has printed this many lines, then kill it."""
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(lines):
            if not process.stdout.readline():
                break
        process.kill()


def write(raw: RawConnection, topic: str, partition: int, records: list[BatchRecord]) -> None:
    assert not wire.produce(raw, topic, encode_batch(records), partition=partition).error_code


def test_offsets_in_sqlite_counts_every_payment_once(
    bootstrap: str, new_topic: Callable[..., str], raw: RawConnection, tmp_path: Path
) -> None:
    topic, database = new_topic(partitions=PARTITIONS), tmp_path / "totals.db"
    expected: dict[str, tuple[int, int]] = {}
    for number in range(BATCHES):
        records = [BatchRecord(i, wire.now_ms(), b"account-%d" % (i % 5), b"%d" % (number + i)) for i in range(BATCH)]
        for record in records:
            assert record.key is not None and record.value is not None
            total, payments = expected.get(record.key.decode(), (0, 0))
            expected[record.key.decode()] = total + int(record.value), payments + 1
        write(raw, topic, number % PARTITIONS, records)
    arguments = command("offsets_in_sqlite", bootstrap, topic, database)
    killed_after(1, arguments)
    subprocess.run(arguments, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    with sqlite3.connect(database) as connection:
        found = connection.execute("select account, total, payments from totals").fetchall()
    connection.close()
    assert {account: (total, payments) for account, total, payments in found} == expected


def test_the_idempotent_consumer_does_nothing_twice(
    bootstrap: str, topic: str, raw: RawConnection, tmp_path: Path
) -> None:
    database = tmp_path / "orders.db"
    for number in range(BATCHES):
        ids = [number * BATCH + i for i in range(BATCH)]
        records = [
            BatchRecord(i, wire.now_ms(), b"anna", b"item-%d" % one, [("message-id", b"%d" % one)])
            for i, one in enumerate(ids)
        ]
        write(raw, topic, 0, records)
        if number % 3 == 0:
            write(raw, topic, 0, records)  # sent again, as a producer does that is not sure of the first attempt
    arguments = command("idempotent_consumer", bootstrap, topic, database)
    killed_after(1, arguments)
    subprocess.run(arguments, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    with sqlite3.connect(database) as connection:
        found = [item for (item,) in connection.execute("select item from orders")]
    connection.close()
    assert sorted(found) == sorted(f"item-{one}" for one in range(BATCHES * BATCH))
