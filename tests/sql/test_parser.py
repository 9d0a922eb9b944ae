"""Statements as the parser understands them, and the errors of those that it does not."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from moldau.sql.declarations import ColumnDeclaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.parser import is_complete, parse
from moldau.sql.statements import (
    EVENT_TIME,
    ChangeQueryStatement,
    CreateAsStatement,
    CreateDeclaredStatement,
    DefineStatement,
    DescribeStatement,
    DropStatement,
    ExplainStatement,
    InsertSelectStatement,
    InsertValuesStatement,
    PrintStatement,
    QueryAction,
    QueryText,
    ReadBound,
    RunScriptStatement,
    SelectStatement,
    SetStatement,
    Shown,
    ShowStatement,
    Statement,
)
from moldau.sql.text_positions import TextPosition

STREAM, TABLE = RelationKind.STREAM, RelationKind.TABLE
START = TextPosition(1, 1)


def one(text: str) -> Statement:
    [statement] = parse(text)
    return statement


def query_of(text: str) -> QueryText:
    statement = one(text)
    assert isinstance(statement, SelectStatement | CreateAsStatement | InsertSelectStatement | ExplainStatement)
    assert statement.query is not None
    return statement.query


def declared(text: str) -> CreateDeclaredStatement:
    statement = one(text)
    assert isinstance(statement, CreateDeclaredStatement)
    return statement


def created(text: str, **fields: Any) -> CreateDeclaredStatement:
    return CreateDeclaredStatement(text, START, **{"columns": (), "settings": {}, **fields})


WHOLE: list[tuple[str, Statement]] = [
    (text, statement)
    for text, statement in {
        "CREATE STREAM orders": created("CREATE STREAM orders", name="orders", kind=STREAM),
        "create table if not exists t": created(
            "create table if not exists t", name="t", kind=TABLE, if_not_exists=True
        ),
        "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, x DOUBLE) WITH (topic='users')": created(
            "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, x DOUBLE) WITH (topic='users')",
            name="t",
            kind=TABLE,
            columns=(ColumnDeclaration("id", "INT", is_key=True), ColumnDeclaration("x", "DOUBLE")),
            settings={"topic": "users"},
            or_replace=True,
        ),
        "SHOW TOPICS": ShowStatement("SHOW TOPICS", START, Shown.TOPICS),
        "list streams": ShowStatement("list streams", START, Shown.STREAMS),
        "SHOW TABLES": ShowStatement("SHOW TABLES", START, Shown.TABLES),
        "SHOW QUERIES": ShowStatement("SHOW QUERIES", START, Shown.QUERIES),
        "SHOW FUNCTIONS": ShowStatement("SHOW FUNCTIONS", START, Shown.FUNCTIONS),
        "SHOW SETTINGS": ShowStatement("SHOW SETTINGS", START, Shown.SETTINGS),
        "SHOW PROPERTIES": ShowStatement("SHOW PROPERTIES", START, Shown.SETTINGS),
        "SHOW VARIABLES": ShowStatement("SHOW VARIABLES", START, Shown.VARIABLES),
        "SET": ShowStatement("SET", START, Shown.SETTINGS),
        "DESCRIBE orders": DescribeStatement("DESCRIBE orders", START, "orders"),
        "DESC extended": DescribeStatement("DESC extended", START, "extended"),
        "DESCRIBE EXTENDED orders": DescribeStatement("DESCRIBE EXTENDED orders", START, "orders", True),
        "DESCRIBE `a b` EXTENDED": DescribeStatement("DESCRIBE `a b` EXTENDED", START, "a b", True),
        "DESCRIBE a-b.c_1": DescribeStatement("DESCRIBE a-b.c_1", START, "a-b.c_1"),
        "PRINT 'orders'": PrintStatement("PRINT 'orders'", START, "orders"),
        "PRINT a-b FROM BEGINNING LIMIT 3": PrintStatement(
            "PRINT a-b FROM BEGINNING LIMIT 3", START, "a-b", from_beginning=True, limit=3
        ),
        "EXPLAIN counts": ExplainStatement("EXPLAIN counts", START, name="counts"),
        "PAUSE counts": ChangeQueryStatement("PAUSE counts", START, QueryAction.PAUSE, "counts"),
        "RESUME QUERY counts": ChangeQueryStatement("RESUME QUERY counts", START, QueryAction.RESUME, "counts"),
        "TERMINATE ALL": ChangeQueryStatement("TERMINATE ALL", START, QueryAction.TERMINATE, None),
        "TERMINATE query": ChangeQueryStatement("TERMINATE query", START, QueryAction.TERMINATE, "query"),
        "DROP STREAM orders": DropStatement("DROP STREAM orders", START, STREAM, "orders"),
        "DROP TABLE IF EXISTS t DELETE TOPIC": DropStatement(
            "DROP TABLE IF EXISTS t DELETE TOPIC", START, TABLE, "t", if_exists=True, delete_topic=True
        ),
        "SET 'auto.offset.reset' = 'earliest'": SetStatement(
            "SET 'auto.offset.reset' = 'earliest'", START, "auto.offset.reset", "earliest"
        ),
        "SET auto.offset.reset=earliest": SetStatement(
            "SET auto.offset.reset=earliest", START, "auto.offset.reset", "earliest"
        ),
        "SET a.b = 10 seconds": SetStatement("SET a.b = 10 seconds", START, "a.b", "10 seconds"),
        "UNSET 'a.b'": SetStatement("UNSET 'a.b'", START, "a.b", None),
        "DEFINE city = 'Praha'": DefineStatement("DEFINE city = 'Praha'", START, "city", "Praha"),
        "UNDEFINE city": DefineStatement("UNDEFINE city", START, "city", None),
        "RUN SCRIPT '/tmp/a.sql'": RunScriptStatement("RUN SCRIPT '/tmp/a.sql'", START, "/tmp/a.sql"),
        "INSERT INTO t VALUES (1, 'a;b'), (2, null)": InsertValuesStatement(
            "INSERT INTO t VALUES (1, 'a;b'), (2, null)", START, "t", (), "(1, 'a;b'), (2, null)"
        ),
        "INSERT INTO a-b (id, `x y`) VALUES (1, 2)": InsertValuesStatement(
            "INSERT INTO a-b (id, `x y`) VALUES (1, 2)", START, "a-b", ("id", "x y"), "(1, 2)"
        ),
        "SELECT 1": SelectStatement("SELECT 1", START, QueryText("SELECT 1")),
    }.items()
]


@pytest.mark.parametrize(("text", "expected"), WHOLE, ids=[text for text, _ in WHOLE])
def test_a_statement_becomes_data_with_and_without_a_semicolon(text: str, expected: Statement) -> None:
    assert one(text) == expected
    assert parse(f"  {text} ;\n-- the end\n;;") == [replace(expected, position=TextPosition(1, 3), **_moved(expected))]


def _moved(expected: Statement) -> dict[str, Any]:
    if not isinstance(expected, SelectStatement):
        return {}
    return {"query": replace(expected.query, position=TextPosition(1, 3))}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("STRING", "STRING"),
        ("varchar", "STRING"),
        ("VARCHAR(20)", "STRING"),
        ("VARCHAR(STRING)", "STRING"),
        ("INTEGER", "INT"),
        ("bigint", "BIGINT"),
        ("LONG", "BIGINT"),
        ("BYTES", "BINARY"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("NUMERIC(4)", "DECIMAL(4, 0)"),
        ("TIMESTAMP", "TIMESTAMP"),
        ("ARRAY<VARCHAR>", "ARRAY<STRING>"),
        ("MAP<VARCHAR,ARRAY<INT>>", "MAP<STRING, ARRAY<INT>>"),
        ("STRUCT<a INT, `b c`: STRUCT<d VARCHAR>>", "STRUCT<a: INT, `b c`: STRUCT<d: STRING>>"),
    ],
)
def test_a_column_has_a_type_of_spark_or_the_name_of_ksqldb_for_it(written: str, expected: str) -> None:
    assert declared(f"CREATE STREAM s (c {written}, d INT)").columns[0] == ColumnDeclaration("c", expected)
    assert declared(f"CREATE STREAM s (c {written} KEY)").columns == (ColumnDeclaration("c", expected, is_key=True),)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("topic=orders", {"topic": "orders"}),
        (
            "KAFKA_TOPIC='x', VALUE_FORMAT='JSON', PARTITIONS=3",
            {"topic": "x", "value_format": "json", "partitions": "3"},
        ),
        ("format=csv", {"value_format": "csv"}),
        ("value_format='DELIMITED', value_delimiter='TAB'", {"value_format": "csv", "value_delimiter": "\t"}),
        ("key_format='KAFKA'", {"key_format": "string"}),
        (
            "timestamp='at', timestamp_format='yyyy-MM-dd''T''HH'",
            {"timestamp": "at", "timestamp_format": "yyyy-MM-dd'T'HH"},
        ),
        ("topic=my.topic-1, replicas=2", {"topic": "my.topic-1", "replicas": "2"}),
        ("key='a, b'", {"key": "a, b"}),
        ("", {}),
    ],
)
def test_settings_have_ksqldb_names_too(written: str, expected: dict[str, str]) -> None:
    assert declared(f"CREATE STREAM s WITH ({written})").settings == expected


def test_the_setting_key_marks_declared_columns() -> None:
    statement = declared("CREATE STREAM s (a INT, b INT, c INT) WITH (key='A, c', topic=t)")
    assert [column.name for column in statement.columns if column.is_key] == ["a", "c"]
    assert statement.settings == {"topic": "t"}


CLAUSES: list[tuple[str, str, dict[str, Any]]] = [
    ("SELECT * FROM a LIMIT 5", "SELECT * FROM a LIMIT 5", {}),
    ("SELECT * FROM a EMIT CHANGES", "SELECT * FROM a", {"continuous": True}),
    ("SELECT * FROM a emit changes limit 5", "SELECT * FROM a", {"continuous": True, "limit": 5}),
    ("SELECT * FROM a LIMIT 5 EMIT CHANGES", "SELECT * FROM a", {"continuous": True, "limit": 5}),
    ("SELECT emit changes FROM a", "SELECT emit changes FROM a", {}),
    ("WITH x AS (SELECT 1) SELECT * FROM x", "WITH x AS (SELECT 1) SELECT * FROM x", {}),
    ("(SELECT 1) UNION ALL (SELECT 2)", "(SELECT 1) UNION ALL (SELECT 2)", {}),
    ("SELECT * FROM a AT OFFSET 12", "SELECT * FROM a", {"as_of": {"a": ReadBound(offset=12)}}),
    (
        "SELECT * FROM A AT OFFSET 12 PARTITION 3 x WHERE y",
        "SELECT * FROM A" + " " * 26 + "x WHERE y",
        {"as_of": {"a": ReadBound(offset=12, partition=3)}},
    ),
    (
        "SELECT * FROM a AT TIMESTAMP '2026-01-01', `b-c` AT OFFSET 0",
        "SELECT * FROM a" + " " * 26 + ", `b-c`",
        {"as_of": {"a": ReadBound(timestamp="2026-01-01"), "b-c": ReadBound(offset=0)}},
    ),
    ("SELECT at timestamp FROM a", "SELECT at timestamp FROM a", {}),
    ("SELECT t AT TIME ZONE 'x' FROM a", "SELECT t AT TIME ZONE 'x' FROM a", {}),
    (
        "SELECT * FROM a JOIN b WITHIN 1 HOUR GRACE PERIOD 5 MINUTES ON a.x = b.x EMIT CHANGES",
        "SELECT * FROM a JOIN b" + " " * 38 + "ON a.x = b.x",
        {"continuous": True, "within": "1 HOUR", "grace": "5 MINUTES"},
    ),
    (
        "SELECT count(*) FROM a GROUP BY window(timestamp, '1 minute') GRACE PERIOD 10 SECONDS EMIT CHANGES",
        "SELECT count(*) FROM a GROUP BY window(timestamp, '1 minute')",
        {"continuous": True, "grace": "10 SECONDS"},
    ),
    (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM a",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM a",
        {},
    ),
    (
        "SELECT sum(x) OVER (PARTITION BY y) FROM a WINDOW w AS (PARTITION BY z)",
        "SELECT sum(x) OVER (PARTITION BY y) FROM a WINDOW w AS (PARTITION BY z)",
        {},
    ),
    ("SELECT 'EMIT CHANGES' -- EMIT CHANGES", "SELECT 'EMIT CHANGES'", {}),
    (
        "SELECT r'\\', \"a;b\", `c;d` /* ; /* ; */ ; */ FROM t",
        "SELECT r'\\', \"a;b\", `c;d` /* ; /* ; */ ; */ FROM t",
        {},
    ),
]


@pytest.mark.parametrize(("text", "spark", "fields"), CLAUSES, ids=[text for text, _, _ in CLAUSES])
def test_our_clauses_of_a_query_are_taken_out(text: str, spark: str, fields: dict[str, Any]) -> None:
    assert query_of(text) == QueryText(spark, **fields)


WINDOWS = [
    ("TUMBLING (SIZE 1 MINUTE)", "window(T, '1 MINUTE')", None),
    ("tumbling (size 30 seconds, grace period 1 hour)", "window(T, '30 SECONDS')", "1 HOUR"),
    ("HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES)", "window(T, '1 HOUR', '5 MINUTES')", None),
    ("HOPPING (SIZE 2 DAYS, ADVANCE BY 1 DAY, GRACE PERIOD 0 SECONDS)", "window(T, '2 DAYS', '1 DAY')", "0 SECONDS"),
    ("SESSION (5 MINUTES)", "session_window(T, '5 MINUTES')", None),
    ("SESSION (5 MINUTES, GRACE PERIOD 1 MINUTE)", "session_window(T, '5 MINUTES')", "1 MINUTE"),
]


@pytest.mark.parametrize(("window", "function", "grace"), WINDOWS)
def test_the_window_clause_of_ksqldb_becomes_a_function_of_spark(window: str, function: str, grace: str | None) -> None:
    query = query_of(f"SELECT city, count(*) FROM a WINDOW {window} WHERE x GROUP BY city HAVING y EMIT CHANGES")
    expected = f"SELECT city, count(*) FROM a WHERE x GROUP BY {function.replace('T', EVENT_TIME, 1)}, city HAVING y"
    assert " ".join(query.text.split()) == expected.replace(f"{EVENT_TIME}IME", EVENT_TIME)
    assert query.grace == grace
    assert query.window == f"WINDOW {window}"


def test_windowstart_and_windowend_are_milliseconds_of_the_window() -> None:
    query = query_of(
        "SELECT WINDOWSTART, windowend AS e, WINDOWEND - WINDOWSTART d, count(*) FROM a WINDOW SESSION (1 DAY) "
        "GROUP BY c, d HAVING WINDOWSTART > 0"
    )
    assert " ".join(query.text.split()) == (
        "SELECT unix_millis(session_window.start) AS WINDOWSTART, unix_millis(session_window.end) AS e, "
        "unix_millis(session_window.end) - unix_millis(session_window.start) d, count(*) FROM a "
        f"GROUP BY session_window({EVENT_TIME}, '1 DAY'), c, d HAVING unix_millis(session_window.start) > 0"
    )


def test_a_window_in_a_subquery_changes_only_that_subquery() -> None:
    query = query_of(
        "SELECT WINDOWSTART FROM (SELECT WINDOWSTART, c FROM a WINDOW TUMBLING (SIZE 1 DAY) GROUP BY c) "
        "GROUP BY WINDOWSTART UNION ALL SELECT 1 FROM b GROUP BY x"
    )
    assert " ".join(query.text.split()) == (
        "SELECT WINDOWSTART FROM (SELECT unix_millis(window.start) AS WINDOWSTART, c FROM a "
        f"GROUP BY window({EVENT_TIME}, '1 DAY'), c) GROUP BY WINDOWSTART UNION ALL SELECT 1 FROM b GROUP BY x"
    )


def test_positions_in_the_text_for_spark_are_those_of_the_user() -> None:
    text = "SHOW TOPICS;\n\n SELECT WINDOWSTART,\n  city FROM a WINDOW\n TUMBLING (SIZE 1 DAY) GROUP BY city,\n nope"
    query = query_of(text.partition(";")[2])
    assert query_of(text.partition(";")[2]).locate(query.text.index("nope")) == TextPosition(6, 2)
    [_, statement] = parse(text)
    assert isinstance(statement, SelectStatement)
    assert statement.position == TextPosition(3, 2)
    for query in (statement.query, statement.query.with_event_time("`a b`.`c`")):
        assert EVENT_TIME not in query.text or query is statement.query
        assert query.locate(query.text.index("nope")) == TextPosition(6, 2)
        assert query.locate(query.text.index("city FROM")) == TextPosition(4, 3)
        assert query.locate(query.text.index("window(")) == TextPosition(4, 15)
        assert query.locate_line(1, 0) == TextPosition(3, 2)
        line = query.text.count("\n") + 1
        assert query.locate_line(line, 1) == TextPosition(6, 2)
    assert "window(`a b`.`c`, '1 DAY')" in statement.query.with_event_time("`a b`.`c`").text


@pytest.mark.parametrize("kind", list(RelationKind))
def test_create_as_starts_a_continuous_query(kind: RelationKind) -> None:
    statement = one(f"CREATE {kind} x WITH (query_id=q, format=json) AS\nSELECT id FROM a EMIT CHANGES")
    assert isinstance(statement, CreateAsStatement)
    assert (statement.name, statement.kind) == ("x", kind)
    assert statement.settings == {"query_id": "q", "value_format": "json"}
    assert statement.query == QueryText("SELECT id FROM a", continuous=True, position=TextPosition(2, 1))


def test_partition_by_names_the_key() -> None:
    statement = one("CREATE STREAM x AS SELECT * FROM a WHERE b PARTITION BY c, `d e` EMIT CHANGES")
    assert isinstance(statement, CreateAsStatement)
    assert statement.settings == {"key": "c, d e"}
    assert statement.query.text == "SELECT * FROM a WHERE b"


def test_insert_select_starts_a_continuous_query() -> None:
    statement = one("INSERT INTO x WITH (query_id='q') SELECT id FROM a")
    assert isinstance(statement, InsertSelectStatement)
    assert (statement.target, statement.settings) == ("x", {"query_id": "q"})
    assert statement.query.continuous
    with_query = one("INSERT INTO x WITH y AS (SELECT 1) SELECT * FROM y")
    assert isinstance(with_query, InsertSelectStatement)
    assert with_query.query.text == "WITH y AS (SELECT 1) SELECT * FROM y"


@pytest.mark.parametrize(
    "text", ["SELECT a FROM b", "CREATE STREAM x AS SELECT a FROM b", "INSERT INTO x SELECT a FROM b"]
)
def test_every_query_can_be_explained(text: str) -> None:
    assert query_of(f"EXPLAIN {text}").text == "SELECT a FROM b"


def test_define_puts_values_into_later_statements() -> None:
    variables: dict[str, str] = {}
    [_, shown, _, _] = parse("DEFINE t = 'my topic';\nPRINT '${T}';UNDEFINE T; DEFINE u='1';", variables)
    assert isinstance(shown, PrintStatement)
    assert shown.topic == "my topic"
    assert variables == {"u": "1"}
    [selected] = parse("SELECT ${u},\n ${ U } + nope", variables)
    assert isinstance(selected, SelectStatement)
    assert selected.query.text == "SELECT 1,\n 1 + nope"
    assert selected.query.locate(selected.query.text.index("nope")) == TextPosition(2, 11)


def test_a_long_script_is_parsed_in_a_time_that_grows_with_its_length() -> None:
    """Twice the statements must not take four times as long; the factor leaves room for a busy machine."""

    def seconds(count: int) -> float:
        text = "SELECT a,\n b FROM c WHERE d = 'e';\n" * count
        began = time.process_time()
        statements = parse(text)
        assert statements[-1].position == TextPosition(2 * count - 1, 1)
        return time.process_time() - began

    assert seconds(4_000) < 20 * seconds(500)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("-- only a comment", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT `;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; SELECT 2", False),
        ("SELECT (1;", True),
    ],
)
def test_a_text_is_complete_when_it_ends_with_a_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) == complete


ERRORS = [
    # the statement, its line and column, and what the message and the hint contain
    ("CREAT STREAM x", 1, 1, "CREAT is not a statement", "CREATE"),
    ("SHOW TOPICS;\n SELEC 1", 2, 2, "SELEC is not a statement", "SELECT"),
    ("frobnicate", 1, 1, "frobnicate is not a statement", "help"),
    ("42", 1, 1, "42 is not a statement", "help"),
    ("CREATE", 1, 7, "STREAM or TABLE is missing after CREATE", ""),
    ("CREATE STREM x", 1, 8, "STREM is not that", "STREAM"),
    ("CREATE OR REPLACE x", 1, 19, "STREAM or TABLE", ""),
    ("CREATE STREAM", 1, 14, "the name of the stream is missing", ""),
    ("CREATE TABLE IF NOT EXISTS", 1, 27, "the name of the table is missing after IF NOT EXISTS", ""),
    ("CREATE STREAM s (", 1, 17, "( that opens here is not closed", ")"),
    ("CREATE STREAM s ()", 1, 18, "the name of a column is missing", ""),
    ("CREATE STREAM s (a)", 1, 19, "a type is missing after a", ""),
    ("CREATE STREAM s (a STRNG)", 1, 20, "STRNG is not a type", "STRING"),
    ("CREATE STREAM s (a TIME)", 1, 20, "no type TIME", "TIMESTAMP"),
    ("CREATE STREAM s (a INT,)", 1, 24, "the name of a column is missing after ,", ""),
    ("CREATE STREAM s (a INT b INT)", 1, 24, ", or ) is missing after a INT", ""),
    ("CREATE STREAM s (a INT PRIMARY)", 1, 24, "PRIMARY KEY is missing", "PRIMARY KEY"),
    ("CREATE STREAM s (a INT KYE)", 1, 24, ", or ) is missing", "KEY"),
    ("CREATE STREAM s (a INT, A STRING)", 1, 25, "the column A is declared twice", ""),
    ("CREATE STREAM s (h ARRAY<STRING> HEADERS)", 1, 34, ", or ) is missing", "column headers"),
    ("CREATE STREAM s (a ARRAY)", 1, 25, "< is missing after ARRAY", ""),
    ("CREATE STREAM s (a ARRAY<INT)", 1, 29, "> is missing after ARRAY<", ""),
    ("CREATE STREAM s (a MAP<STRING>)", 1, 30, ", is missing after the type of the map's keys", ""),
    ("CREATE STREAM s (a STRUCT<>)", 1, 27, "the name of a field is missing", ""),
    ("CREATE STREAM s (a DECIMAL(x))", 1, 28, "the number of digits is missing", ""),
    ("CREATE STREAM s (a VARCHAR(x))", 1, 28, "a length is missing", ""),
    (f"CREATE STREAM s (a {'ARRAY<' * 60}INT{'>' * 60})", 1, 326, "nests deeper than 50", ""),
    ("CREATE STREAM s WITH", 1, 21, "( is missing after WITH", ""),
    ("CREATE STREAM s WITH (topic)", 1, 28, "= is missing after topic", ""),
    ("CREATE STREAM s WITH (topic=)", 1, 29, "the value of topic is missing", ""),
    ("CREATE STREAM s WITH (topic='')", 1, 29, "the value of topic is empty", ""),
    ("CREATE STREAM s WITH (tpic='x')", 1, 23, "there is no setting tpic", "topic"),
    ("CREATE STREAM s WITH (value_fromat='x')", 1, 23, "there is no setting value_fromat", "value_format"),
    ("CREATE STREAM s WITH (xyzzy='x')", 1, 23, "there is no setting xyzzy", "the settings are topic"),
    ("CREATE STREAM s WITH (topic=a, kafka_topic=b)", 1, 32, "the setting topic is given twice", ""),
    ("CREATE STREAM s WITH (topic=a format=b)", 1, 31, ", is missing after a setting", ""),
    ("CREATE STREAM s WITH (partitions=0)", 1, 34, "partitions must be a whole number above 0", ""),
    ("CREATE STREAM s WITH (replicas=x)", 1, 32, "replicas must be a whole number above 0", ""),
    ("CREATE STREAM s WITH (window_type='HOPPING')", 1, 23, "window_type has no meaning here", "columns"),
    ("CREATE STREAM s WITH (query_id=q)", 1, 23, "query_id names a query", ""),
    ("CREATE STREAM s (abc INT) WITH (key=abd)", 1, 27, "names abd, and there is no such column", "abc"),
    ("CREATE STREAM s SELECT 1", 1, 17, "AS is missing after s", ""),
    ("CREATE STREAM s AS", 1, 19, "SELECT is missing after AS", ""),
    ("CREATE STREAM s AS SHOW TOPICS", 1, 20, "SELECT is missing after AS", ""),
    ("CREATE STREAM s (a INT) AS SELECT 1", 1, 17, "declares no columns", "remove the columns"),
    ("CREATE STREAM s AS SELECT * FROM a LIMIT 1", 1, 36, "has no LIMIT", "TERMINATE"),
    ("CREATE STREAM s WITH (key=a) AS SELECT * FROM x PARTITION BY b", 1, 1, "both name the key", ""),
    ("CREATE STREAM s AS SELECT * FROM x PARTITION BY upper(b)", 1, 54, "takes the names of columns", "AS name"),
    ("CREATE STREAM s AS SELECT * FROM x PARTITION BY a,", 1, 36, "name of a column is missing after PARTITION BY", ""),
    ("CREATE STREAM s nonsense", 1, 17, "nonsense is not expected here", "CREATE STREAM"),
    ("SELECT * FROM a PARTITION BY b EMIT CHANGES", 1, 17, "this query writes none", ""),
    ("INSERT t VALUES (1)", 1, 8, "INTO is missing after INSERT", ""),
    ("INSERT INTO", 1, 12, "is missing after INSERT INTO", ""),
    ("INSERT INTO t", 1, 14, "SELECT or VALUES is missing after t", ""),
    ("INSERT INTO t VALUES", 1, 21, "a row in brackets is missing after VALUES", "VALUES ('key'"),
    ("INSERT INTO t VALUES 1", 1, 22, "a row in brackets is missing", ""),
    ("INSERT INTO t (a, A) VALUES (1, 2)", 1, 19, "the column A is named twice", ""),
    ("INSERT INTO t (a) SELECT 1", 1, 15, "takes the columns by their names", "AS column"),
    ("INSERT INTO t WITH (query_id=q) VALUES (1)", 1, 15, "has no settings", ""),
    ("SHOW", 1, 5, "TOPICS, STREAMS, TABLES", ""),
    ("SHOW TOPCS", 1, 6, "TOPCS is not that", "TOPICS"),
    ("SHOW STREAMS EXTENDED", 1, 14, "the end of the statement", "DESCRIBE name EXTENDED"),
    ("SHOW TOPICS now", 1, 13, "now is not expected here", ""),
    ("SHOW CONNECTORS", 1, 1, "SHOW CONNECTORS is not a statement here", "moldau connect list"),
    ("DESCRIBE", 1, 9, "is missing after DESCRIBE", ""),
    ("DESCRIBE a b", 1, 12, "b is not expected here", ""),
    ("PRINT", 1, 6, "the name of a topic is missing", ""),
    ("PRINT t FROM START", 1, 14, "BEGINNING is missing after FROM", ""),
    ("PRINT t LIMIT x", 1, 15, "a whole number is missing after LIMIT", ""),
    ("PRINT t INTERVAL 3", 1, 9, "LIMIT is missing", "LIMIT 10"),
    ("EXPLAIN", 1, 8, "SELECT or the name of a query is missing", ""),
    ("EXPLAIN CREATE STREAM s", 1, 9, "EXPLAIN needs a query", ""),
    ("PAUSE", 1, 6, "the name of a query or ALL is missing", ""),
    ("DROP x", 1, 6, "STREAM or TABLE is missing after DROP", ""),
    ("DROP STREAM", 1, 12, "the name of the stream is missing", ""),
    ("DROP STREAM s DELETE", 1, 21, "TOPIC is missing after DELETE", ""),
    ("DROP TOPIC t", 1, 1, "DROP TOPIC is not a statement here", "DELETE TOPIC"),
    ("SET x", 1, 6, "= is missing after x", ""),
    ("SET x =", 1, 8, "a value is missing after =", "UNSET"),
    ("UNSET", 1, 6, "the name of a setting is missing", ""),
    ("DEFINE x = 5", 1, 12, "a value in quotes is missing", ""),
    ("DEFINE x '5'", 1, 10, "= is missing after x", ""),
    ("RUN 'x'", 1, 5, "SCRIPT is missing after RUN", ""),
    ("RUN SCRIPT x", 1, 12, "the name of a file in quotes is missing", ""),
    ("SELECT ${city}", 1, 8, "the variable city is not defined", "DEFINE city"),
    ("DEFINE city='x'; SELECT ${citi}", 1, 25, "the variable citi is not defined", "city"),
    ("SELECT 'abc", 1, 8, "the string that begins here does not end", "'"),
    ('SELECT 1,\n  "abc', 2, 3, "the string that begins here does not end", '"'),
    ("SELECT r'abc", 1, 8, "the string that begins here does not end", "'"),
    ("SELECT `abc", 1, 8, "the quoted name that begins here does not end", "`"),
    ("SELECT 1 /* abc", 1, 10, "the comment that begins here does not end", "*/"),
    ("SELECT (1,\n (2)", 1, 8, "the ( that opens here is not closed", ")"),
    ("SELECT a[1", 1, 9, "the [ that opens here is not closed", "]"),
    ("SELECT (1]", 1, 10, "] does not close the ( of line 1, column 8", "write )"),
    ("SELECT 1)", 1, 9, ") closes nothing", ""),
    ("SELECT * FROM a EMIT FINAL", 1, 17, "EMIT FINAL is not supported", "EMIT CHANGES"),
    ("SELECT * FROM a EMIT CHANGES WHERE x", 1, 17, "belongs to the end", ""),
    ("SELECT * FROM (SELECT * FROM a EMIT CHANGES)", 1, 32, "does not belong into a subquery", ""),
    ("SELECT * FROM a AT OFFSET x", 1, 27, "AT OFFSET needs a whole number", "AT OFFSET 0"),
    ("SELECT * FROM a AT OFFSET 1 PARTITION x", 1, 39, "PARTITION needs a whole number", ""),
    ("SELECT * FROM a AT TIMESTAMP 5", 1, 30, "AT TIMESTAMP needs a time in quotes", "AT TIMESTAMP '"),
    ("SELECT * FROM a AT OFFSET 1, a AT OFFSET 2", 1, 32, "a is read with two different bounds", ""),
    ("SELECT * FROM a JOIN b WITHIN 1 HOUR ON x", 1, 24, "this query is bounded", "add EMIT CHANGES"),
    (
        "SELECT * FROM a JOIN b WITHIN (1 HOUR, 2 HOURS) ON x EMIT CHANGES",
        1,
        24,
        "WITHIN with two intervals",
        "BETWEEN",
    ),
    (
        "SELECT * FROM a JOIN b WITHIN 1 FORTNIGHT ON x EMIT CHANGES",
        1,
        33,
        "a unit of time is missing after 1",
        "MINUTE",
    ),
    ("SELECT * FROM a JOIN b WITHIN 1 MINUTS ON x EMIT CHANGES", 1, 33, "a unit of time is missing after 1", "MINUTES"),
    ("SELECT * FROM a JOIN b WITHIN 0 DAYS ON x EMIT CHANGES", 1, 31, "WITHIN 0 is empty", ""),
    (
        "SELECT * FROM a JOIN b WITHIN 1 DAY ON x JOIN c WITHIN 2 DAYS ON y EMIT CHANGES",
        1,
        49,
        "this query has WITHIN 1 DAY already",
        "",
    ),
    (
        "SELECT * FROM a JOIN b WITHIN 1 DAY GRACE PERIOD x ON y EMIT CHANGES",
        1,
        50,
        "a number is missing after GRACE PERIOD",
        "",
    ),
    ("SELECT * FROM a WINDOW TUMBLING (SIZE 1 DAY)", 1, 17, "a WINDOW clause needs GROUP BY", ""),
    ("SELECT * FROM a WINDOW TUMBLNG (SIZE 1 DAY) GROUP BY x", 1, 24, "TUMBLNG is not a kind of window", "TUMBLING"),
    ("SELECT * FROM a WINDOW TUMBLING (1 DAY) GROUP BY x", 1, 34, "1 is not a part of a TUMBLING window", "SIZE"),
    ("SELECT * FROM a WINDOW TUMBLING () GROUP BY x", 1, 24, "SIZE is missing in the TUMBLING window", ""),
    ("SELECT * FROM a WINDOW HOPPING (SIZE 1 DAY) GROUP BY x", 1, 24, "ADVANCE BY is missing", "ADVANCE BY 5"),
    ("SELECT * FROM a WINDOW TUMBLING (SIZE 1 DAY SIZE 2 DAYS) GROUP BY x", 1, 45, ", or ) is missing", ""),
    ("SELECT * FROM a WINDOW TUMBLING (SIZE 1 DAY, SIZE 2 DAYS) GROUP BY x", 1, 46, "SIZE is given twice", ""),
    (
        "SELECT * FROM a WINDOW TUMBLING (SIZE 1 DAY, RETENTION 2 DAYS) GROUP BY x",
        1,
        46,
        "RETENTION of a window is not supported",
        "GRACE PERIOD",
    ),
    ("SELECT * FROM a WINDOW SESSION (SIZE 1 DAY) GROUP BY x", 1, 33, "a number is missing after SESSION (", ""),
    ("SELECT latest_by_offset(x) FROM a", 1, 8, "no function latest_by_offset", "max_by(column, offset)"),
    ("SELECT a,\n TOPK(x, 3) FROM a", 2, 2, "no function TOPK", "sort_array"),
    ("CREATE SOURCE CONNECTOR x WITH (a='b')", 1, 1, "CREATE SOURCE CONNECTOR is not a statement", "moldau connect"),
    ("CREATE SOURCE TABLE x (a INT)", 1, 1, "CREATE SOURCE is not a statement", "without SOURCE"),
    ("CREATE TYPE t AS STRUCT<a INT>", 1, 1, "CREATE TYPE is not a statement", "STRUCT<"),
    ("CREATE FUNCTION f AS 'x'", 1, 1, "CREATE FUNCTION is not a statement", "SHOW FUNCTIONS"),
    ("CREATE TEMPORARY VIEW v AS SELECT 1", 1, 1, "CREATE TEMPORARY is not a statement", "WITH name AS"),
    ("LIST TYPES", 1, 1, "LIST TYPES is not a statement", "named types"),
    ("ALTER STREAM s ADD COLUMN x INT", 1, 1, "ALTER is not a statement", "CREATE OR REPLACE"),
    ("ASSERT TOPIC x", 1, 1, "ASSERT is not a statement", "SHOW TOPICS"),
    ("DELETE FROM t", 1, 1, "DELETE is not a statement", "null value"),
    ("UPDATE t SET x = 1", 1, 1, "UPDATE is not a statement", "INSERT INTO"),
]


@pytest.mark.parametrize(("text", "line", "column", "message", "hint"), ERRORS, ids=[error[0] for error in ERRORS])
def test_an_error_says_what_is_wrong_where_and_what_to_write(
    text: str, line: int, column: int, message: str, hint: str
) -> None:
    with pytest.raises(SqlError) as raised:
        parse(text)
    error = raised.value
    assert message in error.message
    assert hint in (error.hint or "")
    assert (error.line, error.column) == (line, column)
