"""Shares of buyers per variant, continuously, and the significance of their differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.campaign_comparison.generator import VARIANTS, VISITS
from moldau.examples.campaign_comparison.significance import p_value, verdict
from moldau.examples.place import Place, from_topic, updates_to_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULTS = "campaign.results"
TOPICS = [NewTopic(RESULTS, partitions=1, configs={"cleanup.policy": "compact"})]


def queries(spark: SparkSession, place: Place) -> list[Any]:
    visits = from_topic(spark, place, VISITS, "visitor STRING, campaign STRING, variant STRING, bought BOOLEAN")
    return [updates_to_topic(compared(counted(visits)), place, RESULTS, key="campaign")]


def counted(visits: DataFrame) -> DataFrame:
    """One row per campaign: the visitors and buyers of each variant. A record that was sent twice counts once."""
    from pyspark.sql import functions as f

    counts = []
    for variant in VARIANTS:
        is_variant = f.col("variant") == variant
        counts.append(f.count_if(is_variant).alias(f"seen_{variant}"))
        counts.append(f.count_if(is_variant & f.col("bought")).alias(f"bought_{variant}"))
    once = visits.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["visitor"])
    return once.groupBy("campaign").agg(*counts)


def compared(counts: DataFrame) -> DataFrame:
    """The counts, and for each new variant its comparison with A."""
    from pyspark.sql import functions as f

    p = f.udf(p_value, "double")
    says = f.udf(verdict, "string")
    columns = []
    for variant in VARIANTS[1:]:
        four = (f"bought_{variant}", f"seen_{variant}", "bought_A", "seen_A")
        columns += [f.round(p(*four), 6).alias(f"p_{variant}"), says(*four).alias(f"verdict_{variant}")]
    return counts.select("*", *columns)
