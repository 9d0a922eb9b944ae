"""Renderer of docs/older-books.md: defaults that changed since the Kafka books of 0.8 to 2.x, beside those of Moldau.

The current values are read from the settings declarations. A row whose old value is the current one, or a name that is
no longer declared, is an error.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from rendered_page import ROOT, write_or_check

PAGE = ROOT / "docs" / "older-books.md"
sys.path.insert(0, str(ROOT / "src"))

from moldau.client.settings import CONSUMER, PRODUCER  # noqa: E402
from moldau.settings import BROKER, SettingTable  # noqa: E402

INTRODUCTION = """\
# What older books say

<!-- Written by tools/render_older_books.py. The values of the column "here" come from the settings declarations. -->

Most books and courses about Kafka were written for the releases 0.8 to 2.x. Their ideas still hold; many of their
numbers do not. This page lists the defaults that changed since then. The column "here" is the default of Moldau's
brokers and clients. Unless a row says otherwise, it is also the default of Apache Kafka 4.
[configuration.md](configuration.md) has every setting of the broker, and [clients.md](clients.md) explains those of the
clients.

If you follow an older book, leave these settings at their defaults first. Most of the tuning that the books recommend
is the default today.
"""


class Change(NamedTuple):
    """A default that changed."""

    name: str
    old: str
    changed_by: str
    reason: str


class Rename(NamedTuple):
    """A setting of the clients before 0.9, and the setting that replaced it."""

    old: str
    table: SettingTable
    name: str
    remark: str


class Unchanged(NamedTuple):
    """A default that did not change, although production usually needs another value."""

    table: SettingTable
    name: str
    advice: str


PRODUCER_CHANGES = (
    Change("acks", "1", "3.0, KIP-679", "A record that only the leader has is lost if the leader dies."),
    Change(
        "enable.idempotence",
        "false",
        "3.0, KIP-679",
        "A retry after a lost response no longer writes a record twice. A bug kept the new default from taking effect "
        "before 3.0.1, 3.1.1 and 3.2.0.",
    ),
    Change(
        "retries",
        "0",
        "2.1, KIP-91",
        "The producer retries until `delivery.timeout.ms` is over; time is easier to reason about than a count.",
    ),
    Change("delivery.timeout.ms", "did not exist", "2.1, KIP-91", "One limit for everything after `send`."),
    Change(
        "linger.ms",
        "0",
        "4.0, KIP-1030",
        "Fuller batches need fewer requests, so that the average latency often improves despite the wait.",
    ),
    Change(
        "partitioner.class",
        "round robin for records without a key",
        "2.4, KIP-480; 3.3, KIP-794",
        "Records without a key stay with one partition until a batch is full, instead of filling many small batches. "
        "`partitioner.class=round-robin` gives the old behaviour.",
    ),
    Change(
        "retry.backoff.max.ms",
        "did not exist: always `retry.backoff.ms`",
        "3.7, KIP-580",
        "The pause between two attempts grows, so that a broker in trouble is not flooded with retries.",
    ),
)

CONSUMER_CHANGES = (
    Change(
        "session.timeout.ms",
        "30000, then 10000 since 0.10.1",
        "3.0, KIP-735",
        "A short network problem or pause of a virtual machine no longer causes a rebalance.",
    ),
    Change(
        "max.poll.interval.ms",
        "did not exist",
        "0.10.1, KIP-62",
        "Heartbeats come from the background. Slow processing has a limit of its own, and `session.timeout.ms` no "
        "longer has to cover it.",
    ),
    Change("max.poll.records", "no limit", "0.10.1, KIP-62", "The work between two polls has a bound."),
    Change(
        "partition.assignment.strategy",
        "range",
        "3.0, KIP-726",
        "A rolling restart that drops `range` from the list switches a group to cooperative rebalances.",
    ),
    Change(
        "request.timeout.ms",
        "40000, then 305000 since 0.10.1",
        "2.0, KAFKA-7050",
        "Only JoinGroup may take as long as a rebalance; all other requests of a consumer fail sooner.",
    ),
    Change("default.api.timeout.ms", "did not exist", "2.0, KIP-266", "Blocking calls of the consumer have a limit."),
    Change(
        "auto.commit.interval.ms",
        "60000",
        "0.9, new consumer",
        "A commit is a write to a log and no longer to ZooKeeper, so it may happen more often.",
    ),
    Change("fetch.max.wait.ms", "100 (`fetch.wait.max.ms`)", "0.9, new consumer", "Fewer empty responses."),
)

BROKER_CHANGES = (
    Change(
        "unclean.leader.election.enable",
        "true",
        "0.11, KIP-106",
        "An unclean election loses acknowledged records; the default prefers durability over availability.",
    ),
    Change("delete.topic.enable", "false", "1.0, KIP-162", "Deletion was unreliable at first; it is stable now."),
    Change(
        "replica.lag.time.max.ms",
        "10000",
        "2.5, KIP-537",
        "Fewer changes of the ISR when a broker pauses for a moment. `replica.lag.max.messages` was removed in 0.9 "
        "(KIP-16).",
    ),
    Change(
        "zookeeper.session.timeout.ms",
        "6000",
        "2.5, KIP-537",
        "Sessions survive short network problems. Apache Kafka 4.0 removed ZooKeeper; clusters of Moldau need it.",
    ),
    Change(
        "offsets.retention.minutes",
        "1440",
        "2.0, KIP-186",
        "A group that pauses over a weekend keeps its committed offsets.",
    ),
    Change(
        "group.initial.rebalance.delay.ms",
        "did not exist",
        "0.11, KIP-134",
        "The first rebalance of a new group waits for more members, instead of one rebalance per member. "
        "`moldau.testing` sets it to 0.",
    ),
    Change(
        "offsets.topic.replication.factor",
        "3, but the first broker created the topic with 1",
        "0.11, KIP-115",
        "Committed offsets must survive the loss of a broker. Apache Kafka waits until there are as many brokers; "
        "Moldau creates the topic with as many replicas as there are brokers.",
    ),
    Change(
        "message.max.bytes",
        "1000012",
        "2.5, KAFKA-4203",
        "The broker accepts the largest record that a producer sends by default. Since 0.11 the limit is for a batch, "
        "as the producer compressed it.",
    ),
    Change("log.cleaner.enable", "false", "0.9.0.1", "Topics with `cleanup.policy=compact` are compacted."),
    Change(
        "log.message.timestamp.after.max.ms",
        "9223372036854775807 (`log.message.timestamp.difference.max.ms`)",
        "3.6, KIP-937; 4.0, KIP-1030",
        "A record with a timestamp far in the future would keep its segment from being deleted for as long.",
    ),
    Change("num.recovery.threads.per.data.dir", "1", "4.0, KIP-1030", "Faster start after a crash."),
    Change(
        "log.dir",
        "/tmp/kafka-logs",
        "Moldau only",
        "Data in a temporary directory does not survive. The default of Apache Kafka is unchanged; `moldau up` and "
        "`moldau broker` take `--data`.",
    ),
)

UNCHANGED = (
    Unchanged(BROKER, "default.replication.factor", "3 in a cluster; `moldau up --brokers 3` sets it."),
    Unchanged(
        BROKER,
        "min.insync.replicas",
        "2 with three replicas: otherwise `acks=all` needs no follower when the ISR is the leader alone.",
    ),
    Unchanged(BROKER, "num.partitions", "As many as the consumers of a group that will share the topic."),
    Unchanged(BROKER, "auto.create.topics.enable", "false where a misspelt name must not become a topic."),
    Unchanged(CONSUMER, "auto.offset.reset", "earliest where a new group has to read what is there already."),
    Unchanged(CONSUMER, "enable.auto.commit", "false where a record counts as read only after its work is done."),
    Unchanged(CONSUMER, "isolation.level", "read_committed where producers use transactions."),
    Unchanged(PRODUCER, "compression.type", "lz4 or zstd for anything that looks like text."),
    Unchanged(PRODUCER, "batch.size", "Larger for throughput: 100 KB and more are usual."),
)

RENAMES = (
    Rename("metadata.broker.list", PRODUCER, "bootstrap.servers", "Old Scala producer, removed in 2.0."),
    Rename("request.required.acks", PRODUCER, "acks", "Old Scala producer; its default was 0."),
    Rename("compression.codec", PRODUCER, "compression.type", "Old Scala producer."),
    Rename(
        "block.on.buffer.full", PRODUCER, "max.block.ms", "Removed in 0.11, together with `metadata.fetch.timeout.ms`."
    ),
    Rename(
        "zookeeper.connect",
        CONSUMER,
        "bootstrap.servers",
        "Old Scala consumer, removed in 2.0. Clients never talk to ZooKeeper now.",
    ),
    Rename(
        "fetch.message.max.bytes",
        CONSUMER,
        "max.partition.fetch.bytes",
        "Old Scala consumer. A larger record no longer blocks a consumer (KIP-74, 0.10.1).",
    ),
)

REST = """\
## Values and settings that are gone

- `auto.offset.reset` had the values `smallest` and `largest` in the old consumer. They are `earliest` and `latest` now.
- `log.message.format.version`, `message.format.version` and `inter.broker.protocol.version` are gone in Apache Kafka
  4.0 (KIP-724 dropped the old record formats). Moldau stores and serves the current record format only.
- `replica.lag.max.messages` is gone since 0.9: a follower lags by time only.
- `offsets.storage=zookeeper` and `dual.commit.enabled` are gone: committed offsets are in the topic
  `__consumer_offsets`.

## Advice that is out of date

- *"Set `max.in.flight.requests.per.connection=1` to keep the order."* An idempotent producer, the default, keeps the
  order of a partition with up to five requests in flight (since 1.0).
- *"Make `session.timeout.ms` long enough for the processing of a batch."* That is `max.poll.interval.ms` since 0.10.1.
- *"A rebalance stops all consumers."* Not with `cooperative-sticky` (2.4, KIP-429), nor with `group.protocol=consumer`
  (4.0, KIP-848).
- *"A restart of a consumer is a rebalance."* Not with `group.instance.id` (2.3, KIP-345).
- *"Exactly once needs a producer per input partition."* Not since 2.5 (KIP-447): pass `consumer.group_metadata()` to
  `send_offsets`.
- *"Topics are administered through ZooKeeper."* `kafka-topics --zookeeper` was removed in 3.0; every tool takes
  `--bootstrap-server`, and so do the commands of `moldau`.
"""


def render() -> str:
    """The whole page."""
    return "\n".join(
        [
            INTRODUCTION,
            _render_changes("Producer", PRODUCER, PRODUCER_CHANGES),
            _render_changes("Consumer", CONSUMER, CONSUMER_CHANGES),
            _render_changes("Broker", BROKER, BROKER_CHANGES),
            _render_unchanged(),
            _render_renames(),
            REST,
        ]
    )


def _render_changes(title: str, table: SettingTable, changes: tuple[Change, ...]) -> str:
    rows = [f"## {title}\n", "| setting | in older books | here | changed in | why |", "|---|---|---|---|---|"]
    for change in changes:
        here = _default(table, change.name)
        if change.old == here:
            sys.exit(f"{change.name}: {here} is the value of older books, too")
        rows.append(f"| `{change.name}` | {change.old} | {_shown(here)} | {change.changed_by} | {change.reason} |")
    return "\n".join(rows) + "\n"


def _render_unchanged() -> str:
    rows = ["## Not changed, and still worth a thought\n", "| setting | | default | consider |", "|---|---|---|---|"]
    rows += [f"| `{one.name}` | {one.table.kind} | {_shown(_default(*one[:2]))} | {one.advice} |" for one in UNCHANGED]
    return "\n".join(rows) + "\n"


def _render_renames() -> str:
    rows = ["## Names that changed\n", "| in older books | | today | |", "|---|---|---|---|"]
    for one in RENAMES:
        if one.old in one.table:
            sys.exit(f"{one.old} is a setting of the {one.table.kind}")
        rows.append(f"| `{one.old}` | {one.table.kind} | `{one.table[one.name].name}` | {one.remark} |")
    return "\n".join(rows) + "\n"


def _default(table: SettingTable, name: str) -> str:
    """The default as text; empty where there is none."""
    setting = table[name]
    return setting.format(setting.default) or ""


def _shown(text: str) -> str:
    return f"`{text}`" if text else "none"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render, sys.argv[1:]))
