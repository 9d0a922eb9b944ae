"""Nodes of a JSON Schema document: a schema at its place, from which `$ref` and subschemas are followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.json_schema.drafts import Draft, draft_of

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def is_schema(value: Any) -> TypeGuard[dict[str, Any] | bool]:
    return isinstance(value, (dict, bool))


class JsonSchemaNode:
    """A schema in its document. `schema` is the document's own object: its identity is the identity of the place."""

    __slots__ = ("draft", "registry", "resolver", "schema")

    def __init__(self, schema: dict[str, Any] | bool, draft: Draft, registry: Any, resolver: Any) -> None:
        self.schema = schema
        self.draft = draft
        self.registry = registry
        self.resolver = resolver

    @property
    def key(self) -> int:
        """The identity of the place. It is stable while the document exists."""
        return id(self.schema)

    def keywords(self) -> Mapping[str, Any]:
        """The keywords of this draft, without `$ref` where it stands alone."""
        if isinstance(self.schema, bool):
            return {}
        return {name: value for name, value in self.schema.items() if name in self.draft.keywords}

    def child(self, schema: dict[str, Any] | bool) -> JsonSchemaNode:
        """A subschema of this one."""
        resolver = self.resolver
        if isinstance(schema, dict) and ("$id" in schema or "id" in schema):
            resolver = resolver.in_subresource(self.draft.resource(schema))
        return JsonSchemaNode(schema, draft_of(schema, self.draft), self.registry, resolver)

    def target(self) -> JsonSchemaNode | None:
        """The node that a `$ref` of this one leads to; None without a `$ref`."""
        from referencing.exceptions import Unresolvable

        for keyword in REFERENCES:
            if not isinstance(self.schema, dict) or keyword not in self.keywords():
                continue
            reference = self.schema[keyword]
            try:
                found = self.resolver.lookup(reference)
            except (Unresolvable, ValueError) as error:
                message = "leads nowhere: no place in the document and no reference has this name"
                raise InvalidSchema(f"the {keyword} {reference!r} {message}") from error
            if not is_schema(found.contents):
                raise InvalidSchema(f"the {keyword} {reference!r} leads to something that is not a schema")
            return JsonSchemaNode(found.contents, draft_of(found.contents, self.draft), self.registry, found.resolver)
        return None

    def followed(self) -> JsonSchemaNode:
        """This node, or where its `$ref` leads if that is all it says."""
        node, seen = self, set[int]()
        while node.key not in seen and not (node.draft.ref_has_siblings and len(node.keywords()) > 1):
            seen.add(node.key)
            target = node.target()
            if target is None:
                return node
            node = target
        return node

    def in_place(self) -> Iterator[JsonSchemaNode]:
        """The schemas that this one applies to the same value, not to a part of it."""
        target = self.target()
        if target is not None:
            yield target
            if not self.draft.ref_has_siblings:
                return
        keywords = self.keywords()
        for name in ("allOf", "anyOf", "oneOf"):
            yield from (self.child(one) for one in keywords.get(name, ()))
        for name in ("not", "if", "then", "else"):
            if name in keywords:
                yield self.child(keywords[name])

    def descendants(self) -> Iterator[JsonSchemaNode]:
        """This node and every subschema in its document."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            subschemas = node.draft.specification.subresources_of(node.schema)
            waiting.extend(node.child(one) for one in subschemas if is_schema(one))
