"""JSON of settings in Kafka Connect's REST API: definitions, validated values, and the answer of a validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.connect.config_def import HIDDEN, ConfigKey, ConfigType, ConfigValue


def text_of(value: Any, kind: ConfigType | None) -> str | None:
    """The value as Kafka shows it. A password is never shown."""
    if value is None:
        return None
    if kind is ConfigType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def definition_body(key: ConfigKey) -> dict[str, Any]:
    """One element of `GET /connector-plugins/NAME/config`."""
    return {
        "name": key.name,
        "type": key.type.value,
        "required": key.required,
        "default_value": None if key.required else text_of(key.default, key.type),
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width,
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
    }


def value_body(key: ConfigKey | None, value: ConfigValue) -> dict[str, Any]:
    kind = None if key is None else key.type
    return {
        "name": value.name,
        "value": text_of(value.value, kind),
        "recommended_values": [text_of(one, kind) for one in value.recommended],
        "errors": value.errors,
        "visible": value.visible,
    }


def answer_body(name: str, errors: int, entries: Sequence[tuple[ConfigKey | None, ConfigValue]]) -> dict[str, Any]:
    """The answer of `PUT /connector-plugins/NAME/config/validate`."""
    groups = dict.fromkeys(key.group for key, _ in entries if key is not None and key.group is not None)
    return {
        "name": name,
        "error_count": errors,
        "groups": list(groups),
        "configs": [
            {"definition": None if key is None else definition_body(key), "value": value_body(key, value)}
            for key, value in entries
        ],
    }
