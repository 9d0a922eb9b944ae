"""One setting: its name, type, default, bounds, and how a text becomes a value of it.

Whatever speaks of a setting (validation, DescribeConfigs, the documentation page, `--help`) reads it from here; nothing
is said twice. This module knows no particular setting and reads no file: see `topic.py` and `broker.py` for the
declarations, `sources.py` for where texts come from.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum

Value = bool | int | float | str | tuple[str, ...] | None

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class SettingError(ValueError):
    """A setting that is unknown, malformed, out of bounds, or in conflict with another: which one, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class SettingType(IntEnum):
    """Kafka's types, with the codes that DescribeConfigs carries."""

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
    """Where a setting may be set, and whether a running broker takes a change."""

    BROKER_READ_ONLY = "read-only"
    BROKER_DYNAMIC = "dynamic"
    TOPIC = "topic"


_INTEGER_RANGES = {
    SettingType.SHORT: (-(2**15), 2**15 - 1),
    SettingType.INT: (-(2**31), INT_MAX),
    SettingType.LONG: (-(2**63), LONG_MAX),
}

Check = Callable[[Value], str | None]
"""A rule of one setting's own: what is wrong with the value, or None."""


class Setting:
    """The declaration of one setting. A plain class, because every process builds a hundred of them at start."""

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
        """One value outside the bounds that is allowed too, such as -1 for "the codec's own level"."""
        self.choices = choices
        self.check = check
        self.synonyms = synonyms
        """Of a topic setting: the broker settings that give its default, the first one set wins."""
        self.unit_ms = unit_ms
        """What one unit is in milliseconds, for broker settings in minutes or hours."""
        self.no_effect = no_effect
        """Why the setting is accepted although it changes nothing here; empty where it does what it says."""

    def __repr__(self) -> str:
        return f"Setting({self.name!r}, {self.type.name})"

    @property
    def read_only(self) -> bool:
        return self.scope is Scope.BROKER_READ_ONLY

    @property
    def sensitive(self) -> bool:
        return self.type is SettingType.PASSWORD

    @property
    def documentation(self) -> str:
        """The sentence that DescribeConfigs and the documentation page give."""
        return f"{self.doc} Accepted without effect: {self.no_effect}." if self.no_effect else self.doc

    @property
    def allowed(self) -> str:
        """The allowed values in words; empty where the type says it all."""
        if self.choices:
            return ", ".join(self.choices)
        extra = "" if self.extra_value is None else f", or {self.extra_value}"
        if self.low is not None and self.high is not None:
            return f"{self.low} to {self.high}{extra}"
        if self.low is not None:
            return f"{self.low} or more{extra}"
        return ""

    def parse(self, text: str) -> Value:
        """The value that `text` stands for, or SettingError. Surrounding blanks do not count, as in Kafka."""
        text = text.strip()
        value = self._convert(text)
        self._check_bounds(value, text)
        if self.check is not None and (problem := self.check(value)) is not None:
            raise SettingError(self.name, problem)
        return value

    def format(self, value: Value) -> str | None:
        """The text of a value as Kafka spells it, so that its tools can read it back."""
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
        value = int(text) if len(digits) < 30 else LONG_MAX + 1  # int() of endless digits costs endless time
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
