"""Event loggers: a log message names an event in a few words, and fields carry its facts.

    log = event_logger(__name__)
    log.warning("commit failed", extra={"group": group_id, "reason": str(error)})

The fields are attributes of the log record, as always with `extra`. In addition the message shows them, so that
formatters that do not know `extra` print them as well: `commit failed group=orders reason="no coordinator"`.
"""

from __future__ import annotations

import json
import logging
from typing import Final

_EVENT: Final = "event"
_STANDARD: Final = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
    _EVENT,
}


def event_logger(name: str) -> logging.Logger:
    """Return the logger of that name, which shows the fields of `extra` behind each message."""
    logger = logging.getLogger(name)
    logger.addFilter(_show_facts)
    return logger


def event_of(record: logging.LogRecord) -> str:
    """The message without the fields."""
    event: str | None = vars(record).get(_EVENT)
    return record.getMessage() if event is None else event


def facts_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields that were given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def fact_text(value: object) -> str:
    """The value as text, in quotation marks where a reader could not see its end.

    Clients choose some values, such as the name of a group. Control characters are written as escapes, so that a name
    can neither end the line nor change the terminal of a reader.
    """
    text = str(value)
    return json.dumps(text) if not text.isprintable() or not text or any(c in text for c in ' "=') else text


def _show_facts(record: logging.LogRecord) -> bool:
    facts = facts_of(record)
    if facts and _EVENT not in vars(record):
        event = record.getMessage()
        vars(record)[_EVENT] = event
        # The values stay arguments: tools that count log records by `msg` see one template per event.
        record.msg = event.replace("%", "%%") + "".join(f" {name}=%s" for name in facts)
        record.args = tuple(map(fact_text, facts.values()))
    return True
