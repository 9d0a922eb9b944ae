"""Alerts: each transaction is compared with the threshold that was valid at its time.

The stream of transactions is joined with the topic of thresholds, which each micro-batch reads again. A threshold has
the time from which it is valid, so a batch that Spark repeats after a kill finds the same alerts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.bank_alerts.database import TRANSACTIONS
from moldau.examples.bank_alerts.generator import THRESHOLDS
from moldau.examples.place import Place, from_topic, table_of_topic, to_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALERTS = "bank.alerts"
TOPICS = [NewTopic(ALERTS, partitions=2)]


def queries(spark: SparkSession, place: Place) -> list[Any]:
    transactions = from_topic(spark, place, TRANSACTIONS, "id LONG, account STRING, cents LONG, at LONG")
    thresholds = table_of_topic(spark, place, THRESHOLDS, "cents LONG")
    return [to_topic(alerts(transactions, thresholds), place, ALERTS, key="key")]


def alerts(transactions: DataFrame, thresholds: DataFrame) -> DataFrame:
    return transactions.sparkSession.sql(
        """
        WITH valid AS (
            SELECT key AS owner, cents AS threshold, unix_millis(timestamp) AS from_ms,
                   lead(unix_millis(timestamp)) OVER (PARTITION BY key ORDER BY offset) AS until_ms
            FROM {thresholds}
        )
        SELECT account AS key, id, account, cents, threshold, at
        FROM {transactions} JOIN valid
        ON account = owner AND at >= from_ms AND (until_ms IS NULL OR at < until_ms)
        WHERE cents > threshold
        """,
        transactions=transactions,
        thresholds=thresholds,
    )
