"""Shared parts of the exercises: a broker, topics with new names, and reading a topic to its end.

Each exercise runs alone:

    python examples/course/log_offsets.py                               # starts a broker in its own process
    python examples/course/log_offsets.py --bootstrap localhost:9092    # uses a running broker
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic
from moldau.testing import Broker

Record = Any
"""A record as `Consumer.poll` returns it: topic, partition, offset, timestamp, key, value, headers."""


@contextmanager
def broker_address(exercise: str | None) -> Iterator[str]:
    """The value for `bootstrap_servers`: the one of `--bootstrap`, or that of a new broker. `exercise` is the
    exercise's docstring, which `--help` shows."""
    parser = argparse.ArgumentParser(description=exercise, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a running broker; without it one is started here")
    given = parser.parse_args().bootstrap
    if given:
        yield given
    else:
        with Broker() as broker:
            yield broker.bootstrap_servers


def new_topic(bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
    """Create a topic with a name that no earlier run has used. Returns the name."""
    topic = f"course-{name}-{uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions, configs=dict(configs or {})))
    return topic


def read_all(bootstrap: str, topic: str, isolation_level: str = "read_uncommitted") -> list[Record]:
    """All records that are in the topic now, without a group. Partitions are read in any order."""
    settings = {"isolation_level": isolation_level, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        partitions = [(topic, index) for index in range(len(consumer.partitions_for(topic)))]
        consumer.assign(partitions)
        ends = consumer.end_offsets()
        found: list[Record] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += consumer.poll(timeout=1.0)
    return found
