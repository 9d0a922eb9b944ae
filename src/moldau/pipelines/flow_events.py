"""Events of an update: states of flows, read from the messages that Spark Connect sends.

Spark's events have a time and a text only. The texts are those of Spark 4.2 and 4.3; an unknown text is ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

WAITING: Final = "waiting"
RUNNING: Final = "running"
DONE: Final = "up to date"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

_STATES: Final = {
    "QUEUED": WAITING,
    "PLANNING": RUNNING,
    "STARTING": RUNNING,
    "RUNNING": RUNNING,
    "COMPLETED": DONE,
    "IDLE": DONE,
    "FAILED": FAILED,
    "SKIPPED": SKIPPED,
    "EXCLUDED": SKIPPED,
    "STOPPED": SKIPPED,
}
_EVENT: Final = re.compile(r"Flow '?([^' ]+)'? (?:is |has )?(" + "|".join(_STATES) + r")\b")
_UNRESOLVED: Final = re.compile(r"Failed to resolve flow( due to upstream failure)?: '([^']+)'")


@dataclass(frozen=True)
class FlowEvent:
    flow: str
    state: str
    error: str | None = None


def flow_event(message: str) -> FlowEvent | None:
    """The state of a flow that a message reports; None for a message about something else."""
    if unresolved := _UNRESOLVED.match(message):
        return FlowEvent(
            unresolved[2], SKIPPED if unresolved[1] else FAILED, None if unresolved[1] else _error(message)
        )
    if found := _EVENT.match(message):
        state = _STATES[found[2]]
        return FlowEvent(found[1], state, _error(message) if state == FAILED else None)
    return None


def _error(message: str) -> str:
    return message.partition("\nError: ")[2] or message
