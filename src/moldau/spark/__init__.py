"""Spark reads and writes topics: `format("moldau")`, on PySpark's Python Data Source API, without a jar.

Spark finds the format by itself, through the package `pyspark_moldau`. What is here for people to call are helpers:

    from moldau.spark import from_moldau, lag
"""

from __future__ import annotations

from moldau.spark.functions import from_moldau
from moldau.spark.progress import lag

__all__ = ["from_moldau", "lag"]
