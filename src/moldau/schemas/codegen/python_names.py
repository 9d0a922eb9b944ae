"""Python names for the names of schemas: valid, not taken, and the same in every run."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Final

USED_IN_MODULES: Final = frozenset(
    {"Any", "Callable", "ClassVar", "IntEnum", "Literal", "Mapping", "Self", "StrEnum", "T", "K", "annotations"}
    | {"base64", "dataclass", "datetime", "decimal", "field", "math", "uuid"}
)
"""Names that generated modules import."""
USED_IN_CLASSES: Final = frozenset({"to_dict", "from_dict", "cls", "self", "data", "mro", "name", "value"})


class NameSpace:
    """Names that are taken once. A name that is taken gets a number."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._taken = set(reserved)

    def take(self, name: str) -> str:
        found, number = name, 2
        while found in self._taken:
            found, number = f"{name}{'_' if name[-1].isdigit() else ''}{number}", number + 1
        self._taken.add(found)
        return found


def class_name(text: str) -> str:
    """A name in the form OrderLine, from any text."""
    words = re.findall(r"[^\W_]+", text)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return _valid(name or "Record", USED_IN_MODULES | set(dir(builtins)), "Record")


def field_name(text: str, classes: frozenset[str] = frozenset()) -> str:
    """An attribute's name: the text itself wherever Python and the annotations of the class allow it."""
    name = re.sub(r"\W", "_", text).lstrip("_")
    return _valid(name or "field", USED_IN_MODULES | {"to_dict", "from_dict"} | _TYPES | classes, "field")


def member_name(text: str) -> str:
    """A name of an enum's member."""
    name = re.sub(r"\W", "_", text).strip("_")
    return _valid(name or "EMPTY", USED_IN_CLASSES | {"names", "values"}, "VALUE")


_TYPES: Final = frozenset(
    {"bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "str", "classmethod"}
)


def _valid(name: str, taken: frozenset[str] | set[str], prefix: str) -> str:
    if name[0].isdigit():
        name = f"{prefix}_{name}"
    if not name.isidentifier():
        name = prefix
    return f"{name}_" if keyword.iskeyword(name) or name in taken else name
