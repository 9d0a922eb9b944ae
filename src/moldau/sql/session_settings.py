"""Settings of a SQL session: what SET changes, and what SHOW SETTINGS lists.

Our own settings, and those of Spark SQL that a running session may change (`spark.sql.…`). A query keeps the settings
of the session that created it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.errors import SqlError
from moldau.sql.relation_names import nearest
from moldau.sql.tables.relations import SAMPLE_SIZE, Relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_PREFIX: Final = "spark.sql."
MAX_SAMPLE_SIZE: Final = 1_000_000
SERVICE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class SessionSetting:
    """A setting of ours."""

    name: str
    default: str
    meaning: str
    apply: Callable[[Relations, str], None]
    """Raises ValueError with what is allowed."""


def _apply_reset(relations: Relations, value: str) -> None:
    if value.lower() not in ("earliest", "latest"):
        raise ValueError("it is earliest or latest")
    relations.auto_offset_reset = value.lower()


def _apply_sample_size(relations: Relations, value: str) -> None:
    if not value.isdecimal() or not 1 <= int(value) <= MAX_SAMPLE_SIZE:
        raise ValueError(f"it is a number from 1 to {MAX_SAMPLE_SIZE}")
    relations.sample_size = int(value)


def _check_service(_relations: Relations, value: str) -> None:
    """Servers look at it when they choose the queries that they run."""
    if not SERVICE_ID.fullmatch(value):
        raise ValueError("it is the --service-id of `moldau sql serve`: 1 to 64 letters, digits, _ or -")


SETTINGS: Final[Mapping[str, SessionSetting]] = {
    one.name: one
    for one in (
        SessionSetting(
            "auto.offset.reset",
            "earliest",
            "where a continuous query begins to read a stream: earliest or latest",
            _apply_reset,
        ),
        SessionSetting(
            "sample.size",
            str(SAMPLE_SIZE),
            "the number of records from which the columns of a topic are inferred",
            _apply_sample_size,
        ),
        SessionSetting(
            "service.id",
            "default",
            "the servers that run the queries of this session: their --service-id",
            _check_service,
        ),
    )
}
ALIASES: Final = {"ksql.streams.auto.offset.reset": "auto.offset.reset", "moldau.sql.sample.size": "sample.size"}
"""Other names of the same settings."""


class SessionSettings:
    """The settings of one session. `changed` has those that SET has set, by name."""

    def __init__(self, spark: SparkSession, relations: Relations) -> None:
        self._spark = spark
        self._relations = relations
        self.changed: dict[str, str] = {}

    def set(self, name: str, value: str | None) -> str:
        """Set a setting, or with None set it back to its default. Returns its name as it is stored."""
        name = ALIASES.get(name.lower(), name)
        own = SETTINGS.get(name.lower())
        if own is not None:
            name = own.name
            self._set_own(own, own.default if value is None else value)
        else:
            name = self._spark_name(name)
            self._set_spark(name, value)
        if value is None:
            self.changed.pop(name, None)
        else:
            self.changed[name] = value
        return name

    def _set_own(self, setting: SessionSetting, value: str) -> None:
        try:
            setting.apply(self._relations, value)
        except ValueError as error:
            raise SqlError(f"{setting.name} cannot be {value!r}", hint=str(error)) from None

    def _spark_name(self, name: str) -> str:
        known = {one.lower(): one for one in (*SETTINGS, *self._spark_names())}
        found = known.get(name.lower())
        if found is None:
            near = nearest(name, known.values())
            raise SqlError(
                f"there is no setting {name!r}",
                hint="SHOW SETTINGS lists the settings" if near is None else f"did you mean {near}?",
            )
        return found

    def _set_spark(self, name: str, value: str | None) -> None:
        if not self._spark.conf.isModifiable(name):
            raise SqlError(
                f"{name} cannot be changed in a running session", hint="set it in spark-defaults.conf, then start again"
            )
        if value is None:
            self._spark.conf.unset(name)
        else:
            self._spark.conf.set(name, value)

    def _spark_names(self) -> list[str]:
        return [name for name, _, _ in self._spark_settings()]

    def _spark_settings(self) -> list[tuple[str, str, str]]:
        """Name, value and meaning of all settings of Spark SQL."""
        session: Any = self._spark
        found = session._jsparkSession.sessionState().conf().getAllDefinedConfs()
        rows = [found.apply(index) for index in range(found.length())]
        named = [(str(row._1()), str(row._2()), " ".join(str(row._3()).split())) for row in rows]
        return sorted(row for row in named if row[0].startswith(SPARK_PREFIX))

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and meaning: ours, then those of Spark that were changed here."""
        own = [(one.name, self.changed.get(one.name, one.default), one.meaning) for one in SETTINGS.values()]
        changed = [(name, value) for name, value in sorted(self.changed.items()) if name not in SETTINGS]
        return own + [(name, value, "a setting of Spark SQL") for name, value in changed]


def apply_settings(spark: SparkSession, relations: Relations, settings: Mapping[str, str]) -> None:
    """Give a session the settings of a stored query. Raises SqlError if one does not exist in this version."""
    session = SessionSettings(spark, relations)
    for name, value in settings.items():
        session.set(name, value)
