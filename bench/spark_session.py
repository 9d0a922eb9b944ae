"""Spark session for benchmarks: local[2], as a user starts it, with Spark's own Kafka connector."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = Path(__file__).parents[1] / "tests" / "spark" / "pom.xml"


def connector_jars() -> str:
    """Spark's own connector as a list of jars; empty if Maven does not answer."""
    try:
        return ",".join(str(jar) for jar in fetch_jars(CONNECTOR).directory.iterdir())
    except JarsUnavailableError:
        return ""


@contextlib.contextmanager
def session(directory: Path, jars: str = "", settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """`settings` come first, and the benchmarks' own on top of them."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.config(map=dict(settings or {})).master("local[2]").appName("moldau-bench")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "2g")
        builder = builder.config("spark.local.dir", str(directory)).config("spark.jars", jars)
        # Report every trigger, also those without data.
        builder = builder.config("spark.sql.streaming.noDataProgressEventInterval", "0")
        spark = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
