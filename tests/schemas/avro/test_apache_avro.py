"""Avro schemas compared with Apache Avro 1.12 (Java): what is a schema, its text, and what can be read with what."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.errors import InvalidSchema
from tests.schemas.avro.conftest import Judge
from tests.schemas.avro.random_schemas import RandomSchemas

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600)]

Count = Callable[[int, int], int]


def outcome(text: str, references: list[str] | None = None) -> AvroSchema | str:
    """The schema, or why it is none."""
    try:
        return AvroSchema(text, {f"r{index}": referenced for index, referenced in enumerate(references or ())})
    except InvalidSchema as error:
        return str(error)


def is_known_difference(ours: AvroSchema | str, error: str | None) -> bool:
    if isinstance(ours, str):
        # The specification forbids two definitions of a name. Java overlooks it if one record is inside the other.
        return error is None and "is defined twice" in ours
    # Java checks a default before it has read the record that the default is of.
    return error == "Schema fields not set yet"


def test_random_pairs_of_schemas_are_judged_the_same(apache_avro: Judge, count: Count, seed: int) -> None:
    schemas = RandomSchemas(random.Random(seed))
    pairs = []
    for _ in range(count(2_000, 60_000)):
        first = schemas.schema()
        second = schemas.changed(first) if schemas.chance.random() < 0.8 else schemas.schema()
        pairs.append({"reader": json.dumps(first), "writer": json.dumps(second)})
    seen: Counter[str] = Counter()
    for pair, answer in zip(pairs, apache_avro(pairs), strict=True):
        parsed = {}
        for role, text in pair.items():
            ours, error = outcome(text), answer[role].get("error")
            if is_known_difference(ours, error):
                continue
            assert isinstance(ours, str) == (error is not None), (text, ours, error)
            if isinstance(ours, AvroSchema):
                assert ours.canonical() == answer[role]["text"]
                parsed[role] = ours
        seen["refused"] += len(parsed) < 2
        if "incompatibilities" in answer and len(parsed) == 2:
            seen.update(compared(parsed["reader"], parsed["writer"], answer))
    print(dict(seen))
    # The random schemas must reach every rule, otherwise the test says little.
    rules = {"TYPE_MISMATCH", "NAME_MISMATCH", "FIXED_SIZE_MISMATCH", "MISSING_ENUM_SYMBOLS", "MISSING_UNION_BRANCH"}
    assert rules | {"READER_FIELD_MISSING_DEFAULT_VALUE", "compatible", "refused", "ambiguous"} <= {*+seen}
    assert seen["same paths"] > 10 * seen["other paths"]


def compared(reader: AvroSchema, writer: AvroSchema, answer: dict[str, Any]) -> set[str]:
    ours = reader.incompatibilities(writer)
    if "exception" in answer:
        assert "matches multiple fields" in answer["exception"]
        # Java gives up also if the field is in a branch of a union, and another branch can read the data.
        assert ours or any(f'"{place}":[' in reader.canonical() for place in ("type", "items", "values"))
        return {"ambiguous"}
    theirs = answer["incompatibilities"]
    assert [one.kind for one in ours] == [kind for kind, _ in theirs], (reader.canonical(), writer.canonical(), ours)
    # Java's paths begin again in a union, and a pair of types that it meets again has the path of the first time.
    exact = [[one.kind, one.path] for one in ours] == theirs
    for one, (_, path) in zip(ours, theirs, strict=True):
        assert path == "/" or one.path.rpartition("/")[2] == path.rpartition("/")[2], (one, path)
        assert one.message
    return {one.kind for one in ours} | {"same paths" if exact else "other paths"} if ours else {"compatible"}


def test_normalized_schemas_mean_the_same_to_apache_avro(apache_avro: Judge, count: Count, seed: int) -> None:
    schemas = RandomSchemas(random.Random(seed))
    questions = []
    for _ in range(count(300, 10_000)):
        text = json.dumps(schemas.schema())
        ours = outcome(text)
        if isinstance(ours, AvroSchema):
            assert outcome(ours.canonical()).canonical() == ours.canonical()  # type: ignore[union-attr]
            assert outcome(ours.normalized()).normalized() == ours.normalized()  # type: ignore[union-attr]
            texts = [without_defaults(text) for text in (ours.canonical(), ours.normalized())]
            questions.append({"reader": texts[0], "same_as_reader": texts[1]})
    for question, answer in zip(questions, apache_avro(questions), strict=True):
        assert answer["reader"].get("same"), (question, answer)


def without_defaults(text: str) -> str:
    """The schema without defaults: to Java, a default of 1 and one of 1.0 are not equal."""

    def stripped(value: Any) -> Any:
        if isinstance(value, list):
            return [stripped(item) for item in value]
        if not isinstance(value, dict):
            return value
        is_field = "type" in value and "name" in value and value["type"] not in ("record", "error", "enum", "fixed")
        return {name: stripped(item) for name, item in value.items() if not (is_field and name == "default")}

    return json.dumps(stripped(json.loads(text)))


ITEM = '{"type":"record","name":"shop.Item","fields":[{"name":"kind","type":{"type":"fixed","name":"Kind","size":1}}]}'
ORDER = '{"type":"record","name":"shop.Order","fields":[{"name":"items","type":{"type":"array","items":"Item"}}]}'


@pytest.mark.parametrize(
    ("text", "references"),
    [
        (ORDER, [ITEM]),
        ('["shop.Item", "shop.Order"]', [ITEM, ORDER]),
        ('"shop.Order"', [ITEM, ORDER]),
        (
            '{"type":"record","name":"A","fields":[{"name":"x","type":"shop.Item"},{"name":"y","type":"shop.Item"}]}',
            [ITEM],
        ),
        ('{"type":"record","name":"shop.Item","fields":[]}', [ITEM]),
        ('{"type":"record","name":"A","fields":[{"name":"x","type":"shop.Missing"}]}', [ITEM]),
        (ORDER, [ORDER, ITEM]),
        (ORDER, ["{"]),
    ],
)
def test_references_are_resolved_as_by_apache_avro(apache_avro: Judge, text: str, references: list[str]) -> None:
    (answer,) = apache_avro([{"reader": text, "references": references}])
    ours = outcome(text, references)
    assert isinstance(ours, str) == ("error" in answer["reader"]), (ours, answer)
    if isinstance(ours, AvroSchema):
        assert ours.canonical() == answer["reader"]["text"]
        assert outcome(json.dumps(ours.expanded())).canonical() == answer["reader"]["resolved"]  # type: ignore[union-attr]
