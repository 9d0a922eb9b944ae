"""What a streaming query has decided to commit, as it stands in a compacted topic; and the names of its transactions.

A decision is one record: the key is the query's id, the value says which batch it is, and which prepared transactions
make it up. It is written before the first of them is committed. Whoever finds it later can finish the work, and knows
that the batch must not be written again.

Transactional ids follow a rule, so that a decision needs a few bytes a task and strays can be found by their prefix:

    moldau-spark-QUERY-RUN-TURN-PARTITION-ATTEMPT

RUN is drawn anew each time the query is started, and TURN changes with every batch (0, 1, 0, …). So nobody takes up an
id of the last decided batch: not the same batch tried again after a crash, and not the batch after it. Those
transactions stay as the decision left them until the next decision is stored.
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
    """A record of the decisions topic that this program does not understand. It is never guessed at."""


class PreparedWrite(NamedTuple):
    """What one task attempt has written and left prepared: enough for anybody to commit or abort it."""

    partition: int
    attempt: int
    producer_id: int
    epoch: int


class Decision(NamedTuple):
    """These writes, and no others, are what `batch` of `query` has written."""

    query: str
    run: str
    batch: int
    writes: tuple[PreparedWrite, ...]

    def transactional_id(self, write: PreparedWrite) -> str:
        return transactional_id(self.query, self.run, self.batch, write.partition, write.attempt)


def query_prefix(query: str) -> str:
    """What the ids of all transactions of a query begin with, and those of no other query."""
    return f"{PREFIX}{query}-"


def driver_id(query: str) -> str:
    """The transactional id under which decisions are written: a newer driver of the query fences an older one."""
    return f"{PREFIX}driver-{query}"


def gate_id(query: str, run: str) -> str:
    """A transactional id that nobody writes under. That it exists says that the run is over: see `two_phase.py`."""
    return f"{PREFIX}gate-{query}-{run}"


def transactional_id(query: str, run: str, batch: int, partition: int, attempt: int) -> str:
    return f"{query_prefix(query)}{run}-{batch % TURNS}-{partition}-{attempt}"


def encode(decision: Decision) -> tuple[bytes, bytes]:
    """Key and value of the record."""
    value = {
        "version": FORMAT,
        "run": decision.run,
        "batch": decision.batch,
        "writes": [list(write) for write in decision.writes],
    }
    return decision.query.encode(), json.dumps(value, separators=(",", ":")).encode()


def decode(key: bytes, value: bytes) -> Decision:
    try:
        fields = json.loads(value)
        if fields["version"] != FORMAT:
            raise BadDecision(
                f"a decision of query {key.decode()} has format {fields['version']}, this program knows {FORMAT}: use "
                "the version of Moldau that wrote it"
            )
        writes = tuple(PreparedWrite(*map(int, write)) for write in fields["writes"])
        return Decision(key.decode(), str(fields["run"]), int(fields["batch"]), writes)
    except (ValueError, KeyError, TypeError) as error:
        raise BadDecision(f"a decision of query {key!r} cannot be understood ({error!r}): {value[:200]!r}") from error


def latest(query: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> Decision | None:
    """The last decision of a query among the records of the topic, in their order; a tombstone takes it back."""
    key = query.encode()
    values = [value for found, value in records if found == key]
    return None if not values or values[-1] is None else decode(key, values[-1])
