"""Fields of log events: shown by any formatter, and once by our own."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from moldau.cli.logs import JsonFormatter, TextFormatter
from moldau.host.event_log import event_logger, fact_text

NAME = "moldau.tests.event_log"


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logger = logging.getLogger(NAME)
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_the_default_format_shows_the_fields_after_the_event(kept: Kept) -> None:
    event_logger(NAME).warning("commit failed", extra={"group": "orders", "reason": "no coordinator", "id": ""})
    (record,) = kept.records
    assert logging.Formatter(logging.BASIC_FORMAT).format(record) == (
        f'WARNING:{NAME}:commit failed group=orders reason="no coordinator" id=""'
    )
    assert vars(record)["group"] == "orders"


def test_our_own_formats_show_each_field_once(kept: Kept) -> None:
    event_logger(NAME).warning("commit failed", extra={"group": "orders", "attempt": 3})
    (record,) = kept.records
    assert TextFormatter().format(record).endswith(": commit failed group=orders attempt=3")
    entry = json.loads(JsonFormatter().format(record))
    assert (entry["event"], entry["group"], entry["attempt"]) == ("commit failed", "orders", 3)


def test_records_of_one_event_have_the_same_template(kept: Kept) -> None:
    for group in ("a", "50%"):
        event_logger(NAME).warning("100%% of %s failed", "commits", extra={"group": group})
    assert [record.getMessage() for record in kept.records] == [
        "100% of commits failed group=a",
        "100% of commits failed group=50%",
    ]
    assert len({record.msg for record in kept.records}) == 1


def test_an_event_without_fields_and_a_logger_that_is_asked_for_twice(kept: Kept) -> None:
    assert event_logger(NAME) is event_logger(NAME)
    event_logger(NAME).warning("stopped")
    event_logger(NAME).warning("ready", extra={"node": 1})
    assert [record.getMessage() for record in kept.records] == ["stopped", "ready node=1"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("orders", "orders"),
        ("two words", '"two words"'),
        ("", '""'),
        ("a\nb", r'"a\nb"'),
        ("a\rb", r'"a\rb"'),
        ("\x1b[31mred", r'"\u001b[31mred"'),
        ("a\u2028b", r'"a\u2028b"'),
        ("größe", "größe"),
    ],
)
def test_a_value_cannot_end_its_line_or_change_the_terminal(value: str, shown: str) -> None:
    assert fact_text(value) == shown
