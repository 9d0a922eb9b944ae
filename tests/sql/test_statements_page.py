"""The page of all statements: its examples parse, and its tables are complete."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau.sql import ksql_differences, statements
from moldau.sql.parser import parse
from moldau.sql.shell.statement_help import STATEMENTS
from moldau.sql.with_settings import ALIASES, SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "sql-statements.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_parses_and_every_kind_of_statement_has_one() -> None:
    shown = {type(statement) for example in EXAMPLES for statement in parse(example)}
    kinds = {kind for kind in statements.Statement.__subclasses__() if kind.__module__ == statements.__name__}
    assert shown == kinds


@pytest.mark.parametrize("page", sorted(DOCS.glob("sql*.md")), ids=lambda page: page.name)
def test_examples_of_all_pages_of_sql_parse(page: Path) -> None:
    for example in re.findall(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        assert parse(example)


def test_every_setting_is_described() -> None:
    for name, meaning in SETTINGS.items():
        assert f"| `{name}` | {meaning} |" in PAGE
    assert all(f"`{name}`" in PAGE for name in ALIASES)


@pytest.mark.parametrize("name", [*ksql_differences.FUNCTIONS, *ksql_differences.COLUMNS])
def test_every_word_of_ksqldb_has_what_to_write_instead(name: str) -> None:
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` | ")]
    instead = {**ksql_differences.FUNCTIONS, **ksql_differences.COLUMNS}[name]
    assert line.replace("`", "") == f"| {name} | {instead} |"


def test_functions_to_write_instead_exist_in_spark(spark: SparkSession) -> None:
    wanted = {
        name
        for instead in (*ksql_differences.FUNCTIONS.values(), *ksql_differences.COLUMNS.values())
        for name in re.findall(r"(\w+)\(", instead)
    }
    assert wanted - {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()} == set()
    for name in ksql_differences.FUNCTIONS:
        assert not spark.catalog.functionExists(name.lower()), name


def test_spark_describes_its_functions(sql: Callable[[str], Any]) -> None:
    assert "max_by" in str(sql("DESCRIBE FUNCTION max_by"))


def test_the_help_of_the_shell_has_examples_that_parse() -> None:
    for one in STATEMENTS:
        [statement] = parse(one.example)
        assert statement.text
