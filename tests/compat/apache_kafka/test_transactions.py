"""Transactions of Apache Kafka's own producer (version 2), and our records read by Kafka's tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat import wire
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.transactions import requests
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]

SETTINGS = {"transaction.state.log.num.partitions": "1", "transaction.two.phase.commit.enable": "true"}
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SETTINGS) as process, RawConnection(process.bootstrap) as raw:
        wire.create_topic(raw, "t", 1, {})
        yield process


def run(jars: KafkaJars, main_class: str, *arguments: str) -> str:
    done = jars.run(main_class, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafkas_producer_commits_with_a_new_epoch_each_time(jars: KafkaJars, broker: BrokerProcess) -> None:
    run(
        jars, PERFORMANCE, "--topic", "t", "--num-records", "2000", "--record-size", "20", "--throughput", "4000",
        "--producer-props", f"bootstrap.servers={broker.bootstrap}",
        "--transactional-id", "java", "--transaction-duration-ms", "50",
    )  # fmt: skip
    with RawConnection(broker.bootstrap) as raw:
        markers = [header for header, _ in wire.stored_batches(raw, "t") if header.is_control]
        assert [header.producer_epoch for header in markers] == list(range(1, len(markers) + 1))
        assert len(markers) > 3
        answer = wire.fetch_one(raw, "t", isolation_level=requests.READ_COMMITTED, partition_max_bytes=1 << 24)
        assert sum(header.count for header, _ in wire.batches_in(answer.records) if not header.is_control) == 2000
    described = run(
        jars, TRANSACTIONS, "--bootstrap-server", broker.bootstrap, "describe", "--transactional-id", "java"
    )
    assert re.search(rf"\bjava\s+\d+\s+{len(markers)}\s+CompleteCommit\b", described), described


def test_kafkas_tool_reads_our_log_of_transactions(jars: KafkaJars, broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as raw:
        kept = requests.producer(raw, "kept", version=6, enable2_pc=True)
        requests.write(raw, "kept", kept, "t", b"x", version=12)
        successor = requests.init(raw, "kept", version=6, enable2_pc=True, keep_prepared_txn=True).identity
        plain = requests.producer(raw, "plain")
    broker.stop()
    (segment,) = (broker.data / "__transaction_state-0").glob("*.log")
    dumped = run(jars, DUMP, "--files", str(segment), "--transaction-log-decoder")
    last: dict[str, dict[str, Any]] = {}
    for key, value in re.findall(r"key: (\{.*\}) payload: (\{.*\})", dumped):
        last[json.loads(key)["data"]["transactionalId"]] = json.loads(value)["data"]
    assert set(last) == {"kept", "plain"}
    assert (last["plain"]["producerId"], last["plain"]["producerEpoch"]) == plain
    assert last["plain"]["transactionStatus"] == 0
    told = last["kept"]
    assert (told["producerId"], told["producerEpoch"], told["transactionStatus"]) == (*kept, 1)
    assert (told["nextProducerId"], told["nextProducerEpoch"]) == successor
    assert told["transactionPartitions"] == [{"topic": "t", "partitionIds": [0]}]
    broker.start()
