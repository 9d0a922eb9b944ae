"""Fingerprint of a schema: an MD5 hash of text, references, metadata and rules.

It is Confluent's: as a UUID, the `guid` of a schema is equal in both registries, whatever its id. `schema` has the
stored (canonical) text and the stored form of metadata and rules.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from moldau.registry.schema_metadata import RULE_LISTS
from moldau.schemas.schema import Schema

_GUID: Final = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def fingerprint(schema: Schema) -> bytes:
    found = hashlib.md5(schema.text.encode(), usedforsecurity=False)
    for one in schema.references:
        found.update(one.name.encode() + one.subject.encode() + one.version.to_bytes(4, "big", signed=True))
    if schema.metadata is not None:
        found.update(b"\1")
        found.update(_metadata_bytes(schema.metadata))
    if schema.rule_set is not None:
        found.update(b"\1")
        found.update(_rule_set_bytes(schema.rule_set))
    return found.digest()


def guid_of(found: bytes) -> str:
    text = found.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def fingerprint_of_guid(guid: str) -> bytes | None:
    """The fingerprint that the text names; None if it is no UUID."""
    return bytes.fromhex(guid.replace("-", "")) if _GUID.fullmatch(guid) else None


def _metadata_bytes(metadata: Mapping[str, Any]) -> bytes:
    parts: list[str] = []
    for path, tags in (metadata.get("tags") or {}).items():
        parts += [path, *tags]
    for name, value in (metadata.get("properties") or {}).items():
        parts += [name, value]
    parts += metadata.get("sensitive") or ()
    return "".join(parts).encode()


def _rule_set_bytes(rules: Mapping[str, Any]) -> bytes:
    found = b"".join(_rule_bytes(rule) for name in RULE_LISTS for rule in rules.get(name) or ())
    return found + (rules.get("enableAt") or "").encode()


def _rule_bytes(rule: Mapping[str, Any]) -> bytes:
    parts = [rule.get(name) or "" for name in ("name", "doc", "kind", "mode", "type")]
    parts += rule.get("tags") or ()
    for name, value in (rule.get("params") or {}).items():
        parts += [name, value]
    parts += [rule.get(name) or "" for name in ("expr", "onSuccess", "onFailure")]
    return "".join(parts).encode() + (b"\1" if rule.get("disabled") else b"")
