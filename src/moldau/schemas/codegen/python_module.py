"""Text of a generated Python module: dataclasses with `to_dict` and `from_dict`, typed and formatted.

A module needs the standard library only. Its text depends on the schema alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from moldau.schemas.codegen.class_model import (
    NO_DEFAULT,
    ChoiceType,
    ClassType,
    DictType,
    EnumClass,
    FieldModel,
    FieldType,
    ListType,
    ModuleModel,
    NamedEnumType,
    OptionalType,
    PlainType,
    RecordClass,
)
from moldau.schemas.codegen.python_layout import (
    INDENT,
    LINE_LENGTH,
    Bracketed,
    call,
    docstring,
    layout,
    literal,
    subscript,
    with_prefix,
)
from moldau.schemas.codegen.type_text import HELPERS, TypeText

IMPORTS: Final = (
    ("base64.", "import base64"),
    ("datetime.", "import datetime"),
    ("decimal.", "import decimal"),
    ("math.", "import math"),
    ("uuid.", "import uuid"),
)
NAMES: Final = (
    ("collections.abc", ("Callable", "Mapping")),
    ("dataclasses", ("dataclass", "field")),
    ("enum", ("IntEnum", "StrEnum")),
    ("typing", ("Any", "Literal", "Self", "TypeVar")),
)


def module_text(model: ModuleModel, title: str) -> str:
    """The module of all classes of a model. `title` is its docstring."""
    types = TypeText()
    classes = [_class(one, types) for one in model.classes]
    # The converter of a choice may need those of other choices, which are found on the way.
    choices: list[list[str]] = []
    written: set[ChoiceType] = set()
    while pending := [one for one in types.choices if one not in written]:
        for one in pending:
            written.add(one)
            choices += [_reader(one, types), _writer(one, types)]
    helpers = [text.splitlines() for name, text in HELPERS.items() if name in types.helpers]
    aliases = [_alias(one, types) for one in types.aliases]
    body = "\n\n\n".join("\n".join(lines) for lines in (*classes, *aliases, *choices, *helpers))
    head = [*docstring(title, 0), "", "from __future__ import annotations", "", *_imports(body)]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def _alias(choice: ChoiceType, types: TypeText) -> list[str]:
    name, branches = types.aliases[choice], types.branch_annotations(choice)
    line = f"{name} = {' | '.join(branches)}"
    if len(line) <= LINE_LENGTH:
        return [line]
    inner = [INDENT + " | ".join(branches)]
    if len(inner[0]) > LINE_LENGTH:
        inner = [INDENT + branches[0], *(f"{INDENT}| {one}" for one in branches[1:])]
    return [f"{name} = (", *inner, ")"]


def _imports(body: str) -> list[str]:
    modules = [line for prefix, line in IMPORTS if re.search(rf"\b{re.escape(prefix)}", body)]
    variables = [f'{name} = TypeVar("{name}")' for name in ("K", "T") if re.search(rf"\b{name}\]", body)]
    used = "\n".join([body, *variables])
    found = {module: [name for name in names if re.search(rf"\b{name}\b", used)] for module, names in NAMES}
    lines = [*modules, *(f"from {module} import {', '.join(names)}" for module, names in found.items() if names)]
    return [*lines, *([""] if variables else []), *variables]


# Classes --------------------------------------------------------------------------------------------------------------


def _class(one: RecordClass | EnumClass, types: TypeText) -> list[str]:
    return _enum(one) if isinstance(one, EnumClass) else _record(one, types)


def _enum(enum: EnumClass) -> list[str]:
    base = "IntEnum" if enum.is_numbered else "StrEnum"
    lines = [f"class {enum.name}({base}):", *docstring(enum.doc or f"{enum.name}.", 1), ""]
    lines += [f"{INDENT}{name} = {literal(value)}" for name, value in enum.members.items()]
    if enum.is_numbered:
        lines += ["", f"{INDENT}@classmethod", f"{INDENT}def from_plain(cls, value: Any) -> Self:"]
        if enum.renamed:
            names = [f"{literal(name)}: {literal(member)}" for name, member in enum.renamed.items()]
            lines += layout(Bracketed("{", names, "}", prefix="renamed = "), 2, split=True)
        member = "renamed.get(value, value)" if enum.renamed else "value"
        lines.append(f"{INDENT * 2}return cls[{member}] if isinstance(value, str) else cls(value)")
    return lines


def _record(record: RecordClass, types: TypeText) -> list[str]:
    lines = ["@dataclass(kw_only=True, slots=True)", f"class {record.name}:"]
    lines += docstring(record.doc or f"{record.full_name if record.is_exact else record.name}.", 1)
    if record.fields:
        lines.append("")
    for one in record.fields:
        lines += [*_field(one, types), *docstring(one.doc or "", 1)]
    if record.additional is not None:
        annotation = types.annotation(DictType(record.additional))
        lines += [f"{INDENT}additional: {annotation} = field(default_factory=dict)"]
        lines += docstring("Values under names that the schema does not declare.", 1)
    return [*lines, "", *_to_dict(record, types), "", *_from_dict(record, types)]


def _field(one: FieldModel, types: TypeText) -> list[str]:
    start = f"{one.name}: {types.annotation(one.type)}"
    default = _default(one, types)
    if default is None:
        return layout(start, 1)
    if isinstance(default, str) and len(f"{INDENT}{start} = {default}") > LINE_LENGTH:
        default = call("field", f"default={default}")
    return layout(with_prefix(f"{start} = ", default), 1)


def _default(one: FieldModel, types: TypeText) -> str | Bracketed | None:
    """The default of a field as Python; None if it has none, or one that does not have its type."""
    if one.omit_none and one.default is NO_DEFAULT:
        return "None"
    if one.default_text is not None:
        return one.default_text
    if one.default is NO_DEFAULT or not has_type(one.type, one.default):
        return None
    return _default_text(one, types)


def _default_text(one: FieldModel, types: TypeText) -> str | Bracketed:
    type_ = one.type.inner if isinstance(one.type, OptionalType) else one.type
    if one.default is None:
        return "None"
    if isinstance(type_, NamedEnumType):
        member = next(name for name, value in type_.enum.members.items() if one.default in (name, value))
        return f"{type_.enum.name}.{member}"
    if one.default in ([], {}) and isinstance(type_, (ListType, DictType)):
        return call("field", f"default_factory={'list' if isinstance(type_, ListType) else 'dict'}")
    converter = types.read(type_)
    text = literal(one.default)
    if isinstance(one.default, (list, dict)) or converter is not None:
        text = text if converter is None else f"{converter}({text})"
        return call("field", f"default_factory=lambda: {text}")
    return text


def has_type(type_: FieldType, default: Any) -> bool:
    """Does a default in its plain form have the type?"""
    match type_:
        case PlainType(annotation="int"):
            return isinstance(default, int) and not isinstance(default, bool)
        case PlainType(annotation="float"):
            return isinstance(default, (int, float)) and not isinstance(default, bool)
        case PlainType(annotation="str" | "bool" | "bytes" as name, read=None):
            return isinstance(default, {"str": str, "bool": bool, "bytes": bytes}[name])
        case PlainType(annotation="None"):
            return default is None
        case PlainType():
            return type_.annotation == f"Literal[{literal(default)}]" or (type_.annotation == "Any" and default is None)
        case NamedEnumType():
            members = type_.enum.members
            return isinstance(default, str) and (default in members or default in members.values())
        case ListType():
            return isinstance(default, list) and all(has_type(type_.item, one) for one in default)
        case DictType():
            return isinstance(default, dict) and all(has_type(type_.value, one) for one in default.values())
        case OptionalType():
            return default is None or has_type(type_.inner, default)
        case ChoiceType():
            return any(has_type(one, default) for one in type_.branches)
        case ClassType():
            known = {one.key: one for one in type_.record.fields}
            return (
                isinstance(default, dict)
                and default.keys() == known.keys()
                and all(has_type(known[key].type, one) for key, one in default.items())
            )


# Methods --------------------------------------------------------------------------------------------------------------


def _to_dict(record: RecordClass, types: TypeText) -> list[str]:
    always = [one for one in record.fields if not one.omit_none]
    sometimes = [one for one in record.fields if one.omit_none]
    items = [with_prefix(f"{literal(one.key)}: ", _written(one, types)) for one in always]
    lines = [f"{INDENT}def to_dict(self) -> dict[str, Any]:"]
    opening = "{"
    if not sometimes and record.additional is None:
        return [*lines, *layout(Bracketed(opening, items, "}", prefix="return "), 2, split=True)]
    lines += layout(Bracketed(opening, items, "}", prefix="data: dict[str, Any] = "), 2, split=True)
    for one in sometimes:
        inner = one.type.inner if isinstance(one.type, OptionalType) else one.type
        value = _written(FieldModel(one.key, one.name, inner), types)
        lines.append(f"{INDENT * 2}if self.{one.name} is not None:")
        lines += layout(with_prefix(f"data[{literal(one.key)}] = ", value), 3)
    if record.additional is not None:
        value = _converted(types.write(DictType(record.additional)), "self.additional")
        lines += layout(call("data.update", value), 2)
    return [*lines, f"{INDENT * 2}return data"]


def _written(one: FieldModel, types: TypeText) -> str | Bracketed:
    if isinstance(one.type, ClassType):
        return f"self.{one.name}.to_dict()"
    return _converted(types.write(one.type), f"self.{one.name}")


def _converted(converter: str | None, value: str | Bracketed) -> str | Bracketed:
    return value if converter is None else call(converter, value)


def _from_dict(record: RecordClass, types: TypeText) -> list[str]:
    lines = [
        f"{INDENT}@classmethod",
        f"{INDENT}def from_dict(cls, data: Mapping[str, Any]) -> Self:",
    ]
    items = [with_prefix(f"{one.name}=", _read(one, types)) for one in record.fields]
    if record.additional is not None:
        types.helpers.add("_others")
        keys = ", ".join(literal(one.key) for one in record.fields)
        declared = Bracketed("{", [literal(one.key) for one in record.fields], "}") if keys else "set()"
        others = call("_others", "data", declared)
        items.append(with_prefix("additional=", _converted(types.read(DictType(record.additional)), others)))
    return [*lines, *layout(call("cls", *items, prefix="return "), 2, split=True)]


def _read(one: FieldModel, types: TypeText) -> str | Bracketed:
    key = literal(one.key)
    converter = types.read(one.type)
    if _default(one, types) is None:
        return _converted(converter, subscript("data", key))
    default = None if one.default is NO_DEFAULT else one.default
    if default is None:
        return _converted(converter, call("data.get", key))
    return _converted(converter, call("data.get", key, literal(default)))


# Choices --------------------------------------------------------------------------------------------------------------


def _reader(choice: ChoiceType, types: TypeText) -> list[str]:
    """The function that finds out which branch a plain value has."""
    annotation = types.annotation(choice)
    lines = [f"def _read_{types.choices[choice]}(value: Any) -> {annotation}:"]
    if choice.tagged:
        readers = [f"{literal(one.full_name)}: {one.name}.from_dict" for one in _records(choice)]
        lines += layout(
            Bracketed("{", readers, "}", prefix="readers: dict[str, Callable[[Any], Any]] = "), 1, split=True
        )
        lines += [
            f"{INDENT}if isinstance(value, tuple):",
            f"{INDENT * 2}name, value = value",
            f"{INDENT * 2}if name in readers:",
            f"{INDENT * 3}named: {annotation} = readers[name](value)",
            f"{INDENT * 3}return named",
        ]
    texts = any(isinstance(one, PlainType) and one.annotation == "str" for one in choice.branches)
    for one in _most_specific_first(choice.branches):
        converter = types.read(one)
        test = _test(one, types)
        if converter is not None and test is not None and not (texts and isinstance(one, NamedEnumType)):
            lines += layout(with_prefix("if ", test), 1, ":")
            lines += layout(call(converter, "value", prefix="return "), 2)
    return [*lines, f"{INDENT}found: {annotation} = value", f"{INDENT}return found"]


def _records(choice: ChoiceType) -> list[RecordClass]:
    return [one.record for one in choice.branches if isinstance(one, ClassType)]


def _most_specific_first(branches: Iterable[FieldType]) -> list[FieldType]:
    """Records with many required keys first: one with fewer of them would take their values."""

    def weight(one: FieldType) -> int:
        return -len(one.record.required) - 100 * len(one.record.constants) if isinstance(one, ClassType) else 1

    return sorted(branches, key=weight)


def _test(type_: FieldType, types: TypeText) -> str | Bracketed | None:
    match type_:
        case ClassType(record):
            types.helpers.add("_fits")
            names = sorted(record.required)
            keys = Bracketed("{", [literal(one) for one in names], "}") if names else "set()"
            constants = Bracketed(
                "{", [f"{literal(key)}: {literal(one)}" for key, one in record.constants.items()], "}"
            )
            return call("_fits", "value", keys, constants, f"exact={record.is_exact}")
        case NamedEnumType(enum):
            return f"value in list({enum.name})"
        case ListType() | DictType():
            return f"isinstance(value, {'list' if isinstance(type_, ListType) else 'dict'})"
        case PlainType(test=str() as name):
            return f"isinstance(value, {name})"
        case _:
            return None


def _writer(choice: ChoiceType, types: TypeText) -> list[str]:
    lines = [f"def _write_{types.choices[choice]}(value: Any) -> Any:"]
    for one in choice.branches:
        converter = types.write(one)
        if converter is None:
            continue
        annotation = types.annotation(one)
        test = annotation.split("[", 1)[0]
        result = call(converter, "value")
        if choice.tagged and isinstance(one, ClassType):
            result = Bracketed("(", [literal(one.record.full_name), f"{one.record.name}.to_dict(value)"], ")")
        lines += [f"{INDENT}if isinstance(value, {test}):", *layout(with_prefix("return ", result), 2)]
    return [*lines, f"{INDENT}return value"]
