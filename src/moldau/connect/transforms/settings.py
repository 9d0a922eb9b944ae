"""Settings that several transforms share."""

from __future__ import annotations

from typing import Any, Final

from moldau.connect.config_def import ConfigKey, ConfigType, Importance

REPLACE_NULL: Final = "replace.null.with.default"

REPLACE_NULL_KEY: Final = ConfigKey(
    REPLACE_NULL,
    ConfigType.BOOLEAN,
    "Whether fields that are null and have a default in their schema get the default (true) or stay null (false).",
    True,
)


def text(name: str, doc: str, default: Any, importance: Importance = Importance.MEDIUM) -> ConfigKey:
    """A setting of type STRING; None: it is not set."""
    return ConfigKey(name, ConfigType.STRING, doc, default, importance)


def empty_list_refused(name: str, value: Any) -> str | None:
    """Refuse an empty list, in Kafka's words."""
    return None if value else f"Invalid value {value} for configuration {name}: Empty list"
