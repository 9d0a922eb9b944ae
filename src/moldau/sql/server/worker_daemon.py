"""Daemon of Spark's Python workers for SQL: imports what every task needs once, before workers are forked.

Spark starts it with `spark.python.daemon.module`. A worker that is forked from it runs its first task some hundred
milliseconds earlier, and shares the memory of these modules. Nothing here may start a thread: a fork would lose it.
"""

from __future__ import annotations

import pandas  # noqa: F401
import pyarrow  # noqa: F401
from pyspark import daemon

import moldau.client.blocking.producer
import moldau.spark.reading
import moldau.spark.writer  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
