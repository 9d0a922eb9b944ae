"""Random JSON Schemas, small changes of them, and random values from the same few names, strings and numbers.

Few names and numbers, so that schemas and values often meet: most rules decide about one value in a handful.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

NAMES = ("a", "b", "ab", "c")
STRINGS = ("", "a", "ab", "abc", "b1")
NUMBERS = (-1, 0, 1, 2, 3, 4, 6, 0.5, 2.0)
PATTERNS = ("^a", "b", "^.{2}$")
TYPES = ("null", "boolean", "object", "array", "string", "integer", "number")

Json = Any


def value(random: Random, depth: int = 3) -> Json:
    kind = random.randrange(8 if depth else 5)
    if kind == 0:
        return None
    if kind == 1:
        return random.random() < 0.5
    if kind in (2, 3):
        return random.choice(NUMBERS)
    if kind == 4:
        return random.choice(STRINGS)
    if kind == 5:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {name: value(random, depth - 1) for name in random.sample(NAMES, random.randrange(4))}


class SchemaSource:
    """A source of schemas of one draft."""

    def __init__(self, random: Random, draft: str) -> None:
        self.random = random
        self.draft = draft
        self.is_modern = "2020" in draft or "2019" in draft

    def document(self) -> Json:
        schema = self.schema(3)
        if isinstance(schema, dict):
            schema = {"$schema": self.draft, **schema, "definitions": {name: self.schema(2) for name in NAMES[:2]}}
        return schema

    def changed(self, schema: Json) -> Json:
        """A copy with one to three changes at random places."""
        found = copy.deepcopy(schema)
        for _ in range(self.random.randint(1, 3)):
            places = [one for one in _objects(found) if one is not found.get("definitions")] if found else []
            if not places:
                return found
            self._change(self.random.choice(places))
        return found

    def _change(self, place: dict[str, Json]) -> None:
        names = [name for name in place if name not in ("$schema", "definitions")]
        fresh = self.schema(2)
        if names and self.random.random() < 0.5:
            place.pop(self.random.choice(names))
        elif isinstance(fresh, dict):
            numbers = [name for name in names if type(place[name]) is int and name != "multipleOf"]
            if numbers and self.random.random() < 0.6:
                name = self.random.choice(numbers)
                place[name] = max(0, place[name] + self.random.choice((-1, 1)))
            else:
                place.update(fresh)

    def schema(self, depth: int) -> Json:
        random = self.random
        if random.random() < 0.06:
            return random.random() < 0.7 if "draft-04" not in self.draft else {}
        if random.random() < 0.08:
            return {"$ref": f"#/definitions/{random.choice(NAMES[:2])}"}
        found: dict[str, Json] = {}
        if random.random() < 0.7:
            found["type"] = random.choice(TYPES)
        elif random.random() < 0.5:
            found["type"] = random.sample(TYPES, 2)
        rules = [self._string, self._number, self._enum]
        if depth:
            rules += [self._object] * 5 + [self._array] * 3 + [self._combined] * 2
        for rule in random.sample(rules, random.randint(0, 2)):
            rule(found, depth - 1)
        return found

    def _maybe(self, found: dict[str, Json], name: str, content: Any, chance: float = 0.4) -> None:
        if self.random.random() < chance:
            found[name] = content()

    def _string(self, found: dict[str, Json], depth: int) -> None:
        self._maybe(found, "minLength", lambda: self.random.randrange(3))
        self._maybe(found, "maxLength", lambda: self.random.randrange(4))
        self._maybe(found, "pattern", lambda: self.random.choice(PATTERNS))

    def _number(self, found: dict[str, Json], depth: int) -> None:
        for name in ("minimum", "maximum"):
            self._maybe(found, name, lambda: self.random.randrange(-1, 5))
            exclusive = "exclusive" + name.capitalize()
            if "draft-04" not in self.draft:
                self._maybe(found, exclusive, lambda: self.random.randrange(-1, 5), 0.2)
            elif name in found:
                self._maybe(found, exclusive, lambda: True, 0.3)
        self._maybe(found, "multipleOf", lambda: self.random.choice((1, 2, 3, 4, 0.5)), 0.3)

    def _enum(self, found: dict[str, Json], depth: int) -> None:
        values = {repr(one): one for one in (value(self.random, 1) for _ in range(self.random.randint(1, 5)))}
        if self.random.random() < 0.3:
            found["const"] = next(iter(values.values()))
        else:
            found["enum"] = list(values.values())

    def _object(self, found: dict[str, Json], depth: int) -> None:
        def schemas(names: tuple[str, ...], count: int) -> dict[str, Json]:
            return {name: self.schema(depth) for name in self.random.sample(names, self.random.randint(1, count))}

        def needed() -> list[str]:
            return self.random.sample(NAMES, self.random.randint(1, 2))

        self._maybe(found, "properties", lambda: schemas(NAMES, 3), 0.8)
        self._maybe(found, "required", needed, 0.3)
        self._maybe(found, "additionalProperties", lambda: self.random.choice((False, False, self.schema(depth))))
        self._maybe(found, "patternProperties", lambda: schemas(PATTERNS, 2), 0.2)
        self._maybe(found, "minProperties", lambda: self.random.randrange(3), 0.15)
        self._maybe(found, "maxProperties", lambda: self.random.randrange(4), 0.15)
        self._maybe(found, "propertyNames", lambda: {"maxLength": self.random.randint(1, 2)}, 0.1)
        if self.is_modern:
            self._maybe(found, "dependentRequired", lambda: {self.random.choice(NAMES): needed()}, 0.15)
            self._maybe(found, "dependentSchemas", lambda: schemas(NAMES, 1), 0.1)
            self._maybe(found, "unevaluatedProperties", lambda: self.random.choice((False, self.schema(depth))), 0.15)
        else:
            self._maybe(found, "dependencies", lambda: {self.random.choice(NAMES): needed()}, 0.15)
            self._maybe(found, "dependencies", lambda: schemas(NAMES, 1), 0.1)

    def _array(self, found: dict[str, Json], depth: int) -> None:
        def first() -> list[Json]:
            return [self.schema(depth) for _ in range(self.random.randint(1, 2))]

        tuples = self.random.random() < 0.4
        if "2020" in self.draft:
            self._maybe(found, "items", lambda: self.schema(depth), 0.6)
            if tuples:
                found["prefixItems"] = first()
        elif tuples:
            found["items"] = first()
            self._maybe(found, "additionalItems", lambda: self.random.choice((False, self.schema(depth))))
        else:
            self._maybe(found, "items", lambda: self.schema(depth), 0.6)
        self._maybe(found, "minItems", lambda: self.random.randrange(3), 0.2)
        self._maybe(found, "maxItems", lambda: self.random.randrange(4), 0.2)
        self._maybe(found, "uniqueItems", lambda: True, 0.15)
        self._maybe(found, "contains", lambda: self.schema(depth), 0.15)
        if self.is_modern:
            self._maybe(found, "minContains", lambda: self.random.randrange(3), 0.15)
            self._maybe(found, "maxContains", lambda: self.random.randrange(3), 0.15)
            self._maybe(found, "unevaluatedItems", lambda: self.random.choice((False, self.schema(depth))), 0.1)

    def _combined(self, found: dict[str, Json], depth: int) -> None:
        name = self.random.choice(("allOf", "anyOf", "oneOf", "not", "if"))
        if name == "not":
            # A oneOf is read as a union, which under a not would mean the opposite.
            types = self.random.sample(TYPES, self.random.randint(1, 2))
            found["not"] = {"type": types, "minimum": self.random.randrange(3)}
        elif name == "if":
            found["if"] = {"type": self.random.choice(TYPES), "required": [self.random.choice(NAMES)]}
            found["then"], found["else"] = self.schema(depth), self.schema(depth)
        else:
            found[name] = [self.schema(depth) for _ in range(self.random.randint(1, 3))]


def _objects(schema: Json) -> list[dict[str, Json]]:
    """All schema objects inside of a schema, by the keywords that contain schemas."""
    if not isinstance(schema, dict):
        return []
    found = [schema]
    for name, content in schema.items():
        if name in ("properties", "patternProperties", "definitions", "dependentSchemas") and isinstance(content, dict):
            children = list(content.values())
        elif isinstance(content, list) and name in ("allOf", "anyOf", "oneOf", "items", "prefixItems"):
            children = content
        elif name in ("items", "additionalProperties", "additionalItems", "contains", "then", "else"):
            children = [content]
        else:
            continue
        for child in children:
            found += _objects(child)
    return found


def with_unions(schema: Json) -> Json:
    """The schema with `anyOf` for every `oneOf`: how the rules of compatibility read it."""
    if isinstance(schema, list):
        return [with_unions(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: with_unions(content) for name, content in schema.items()}
    if "oneOf" in found:
        branches = found.pop("oneOf")
        found["allOf"] = [*found.get("allOf", ()), {"anyOf": branches}]
    return found
