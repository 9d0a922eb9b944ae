"""Takeover of a query from its earlier runs: none of them can make anything visible after it.

The sink writes each micro-batch in prepared transactions, and its driver commits them by a decision
(docs/exactly-once.md). A run that is thought to be dead may only be frozen. So before a query starts, and after it has
stopped for good, this module

1. closes the gate of every run that is known to the brokers or to the state directory: its tasks begin no more
   transactions;
2. takes over as the driver, finishes the last decision, and aborts every other transaction.

A driver that wakes up between its tasks and its commit finds its transactions aborted: Its batch is written by the
next run. This also leaves nothing open that consumers of committed records would wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.host.event_log import event_logger
from moldau.spark.commit_log import query_prefix
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.sink_options import parse
from moldau.spark.two_phase import TwoPhaseCommit, end_run
from moldau.spark.writer import RUN_CHARACTERS

log = event_logger(__name__)


def fence_earlier_runs(client_settings: Mapping[str, str], spark_id: str, runs: Iterable[str] = ()) -> None:
    """Fence all runs of the query with this id, which is Spark's, and also these `runs`.

    MoldauError: the brokers do not answer, or a decided batch is lost.
    """
    options = parse({f"kafka.{name}": value for name, value in client_settings.items()})
    with SinkBroker(options) as access:
        known = access.known_ids(query_prefix(spark_id))
        ended = {run[:RUN_CHARACTERS] for run in runs} | runs_of(spark_id, known)
        for run in sorted(ended):
            end_run(access, spark_id, run)
        aborted = TwoPhaseCommit(access).resolve(spark_id)
    log.info("earlier runs fenced", extra={"query": spark_id, "runs": len(ended), "aborted": aborted})


def runs_of(spark_id: str, transactional_ids: Iterable[str]) -> set[str]:
    """The runs that these transactional ids of the query belong to: `moldau-spark-QUERY-RUN-TURN-PARTITION-ATTEMPT`."""
    prefix = query_prefix(spark_id)
    return {one.removeprefix(prefix).partition("-")[0] for one in transactional_ids if one.startswith(prefix)}
