"""Annotations and converters of field types as Python text."""

from __future__ import annotations

from typing import Final

from moldau.schemas.codegen.class_model import (
    ChoiceType,
    ClassType,
    DictType,
    FieldType,
    ListType,
    NamedEnumType,
    OptionalType,
    PlainType,
)

HELPERS: Final = {
    "_optional": """\
def _optional(convert: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else convert(value)""",
    "_list_of": """\
def _list_of(convert: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    return lambda values: [convert(value) for value in values]""",
    "_dict_of": """\
def _dict_of(convert: Callable[[Any], T]) -> Callable[[Any], dict[str, T]]:
    return lambda values: {key: convert(value) for key, value in values.items()}""",
    "_mapping_of": """\
def _mapping_of(
    key: Callable[[Any], K],
    convert: Callable[[Any], T],
) -> Callable[[Any], dict[K, T]]:
    return lambda values: {key(name): convert(one) for name, one in values.items()}""",
    "_unnamed": """\
def _unnamed(convert: Callable[[Any], T]) -> Callable[[Any], T]:
    return lambda value: convert(value[1] if isinstance(value, tuple) else value)""",
    "_same": """\
def _same(value: Any) -> Any:
    return value""",
    "_fits": """\
def _fits(
    value: Any,
    keys: set[str],
    constants: dict[str, Any],
    *,
    exact: bool,
) -> bool:
    if not isinstance(value, Mapping) or not keys <= value.keys():
        return False
    if exact and keys != value.keys():
        return False
    return all(value.get(key) == constant for key, constant in constants.items())""",
    "_others": """\
def _others(data: Mapping[str, Any], declared: set[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in declared}""",
    "_bool_text": """\
def _bool_text(value: bool) -> str:
    return "true" if value else "false\"""",
    "_text_bool": """\
def _text_bool(value: Any) -> bool:
    return value is True or value == "true\"""",
    "_float_plain": """\
def _float_plain(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity\"""",
    "_base64": """\
def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()""",
}
"""Functions that a module has if it uses them."""

MAX_INLINE: Final = 45
"""Characters of a choice that is written out in an annotation."""


class TypeText:
    """The texts of types in one module. It collects the helpers and the choices that the module needs."""

    def __init__(self) -> None:
        self.helpers: set[str] = set()
        self.choices: dict[ChoiceType, str] = {}
        self.aliases: dict[ChoiceType, str] = {}
        """The names of choices that are too long to be repeated in annotations."""

    def annotation(self, type_: FieldType) -> str:
        match type_:
            case PlainType():
                return type_.annotation
            case ClassType():
                return type_.record.name
            case NamedEnumType():
                return type_.enum.name
            case ListType():
                return f"list[{self.annotation(type_.item)}]"
            case DictType():
                return f"dict[{type_.key.annotation}, {self.annotation(type_.value)}]"
            case OptionalType():
                inner = self.annotation(type_.inner)
                return inner if inner == "Any" or inner.endswith("| None") else f"{inner} | None"
            case ChoiceType():
                return self._choice_annotation(type_)

    def branch_annotations(self, type_: ChoiceType) -> list[str]:
        return list(dict.fromkeys(self.annotation(one) for one in type_.branches))

    def _choice_annotation(self, type_: ChoiceType) -> str:
        text = " | ".join(self.branch_annotations(type_))
        if len(text) <= MAX_INLINE:
            return text
        return self.aliases.setdefault(type_, f"_Choice{len(self.aliases) + 1}")

    def read(self, type_: FieldType) -> str | None:
        """The converter from plain values."""
        match type_:
            case PlainType():
                return self._plain(type_.read)
            case ClassType():
                return f"{type_.record.name}.from_dict"
            case NamedEnumType():
                return f"{type_.enum.name}.from_plain" if type_.enum.is_numbered else type_.enum.name
            case ChoiceType():
                return self._choice(type_, "read")
        return self._composed(type_, "read")

    def write(self, type_: FieldType) -> str | None:
        """The converter to plain values."""
        match type_:
            case PlainType():
                return self._plain(type_.write)
            case ClassType():
                return f"{type_.record.name}.to_dict"
            case NamedEnumType():
                return "int" if type_.enum.is_numbered else "str"
            case ChoiceType():
                return self._choice(type_, "write")
        return self._composed(type_, "write")

    def _plain(self, converter: str | None) -> str | None:
        if converter in HELPERS:
            self.helpers.add(converter)
        return converter

    def _composed(self, type_: ListType | DictType | OptionalType, way: str) -> str | None:
        inner_type = type_.item if isinstance(type_, ListType) else None
        if isinstance(type_, DictType):
            inner_type = type_.value
        elif isinstance(type_, OptionalType):
            inner_type = type_.inner
        assert inner_type is not None
        inner = self.read(inner_type) if way == "read" else self.write(inner_type)
        if isinstance(type_, DictType) and (key := type_.key.read if way == "read" else type_.key.write):
            return self._use("_mapping_of", f"{self._plain(key)}, {inner or self._use('_same')}")
        if isinstance(type_, OptionalType) and type_.may_be_named and way == "read":
            inner = self._use("_unnamed", inner or self._use("_same"))
        if inner is None:
            return None
        helper = {ListType: "_list_of", DictType: "_dict_of", OptionalType: "_optional"}[type(type_)]
        return self._use(helper, inner)

    def _use(self, helper: str, arguments: str | None = None) -> str:
        self.helpers.add(helper)
        return helper if arguments is None else f"{helper}({arguments})"

    def _choice(self, type_: ChoiceType, way: str) -> str | None:
        converters = [self.read(one) if way == "read" else self.write(one) for one in type_.branches]
        if not any(converters) and not type_.tagged:
            return None
        name = self.choices.setdefault(type_, f"choice{len(self.choices) + 1}")
        return f"_{way}_{name}"
