"""Test of the example connector: on a broker and an engine in this process."""

from __future__ import annotations

import json

from primes import Primes

from moldau import Consumer
from moldau.testing import Broker, Connectors


def test_all_primes_below_a_limit_are_in_the_topic_once() -> None:
    with Broker() as broker, Connectors(broker.bootstrap_servers, {"Primes": Primes}) as connectors:
        connectors.start("primes", {"connector.class": "Primes", "topic": "primes", "below": "3000"})
        connectors.wait_for_records("primes", 430)
        with Consumer("primes", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            found = [json.loads(record.value)["prime"] for record in consumer.poll(timeout=10.0)]
    assert len(found) == len(set(found)) == 430
    assert found[:5] == [2, 3, 5, 7, 11]
