"""Commit decisions of a streaming query, stored in a compacted topic, and the names of its transactions.

A decision is one record. Its key is the query's id. Its value names the batch and the prepared transactions that belong
to it. The driver writes it before it commits the first of them. A later driver that reads the decision can complete the
commits, and knows that the batch must not be written again.

Transactional ids follow a rule, so that a decision needs only a few bytes per task and open transactions can be found
by their prefix:

    moldau-spark-QUERY-RUN-TURN-PARTITION-ATTEMPT

Each start of the query draws a new RUN, and TURN changes with every batch (0, 1, 0, …). So no task reuses an id of the
last decided batch: neither a retry of that batch after a crash, nor the next batch. Those transactions stay as the
decision left them until the next decision is stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.client.errors import MoldauError

DECISIONS_TOPIC: Final = "__moldau_spark_decisions"
PREFIX: Final = "moldau-spark-"
FORMAT: Final = 1
TURNS: Final = 2


class BadDecision(MoldauError):
    """A record of the decisions topic that this version cannot decode. The sink never guesses its meaning."""


class PreparedWrite(NamedTuple):
    """The prepared transaction of one task attempt: enough for any process to commit or abort it."""

    partition: int
    attempt: int
    producer_id: int
    epoch: int


class CommitDecision(NamedTuple):
    """Exactly these writes are the output of `batch` of `query`."""

    query: str
    run: str
    batch: int
    writes: tuple[PreparedWrite, ...]
    note: str = ""
    """Whatever the driver needs to know when it finishes the decision after a crash; empty for streaming queries."""

    def transactional_id(self, write: PreparedWrite) -> str:
        return transactional_id(self.query, self.run, self.batch, write.partition, write.attempt)


def query_prefix(query: str) -> str:
    """The common prefix of all transactional ids of a query. No other query uses it."""
    return f"{PREFIX}{query}-"


def driver_id(query: str) -> str:
    """The transactional id for writing decisions: a newer driver of the query fences an older one."""
    return f"{PREFIX}driver-{query}"


def gate_id(query: str, run: str) -> str:
    """A transactional id that no task writes with. If it exists, the run has ended: see `two_phase.py`."""
    return f"{PREFIX}gate-{query}-{run}"


def transactional_id(query: str, run: str, batch: int, partition: int, attempt: int) -> str:
    return f"{query_prefix(query)}{run}-{batch % TURNS}-{partition}-{attempt}"


def encode(decision: CommitDecision) -> tuple[bytes, bytes]:
    """The key and the value of the record."""
    value: dict[str, object] = {
        "version": FORMAT,
        "run": decision.run,
        "batch": decision.batch,
        "writes": [list(write) for write in decision.writes],
    }
    if decision.note:
        value["note"] = decision.note
    return decision.query.encode(), json.dumps(value, separators=(",", ":")).encode()


def decode(key: bytes, value: bytes) -> CommitDecision:
    try:
        fields = json.loads(value)
        if fields["version"] != FORMAT:
            raise BadDecision(
                f"a decision of query {key.decode()} has format {fields['version']}, but this version only supports "
                f"format {FORMAT}: use the version of Moldau that wrote it"
            )
        writes = tuple(PreparedWrite(*map(int, write)) for write in fields["writes"])
        note = str(fields.get("note", ""))
        return CommitDecision(key.decode(), str(fields["run"]), int(fields["batch"]), writes, note)
    except (ValueError, KeyError, TypeError) as error:
        raise BadDecision(f"a decision of query {key!r} cannot be decoded ({error!r}): {value[:200]!r}") from error


def latest(query: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> CommitDecision | None:
    """The last decision of a query in the records of the topic. A tombstone deletes it."""
    key = query.encode()
    values = [value for found, value in records if found == key]
    return None if not values or values[-1] is None else decode(key, values[-1])
