"""State of one connector in the engine. Only the engine's thread changes it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.connect.engine import ConnectorState, FailedPart, StatusReport
from moldau.connect.engine.progress import ProgressMeter
from moldau.connect.engine.runner import EngineRunner, Guard
from moldau.connect.engine.sink_plan import SinkView
from moldau.connect.engine.supervision import Supervision

FIRST_IDLE_S: Final = 0.05
LONGEST_IDLE_S: Final = 1.0
"""How long a source that has nothing to do is left alone: short at first, longer while nothing comes."""
NEVER: Final = float("inf")


@dataclass
class ConnectorEntry:
    """One connector that belongs to this process."""

    name: str
    config: Mapping[str, Any] = field(repr=False)
    target: ConnectorState
    due: float = 0.0
    """When the next step begins."""
    idle_s: float = FIRST_IDLE_S
    serial: int = 0
    """Grows when an attempt is given up: what its thread reports later is ignored."""
    guard: Guard | None = None
    """The attempt that is running."""
    runner: EngineRunner | None = None
    opened: bool = False
    opened_at: float = 0.0
    view: SinkView = field(default_factory=SinkView)
    """What a sink has to read, as of the last look at its topics."""
    state: ConnectorState | None = None
    trace: str | None = None
    failed: FailedPart | None = None
    tasks: int = 1
    secrets: frozenset[str] = frozenset()
    supervision: Supervision = field(default_factory=Supervision)
    meter: ProgressMeter = field(default_factory=ProgressMeter)
    last_report: float = float("-inf")
    reported: ConnectorState | None = None
    ending: list[Future[None]] = field(default_factory=list)
    """Done when nothing of the connector runs here."""

    @property
    def removed(self) -> bool:
        return bool(self.ending)

    @property
    def waits_for_its_time(self) -> bool:
        """Whether the next step begins at `due`: not while a step runs, and not for a connector that is to rest."""
        return self.guard is None and self.target is ConnectorState.RUNNING and not self.removed

    def begin_again(self, now: float) -> None:
        """Forget failures, and be due at once."""
        self.supervision = Supervision()
        self.trace = self.failed = None
        self.state = None
        self.idle_s = FIRST_IDLE_S
        self.due = now

    def rested(self, now: float) -> None:
        """There was nothing to do: look again later."""
        self.due = now + self.idle_s
        self.idle_s = min(2 * self.idle_s, LONGEST_IDLE_S)

    def _waits_for_topics(self) -> str | None:
        missing = self.view.missing
        if not missing:
            return None
        names = ", ".join(missing)
        return f"these topics do not exist: {names}; the sink reads them when they are created (or change its topics)"

    def status(self, now: float) -> StatusReport:
        assert self.state is not None
        return StatusReport(
            self.name,
            self.state,
            0 if self.failed is FailedPart.CONNECTOR else self.tasks,
            self.trace or self._waits_for_topics(),
            self.failed,
            self.meter.progress(now),
        )


@dataclass
class Successor:
    """A connector that begins when nothing of the one of the same name runs any more."""

    entry: ConnectorEntry | None
    """None: it has been stopped before it began."""
    ending: list[Future[None]] = field(default_factory=list)
