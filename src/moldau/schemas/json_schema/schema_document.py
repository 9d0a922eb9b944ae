"""JSON Schema documents: reading, checking against the metaschema of their draft, and resolution of references."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import urljoin

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.json_schema.drafts import Draft, draft_of
from moldau.schemas.json_schema.property_patterns import is_pattern
from moldau.schemas.json_schema.schema_node import JsonSchemaNode, is_schema


def load_json(text: str, what: str) -> dict[str, Any] | bool:
    """A schema document from its text."""
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"{what} has half of a surrogate pair, which no Unicode text may have") from error
    except ValueError as error:
        raise InvalidSchema(f"{what} is not JSON: {error}") from error
    except RecursionError:
        raise InvalidSchema(f"{what} is nested too deep to be read") from None
    if not is_schema(document):
        raise InvalidSchema(f"{what} is a JSON {type(document).__name__}; a schema is an object, true or false")
    return document


def root_node(document: dict[str, Any] | bool, resolved: Mapping[str, str]) -> JsonSchemaNode:
    """The root of a document whose structure and references were checked."""
    draft = draft_of(document)
    _check_metaschema(document, draft)
    registry = _registry(document, draft, resolved)
    root = JsonSchemaNode(document, draft, registry, registry.resolver_with_root(draft.resource(document)))
    finished: set[int] = set()
    for node in root.descendants():
        _check_endless(node, finished)
        _check_patterns(node)
    return root


def _check_endless(start: JsonSchemaNode, finished: set[int]) -> None:
    """Refuse a schema that refers to itself for the same value. No validator would come to an end with it."""
    entered: set[int] = set()
    waiting = [(start, False)]
    while waiting:
        node, is_left = waiting.pop()
        if is_left:
            entered.discard(node.key)
            finished.add(node.key)
        elif node.key in entered:
            raise InvalidSchema("a schema refers to itself without end, by $ref or a combination, for the same value")
        elif node.key not in finished and not isinstance(node.schema, bool):
            entered.add(node.key)
            waiting.append((node, True))
            waiting.extend((child, False) for child in node.in_place())


def _check_patterns(node: JsonSchemaNode) -> None:
    keywords = node.keywords()
    for pattern in (*keywords.get("patternProperties", ()), keywords.get("pattern", "")):
        if not is_pattern(pattern):
            raise InvalidSchema(f"the pattern {pattern!r} is not a regular expression")


def _check_metaschema(document: dict[str, Any] | bool, draft: Draft) -> None:
    from jsonschema.exceptions import best_match

    metaschema = draft.validator(draft.validator.META_SCHEMA)
    error = best_match(metaschema.iter_errors(document))
    if error is not None:
        place = "/" + "/".join(str(part) for part in error.absolute_path)
        raise InvalidSchema(f"not a JSON Schema of {draft.name}: at {place}: {error.message}")


def _registry(document: dict[str, Any] | bool, draft: Draft, resolved: Mapping[str, str]) -> Any:
    """The references by every URI under which a document may mean them: by name, or relative to its `$id`."""
    from jsonschema_specifications import REGISTRY
    from referencing import Registry
    from referencing.exceptions import NoSuchResource

    loaded = {name: load_json(text, f"the reference {name}") for name, text in resolved.items()}
    bases = [base for one in (document, *loaded.values()) if (base := _base_uri(one))]
    by_uri: dict[str, Any] = {}
    for name, content in loaded.items():
        plain = name.split("#", 1)[0].removeprefix("./")
        for uri in (plain, f"./{plain}", _base_uri(content), *(urljoin(base, plain) for base in bases)):
            if uri:
                by_uri.setdefault(uri, content)

    def retrieve(uri: str) -> Any:
        content = by_uri.get(uri.removesuffix("#"))
        if content is None:
            raise NoSuchResource(ref=uri)  # type: ignore[call-arg]
        return draft_of(content, draft).resource(content)

    return REGISTRY.combine(Registry(retrieve=retrieve))  # type: ignore[call-arg]


def _base_uri(document: dict[str, Any] | bool) -> str | None:
    if isinstance(document, bool):
        return None
    uri = document.get("$id", document.get("id"))
    return uri.removesuffix("#") if isinstance(uri, str) else None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is too large")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON value")
