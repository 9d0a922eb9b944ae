"""Index of aborted transactions: after a restart, a thread reads it from the disk, not the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau import Admin, Consumer, NewTopic, Producer
from moldau.log.segment import Segment
from moldau.testing import Broker

TOPIC = "orders"
TRANSACTIONS = 12


def on_a_loop() -> bool:
    """Whether the caller runs inside a callback of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def write(bootstrap: str) -> None:
    """Write transactions, each in its own segment, and abort every second one."""
    with Producer(bootstrap_servers=bootstrap, transactional_id="writer") as producer:
        producer.init_transactions()
        for number in range(TRANSACTIONS):
            producer.begin_transaction()
            producer.send(TOPIC, b"%d" % number + b"x" * 700_000)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def test_the_index_of_aborted_transactions_is_read_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic(TOPIC, configs={"segment.bytes": str(1 << 20)}))
        write(broker.bootstrap_servers)
        broker.stop()
        reads: list[bool] = []
        read = Segment.read_aborted

        def noted(segment: Segment) -> Any:
            reads.append(on_a_loop())
            return read(segment)

        monkeypatch.setattr(Segment, "read_aborted", noted)
        broker.start()
        settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with Consumer(TOPIC, settings, bootstrap_servers=broker.bootstrap_servers) as consumer:
            found = []
            while len(found) < TRANSACTIONS // 2:
                found += [int(record.value.rstrip(b"x")) for record in consumer.poll(timeout=5)]
        assert found == list(range(0, TRANSACTIONS, 2))
        assert len([one for one in reads if not one]) >= TRANSACTIONS // 2
        # The loop itself reads only the active segment, to which it also appends.
        assert sum(reads) <= 1
