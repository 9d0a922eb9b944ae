"""Declarations of a connector's settings: parsing, and validation with Kafka Connect's answer for each field.

A connector, converter, transform or predicate declares its settings in a `ConfigDef`. `validate` reports every problem
of every setting; `parse` raises the same problems as one `ConfigError`. Settings that are not declared are found by the
caller with `unknown`: it knows the prefixes of transforms, converters and clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final

from moldau.client.errors import MoldauError


class _NoDefault:
    """The type of the mark for settings that must be given."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
HIDDEN: Final = "[hidden]"
"""What is shown instead of a password, as in Kafka."""


class ConfigError(MoldauError):
    """A configuration with mistakes; the message names every setting and what is wrong with it."""


class ConfigType(Enum):
    """Kafka's types of settings."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(Enum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


Validator = Callable[[str, Any], str | None]
"""Called with the name and the parsed value; returns what is wrong with it, or None."""

_INTEGERS: Final = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


@dataclass(frozen=True)
class ConfigKey:
    """The declaration of one setting, with everything that Kafka Connect's REST API shows of it."""

    name: str
    type: ConfigType
    doc: str
    default: Any = NO_DEFAULT
    importance: Importance = Importance.MEDIUM
    validator: Validator | None = None
    recommended: tuple[Any, ...] = ()
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    display_name: str | None = None
    dependents: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT

    def convert(self, text: Any) -> Any:
        """The value of a text. Values that already have the type are kept. ValueError says what is wrong."""
        if text is None or not isinstance(text, str):
            return text
        text = text.strip()
        if self.type is ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError("Expected value to be either true or false")
            return text.lower() == "true"
        if self.type in _INTEGERS:
            return self._integer(text)
        if self.type is ConfigType.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise ValueError("Not a number of type DOUBLE") from None
        if self.type is ConfigType.LIST:
            return [] if not text else [one.strip() for one in text.split(",")]
        return text

    def _integer(self, text: str) -> int:
        bits = _INTEGERS[self.type]
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"Not a number of type {self.type.value}") from None
        if not -(2**bits) <= value < 2**bits:
            raise ValueError(f"Not a number of type {self.type.value}")
        return value


@dataclass
class ConfigValue:
    """The result of validating one setting."""

    name: str
    value: Any = None
    errors: list[str] = field(default_factory=list)
    recommended: list[Any] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """The settings of one connector, converter, transform or predicate, in the order of their declaration."""

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self.keys: dict[str, ConfigKey] = {key.name: key for key in keys}

    def __add__(self, other: ConfigDef) -> ConfigDef:
        return ConfigDef([*self.keys.values(), *other.keys.values()])

    def validate(self, given: Mapping[str, Any]) -> dict[str, ConfigValue]:
        """Every declared setting with its value and its problems."""
        return {name: self._validate(key, given) for name, key in self.keys.items()}

    def _validate(self, key: ConfigKey, given: Mapping[str, Any]) -> ConfigValue:
        found = ConfigValue(key.name, recommended=list(key.recommended))
        if given.get(key.name) is None:
            if key.required:
                found.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
                return found
            found.value = key.default
        else:
            text = given[key.name]
            try:
                found.value = key.convert(text)
            except ValueError as error:
                shown = HIDDEN if key.type is ConfigType.PASSWORD else text
                found.errors.append(f"Invalid value {shown} for configuration {key.name}: {error}")
                return found
        problem = key.validator(key.name, found.value) if key.validator is not None else None
        if problem:
            found.errors.append(problem)
        return found

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all declared settings; ConfigError names every problem."""
        found = self.validate(given)
        problems = [problem for one in found.values() for problem in one.errors]
        if problems:
            raise ConfigError("; ".join(problems))
        return {name: one.value for name, one in found.items()}

    def unknown(self, names: Iterable[str]) -> dict[str, str]:
        """The problem of every name that is not declared, with the nearest declared name."""
        problems = {}
        for name in names:
            if name not in self.keys:
                nearest = get_close_matches(name, self.keys, 1)
                hint = f"; did you mean {nearest[0]}?" if nearest else ""
                problems[name] = f'Unknown configuration "{name}"{hint}'
        return problems


# -- validators ------------------------------------------------------------------------------------------------------


def one_of(*allowed: str) -> Validator:
    """Allow these texts only."""

    def check(name: str, value: Any) -> str | None:
        if value in allowed:
            return None
        return f"Invalid value {value} for configuration {name}: String must be one of: {', '.join(allowed)}"

    return check


def between(low: float | None = None, high: float | None = None) -> Validator:
    """Allow numbers within these bounds."""

    def check(name: str, value: Any) -> str | None:
        if value is None:
            return None
        if low is not None and value < low:
            return f"Invalid value {value} for configuration {name}: Value must be at least {low}"
        if high is not None and value > high:
            return f"Invalid value {value} for configuration {name}: Value must be no more than {high}"
        return None

    return check


def not_empty(name: str, value: Any) -> str | None:
    """Refuse an empty text or list."""
    if isinstance(value, (str, Sequence)) and not value:
        kind = "List" if not isinstance(value, str) else "String"
        return f"Invalid value {value} for configuration {name}: {kind} must be non-empty"
    return None
