"""Claim of a run on its query: no earlier run of the same checkpoint makes rows visible any more.

Spark gives a query its id when it starts, and stores it in the checkpoint. `claim_checkpoint` stores the id before the
start, so that the run can fence earlier ones first. The option `runClaim` of the sink has the claim.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.host.clock import SystemRandomness
from moldau.spark import sink_options
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.two_phase import TwoPhaseCommit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTION: Final = "runClaim"
METADATA: Final = "metadata"
"""Spark's file with the id of the query, in the directory of the checkpoint."""


def claim_checkpoint(spark: SparkSession, checkpoint: str, options: Mapping[str, str]) -> str:
    """Claim the query of a checkpoint, new or not, for a run that starts now. Return the value of the option."""
    query = query_id(spark, checkpoint)
    claim = SystemRandomness().uuid().hex()
    parsed = sink_options.parse(options)
    with SinkBroker(parsed) as access:
        checked = access.checked(parsed)
    with SinkBroker(checked) as access:
        TwoPhaseCommit(access, fail_on_data_loss=parsed.fail_on_data_loss, claim=claim).claim(query)
    return claim


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """The id of the checkpoint's query. A new checkpoint gets one, in the file from which Spark takes it."""
    files = _Files(spark, checkpoint)
    found = files.read(METADATA)
    if found is None:
        files.create(METADATA, json.dumps({"id": _new_id()}).encode())
        found = files.read(METADATA)
        assert found is not None, "the file was just written"
    return str(json.loads(found)["id"])


def _new_id() -> str:
    """A UUID in the form that Spark writes."""
    digits = SystemRandomness().uuid().hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class _Files:
    """The directory of a checkpoint, in any file system of Hadoop's."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._jvm: Any = getattr(spark, "_jvm")  # noqa: B009
        self._directory = self._jvm.org.apache.hadoop.fs.Path(directory)
        session: Any = spark._jsparkSession
        self._system = self._directory.getFileSystem(session.sessionState().newHadoopConf())

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, name: str, content: bytes) -> None:
        """Write a file completely or not at all; one that exists is left as it is."""
        path, part = self._path(name), self._path(f".{name}.{SystemRandomness().uuid().hex()}")
        self._system.mkdirs(self._directory)
        stream = self._system.create(part, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        if self._system.exists(path) or not self._system.rename(part, path):
            self._system.delete(part, False)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._directory, name)
