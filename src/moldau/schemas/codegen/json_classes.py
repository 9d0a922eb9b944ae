"""Classes of a JSON Schema.

An object with properties is a class, one without is a dict. `allOf` is one class with the properties of all parts,
`anyOf` and `oneOf` are choices. A property that is not required is None if it is absent, and left out if it is None.
Values under undeclared names are kept if `additionalProperties` is given, otherwise they are dropped. Texts with a
`format` stay texts: the schema does not guarantee it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moldau.schemas.codegen.class_model import (
    ANY,
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
from moldau.schemas.codegen.python_layout import literal
from moldau.schemas.codegen.python_module import has_type
from moldau.schemas.codegen.python_names import USED_IN_CLASSES, NameSpace, class_name, field_name, member_name
from moldau.schemas.json_schema.json_schema import JsonSchema
from moldau.schemas.json_schema.schema_node import JsonSchemaNode

PLAIN: Final = {
    "string": PlainType("str", test="str"),
    "integer": PlainType("int", test="int"),
    "number": PlainType("float", test="(int, float)"),
    "boolean": PlainType("bool", test="bool"),
    "null": PlainType("None"),
}
MAX_LITERAL: Final = 40
"""Characters of a list of values in an annotation."""


class JsonClasses:
    """The model of one schema."""

    def __init__(self) -> None:
        self.module = ModuleModel()
        self._names = NameSpace()
        self._known: dict[int, FieldType] = {}
        self._records: list[RecordClass] = []

    def build(self, schema: JsonSchema) -> ModuleModel:
        self.field_type(schema.root, schema.name or "Record")
        names = frozenset(one.name for one in self.module.classes)
        for record in self._records:
            taken = NameSpace(frozenset({"additional"}) if record.additional is not None else frozenset())
            for one in record.fields:
                one.name = taken.take(field_name(one.key, names))
        return self.module

    def field_type(self, node: JsonSchemaNode, name: str) -> FieldType:
        """The type of values of a schema. `name` is that of a class, if the schema itself does not have one."""
        name = _reference_name(node) or name
        node = node.followed()
        if isinstance(node.schema, bool):
            return ANY
        if node.key not in self._known:
            # A schema that is met inside of itself, and is no class, has a type that cannot be written down.
            self._known[node.key] = ANY
            title = node.schema.get("title")
            self._known[node.key] = self._new_type(node, title if isinstance(title, str) and title.strip() else name)
        return self._known[node.key]

    def _new_type(self, node: JsonSchemaNode, name: str) -> FieldType:
        keywords = node.keywords()
        if "const" in keywords:
            return _literals([keywords["const"]])
        if "enum" in keywords:
            return self._enum(keywords["enum"], name, node)
        if any("properties" in part.keywords() for part in _conjunction(node)):
            return self._record(node, name)
        for combination in ("oneOf", "anyOf"):
            if combination in keywords:
                branches = [node.child(one) for one in keywords[combination]]
                return self._choice([self.field_type(one, f"{name}{i}") for i, one in enumerate(branches, 1)])
        for part in _conjunction(node):
            if part.key != node.key and (found := self.field_type(part, name)) != ANY:
                return found
        declared = keywords.get("type")
        if isinstance(declared, list):
            return self._choice([self._typed(node, one, name) for one in declared])
        return self._typed(node, declared, name) if declared else ANY

    def _typed(self, node: JsonSchemaNode, declared: str, name: str) -> FieldType:
        keywords = node.keywords()
        if declared == "array":
            items = keywords.get("items")
            if "prefixItems" in keywords or not isinstance(items, dict):
                return ListType(ANY)
            return ListType(self.field_type(node.child(items), f"{name}Item"))
        if declared == "object":
            values = keywords.get("additionalProperties", True)
            return DictType(self.field_type(node.child(values), f"{name}Value"))
        return PLAIN[declared]

    def _choice(self, types: list[FieldType]) -> FieldType:
        flat: list[FieldType] = []
        optional = False
        for one in types:
            optional = optional or isinstance(one, OptionalType) or one == PLAIN["null"]
            inner = one.inner if isinstance(one, OptionalType) else one
            if inner != PLAIN["null"]:
                flat += inner.branches if isinstance(inner, ChoiceType) else [inner]
        flat = list(dict.fromkeys(flat))
        if not flat:
            return PLAIN["null"]
        if ANY in flat:
            return ANY
        found = flat[0] if len(flat) == 1 else ChoiceType(tuple(flat))
        return OptionalType(found) if optional else found

    def _enum(self, values: list[Any], name: str, node: JsonSchemaNode) -> FieldType:
        texts = [one for one in values if isinstance(one, str)]
        if not texts or len(texts) + (None in values) < len(values):
            return _literals(values)
        members = NameSpace(USED_IN_CLASSES)
        enum = EnumClass(self._names.take(class_name(name)), doc=_text(node, "description"))
        enum.members = {members.take(member_name(one)): one for one in dict.fromkeys(texts)}
        self.module.classes.append(enum)
        found = NamedEnumType(enum)
        return OptionalType(found) if None in values else found

    def _record(self, node: JsonSchemaNode, name: str) -> FieldType:
        model = RecordClass(self._names.take(class_name(name)), name, _text(node, "description"))
        found: FieldType = ClassType(model)
        declared = node.keywords().get("type")
        if isinstance(declared, list):
            others = [self._typed(node, one, name) for one in declared if one != "object"]
            found = self._choice([found, *others])
        self._known[node.key] = found
        self._records.append(model)
        parts = list(_conjunction(node))
        required = {one for part in parts for one in _required(part)}
        for part in parts:
            for key, content in part.keywords().get("properties", {}).items():
                if all(one.key != key for one in model.fields):
                    self._add_field(model, part.child(content), key, key in required)
            if (values := part.keywords().get("additionalProperties")) not in (None, False):
                model.additional = self.field_type(part.child(values), f"{name}Value")
        self.module.classes.append(model)
        return found

    def _add_field(self, model: RecordClass, node: JsonSchemaNode, key: str, required: bool) -> None:
        type_ = self.field_type(node, f"{model.name} {key}")
        followed = node.followed()
        schemas = [one.schema for one in (node, followed) if isinstance(one.schema, dict)]
        default = next((one["default"] for one in schemas if "default" in one), NO_DEFAULT)
        constant = next((one["const"] for one in schemas if "const" in one), NO_DEFAULT)
        field = FieldModel(key, key, type_, default, doc=_text(node, "description"))
        if constant is not NO_DEFAULT and required:
            field.default = model.constants[key] = constant
        elif not required and (default is NO_DEFAULT or default is None or not has_type(type_, default)):
            field.type = type_ if isinstance(type_, OptionalType) or type_ == ANY else OptionalType(type_)
            field.default, field.omit_none = NO_DEFAULT, True
        model.fields.append(field)


def _conjunction(node: JsonSchemaNode) -> Iterator[JsonSchemaNode]:
    """A schema and everything that it combines by `$ref` and `allOf`."""
    waiting, seen = [node], set[int]()
    while waiting:
        one = waiting.pop(0).followed()
        if one.key in seen or isinstance(one.schema, bool):
            continue
        seen.add(one.key)
        yield one
        target = one.target()
        if target is not None:
            waiting.append(target)
        waiting += [one.child(part) for part in one.keywords().get("allOf", ())]


def _required(node: JsonSchemaNode) -> list[str]:
    names = node.keywords().get("required")
    return names if isinstance(names, list) else []


def _reference_name(node: JsonSchemaNode) -> str | None:
    """The last part of a `$ref`: the name of a definition or of a file."""
    reference = node.keywords().get("$ref")
    if not isinstance(reference, str) or not reference.strip("#/"):
        return None
    return reference.rstrip("#/").rsplit("/", 1)[-1].rsplit("#", 1)[-1].removesuffix(".json").removesuffix(".schema")


def _text(node: JsonSchemaNode, keyword: str) -> str | None:
    found = node.schema.get(keyword) if isinstance(node.schema, Mapping) else None
    return found if isinstance(found, str) else None


def _literals(values: list[Any]) -> FieldType:
    if not all(isinstance(one, (str, int, bool, type(None))) for one in values):
        return ANY
    text = ", ".join(literal(one) for one in dict.fromkeys(values))
    return PlainType(f"Literal[{text}]") if len(text) <= MAX_LITERAL else ANY
