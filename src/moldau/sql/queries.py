"""Continuous queries with a name: their definitions, and the status that servers report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from moldau.sql.declarations import Declaration


class WantedState(StrEnum):
    """What the user wants of a query. To terminate it is to remove its definition."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"


class QueryState(StrEnum):
    """What a query does. FAILED: it is not tried again until the user resumes it."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RESTARTING = "RESTARTING"
    FAILED = "FAILED"


@dataclass(frozen=True)
class QueryDefinition:
    """A continuous query that a server runs."""

    name: str
    id: str
    """Different for each definition, also of the same name: checkpoints and transactions are named by it."""
    text: str
    """The statement as the user wrote it: CREATE … AS SELECT, or INSERT INTO … SELECT."""
    target: Declaration
    sources: tuple[Declaration, ...]
    """The relations of the query as they were declared or inferred when it was created."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What SET had set in the session that created it."""
    wanted: WantedState = WantedState.RUNNING
    created_ms: int = 0
    resumes: int = 0
    """How often the user has resumed it. A status with a smaller number was reported before the last time."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> QueryDefinition:
        return cls(
            **{
                **found,
                "target": Declaration.from_json(found["target"]),
                "sources": tuple(Declaration.from_json(source) for source in found["sources"]),
                "settings": dict(found["settings"]),
                "wanted": WantedState(found["wanted"]),
            }
        )


@dataclass(frozen=True)
class QueryStatus:
    """The last report of the server that runs a query."""

    name: str
    id: str
    state: QueryState
    server: str
    """The URL of the server."""
    trace: str | None = None
    """Why it is FAILED or RESTARTING, in SQL's terms."""
    rows: int = 0
    rows_per_s: float = 0.0
    lag: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Records that the query did not use, by reason: bad_records, late_records."""
    restarts: int = 0
    reported_ms: int = 0
    resumes: int = 0
    """The number of the definition that the report is about: a FAILED query with a smaller one is tried again."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> QueryStatus:
        return cls(**{**found, "state": QueryState(found["state"]), "dropped": dict(found["dropped"])})
