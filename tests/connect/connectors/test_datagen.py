"""Generated rows: the same for the same numbers, at the rate that was asked for, and no more than was asked for."""

from __future__ import annotations

import time

import pytest

from moldau.connect.config_def import ConfigError
from moldau.connect.connector import Slice, SourceOffsets
from moldau.connect.connectors.datagen import QUICKSTARTS, DatagenSource
from moldau.connect.connectors.generated_fields import RowRange, parse_fields, struct_of
from moldau.connect.schemas import SchemaType, arrow_type
from tests.connect.connectors.support import Reader, created, keys, values


def numbers(**settings: object) -> DatagenSource:
    return created(DatagenSource, **{"topic": "t", "quickstart": "numbers", "max_interval": 0, **settings})


def slice_of(generator: int, first: int, last: int) -> Slice:
    return Slice({"task.id": generator}, {"current.iteration": last}, {"current.iteration": first})


@pytest.mark.parametrize("quickstart", QUICKSTARTS)
def test_every_quickstart_has_rows_that_fit_their_schema(quickstart: str) -> None:
    source = created(DatagenSource, topic="t", quickstart=quickstart.upper(), batch_size=50, max_interval=0)
    (batch,) = Reader(source).step()
    assert batch.num_rows == 50
    assert batch.value.schema is not None
    assert arrow_type(batch.value.schema) == batch.value.array.type
    assert not batch.value.schema.optional
    assert batch.key.schema is not None
    assert batch.key.schema.type is SchemaType.STRING
    assert all(key is not None for key in keys([batch]))


def test_a_row_depends_on_its_number_and_not_on_the_slice() -> None:
    source = created(DatagenSource, topic="t", quickstart="orders")
    whole = values(source.read(slice_of(0, 0, 30_000)))
    parts = [values(source.read(slice_of(0, first, first + 10_000))) for first in (20_000, 0, 10_000)]
    assert whole == parts[1] + parts[2] + parts[0]
    assert values(source.read(slice_of(1, 0, 10))) != whole[:10]
    other_seed = created(DatagenSource, topic="t", quickstart="orders", random_seed=7)
    assert values(other_seed.read(slice_of(0, 0, 10))) != whole[:10]


def test_generators_continue_after_their_offsets_and_end_after_their_iterations() -> None:
    source = numbers(tasks_max=3, iterations=25, batch_size=10)
    reader = Reader(source)
    rows = [row["number"] for _ in range(5) for row in reader.rows()]
    assert len(rows) == len(set(rows)) == 75
    assert sorted(rows)[:25] == list(range(25))
    assert reader.rows() == []
    assert sorted(offset["current.iteration"] for _, offset in reader.stored()) == [25, 25, 25]


def test_rows_become_due_with_time_and_a_pause_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    source = numbers(tasks_max=2, rows_per_second=20, batch_size=100)
    reader = Reader(source)
    assert reader.rows() == []
    now += 1.0
    assert len(reader.rows()) == 20
    assert reader.rows() == []
    now += 3600
    assert len(reader.rows()) == 200
    now += 1.0
    assert len(reader.rows()) == 20


def test_the_interval_of_confluent_gives_its_mean_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    source = created(DatagenSource, kafka_topic="t", quickstart="users", max_interval=100)
    reader = Reader(source)
    reader.rows()
    now += 10
    assert len(reader.rows()) == 200


def test_offsets_that_were_reset_begin_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    source = numbers(rows_per_second=10)
    reader = Reader(source, {"x": ({"task.id": 0}, {"current.iteration": 1000})})
    reader.rows()
    reader.offsets.clear()
    reader.rows()
    now += 1.0
    assert [row["number"] for row in reader.rows()] == list(range(10))


def test_all_kinds_of_fields() -> None:
    fields = parse_fields(
        "a:sequence(5, 2); b:int(1, 3); c:long(-10, 10); d:double(0, 1); e:boolean(0.5); f:choice(x, y);"
        "g.h:label(L_, 1, 2); g.i.j:words(3); k:payload(100); l:ip; m:timestamp(1767225600000, 60000)"
    )
    rows = struct_of(fields, RowRange(0, 0, 2000), 1).to_pylist()
    assert [row["a"] for row in rows[:3]] == [5, 7, 9]
    assert {row["b"] for row in rows} == {1, 2, 3}
    assert {row["c"] for row in rows} == set(range(-10, 11))
    assert 0.45 < sum(row["d"] for row in rows) / 2000 < 0.55
    assert 900 < sum(row["e"] for row in rows) < 1100
    assert {row["f"] for row in rows} == {"x", "y"}
    assert {row["g"]["h"] for row in rows} == {"L_1", "L_2"}
    assert all(len(row["g"]["i"]["j"].split()) == 3 for row in rows)
    assert {len(row["k"]) for row in rows} == {100}
    assert all(row["l"].startswith("10.") and row["l"].count(".") == 3 for row in rows)
    assert rows[1]["m"].isoformat() == "2026-01-01T00:01:00+00:00"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("a", "not of the form"),
        ("a:nothing(1)", "unknown kind"),
        ("a:int(1)", "field a"),
        ("a:int(3, 1)", "greater than the last"),
        ("a:int(0, 3000000000)", "field a"),
        ("a:double(x, y)", "field a"),
        ("a:choice", "nothing to choose"),
        ("a:int(1, 2); a:int(1, 2)", "twice"),
        ("a:int(1, 2); a.b:int(1, 2)", "twice"),
        (";", "no field"),
    ],
)
def test_a_wrong_field_is_named_with_its_mistake(fields: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        created(DatagenSource, topic="t", fields=fields)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"quickstart": "users"}, "topic"),
        ({"topic": "t"}, "quickstart"),
        ({"topic": "t", "quickstart": "pizza"}, "must be one of: orders"),
        ({"topic": "t", "quickstart": "users", "schema_keyfield": "nope"}, "no field nope"),
        ({"topic": "t", "quickstart": "users", "rows_per_second": "-1"}, "rows.per.second"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        created(DatagenSource, **settings)


def test_settings_of_confluent_that_are_not_honoured_are_unknown() -> None:
    assert set(DatagenSource.config_def.unknown(["schema.string", "schema.filename", "quickstart"])) == {
        "schema.string",
        "schema.filename",
    }


def test_nothing_stored_is_the_first_row() -> None:
    (first,) = numbers(batch_size=7).slices(SourceOffsets())
    assert (first.start, first.end) == ({"current.iteration": 0}, {"current.iteration": 7})
