"""One query over three topics: a view per customer, written again whenever something about the customer changes.

Each part of the view depends on one topic only: the latest personal data, the latest card, the sum of all payments. So
the result does not depend on the order in which the query reads the three topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.customer_360.generator import CARDS, PAYMENTS, PEOPLE
from moldau.examples.place import Place, from_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEWS = "customers.views"
TOPICS = [NewTopic(VIEWS, partitions=2, configs={"cleanup.policy": "compact"})]

# A customer's records of one topic are in one partition, so the greatest offset is the latest record.
# A customer whose personal data was deleted has a view no more: a null is a tombstone in the compacted topic.
VIEWS_SQL = """
    SELECT
        customer AS key,
        IF(person.name IS NULL, NULL, to_json(
            struct(person.name, person.city, card.card, card.state AS card_state, payments, paid_cents),
            map('ignoreNullFields', 'false')
        )) AS value
    FROM (
        SELECT
            customer,
            max_by(struct(name, city), offset) FILTER (WHERE part = 'person') AS person,
            max_by(struct(card, state), offset) FILTER (WHERE part = 'card') AS card,
            count(cents) AS payments,
            coalesce(sum(cents), 0) AS paid_cents
        FROM {events}
        GROUP BY customer
    )
    WHERE person IS NOT NULL
"""


def queries(spark: SparkSession, place: Place) -> list[Any]:
    from moldau.spark import write_updates

    views = spark.sql(VIEWS_SQL, events=events(spark, place))
    query = write_updates(views, {**place.spark_options(), "topic": VIEWS}).queryName("views")
    return [query.option("checkpointLocation", str(place.directory / "checkpoints" / "views"))]


def events(spark: SparkSession, place: Place) -> DataFrame:
    """The records of all three topics as rows of one stream. A field of another topic is null."""
    from pyspark.sql import functions as f

    parts = [
        from_topic(spark, place, topic, schema).withColumn("part", f.lit(part)).withColumnRenamed("key", "customer")
        for part, topic, schema in (
            ("person", PEOPLE, "name STRING, city STRING"),
            ("card", CARDS, "card STRING, state STRING"),
            ("payment", PAYMENTS, "cents LONG"),
        )
    ]
    people, cards, payments = parts
    return people.unionByName(cards, allowMissingColumns=True).unionByName(payments, allowMissingColumns=True)
