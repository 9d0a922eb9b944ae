"""The database of the study, rebuilt from its log: as of times and offsets, and by repeated or cut micro-batches."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from moldau.examples import study as studies
from moldau.examples.database_rebuild.generator import CHANGES, DATABASE, last_sent, records, sender
from moldau.examples.database_rebuild.pipeline import CHANGE, apply_changes, rebuild
from moldau.examples.database_rebuild.rebuild import main
from moldau.examples.database_rebuild.reference import replayed
from moldau.examples.database_rebuild.shop_database import ShopDatabase, rows_of
from moldau.examples.place import Place, read_topic
from moldau.examples.run import create_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN_MS = 1_767_225_600_000
RATE = 10.0


class Moment(NamedTuple):
    """What the database was at a time, and how many changes had been sent."""

    at_ms: int
    changes: int
    rows: dict[str, Any]


@pytest.fixture
def shop(place: Place) -> Place:
    place.directory.mkdir()
    create_topics(studies.find("database_rebuild"), place, fresh=False)
    return place


def changes_in(place: Place) -> list[dict[str, Any]]:
    return [record.value or {} for record in read_topic(place, CHANGES)]


def history(place: Place, seed: int, commands: int) -> list[Moment]:
    """Run the application, and look at the database itself after each command."""
    moments = []
    with sender(place) as send:
        for command in islice(records(seed, BEGIN_MS, RATE), commands):
            send(command)
            moments.append(Moment(command.at_ms, 0, rows_of(place.directory / DATABASE)))
    changes = changes_in(place)
    return [moment._replace(changes=sum(change["at_ms"] <= moment.at_ms for change in changes)) for moment in moments]


def test_the_database_as_of_a_time_or_an_offset_is_what_it_was(
    shop: Place, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    moments = history(shop, seed, 60)
    early, late, last = moments[seed % 20], moments[20 + seed % 30], moments[-1]

    def rebuilt(name: str, **until: int) -> dict[str, Any]:
        rebuild(spark, shop, tmp_path / name, **until)
        return rows_of(tmp_path / name)

    assert rebuilt("early", at_ms=early.at_ms) == early.rows
    assert rebuilt("offset", offset=late.changes) == late.rows
    assert rebuilt("future", at_ms=last.at_ms + 3_600_000) == last.rows
    assert rebuilt("before", at_ms=BEGIN_MS - 1) == {}


def test_an_offset_in_the_middle_of_a_transaction_shows_none_of_it(
    shop: Place, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    moments = history(shop, seed, 60)
    cut = next(index for index, change in enumerate(changes_in(shop)) if not change["last"]) + 1
    before = [moment for moment in moments if moment.changes <= cut][-1]
    assert before.changes == cut - 1
    rebuild(spark, shop, tmp_path / "cut", offset=cut)
    assert rows_of(tmp_path / "cut") == before.rows
    assert replayed(changes_in(shop)[:cut]) == before.rows


def test_a_replica_takes_whole_transactions_once(shop: Place, spark: SparkSession, tmp_path: Path, seed: int) -> None:
    moments = history(shop, seed, 40)
    changes = changes_in(shop)
    replica = tmp_path / "replica"

    def batch(begin: int, end: int) -> DataFrame:
        rows = [
            (one["lsn"], one["table"], one["id"], None if one["row"] is None else json.dumps(one["row"]), one["last"])
            for one in changes[begin:end]
        ]
        return spark.createDataFrame(rows, CHANGE)

    cut = next(index for index, change in enumerate(changes) if not change["last"]) + 1
    before = [moment for moment in moments if moment.changes <= cut][-1]
    apply_changes(replica, batch(0, cut), 0)
    assert rows_of(replica) == before.rows, "half of a transaction waits"
    apply_changes(replica, batch(0, cut), 0)
    assert rows_of(replica) == before.rows, "a repeated batch changes nothing"
    apply_changes(replica, batch(cut, len(changes)), 1)
    apply_changes(replica, batch(cut, len(changes)), 1)
    assert rows_of(replica) == moments[-1].rows


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "shop.sqlite"
    there.write_text("precious")
    with pytest.raises(SystemExit) as stopped:
        main(["127.0.0.1:1", str(there)])
    assert stopped.value.code == 2
    assert f"{there} exists; give the name of a new file" in capsys.readouterr().err
    assert there.read_text() == "precious"


def test_changes_that_were_committed_and_not_sent_are_sent_by_the_next_application(shop: Place, seed: int) -> None:
    history(shop, seed, 20)
    sent = last_sent(shop)
    *_, missed, following = islice(records(seed, BEGIN_MS, RATE), 22)
    database = ShopDatabase(shop.directory / DATABASE)
    database.do(missed.value or {}, missed.at_ms)  # and here the application dies
    database.close()
    assert last_sent(shop) == sent
    with sender(shop) as send:
        send(following)
    changes = changes_in(shop)
    assert [change["lsn"] for change in changes] == list(range(1, len(changes) + 1))
    assert replayed(changes) == rows_of(shop.directory / DATABASE)


def test_a_command_that_fails_leaves_no_change_in_the_log(shop: Place, seed: int) -> None:
    history(shop, seed, 20)
    database = ShopDatabase(shop.directory / DATABASE)
    count = len(database.changes_after(0))
    rows = rows_of(shop.directory / DATABASE)
    order = next(row["id"] for place, row in rows.items() if place.startswith("orders/"))
    with pytest.raises(Exception, match="UNIQUE constraint failed"):
        database.do({"do": "order", "order": order, "product": 1, "amount": 1}, BEGIN_MS)
    assert len(database.changes_after(0)) == count
    database.close()
    assert rows_of(shop.directory / DATABASE) == rows
