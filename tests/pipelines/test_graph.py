"""Graphs of pipelines without Spark: SQL files, states from Spark's events and progress, the picture."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.errors import SourceLine
from moldau.pipelines.flow_events import DONE, FAILED, RUNNING, SKIPPED, WAITING, FlowEvent, flow_event
from moldau.pipelines.graph import (
    EXTERNAL,
    MATERIALIZED_VIEW,
    SINK,
    TABLE,
    TOPIC,
    VIEW,
    DataFlow,
    GraphNode,
    PipelineGraph,
    graph_of,
)
from moldau.pipelines.picture import BOX_HEIGHT, BOX_WIDTH, draw, layout, short_number
from moldau.pipelines.run_status import RunStatus
from moldau.pipelines.sql_files import definitions_in, text_lines

ROOT = Path(__file__).resolve().parents[2]

SQL = """-- FROM nothing
CREATE OR REFRESH STREAMING TABLE valid AS
  SELECT * FROM STREAM(main.orders) WHERE note <> 'FROM there';

CREATE MATERIALIZED VIEW `by day` AS
WITH recent AS (SELECT * FROM valid), other AS (SELECT 1)
SELECT * FROM recent JOIN customers USING (id) JOIN range(3);
CREATE TEMPORARY VIEW open AS SELECT * FROM STREAM valid;
CREATE STREAMING TABLE all_orders;
CREATE FLOW from_web AS INSERT INTO all_orders BY NAME SELECT * FROM STREAM web;
SET x = 1
"""


def shop() -> PipelineGraph:
    nodes = [
        GraphNode("orders", TABLE, "orders", SourceLine("a.py", 3)),
        GraphNode("valid", TABLE, "valid"),
        GraphNode("sales", MATERIALIZED_VIEW, "sales"),
        GraphNode("large", SINK, "large"),
    ]
    flows = [
        DataFlow("orders", "orders", ("topic:shop-orders",)),
        DataFlow("valid", "valid", ("orders",)),
        DataFlow("sales", "sales", ("valid",)),
        DataFlow("find_large", "large", ("spark_catalog.default.valid",)),
    ]
    return graph_of(nodes, flows, {"large": "shop-large"})


def running() -> RunStatus:
    status = RunStatus("shop", "continuous", 1, 0)
    status.use_graph(shop())
    status.begin_update()
    return status


def test_datasets_inputs_and_lines_of_a_sql_file_are_found() -> None:
    found = definitions_in(SQL, "sales.sql")
    assert [(node.id, node.kind, node.where and node.where.line) for node in found.nodes] == [
        ("valid", TABLE, 2),
        ("by day", MATERIALIZED_VIEW, 5),
        ("open", VIEW, 8),
        ("all_orders", TABLE, 9),
    ]
    assert [(flow.name, flow.target, flow.inputs) for flow in found.flows] == [
        ("valid", "valid", ("orders",)),
        ("by day", "by day", ("valid", "customers")),
        ("open", "open", ("valid",)),
        ("from_web", "all_orders", ("web",)),
    ]


@pytest.mark.parametrize(
    "text", ["", ";;", "CREATE", "CREATE FLOW", "CREATE STREAMING TABLE", "SELECT 'open", "DROP x"]
)
def test_a_text_without_definitions_has_none(text: str) -> None:
    assert definitions_in(text, "x.sql").flows == ()


def test_the_text_of_a_statement_begins_after_the_semicolon_before_it() -> None:
    assert text_lines(SQL) == {"valid": 1, "by day": 3, "open": 7, "from_web": 9}


def test_a_graph_has_the_topics_and_tables_that_its_flows_mention() -> None:
    graph = shop()
    assert graph.source_topics == ["shop-orders"]
    assert ("valid", "large") in graph.edges and ("large", "topic:shop-large") in graph.edges
    assert graph.nodes["topic:shop-orders"].kind == TOPIC
    other = graph_of([GraphNode("a", TABLE, "a")], [DataFlow("a", "A", ("elsewhere", "elsewhere"))], {})
    assert other.nodes["elsewhere"].kind == EXTERNAL and other.edges == [("elsewhere", "a")]
    assert graph.flow("spark_catalog.default.ORDERS") == graph.flows[0]
    assert graph.flow("nobody") is None


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("Flow spark_catalog.default.orders is QUEUED.", FlowEvent("spark_catalog.default.orders", WAITING)),
        ("Flow orders is STARTING.", FlowEvent("orders", RUNNING)),
        ("Flow orders has COMPLETED.", FlowEvent("orders", DONE)),
        ("Flow 'a.b' has FAILED.\nError: [X] no", FlowEvent("a.b", FAILED, "[X] no")),
        ("Flow 'a.b' SKIPPED due to upstream failure(s).", FlowEvent("a.b", SKIPPED)),
        ("Failed to resolve flow: 'a.b'.\nError: no column", FlowEvent("a.b", FAILED, "no column")),
        ("Failed to resolve flow due to upstream failure: 'c'.\nError: x", FlowEvent("c", SKIPPED)),
        ("Run is COMPLETED.", None),
        ("", None),
    ],
)
def test_events_are_read_from_spark_messages(message: str, event: FlowEvent | None) -> None:
    assert flow_event(message) == event


def progress(name: str, read: int, written: int, source: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "numInputRows": read, "sink": {"numOutputRows": written}, "sources": [source]}


def test_rows_rates_and_lag_come_from_the_progress_of_queries() -> None:
    status = running()
    topic = {"numInputRows": 100, "endOffset": '{"shop-orders": {"0": 60, "1": 40}, "@ids": {"shop-orders": "x"}}'}
    status.take_progress(progress("spark_catalog.default.orders", 100, -1, topic))
    table = {"numInputRows": 90, "description": "FileStreamSource[file:/x/tables/valid]", "endOffset": {"logOffset": 0}}
    status.take_progress(progress("find_large", 90, 25, table))
    status.take_progress(progress("of somebody else", 7, 7, table))
    status.end_update(10.0)
    status.set_lags({"shop-orders": {"0": 70, "1": 40, "2": 5}}, {})
    orders, large = status.datasets["orders"], status.datasets["large"]
    assert (orders.rows, orders.rate, orders.lag, orders.state) == (100, 10.0, 15, DONE)
    assert (large.rows, large.rate, large.lag) == (25, 9.0, None)
    assert status.edges[("large", "topic:shop-large")].rows == 25
    status.begin_update()
    status.end_update(1.0)
    assert orders.rows == 100 and orders.rate == 0.0


def test_a_failure_is_kept_although_spark_reports_the_query_as_complete() -> None:
    status = running()
    status.take_event(FlowEvent("orders", FAILED, "[BAD.CASE] the broker is gone SQLSTATE: 38000\n=== Streaming Query"))
    status.take_event(FlowEvent("orders", DONE))
    assert status.datasets["orders"].error == "the broker is gone"
    assert status.datasets["orders"].state == FAILED
    for state in (RUNNING, DONE):
        status.take_event(FlowEvent("orders", state))
    assert status.datasets["orders"].error is None, "the flow was tried again"


def test_the_picture_has_every_node_and_edge_and_shows_what_failed() -> None:
    status = running()
    status.take_event(FlowEvent("valid", FAILED, "1 < 2 & more"))
    status.edges[("orders", "valid")].rows, status.edges[("orders", "valid")].rate = 12_345, 1.5
    svg = draw(status.to_json())
    root = ET.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"orders", "valid", "sales", "large", "shop-orders", "shop-large", "1.5/s", "12.3 k rows"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == len(shop().edges) + 1
    assert "failed" in texts and "prefers-color-scheme:dark" in svg


names = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(names, names), max_size=20))
def test_no_boxes_overlap_and_edges_go_to_the_right(pairs: list[tuple[str, str]]) -> None:
    edges = [(source, target) for source, target in pairs if source < target]  # such a graph has no cycle
    places = layout("abcdefgh", edges)
    corners = [(place.x, place.y) for place in places.values()]
    for index, (x, y) in enumerate(corners):
        assert all(abs(x - x2) >= BOX_WIDTH or abs(y - y2) >= BOX_HEIGHT for x2, y2 in corners[index + 1 :])
    assert all(places[source].x < places[target].x for source, target in edges)


def test_a_cycle_is_drawn_as_well() -> None:
    assert set(layout("ab", [("a", "b"), ("b", "a")])) == {"a", "b"}


def test_numbers_are_short() -> None:
    shown = [short_number(value) for value in (0, 3, 0.25, 950, 1234, 12_345, 3.4e6, 2e9)]
    assert shown == ["0", "3", "0.2", "950", "1 234", "12.3 k", "3.4 M", "2.0 G"]


TERMINAL = """
from moldau.cli.pipeline_commands import _LiveTable
from moldau.pipelines.flow_events import FAILED, FlowEvent
from tests.pipelines.test_graph import running
status = running()
table = _LiveTable()
table.say("[red] is not markup")
status.take_event(FlowEvent("orders", FAILED, "[X] gone"))
table.show(status)
table.close()
"""


def test_a_terminal_shows_a_table_of_the_datasets() -> None:
    import pexpect

    shown = pexpect.run(f"{sys.executable} -c '{TERMINAL}'", timeout=100, cwd=str(ROOT), dimensions=(40, 160))
    text = shown.decode()
    assert "[red] is not markup" in text and "shop: running" in text and "materialized view" in text
    assert "failed" in text and "gone" in text, text
