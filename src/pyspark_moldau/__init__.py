"""Makes `format("moldau")` known to Spark, which looks for packages of such names; all else is in moldau.spark."""

from moldau.spark.source import MoldauSource as DefaultSource

__all__ = ["DefaultSource"]
