"""Catalogue: declarations and queries in a compacted topic that every shell and server reads and writes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from moldau import Admin, Producer
from moldau.service import state_topic
from moldau.sql import catalogue as catalogue_module
from moldau.sql.catalogue import CATALOGUE_TOPIC, STATUS_TOPIC, Catalogue
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.queries import QueryDefinition, QueryState, QueryStatus, WantedState
from moldau.testing import Broker

ORDERS = Declaration(
    "Orders",
    RelationKind.STREAM,
    "orders",
    (ColumnDeclaration("id", "STRING", is_key=True), ColumnDeclaration("amount", "DOUBLE")),
    options={"timestamp_format": "yyyy"},
    text="CREATE STREAM Orders (id STRING KEY, amount DOUBLE) WITH (topic='orders')",
)
TOTALS = Declaration("Totals", RelationKind.TABLE, "totals", query="Totals")
QUERY = QueryDefinition("Totals", "q-1", "CREATE TABLE Totals AS SELECT 1", TOTALS, (ORDERS,), {"a": "b"}, created_ms=5)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def settings(broker: Broker) -> Iterator[dict[str, str]]:
    """The address of a broker whose catalogue is empty."""
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    yield settings
    with Admin(settings) as admin:
        found = {topic.name for topic in admin.list_topics()} & {CATALOGUE_TOPIC, STATUS_TOPIC}
        if found:
            admin.delete_topics(sorted(found))


@pytest.fixture
def catalogue(settings: dict[str, str]) -> Iterator[Catalogue]:
    with Catalogue(settings) as catalogue:
        yield catalogue


def status(name: str = "Totals", query_id: str = "q-1", **facts: Any) -> QueryStatus:
    return QueryStatus(name, query_id, facts.pop("state", QueryState.RUNNING), "http://127.0.0.1:8088", **facts)


# -- declarations ------------------------------------------------------------------------------------------------------


def test_a_declaration_is_seen_by_every_other_catalogue_and_after_opening_again(
    catalogue: Catalogue, settings: dict[str, str]
) -> None:
    with Catalogue(settings) as other:
        assert catalogue.declare(ORDERS)
        other.refresh()
        assert other.declarations["Orders"] == ORDERS
        other.drop("orders")
        catalogue.refresh()
        assert not catalogue.declarations
    catalogue.declare(ORDERS)
    catalogue.close()
    catalogue.open()
    assert dict(catalogue.declarations) == {"Orders": ORDERS}


def test_names_are_found_in_any_case_and_shown_as_written(catalogue: Catalogue) -> None:
    catalogue.declare(ORDERS)
    assert catalogue.declarations["ORDERS"] == ORDERS
    assert "orders" in catalogue.declarations
    assert list(catalogue.declarations) == ["Orders"]
    with pytest.raises(SqlError, match=r"STREAM Orders exists.*DROP STREAM Orders"):
        catalogue.declare(replace(ORDERS, name="ORDERS"))
    catalogue.declare(replace(ORDERS, name="ORDERS"), replace=True)
    assert list(catalogue.declarations) == ["ORDERS"]


def test_if_not_exists_leaves_what_exists(catalogue: Catalogue) -> None:
    assert catalogue.declare(ORDERS, if_not_exists=True)
    assert not catalogue.declare(replace(ORDERS, topic="others"), if_not_exists=True)
    assert catalogue.declarations["orders"].topic == "orders"


def test_the_error_for_a_wrong_name_has_the_nearest_one(catalogue: Catalogue) -> None:
    catalogue.declare(ORDERS)
    with pytest.raises(SqlError, match=r"no stream or table Ordres; did you mean Orders?"):
        catalogue.drop("Ordres")
    with pytest.raises(SqlError, match=r"no query Orders$"):
        catalogue.remove_query("Orders")


# -- queries -----------------------------------------------------------------------------------------------------------


def test_a_query_and_the_declaration_of_its_target_are_written_together(
    catalogue: Catalogue, settings: dict[str, str]
) -> None:
    catalogue.put_query(QUERY)
    assert catalogue.queries["totals"] == QUERY
    assert catalogue.declarations["totals"] == TOTALS
    with Catalogue(settings) as other:
        assert other.queries["TOTALS"] == QUERY
        with pytest.raises(SqlError, match="query Totals exists"):
            other.put_query(replace(QUERY, id="q-2"))
        assert other.queries["totals"].id == "q-1"
        other.put_query(replace(QUERY, id="q-2"), replace=True)
    catalogue.refresh()
    assert catalogue.queries["totals"].id == "q-2"


def test_a_query_does_not_take_the_declaration_of_another_statement(catalogue: Catalogue) -> None:
    taken = replace(ORDERS, name="TOTALS")
    catalogue.declare(taken)
    with pytest.raises(SqlError, match="STREAM TOTALS exists"):
        catalogue.put_query(QUERY)
    assert not catalogue.queries
    assert catalogue.declarations["totals"] == taken


def test_the_target_of_an_insert_is_not_declared_again(catalogue: Catalogue) -> None:
    catalogue.declare(ORDERS)
    catalogue.put_query(replace(QUERY, name="copy", target=ORDERS))
    assert dict(catalogue.declarations) == {"Orders": ORDERS}
    catalogue.remove_query("COPY")
    assert dict(catalogue.declarations) == {"Orders": ORDERS}


def test_what_a_query_writes_is_dropped_after_the_query_only(catalogue: Catalogue) -> None:
    catalogue.put_query(QUERY)
    with pytest.raises(SqlError, match="TABLE Totals is written by query Totals; first: TERMINATE Totals"):
        catalogue.drop("Totals")
    with pytest.raises(SqlError, match="is written by query Totals"):
        catalogue.declare(replace(ORDERS, name="totals"), replace=True)
    catalogue.remove_query("totals")
    assert catalogue.declarations["totals"] == replace(TOTALS, query=None)
    catalogue.drop("totals")
    assert not catalogue.declarations


def test_each_resume_is_counted_so_that_a_failed_query_is_tried_again(catalogue: Catalogue) -> None:
    catalogue.put_query(QUERY)
    catalogue.want("totals", WantedState.PAUSED)
    assert (catalogue.queries["totals"].wanted, catalogue.queries["totals"].resumes) == (WantedState.PAUSED, 0)
    catalogue.want("totals", WantedState.RUNNING)
    catalogue.want("totals", WantedState.RUNNING)
    assert (catalogue.queries["totals"].wanted, catalogue.queries["totals"].resumes) == (WantedState.RUNNING, 2)


def test_statuses_belong_to_one_definition(catalogue: Catalogue, settings: dict[str, str]) -> None:
    catalogue.put_query(QUERY)
    with Catalogue(settings) as server:
        server.report([status(rows=7, dropped={"bad_records": 2})])
        catalogue.refresh()
        assert catalogue.statuses["totals"] == status(rows=7, dropped={"bad_records": 2})
        catalogue.put_query(replace(QUERY, id="q-2"), replace=True)
        assert not catalogue.statuses
        server.report([], gone=["Totals"])
        server.report([status(query_id="q-2")])
    catalogue.refresh()
    assert catalogue.statuses["Totals"].id == "q-2"


# -- writers that race -------------------------------------------------------------------------------------------------


def test_of_two_writers_that_race_for_a_name_one_wins_and_the_other_gets_an_error(settings: dict[str, str]) -> None:
    rounds = 4
    with Catalogue(settings) as one, Catalogue(settings) as two:
        outcomes: dict[tuple[int, str], bool | SqlError] = {}
        together = threading.Barrier(2)

        def write(catalogue: Catalogue, topic: str) -> None:
            for number in range(rounds):
                together.wait(60)
                try:
                    declaration = replace(ORDERS, name=f"race{number}", topic=topic)
                    outcomes[number, topic] = catalogue.declare(declaration)
                except SqlError as error:
                    outcomes[number, topic] = error

        threads = [threading.Thread(target=write, args=pair) for pair in ((one, "a"), (two, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        one.refresh()
        for number in range(rounds):
            won = [topic for topic in ("a", "b") if outcomes[number, topic] is True]
            lost = [outcome for topic in ("a", "b") if (outcome := outcomes[number, topic]) is not True]
            assert len(won) == 1
            assert f"STREAM race{number} exists" in str(lost[0])
            assert one.declarations[f"race{number}"].topic == won[0]


def test_writers_of_different_names_all_succeed(settings: dict[str, str]) -> None:
    with Catalogue(settings) as one, Catalogue(settings) as two:
        errors: list[Exception] = []

        def write(catalogue: Catalogue, prefix: str) -> None:
            try:
                for number in range(3):
                    catalogue.declare(replace(ORDERS, name=f"{prefix}{number}"))
            except Exception as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=write, args=pair) for pair in ((one, "a"), (two, "b"), (two, "c"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert not errors
        one.refresh()
        assert len(one.declarations) == 9


# -- damage ------------------------------------------------------------------------------------------------------------


def test_damaged_records_are_skipped_and_logged(
    catalogue: Catalogue, settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    catalogue.declare(ORDERS)
    with caplog.at_level(logging.WARNING), Producer(settings) as producer:
        for key, value in (
            (b"declaration-bad", b"{"),
            (b"declaration-orders", b'{"name": "Orders"}'),
            (b"declaration-other", catalogue_module._json(ORDERS.to_json())),
            (b"query-x", b"[]"),
            (b"query-y", b'{"wanted": "NEVER"}'),
            (b"what-else", b"{}"),
            (b"\xff\xfe", b""),
        ):
            producer.send(CATALOGUE_TOPIC, value, key).result(30)
        catalogue.refresh()
    assert dict(catalogue.declarations) == {"Orders": ORDERS}
    assert not catalogue.queries
    assert caplog.text.count("a record of the catalogue is skipped") == 7
    assert "declaration-orders" in catalogue.damaged
    catalogue.declare(replace(ORDERS, topic="again"), replace=True)
    assert catalogue.declarations["orders"].topic == "again"
    assert "declaration-orders" not in catalogue.damaged


def test_a_deleted_topic_is_a_clear_error(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_topic, "GONE_AFTER_S", 0.2)
    monkeypatch.setattr(state_topic, "QUERY_TIMEOUT_S", 0.5)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with Catalogue(settings) as catalogue:
        catalogue.declare(ORDERS)
        with Admin(settings) as admin:
            admin.delete_topics(CATALOGUE_TOPIC)
        with pytest.raises(SqlError, match=r"_moldau_sql.* was deleted"):
            catalogue.refresh()
        assert catalogue.failure is not None
        with pytest.raises(SqlError, match=r"_moldau_sql.* was deleted"):
            catalogue.declare(replace(ORDERS, name="more"))
        catalogue.close()
        catalogue.open()
        assert not catalogue.declarations
        assert catalogue.failure is None


def test_a_closed_catalogue_and_brokers_that_do_not_answer_are_clear_errors(settings: dict[str, str]) -> None:
    with pytest.raises(SqlError, match="closed"):
        Catalogue(settings).refresh()
    away = Catalogue({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5)
    with pytest.raises(SqlError, match=r"the catalogue .* cannot be opened"):
        away.open()
