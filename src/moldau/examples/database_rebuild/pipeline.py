"""Two ways to get a database out of its log of changes.

- A streaming query keeps a replica that follows the database.
- `rebuild` reads the log up to a time or an offset: the database as it was then.

Both take whole transactions only: a database never shows half of one.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.examples.database_rebuild.generator import CHANGES, DATABASE
from moldau.examples.database_rebuild.shop_database import TABLES, create_tables, rows_of
from moldau.examples.place import Place, batches_to, from_topic
from moldau.examples.study import Content

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS: list[Any] = []
REPLICA = "replica.sqlite"

CHANGE = "lsn LONG, table STRING, id LONG, row STRING, last BOOLEAN"


def queries(spark: SparkSession, place: Place) -> list[Any]:
    changes = from_topic(spark, place, CHANGES, CHANGE)
    return [batches_to(changes, place, REPLICA, partial(apply_changes, place.directory / REPLICA))]


def stored(place: Place) -> dict[str, Content]:
    return {name: rows_of(place.directory / name) for name in (DATABASE, REPLICA)}


# -- The replica -------------------------------------------------------------------------------------------------------


def apply_changes(path: Path, changes: DataFrame, batch: int) -> None:
    """Apply a micro-batch to the replica in one transaction.

    The replica remembers the last change that it has applied. So a batch that Spark gives us again changes nothing.
    Changes of a transaction that is not complete yet wait in the table `pending`.
    """
    rows = [(row.lsn, row.table, row.id, row.row, row.last) for row in changes.collect()]
    with closing(sqlite3.connect(path)) as replica, replica:
        create_tables(replica)
        replica.execute("CREATE TABLE IF NOT EXISTS applied (lsn INTEGER)")
        replica.execute("CREATE TABLE IF NOT EXISTS pending (lsn INTEGER PRIMARY KEY, name TEXT, id, row TEXT, last)")
        (applied,) = replica.execute("SELECT coalesce(max(lsn), 0) FROM applied").fetchone()
        new = [row for row in rows if row[0] > applied]
        replica.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?, ?)", new)
        (complete,) = replica.execute("SELECT max(lsn) FROM pending WHERE last").fetchone()
        if complete is None:
            return
        ready = replica.execute("SELECT name, id, row FROM pending WHERE lsn <= ? ORDER BY lsn", (complete,)).fetchall()
        for table, identity, row in ready:
            apply_change(replica, table, identity, row)
        replica.execute("DELETE FROM pending WHERE lsn <= ?", (complete,))
        replica.execute("DELETE FROM applied")
        replica.execute("INSERT INTO applied VALUES (?)", (complete,))


def apply_change(database: sqlite3.Connection, table: str, identity: int, row: str | None) -> None:
    """Store the new row, or delete it."""
    columns = TABLES[table]
    if row is None:
        database.execute(f"DELETE FROM {table} WHERE id = ?", (identity,))
    else:
        places = ", ".join(f":{name}" for name in columns)
        database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", json.loads(row))


# -- As of any time ----------------------------------------------------------------------------------------------------


def rebuild(
    spark: SparkSession, place: Place, path: Path, *, at_ms: int | None = None, offset: int | None = None
) -> None:
    """Write the database to a new file: as it was at a time, or after the changes before an offset."""
    from pyspark.sql import functions as f

    reader = spark.read.format("moldau").options(**place.spark_options()).option("subscribe", CHANGES)
    if at_ms is not None:
        reader = reader.option("endingTimestamp", str(at_ms + 1))
    if offset is not None:
        reader = reader.option("endingOffsets", json.dumps({CHANGES: {"0": offset}}))
    changes = reader.load().select(f.from_json(f.col("value").cast("string"), CHANGE).alias("value")).select("value.*")
    complete = changes.where("last").agg(f.max("lsn").alias("complete"))
    rows = (
        changes.join(complete, f.col("lsn") <= f.col("complete"))
        .groupBy("table", "id")
        .agg(f.max_by("row", "lsn").alias("row"))
        .where("row IS NOT NULL")
    )
    with closing(sqlite3.connect(path)) as database, database:
        create_tables(database)
        for row in rows.toLocalIterator():
            apply_change(database, row.table, row.id, row.row)
