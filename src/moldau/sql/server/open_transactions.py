"""Open transactions of a stopped query, ended so that consumers of committed records need not wait for them.

A query that is stopped in the midst of a micro-batch leaves its transactions open (docs/exactly-once.md). Its next run
would end them, but a paused or terminated query may have none for a long time.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.host.event_log import event_logger
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.sink_options import parse
from moldau.spark.two_phase import TwoPhaseCommit

log = event_logger(__name__)


def end_open_transactions(client_settings: Mapping[str, str], spark_id: str) -> None:
    """Finish the last decision of the query with this id, which is Spark's, and abort all its other transactions.

    MoldauError: the brokers do not answer, or a decided batch is lost.
    """
    options = parse({f"kafka.{name}": value for name, value in client_settings.items()})
    with SinkBroker(options) as access:
        aborted = TwoPhaseCommit(access).resolve(spark_id)
    if aborted:
        log.info("open transactions of a stopped query aborted", extra={"query": spark_id, "count": aborted})
