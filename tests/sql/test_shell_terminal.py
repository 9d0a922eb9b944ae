"""The shell in a real terminal, with a real broker and a real Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sql.terminal import SqlTerminal
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def shell(sql_broker: BrokerProcess, state: Path) -> Iterator[SqlTerminal]:
    """One shell for all tests of this module: a test leaves it at an empty prompt."""
    terminal = SqlTerminal(sql_broker.bootstrap, state)
    yield terminal
    assert terminal.close() == 0


@pytest.fixture
def orders(name: str, records: Callable[..., None]) -> str:
    """A topic with three records."""
    rows = [{"city": "Praha", "price": 10}, {"city": "Brno", "price": 20}, {"city": "Praha", "price": 30}]
    records(name, [(row, f"k{at}") for at, row in enumerate(rows)])
    return name


def test_a_query_shows_a_table(shell: SqlTerminal, orders: str) -> None:
    shown = shell.enter(f"SELECT city, sum(price) AS total FROM {orders} GROUP BY city ORDER BY city;")
    lines = [line.replace("│", " ").split() for line in shown.splitlines()]
    assert ["Brno", "20"] in lines
    assert ["Praha", "40"] in lines
    assert "2 rows" in shown


def test_a_statement_goes_on_until_its_semicolon(shell: SqlTerminal, orders: str) -> None:
    shown = shell.enter(f"SELECT 'a;b' AS text,\r  count(*) AS n\rFROM {orders}\r;")
    assert "a;b" in shown
    assert "1 row" in shown


def test_several_statements_in_one_line_run_one_after_the_other(shell: SqlTerminal) -> None:
    shown = shell.enter("SELECT 41 + 1 AS a; SELECT 'second' AS b;")
    assert shown.index("42") < shown.index("second")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELEC 1;", ["SELEC is not a statement", "1 | SELEC 1;", "| ^", "did you mean SELECT?"]),
        ("SELECT 1,\r   (2;", ["2 |    (2;", "|    ^", "close it with )"]),
        ("CREATE STREAM s WITH (tpic='x');", ["there is no setting tpic", "did you mean topic?"]),
        ("SELECT nope FROM ORDERS;", ["1 | SELECT nope FROM", "|        ^", "nope"]),
        ("SELECT ROWTIME FROM ORDERS;", ["no column 'ROWTIME'", "write timestamp"]),
        ("SELECT 1 +;", ["1 | SELECT 1 +;", "^"]),
        ("SELECT * FROM no_such_topic;", ["no_such_topic", "|               ^"]),
        ("SELECT topk(price, 2) FROM ORDERS;", ["no function topk", "sort_array"]),
        ("SELECT ${city};", ["the variable city is not defined", "DEFINE city"]),
        ("RUN SCRIPT '/no/such/file';", ["/no/such/file cannot be read: No such file or directory"]),
    ],
)
def test_an_error_shows_the_line_and_what_to_write(
    shell: SqlTerminal, orders: str, statement: str, expected: list[str]
) -> None:
    shown = shell.enter(statement.replace("ORDERS", orders))
    assert "error: " in shown
    for text in expected:
        assert text in shown
    assert "Traceback" not in shown
    assert "org.apache" not in shown


def test_ctrl_c_ends_a_running_query_and_not_the_shell(shell: SqlTerminal) -> None:
    shell.begin("SELECT count(*) FROM range(100000000000) a JOIN range(1000000) b ON a.id % 7 = b.id % 5;")
    shell.until("running")
    assert "ended by Ctrl-C" in shell.interrupt()
    assert "1 row" in shell.enter("SELECT 'alive' AS a;")


def test_ctrl_c_clears_what_is_typed(shell: SqlTerminal) -> None:
    shell.process.send("SELECT 'wrong\x03")
    shell.ended()
    assert "right" in shell.enter("SELECT 'right' AS a;")


def test_help_and_variables_need_no_spark(shell: SqlTerminal, tmp_path: Path) -> None:
    assert "PRINT topic [FROM BEGINNING]" in shell.enter("help")
    assert "did you mean help PRINT?" in shell.enter("help prnt")
    shell.enter("DEFINE greeting = 'ahoj';")
    assert "ahoj" in shell.enter("SHOW VARIABLES;")
    script = tmp_path / "script.sql"
    script.write_text("SELECT '${greeting} there' AS a;\n\n  SELEC 1;")
    shown = shell.enter(f"RUN SCRIPT '{script}';")
    assert f"{script}: line 3, column 3: SELEC is not a statement" in "".join(shown.splitlines())
    assert "ahoj there" not in shown
    script.write_text("SELECT '${greeting} there' AS a;")
    assert "ahoj there" in shell.enter(f"RUN SCRIPT '{script}';")
    shell.enter("UNDEFINE greeting;")


def test_tab_completes_statements_topics_and_columns(shell: SqlTerminal, orders: str) -> None:
    def completed(start: str, expected: str) -> None:
        """Names are read in the background, therefore Tab is tried until they are there."""

        def tried() -> bool:
            shell.process.send(f"{start}\t")
            shell.process.send(" /* done */")
            found = shell.until(r"/\S* \S*done")
            shell.process.send("\x03")
            shell.ended()
            return expected in found

        wait_until(tried, f"completion of {start}", 120)

    completed("DESCR", "DESCRIBE")
    completed(f"SELECT * FROM {orders[:8]}", orders)
    completed(f"SELECT * FROM {orders} WHERE pri", "price")
    completed("SELECT approx_count_dis", "approx_count_distinct")


def test_the_history_is_kept_for_the_next_shell(shell: SqlTerminal, state: Path, sql_broker: BrokerProcess) -> None:
    shell.enter("SELECT 'remember' AS me;")
    assert "remember" in shell.enter("\x1b[A")
    history = state / "moldau" / "sql_history"
    assert history.stat().st_mode & 0o077 == 0
    other = SqlTerminal(sql_broker.bootstrap, state)
    other.process.send("\x1b[A")
    other.until("remember")
    other.process.send("\x03")
    other.ended()
    other.process.send("exit\r")
    assert other.close() == 0


def test_every_kind_of_statement_shows_what_it_did(
    shell: SqlTerminal, orders: str, records: Callable[..., None]
) -> None:
    users = f"{orders}_users"
    declared = shell.enter(
        f"CREATE TABLE {users} (id STRING PRIMARY KEY, city STRING) WITH (topic='{users}', partitions=1);"
    )
    assert "error" not in declared
    assert users in declared
    assert "2 records" in shell.enter(f"INSERT INTO {users} VALUES ('u1', 'Praha'), ('u2', 'Brno');")
    assert "Brno" in shell.enter(f"SELECT * FROM {users} WHERE id = 'u2';")
    assert users in shell.enter("SHOW TABLES;")
    assert orders in shell.enter("SHOW TOPICS;")
    assert "error" not in shell.enter("SHOW STREAMS; SHOW QUERIES; SHOW SETTINGS;")
    described = shell.enter(f"DESCRIBE {orders};")
    assert "price" in described
    assert "bigint" in described
    assert "Details" in shell.enter(f"DESCRIBE EXTENDED {users};")
    printed = shell.enter(f"PRINT {orders} FROM BEGINNING LIMIT 2;")
    assert "Brno" in printed
    assert "k2" not in printed
    assert "error" not in shell.enter(f"EXPLAIN SELECT * FROM {orders};")
    assert "earliest" in shell.enter("SET 'auto.offset.reset' = 'earliest';")
    assert "error" not in shell.enter("UNSET 'auto.offset.reset';")
    assert "there are no queries" in shell.enter("PAUSE ALL;")
    assert "error: " in shell.enter("TERMINATE nothing;")
    assert "dropped" in shell.enter(f"DROP TABLE {users} DELETE TOPIC;")


def test_rows_of_a_stream_come_as_they_are_written(
    shell: SqlTerminal, orders: str, records: Callable[..., None]
) -> None:
    shell.begin(f"SELECT city, price FROM {orders} AT OFFSET 0 EMIT CHANGES;")
    shell.until("30")
    records(orders, [({"city": "Plzen", "price": 77}, "k9")])
    shell.until("77")
    shown = shell.interrupt()
    assert "4 rows" in shown
    assert "ended by Ctrl-C" in shown


def test_a_continuous_table_is_updated_in_place(shell: SqlTerminal, orders: str, records: Callable[..., None]) -> None:
    shell.begin(f"SELECT city, sum(price) AS total FROM {orders} AT OFFSET 0 GROUP BY city EMIT CHANGES;")
    shell.until(r"Praha\s*│\s*40")
    records(orders, [({"city": "Praha", "price": 2}, "k9")])
    shell.until(r"Praha\s*│\s*42")
    shown = shell.interrupt()
    assert "2 rows" in shown
    assert "ended by Ctrl-C" in shown


def test_nothing_of_spark_s_log_is_shown(shell: SqlTerminal) -> None:
    shown = shell.enter("SELECT assert_true(false);")
    assert "error: " in shown
    assert "WARN" not in shown
    assert "Traceback" not in shown
