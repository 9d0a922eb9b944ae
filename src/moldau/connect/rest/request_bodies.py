"""Bodies of requests: JSON checked and converted. A mistake is a BadRequestError that says where it is.

Settings are texts: numbers and booleans of JSON become the text that was sent (`1.50` stays `1.50`), as in Kafka
Connect.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from moldau.connect.herder.errors import BadRequestError
from moldau.connect.herder.results import ConnectorOffset, TargetState

_INITIAL_STATES: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
_KINDS: Final = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}


@dataclass(frozen=True)
class CreateRequest:
    """The body of `POST /connectors`."""

    name: str
    config: dict[str, str | None]
    initial_state: TargetState | None = None


class _Number(str):
    """The text of a number, as it was sent."""

    __slots__ = ()


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _parsed(content: bytes, *, numbers_as_text: bool) -> Any:
    if not content.strip():
        raise BadRequestError("The request has no body; send a JSON object")
    number = _Number if numbers_as_text else None
    try:
        return json.loads(content, parse_int=number, parse_float=number, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"The body of the request is no valid JSON: {error}") from None


def _kind(value: Any) -> str:
    return (
        "a number" if isinstance(value, (_Number, int, float)) and not isinstance(value, bool) else _KINDS[type(value)]
    )


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequestError(f"{where} is {_kind(value)}; an object is expected")
    return value


def _only(found: dict[str, Any], where: str, *known: str) -> None:
    for name in found:
        if name not in known:
            raise BadRequestError(f'Unrecognized field "{name}" in {where}; known fields are {", ".join(known)}')


def _text(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    raise BadRequestError(f"{where} is {_kind(value)}; a text is expected")


def parse_config(content: bytes) -> dict[str, str | None]:
    """A connector's configuration, or a change of one: texts by name. Null means no value."""
    return _config(_parsed(content, numbers_as_text=True), "The body of the request")


def _config(value: Any, where: str) -> dict[str, str | None]:
    return {name: _text(one, f'The value of "{name}"') for name, one in _object(value, where).items()}


def parse_create(content: bytes) -> CreateRequest:
    """The body of `POST /connectors`. White space around the name does not count."""
    found = _object(_parsed(content, numbers_as_text=True), "The body of the request")
    _only(found, "the body of the request", "name", "config", "initial_state")
    if found.get("config") is None:
        raise BadRequestError('The request has no field "config"')
    name = _text(found.get("name"), 'The field "name"') or ""
    return CreateRequest(name.strip(), _config(found["config"], 'The field "config"'), _initial_state(found))


def _initial_state(found: dict[str, Any]) -> TargetState | None:
    text = _text(found.get("initial_state"), 'The field "initial_state"')
    if text is None:
        return None
    if text.upper() not in _INITIAL_STATES:
        raise BadRequestError(f"Unknown initial_state {text}; it is one of {', '.join(_INITIAL_STATES)}")
    return _INITIAL_STATES[text.upper()]


def parse_offsets(content: bytes) -> list[ConnectorOffset]:
    """The body of `PATCH /connectors/NAME/offsets`."""
    found = _object(_parsed(content, numbers_as_text=False), "The body of the request")
    _only(found, "the body of the request", "offsets")
    offsets = found.get("offsets")
    if offsets is not None and not isinstance(offsets, list):
        raise BadRequestError(f'The field "offsets" is {_kind(offsets)}; a list is expected')
    if not offsets:
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
    return [_offset(one, f"offsets[{index}]") for index, one in enumerate(offsets)]


def _offset(value: Any, where: str) -> ConnectorOffset:
    found = _object(value, where)
    _only(found, where, "partition", "offset")
    partition, offset = found.get("partition"), found.get("offset")
    return ConnectorOffset(
        # A missing partition is the herder's to refuse: its message depends on the kind of the connector.
        None if partition is None else _object(partition, f"{where}.partition"),  # type: ignore[arg-type]
        None if offset is None else _object(offset, f"{where}.offset"),
    )


def parse_level(content: bytes) -> str:
    """The body of `PUT /admin/loggers/NAME`: the level."""
    level = parse_config(content).get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    return level
