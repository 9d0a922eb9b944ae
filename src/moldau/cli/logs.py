"""Log format of the commands: one event per line on standard error, with its fields as key=value or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from moldau.host.event_log import event_of, fact_text, facts_of


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={fact_text(value)}" for name, value in facts_of(record).items())
        source = record.name.removeprefix("moldau.")
        text = f"{_time(record)} {record.levelname:<7} {source}: {event_of(record)}{facts}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "event": event_of(record),
            **facts_of(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure_logging(level: str, *, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def quieten_libraries() -> None:
    """Show only warnings of libraries that log every call at level info."""
    for name in ("py4j", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
