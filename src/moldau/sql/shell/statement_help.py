"""Help of the shell: every statement in one line, with an example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.sql.token_reader import nearest


@dataclass(frozen=True)
class StatementHelp:
    syntax: str
    meaning: str
    example: str


STATEMENTS: Final = (
    StatementHelp(
        "SELECT … FROM topic [AT OFFSET n | AT TIMESTAMP 'time']",
        "a query of Spark SQL, as of now; AT: up to there",
        "SELECT city, count(*) FROM orders GROUP BY city;",
    ),
    StatementHelp(
        "SELECT … EMIT CHANGES [LIMIT n]",
        "the same for ever, as the records come; AT: from there on",
        "SELECT * FROM orders WHERE price > 100 EMIT CHANGES;",
    ),
    StatementHelp(
        "CREATE STREAM|TABLE name (columns) WITH (settings)",
        "declare how the records of a topic become rows; a TABLE is the latest row of each key",
        "CREATE TABLE users (id STRING PRIMARY KEY, city STRING) WITH (topic='users', format='json');",
    ),
    StatementHelp(
        "CREATE STREAM|TABLE name [WITH (settings)] AS SELECT …",
        "a query that a server runs, and that writes a topic exactly once",
        "CREATE TABLE sales AS SELECT city, sum(price) AS total FROM orders GROUP BY city;",
    ),
    StatementHelp(
        "INSERT INTO name [WITH (query_id=…)] SELECT …",
        "a query that a server runs, into an existing topic",
        "INSERT INTO large_orders SELECT * FROM orders WHERE price > 1000;",
    ),
    StatementHelp(
        "INSERT INTO name [(columns)] VALUES (…), (…)",
        "write records",
        "INSERT INTO users (id, city) VALUES ('u1', 'Praha');",
    ),
    StatementHelp(
        "SHOW TOPICS|STREAMS|TABLES|QUERIES|FUNCTIONS|SETTINGS|VARIABLES",
        "what there is",
        "SHOW QUERIES;",
    ),
    StatementHelp("DESCRIBE [EXTENDED] name", "the columns of a relation", "DESCRIBE orders;"),
    StatementHelp(
        "PRINT topic [FROM BEGINNING] [LIMIT n]",
        "the records of a topic as they are",
        "PRINT orders FROM BEGINNING LIMIT 3;",
    ),
    StatementHelp("EXPLAIN query|name", "how a query runs", "EXPLAIN SELECT * FROM orders WHERE price > 100;"),
    StatementHelp("PAUSE|RESUME|TERMINATE name|ALL", "change a query that a server runs", "PAUSE sales;"),
    StatementHelp(
        "DROP STREAM|TABLE [IF EXISTS] name [DELETE TOPIC]", "remove a declaration", "DROP TABLE IF EXISTS sales;"
    ),
    StatementHelp(
        "SET name = value, UNSET name",
        "a setting of this session, and of the queries that it creates",
        "SET 'auto.offset.reset' = 'earliest';",
    ),
    StatementHelp(
        "DEFINE name = 'value', UNDEFINE name", "a variable: ${name} stands for its value", "DEFINE city = 'Praha';"
    ),
    StatementHelp("RUN SCRIPT 'file'", "run the statements of a file", "RUN SCRIPT 'setup.sql';"),
)

KEYS: Final = (
    ("Enter", "runs the statement if it ends with a semicolon, else begins a new line"),
    ("Tab", "completes statements, topics, columns and functions"),
    ("Up, Ctrl-R", "earlier statements, also of earlier shells"),
    ("Ctrl-C", "ends the statement that runs, or clears the one that you type"),
    ("Ctrl-D, exit", "leaves the shell"),
)


def help_text(topic: str = "") -> str:
    """All statements, or those whose syntax begins with the given word."""
    wanted = topic.strip().rstrip(";").upper()
    chosen = [one for one in STATEMENTS if wanted in one.syntax.upper().replace("|", " ").replace(",", " ").split()]
    if wanted and not chosen:
        words = {word for one in STATEMENTS for word in one.syntax.replace("|", " ").replace(",", " ").split()}
        near = nearest(wanted, [word for word in words if word.isupper()])
        hint = "" if near is None else f"; did you mean help {near}?"
        return f"there is no statement {topic.strip().rstrip(';')}{hint}"
    lines: list[str] = []
    for one in chosen if wanted else STATEMENTS:
        lines += [one.syntax, f"    {one.meaning}", f"    {one.example}"]
    if not wanted:
        width = max(len(key) for key, _ in KEYS)
        lines += ["", *(f"{key.ljust(width)}  {meaning}" for key, meaning in KEYS)]
    return "\n".join(lines)
