"""Registration of `format("moldau")` in Spark, which finds packages by this name. The code is in moldau.spark."""

from moldau.spark.source import MoldauSource as DefaultSource

__all__ = ["DefaultSource"]
