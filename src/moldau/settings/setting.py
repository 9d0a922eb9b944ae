"""Setting declaration: name, type, default, bounds, and conversion from and to text.

Validation, DescribeConfigs, the documentation page and `--help` read everything about a setting from here. This module
knows no particular setting and reads no file. The declarations are in `topic.py` and `broker.py`; `sources.py` collects
the texts.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum

Value = bool | int | float | str | tuple[str, ...] | None

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class SettingError(ValueError):
    """An unknown, malformed, out-of-bounds or conflicting setting, with its name and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class SettingType(IntEnum):
    """Kafka's types, with the codes of DescribeConfigs."""

    UNKNOWN = 0
    """The type of a setting that is not declared: every text is valid."""
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """The place where a setting may be set, and whether a running broker accepts a change."""

    BROKER_READ_ONLY = "read-only"
    BROKER_DYNAMIC = "dynamic"
    TOPIC = "topic"
    GROUP = "group"


_INTEGER_RANGES = {
    SettingType.SHORT: (-(2**15), 2**15 - 1),
    SettingType.INT: (-(2**31), INT_MAX),
    SettingType.LONG: (-(2**63), LONG_MAX),
}

Check = Callable[[Value], str | None]
"""An additional rule of one setting: returns the error, or None."""


class Setting:
    """The declaration of one setting. A plain class, because every process creates a hundred of them at start."""

    __slots__ = (
        "check",
        "choices",
        "default",
        "doc",
        "extra_value",
        "high",
        "low",
        "name",
        "no_effect",
        "scope",
        "synonyms",
        "type",
        "unit_ms",
    )

    def __init__(
        self,
        name: str,
        setting_type: SettingType,
        default: Value,
        doc: str,
        *,
        scope: Scope = Scope.BROKER_READ_ONLY,
        low: float | None = None,
        high: float | None = None,
        extra_value: int | None = None,
        choices: tuple[str, ...] = (),
        check: Check | None = None,
        synonyms: tuple[str, ...] = (),
        unit_ms: int = 1,
        no_effect: str = "",
    ) -> None:
        self.name = name
        self.type = setting_type
        self.default = default
        self.doc = doc
        self.scope = scope
        self.low = low
        self.high = high
        self.extra_value = extra_value
        """One value outside the bounds that is also allowed, such as -1 for "the codec's default level"."""
        self.choices = choices
        self.check = check
        self.synonyms = synonyms
        """For a topic setting: the broker settings that give its default. The first one that is set counts."""
        self.unit_ms = unit_ms
        """The length of one unit in milliseconds, for broker settings in minutes or hours."""
        self.no_effect = no_effect
        """The reason why the setting is accepted but has no effect; empty if it has one."""

    def __repr__(self) -> str:
        return f"Setting({self.name!r}, {self.type.name})"

    @property
    def read_only(self) -> bool:
        return self.scope is Scope.BROKER_READ_ONLY

    @property
    def sensitive(self) -> bool:
        return self.type in (SettingType.PASSWORD, SettingType.UNKNOWN)

    @property
    def documentation(self) -> str:
        """The text in DescribeConfigs and on the documentation page."""
        return f"{self.doc} Accepted without effect: {self.no_effect}." if self.no_effect else self.doc

    @property
    def allowed(self) -> str:
        """The allowed values in words; empty if the type alone determines them."""
        if self.choices:
            return ", ".join(self.choices)
        extra = "" if self.extra_value is None else f", or {self.extra_value}"
        if self.low is not None and self.high is not None:
            return f"{self.low} to {self.high}{extra}"
        if self.low is not None:
            return f"{self.low} or more{extra}"
        return ""

    def parse(self, text: str) -> Value:
        """Convert `text` to a value, or raise SettingError. Surrounding blanks are ignored, as in Kafka."""
        text = text.strip()
        value = self._convert(text)
        self._check_bounds(value, text)
        if self.check is not None and (problem := self.check(value)) is not None:
            raise SettingError(self.name, problem)
        return value

    def format(self, value: Value) -> str | None:
        """The text of a value in Kafka's notation, so that Kafka's tools can parse it."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return repr(value).upper().replace("E+", "E")
        return str(value)

    def _convert(self, text: str) -> Value:
        kind = self.type
        if kind is SettingType.BOOLEAN:
            if (lowered := text.lower()) not in ("true", "false"):
                raise SettingError(self.name, f"{text!r} is neither true nor false")
            return lowered == "true"
        if kind in _INTEGER_RANGES:
            return self._convert_integer(text)
        if kind is SettingType.DOUBLE:
            return self._convert_double(text)
        if kind is SettingType.LIST:
            return self._convert_list(text)
        return text

    def _convert_integer(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()):
            raise SettingError(self.name, f"{text!r} is not a whole number")
        value = int(text) if len(digits) < 30 else LONG_MAX + 1  # int() takes quadratic time for very long texts
        low, high = _INTEGER_RANGES[self.type]
        if not low <= value <= high:
            raise SettingError(self.name, f"{text!r} does not fit {self.type.name} ({low} to {high})")
        return value

    def _convert_double(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if "_" in text or value != value or value in (float("inf"), float("-inf")):
            raise SettingError(self.name, f"{text!r} is not a finite number")
        return value

    def _convert_list(self, text: str) -> tuple[str, ...]:
        if not text:
            return ()
        items = tuple(item.strip() for item in text.split(","))
        if "" in items:
            raise SettingError(self.name, f"{text!r} has an empty item")
        return tuple(dict.fromkeys(items)) if self.choices else items

    def _check_bounds(self, value: Value, text: str) -> None:
        if self.choices:
            items = value if isinstance(value, tuple) else (value,)
            for item in items:
                if item not in self.choices:
                    raise SettingError(self.name, f"{item!r} is not one of {', '.join(self.choices)}")
        if not isinstance(value, (int, float)) or value == self.extra_value:
            return
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise SettingError(self.name, f"{text} is out of bounds: {self.allowed} is allowed")
