"""Schemas that another registry has accepted: they are compared with, although a new schema like them is refused."""

from __future__ import annotations

import json

import pytest

from moldau.registry.records import StoredSchema, schema_entry
from moldau.registry.refusals import RegistryRefusal
from moldau.schemas.schema import Schema
from moldau.testing import Registry


def text(*fields: dict[str, object]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)}, separators=(",", ":"))


def test_a_version_with_a_wrong_default_does_not_keep_the_next_one_away() -> None:
    wrong = {"name": "size", "type": "int", "default": "none"}
    stored = StoredSchema("t-value", 1, 1, Schema(text(wrong)))
    with Registry(entries=[schema_entry(stored)]) as registry:
        assert registry.schema("t-value").registered.schema.text == text(wrong)
        with pytest.raises(RegistryRefusal, match="does not fit its type, int"):
            registry.register("other-value", text(wrong))
        assert registry.register("t-value", text(wrong | {"default": 0})) == 2
        with pytest.raises(RegistryRefusal, match="the field 'more' of 'R' in the reader's schema has no default"):
            registry.register("t-value", text(wrong | {"default": 0}, {"name": "more", "type": "int"}))
