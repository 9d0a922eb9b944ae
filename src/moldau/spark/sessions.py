"""Spark sessions with the right Python interpreter, and with settings for local work.

Spark runs Python code in separate processes. It starts `python3` from the PATH, unless PYSPARK_PYTHON names another
interpreter. In a virtual environment that is not activated (an IDE, a notebook, `.venv/bin/python job.py`) this is a
Python without Moldau, and Spark fails with DATA_SOURCE_NOT_FOUND. So `import moldau.spark` calls `use_this_python`.

An existing choice is kept: PYSPARK_PYTHON or `spark.pyspark.python` in the environment, in the arguments of
spark-submit or in Spark's configuration files, a JVM that spark-submit has already started, and a Spark Connect server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from moldau.host.fs import LocalFileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON: Final = "PYSPARK_PYTHON"
PYTHON_OPTION: Final = "spark.pyspark.python"
GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set in the environment of a Python process that spark-submit has started."""
SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
REMOTE: Final = "SPARK_REMOTE"
REMOTE_SCHEME: Final = "sc://"

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def use_this_python(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Set PYSPARK_PYTHON to this interpreter, unless one is already chosen. Return whether it was set.

    It affects sessions that are created later: Spark's JVM inherits the environment when it starts.
    """
    if _chosen(environment):
        return False
    environment[PYTHON] = sys.executable
    return True


def _chosen(environment: Mapping[str, str]) -> bool:
    if environment.get(PYTHON) or GATEWAY in environment:
        return True
    if environment.get(REMOTE, "").startswith(REMOTE_SCHEME) or PYTHON_OPTION in environment.get(SUBMIT_ARGUMENTS, ""):
        return True
    return any(name in text for text in _configuration_files(environment) for name in (PYTHON, PYTHON_OPTION))


def _configuration_files(environment: Mapping[str, str]) -> list[str]:
    """The lines of Spark's configuration that are not comments, one text per file; empty if Spark is not configured."""
    home = environment.get("SPARK_HOME")
    directory = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    if directory is None:
        return []
    files, texts = LocalFileSystem(), []
    for name in ("spark-defaults.conf", "spark-env.sh"):
        try:
            lines = files.read_bytes(f"{directory}/{name}").decode(errors="replace").splitlines()
        except OSError:
            continue
        texts.append("\n".join(line for line in lines if not line.lstrip().startswith("#")))
    return texts


def session(
    name: str = "moldau",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """Return a Spark session in which `format("moldau")` works, even if the virtual environment is not activated.

    `master` is Spark's, for example "local[4]". Without it Spark chooses, which is "local[*]" unless configured
    otherwise. `remote` is the address of a Spark Connect server. `config` contains Spark's settings by name.

    Timestamps are in UTC, unless `config` sets another `spark.sql.session.timeZone`. In local mode a shuffle has as
    many partitions as Spark has cores, unless `spark.sql.shuffle.partitions` is configured: Spark's default of 200
    makes each micro-batch of a small aggregate slow. If a session is already running, it is returned with this
    configuration.
    """
    from pyspark.sql import SparkSession

    given = dict(config or {})
    builder = SparkSession.builder.appName(name).config(map={"spark.sql.session.timeZone": "UTC", **given})
    if remote is not None:
        return builder.remote(remote).getOrCreate()
    if master is not None:
        builder = builder.master(master)
    if _WAS_SET_HERE and not str(master or given.get("spark.master", "local")).startswith("local"):
        # The path of this interpreter may not exist on the executors of a cluster.
        os.environ.pop(PYTHON, None)
    found = builder.getOrCreate()
    if SHUFFLE_PARTITIONS not in given:
        _fit_shuffles(found)
    return found


def _fit_shuffles(session: SparkSession) -> None:
    """Use as many shuffle partitions as cores, in local mode and if no other number is configured."""
    context = getattr(session, "_sc", None)  # a session of Spark Connect has no context
    if (
        context is not None
        and context.master.startswith("local")
        and not context.getConf().contains(SHUFFLE_PARTITIONS)
    ):
        session.conf.set(SHUFFLE_PARTITIONS, str(context.defaultParallelism))


_WAS_SET_HERE: Final = use_this_python()
