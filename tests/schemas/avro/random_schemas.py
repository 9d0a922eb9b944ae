"""Random Avro schemas and changes of them, mostly valid, from a seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
NUMBERS = ["int", "long", "float", "double"]
NAMES = ["Order", "Item", "Price", "Kind", "Hash", "Node", "int32", "array"]
NAMESPACES = ["a", "b.c", "org.example"]
FIELDS = ["id", "name", "price", "next", "tags", "kind"]
SYMBOLS = ["RED", "GREEN", "BLUE", "_x", "y1"]
TEXTS = ["", "plain", 'quotes " and \\', "line\nbreak\t\x01", "Straße 東京 🙂", "a/b~c", "\x1f\x7f"]
FLOATS = [
    0.0,
    -0.0,
    1.5,
    0.1,
    1e10,
    1.25e-7,
    -3.0e22,
    12345678.9,
    0.001,
    1e7,
    9999999.0,
    5e-324,
    1.7976931348623157e308,
]
LOGICAL = [
    {"logicalType": "date"},
    {"logicalType": "timestamp-millis"},
    {"logicalType": "uuid"},
    {"logicalType": "decimal", "precision": 4, "scale": 2},
    {"scale": 0, "precision": 9, "logicalType": "decimal"},
    {"logicalType": "no-such-type"},
    {"logicalType": 7},
]


class RandomSchemas:
    """`schema()` is a schema in Python's form of JSON; `changed(schema)` a copy with one to three changes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._defined: dict[str, str] = {}

    def schema(self) -> Any:
        self._defined = {}
        if self.chance.random() < 0.7:
            return self._record("", 0)
        return self._type("", 0)

    # Types ------------------------------------------------------------------------------------------------------------

    def _type(self, namespace: str, depth: int) -> Any:
        makers: list[tuple[int, Callable[[str, int], Any]]] = [
            (6, lambda *_: self._primitive()),
            (2, lambda *_: self._reference(namespace)),
        ]
        if depth < 4:
            makers += [(2, self._record), (1, self._enum), (1, self._fixed), (1, self._array), (1, self._map)]
            makers += [(2, self._union)]
        weights = [weight for weight, _ in makers]
        return self.chance.choices([maker for _, maker in makers], weights)[0](namespace, depth)

    def _primitive(self) -> Any:
        name = self.chance.choice(PRIMITIVES)
        if self.chance.random() < 0.75:
            return name
        return {"type": name, **self._props(), **self._logical()}

    def _reference(self, namespace: str) -> Any:
        if not self._defined or self.chance.random() < 0.02:
            return "Nowhere" if self.chance.random() < 0.05 else self._primitive()
        full = self.chance.choice(list(self._defined))
        space, _, short = full.rpartition(".")
        name = short if space == namespace and self.chance.random() < 0.6 else full
        return {"type": name} if self.chance.random() < 0.1 else name

    def _array(self, namespace: str, depth: int) -> Any:
        return {"type": "array", "items": self._type(namespace, depth + 1), **self._props()}

    def _map(self, namespace: str, depth: int) -> Any:
        return {"type": "map", **self._props(), "values": self._type(namespace, depth + 1)}

    def _union(self, namespace: str, depth: int) -> Any:
        branches: list[Any] = []
        kinds: set[str] = set()
        for _ in range(self.chance.randrange(1, 5)):
            branch = self._type(namespace, depth + 1)
            kind = _union_name(branch)
            if kind is not None and (kind not in kinds or self.chance.random() < 0.01):
                kinds.add(kind)
                branches.append(branch)
        return branches

    def _named(self, kind: str, namespace: str) -> tuple[dict[str, Any], str]:
        """The beginning of a definition, and the namespace inside it."""
        name = self.chance.choice(NAMES)
        space = self.chance.choice(["", *NAMESPACES]) if self.chance.random() < 0.5 else namespace
        while f"{space}.{name}".lstrip(".") in self._defined and self.chance.random() < 0.995:
            name += self.chance.choice("abc")
        json: dict[str, Any] = {"type": kind}
        if space == namespace and self.chance.random() < 0.8:
            json["name"] = name
        elif space and self.chance.random() < 0.5:
            json["name"] = f"{space}.{name}"
        else:
            json |= {"name": name, "namespace": space}
        if self.chance.random() < 0.2:
            json["doc"] = self.chance.choice(TEXTS)
        if self.chance.random() < 0.2:
            json["aliases"] = [self._alias(space) for _ in range(self.chance.randrange(3))]
        self._defined[f"{space}.{name}".lstrip(".")] = kind
        return json, space

    def _alias(self, namespace: str) -> str:
        name = self.chance.choice(NAMES)
        return f"{self.chance.choice(NAMESPACES)}.{name}" if not namespace or self.chance.random() < 0.4 else name

    def _record(self, namespace: str, depth: int) -> Any:
        json, space = self._named("error" if self.chance.random() < 0.03 else "record", namespace)
        names = self.chance.sample(FIELDS, self.chance.randrange(4 if depth else 6))
        json["fields"] = [self._field(name, space, depth) for name in names]
        return json | self._props()

    def _field(self, name: str, namespace: str, depth: int) -> dict[str, Any]:
        json = {"name": name, "type": self._type(namespace, depth + 1)}
        if self.chance.random() < 0.4:
            self.add_default(json)
        if self.chance.random() < 0.15:
            json["doc"] = self.chance.choice(TEXTS)
        if self.chance.random() < 0.1:
            json["order"] = self.chance.choice(["ascending", "descending", "ignore"])
        if self.chance.random() < 0.15:
            json["aliases"] = self.chance.sample([other for other in [*FIELDS, "old"] if other != name], 1)
        return json | self._props()

    def add_default(self, field: dict[str, Any]) -> None:
        found = self._default(field["type"])
        if found is not None:
            field["default"] = found[0]

    def _default(self, json: Any) -> list[Any] | None:
        """A default in a list, or None if the type is not one that this knows a default for."""
        if self.chance.random() < 0.01:
            return [self.chance.choice([None, 1, "x", [], {}, True, 1.5, 2**40])]
        kind = json.get("type") if isinstance(json, dict) else json
        match kind:
            case list():
                branches = [found for branch in kind if (found := self._default(branch)) is not None]
                return self.chance.choice(branches) if branches else None
            case "null":
                return [None]
            case "boolean":
                return [self.chance.random() < 0.5]
            case "int" | "long":
                return [self.chance.choice([0, -1, 77, 2**31 - 1, *([2**40] if kind == "long" else [])])]
            case "float" | "double":
                return [self.chance.choice([0, 3, *FLOATS, "NaN", "-Infinity", "1.5"])]
            case "string" | "bytes":
                return [self.chance.choice(TEXTS if kind == "string" else ["", "\u00ff\u0000a"])]
            case "enum" if isinstance(json, dict):
                return [self.chance.choice(json["symbols"] or ["NONE"])]
            case "fixed" if isinstance(json, dict):
                return ["\u0000" * min(json["size"], 16)]
            case "array" if isinstance(json, dict) and "items" in json:
                item = self._default(json["items"])
                return [[] if item is None else item * self.chance.randrange(3)]
            case "map" if isinstance(json, dict) and "values" in json:
                item = self._default(json["values"])
                return [{} if item is None else {"z": item[0], "a": item[0]}]
            case _:
                return None

    def _enum(self, namespace: str, depth: int) -> Any:
        json, _ = self._named("enum", namespace)
        json["symbols"] = self.chance.sample(SYMBOLS, self.chance.randrange(1, 5))
        if self.chance.random() < 0.3:
            json["default"] = self.chance.choice(json["symbols"] if self.chance.random() < 0.97 else SYMBOLS)
        return json | self._props()

    def _fixed(self, namespace: str, depth: int) -> Any:
        json, _ = self._named("fixed", namespace)
        return json | {"size": self.chance.choice([0, 1, 4, 12, 16])} | self._props() | self._logical()

    def _props(self) -> dict[str, Any]:
        if self.chance.random() < 0.85:
            return {}
        # Apache Avro 1.12.0 cannot copy null and numbers of more than 64 bits, and refuses them.
        values = [1, "text", True, {"z": 1, "a": [1.5, 1e-9]}, [], 2**40, *TEXTS]
        return {name: self.chance.choice(values) for name in self.chance.sample(["zulu", "alpha", "sqlType"], 2)}

    def _logical(self) -> dict[str, Any]:
        return dict(self.chance.choice(LOGICAL)) if self.chance.random() < 0.4 else {}

    # Changes ----------------------------------------------------------------------------------------------------------

    def changed(self, json: Any) -> Any:
        holder = [copy.deepcopy(json)]
        for _ in range(self.chance.randrange(1, 4)):
            places = list(_places(holder))
            self._change(*self.chance.choice(places))
        return holder[0]

    def _change(self, container: Any, key: Any) -> None:
        """Change the type that is at `container[key]`."""
        json = container[key]
        kind = json.get("type") if isinstance(json, dict) else json
        match kind:
            case "record" if self.chance.random() < 0.9:
                self._change_fields(json)
            case "record" | "enum" | "fixed" if self.chance.random() < 0.3:
                json.setdefault("aliases", []).append(json["name"])
                json["name"] = self.chance.choice(NAMES)
            case "enum":
                json["symbols"] = self.chance.sample(SYMBOLS, self.chance.randrange(1, 5))
                if json.get("default") not in json["symbols"]:
                    json.pop("default", None)
            case "fixed":
                json["size"] += self.chance.choice([0, 1])
            case str() if kind in NUMBERS and self.chance.random() < 0.7:
                container[key] = self.chance.choice(NUMBERS)
            case list():
                self.chance.shuffle(json)
                if json and self.chance.random() < 0.5:
                    json.pop()
                missing = [name for name in PRIMITIVES if name not in map(_union_name, json)]
                if missing and self.chance.random() < 0.5:
                    json.append(self.chance.choice(missing))
            case _ if not isinstance(container, list) and self.chance.random() < 0.4:
                container[key] = ["null", json] if kind != "null" else ["null"]
            case _:
                container[key] = self.chance.choice(PRIMITIVES)

    def _change_fields(self, record: dict[str, Any]) -> None:
        fields = record["fields"]
        choice = self.chance.randrange(5)
        if choice == 0 and fields:
            fields.pop(self.chance.randrange(len(fields)))
        elif choice == 1:
            field: dict[str, Any] = {"name": "added", "type": self.chance.choice(PRIMITIVES)}
            if self.chance.random() < 0.5:
                self.add_default(field)
            if not any(other["name"] == "added" for other in fields):
                fields.append(field)
        elif choice == 2 and fields:
            field = self.chance.choice(fields)
            field["aliases"] = [field["name"]]
            field["name"] = "renamed" if not any(other["name"] == "renamed" for other in fields) else field["name"]
        elif choice == 3 and fields:
            self.chance.choice(fields).pop("default", None)
        else:
            self.chance.shuffle(fields)


def _union_name(json: Any) -> str | None:
    """What a branch counts as in a union; None for a union."""
    if isinstance(json, list):
        return None
    kind = json.get("type") if isinstance(json, dict) else json
    if kind in ("record", "error", "enum", "fixed"):
        return str(json["name"])
    return str(kind)


def _places(container: Any) -> Any:
    """All places that hold a type: (container, key)."""
    keys = range(len(container)) if isinstance(container, list) else [key for key in container if key in INNER]
    for key in keys:
        json = container[key]
        yield container, key
        match json:
            case list():
                yield from _places(json)
            case {"fields": fields}:
                for field in fields:
                    yield from _places(field)
            case dict():
                yield from _places({key: value for key, value in json.items() if key != "type"})


INNER = ("type", "items", "values")
