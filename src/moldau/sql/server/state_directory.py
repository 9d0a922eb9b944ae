"""State directory of SQL servers: a checkpoint per query, and a marker that says whose they are.

    STATE/moldau-sql.json       the id of the cluster
    STATE/ID/checkpoint/        Spark's checkpoint of the query with this id
    STATE/ID/index/             the index of the table that it writes, see `sql/index/`

A checkpoint has offsets of topics. Used with another cluster, it would skip records or read some twice, so a directory
of another cluster is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Final

from moldau.host.event_log import event_logger
from moldau.sql.errors import SqlError

log = event_logger(__name__)

MARKER: Final = "moldau-sql.json"
ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""Ids come from a topic that others write: they must not lead out of the directory."""


class StateDirectory:
    """The directory of one group of servers. All calls touch the disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()

    def claim(self, cluster_id: str) -> None:
        """Create the directory if it does not exist, and mark it as that of this cluster. SqlError: it is another's."""
        marker = self.path / MARKER
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            written = self.path / f"{MARKER}.{os.getpid()}"
            written.write_text(json.dumps({"cluster_id": cluster_id}))
            try:
                with contextlib.suppress(FileExistsError):
                    os.link(written, marker)  # atomic: of two servers that start together, one creates it
            finally:
                written.unlink()
            found = json.loads(marker.read_text()).get("cluster_id")
        except (OSError, ValueError, AttributeError) as error:
            raise SqlError(f"the state directory {self.path} cannot be used: {error}") from error
        if found != cluster_id:
            raise SqlError(
                f"the state directory {self.path} belongs to cluster {found}, and the brokers are cluster {cluster_id}",
                hint="name another directory with --state-dir",
            )

    def checkpoint(self, query: str) -> str:
        """The directory of the query's checkpoint, which exists after this call."""
        path = self._of(query) / "checkpoint"
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def spark_id(self, query: str) -> str | None:
        """The id that Spark has given the query at its first start; None before that."""
        try:
            found = json.loads((self._of(query) / "checkpoint" / "metadata").read_text())
            return str(found["id"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SqlError(f"the checkpoint of query {query} in {self.path} cannot be read: {error}") from error

    def remove(self, query: str) -> None:
        """Remove everything of a query."""
        shutil.rmtree(self._of(query), ignore_errors=True)

    def queries(self) -> set[str]:
        """The ids of all queries that have state here."""
        try:
            found = [path.name for path in self.path.iterdir() if path.is_dir()]
        except OSError:
            return set()
        return {name for name in found if ID.fullmatch(name)}

    def _of(self, query: str) -> Path:
        if not is_safe_id(query):
            raise SqlError(f"the id {query!r} of a query in the catalogue is not one of Moldau's")
        return self.path / query


def is_safe_id(query: str) -> bool:
    return ID.fullmatch(query) is not None
