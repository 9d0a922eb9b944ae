"""Drafts of JSON Schema: their keywords, validators and metaschemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

DEFAULT = "http://json-schema.org/draft-07/schema"


@dataclass(frozen=True)
class Draft:
    """One draft."""

    name: str
    validator: Any
    """The class of jsonschema that validates with this draft."""
    specification: Any
    """The rules of `referencing` about `$id`, anchors and subschemas."""
    keywords: frozenset[str]
    """The keywords with a meaning in this draft. All others are comments."""
    ref_has_siblings: bool
    """False if a `$ref` replaces the whole object in which it is."""

    def resource(self, document: Any) -> Any:
        return self.specification.create_resource(document)


def draft_of(document: Any, default: Draft | None = None) -> Draft:
    """The draft of a document by its `$schema`. One that is unknown or absent means `default`, or draft 7."""
    uri = document.get("$schema") if isinstance(document, Mapping) else None
    known = drafts()
    if isinstance(uri, str) and (found := known.get(_plain(uri))):
        return found
    return default or known[_plain(DEFAULT)]


def _plain(uri: str) -> str:
    return uri.rstrip("#").removeprefix("https://").removeprefix("http://")


@cache
def drafts() -> Mapping[str, Draft]:
    """All drafts by the URI of their metaschema, without its scheme."""
    try:
        import jsonschema
        from referencing import jsonschema as specifications
    except ImportError as error:
        raise ImportError(f"JSON Schema needs {error.name}: pip install 'moldau[schemas]'", name=error.name) from error

    rows = (
        ("draft 4", jsonschema.Draft4Validator, specifications.DRAFT4),
        ("draft 6", jsonschema.Draft6Validator, specifications.DRAFT6),
        ("draft 7", jsonschema.Draft7Validator, specifications.DRAFT7),
        ("draft 2019-09", jsonschema.Draft201909Validator, specifications.DRAFT201909),
        ("draft 2020-12", jsonschema.Draft202012Validator, specifications.DRAFT202012),
    )
    found: dict[str, Draft] = {}
    for name, validator, specification in rows:
        keywords = frozenset(validator.VALIDATORS) | {"then", "else", "minContains", "maxContains"}
        if name == "draft 4":
            # Both are modifiers there, which `minimum` and `maximum` read.
            keywords |= {"exclusiveMinimum", "exclusiveMaximum"}
        if "if" not in keywords:
            keywords -= {"then", "else"}
        if not name.startswith("draft 20"):
            keywords -= {"minContains", "maxContains"}
        meta = str(validator.META_SCHEMA.get("$id", validator.META_SCHEMA.get("id")))
        found[_plain(meta)] = Draft(name, validator, specification, keywords, "20" in name)
    return found
