"""Random pairs of JSON Schemas, judged by jsonschema: a value of the writer has the schema of a compatible reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import jsonschema
import pytest

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.json_schema.json_schema import JsonSchema
from tests.schemas.json_schema.random_schemas import SchemaSource, value, with_unions

DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
VALUES = 60


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_compatible_reader_accepts_all_values_of_the_writer(
    draft: str, seed: int, count: Callable[[int, int], int]
) -> None:
    random = Random(seed)
    source = SchemaSource(random, draft)
    pool = [value(random) for _ in range(400)]
    compatible = judged = 0
    for _ in range(count(120, 10_000)):
        writer_document = source.document()
        reader_document = source.changed(writer_document)
        try:
            writer, reader = JsonSchema(json.dumps(writer_document)), JsonSchema(json.dumps(reader_document))
        except InvalidSchema:
            continue
        if reader.incompatibilities(writer):
            continue
        compatible += 1
        written = _validator(writer_document, draft)
        read = _validator(with_unions(reader_document), draft)
        for one in random.sample(pool, VALUES):
            if _accepts(written, one):
                judged += 1
                assert _accepts(read, one), json.dumps([writer_document, reader_document, one])
    assert compatible > 10
    assert judged > 100


def _validator(document: object, draft: str) -> jsonschema.protocols.Validator:
    return jsonschema.validators.validator_for({"$schema": draft})(document)


def _accepts(validator: jsonschema.protocols.Validator, value: object) -> bool:
    """Does the value have the schema? One that refers to itself without end accepts nothing."""
    try:
        return bool(validator.is_valid(value))
    except RecursionError:
        return False
