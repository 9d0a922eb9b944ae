"""Examples of docs/spark.md and docs/spark-sink.md, run in their order as one program."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from moldau import Consumer, Producer, TopicPartition
from moldau.testing import Broker

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

PAGES = [Path(__file__).resolve().parents[2] / "docs" / name for name in ("spark.md", "spark-sink.md")]
NOW_MS = int(time.time() * 1000)
AMOUNTS = {"c1": [50, 150], "c2": [200]}


def values(broker: Broker, topic: str) -> dict[str, str | None]:
    """The last value of each key; the topic has one partition."""
    place = TopicPartition(topic, 0)
    found: dict[str, str | None] = {}
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets(place)[place]
        while consumer.position(place) < end:
            for record in consumer.poll(timeout=1):
                found[record.key.decode()] = None if record.value is None else record.value.decode()
    return found


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_every_example_of_the_pages_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import moldau.spark

    monkeypatch.setattr(moldau.spark, "session", lambda: spark)
    with Broker({"num.partitions": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for customer, amounts in AMOUNTS.items():
                for amount in amounts:
                    order = {"id": amount, "customer": customer, "amount": amount}
                    producer.send("orders", json.dumps(order).encode(), key=customer.encode(), timestamp=NOW_MS)
        blocks = [block for page in PAGES for block in examples(page)]
        assert len(blocks) >= 6
        program = "\n".join(blocks).replace("localhost:9092", broker.bootstrap_servers)
        exec(compile(program.replace("/var/checkpoints", str(tmp_path)), "examples", "exec"), {})
        large = {key: json.loads(value or "") for key, value in values(broker, "large-orders").items()}
        assert {key: order["amount"] for key, order in large.items()} == {"c1": 150, "c2": 200}
        assert values(broker, "customers") == {"c1": "gold", "c2": None}
        assert (set(values(broker, "even")), set(values(broker, "odd"))) == ({"0", "2", "4"}, {"1", "3", "5"})
        assert values(broker, "totals") == {"c1": "200.0", "c2": "200.0"}
