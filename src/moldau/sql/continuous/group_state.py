"""State of aggregates over tables: Spark's streams know no retractions, so these processors keep the old rows.

Two processors follow each other. `RowChanges`, by the key of the table, keeps the current row of each key: a change
becomes "the old row leaves its group" and "the new row joins its group", which may be another one. `GroupRows`, by
the group, keeps the current rows of each group, and returns all of them if one has changed. The user's SELECT then runs
over complete groups, so every aggregate function is right, also those that cannot subtract.

Rows, keys and groups are JSON text here: Spark's own functions make and read it, so no value becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

KEY: Final = "__key"
ROW: Final = "__row"
ORDER: Final = "__order"
JOINS: Final = "__joins"
GROUP: Final = "__group"
GROUP_KEY: Final = "__group_key"

ROW_CHANGES: Final = f"{KEY} STRING, {ROW} STRING, {JOINS} BOOLEAN"
GROUP_ROWS: Final = f"{GROUP} STRING, {GROUP_KEY} STRING, {ROW} STRING"

PROVIDER_SETTING: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB_PROVIDER: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class RowChanges(StatefulProcessor):
    """By key: the row of the last change. Input: KEY, ORDER (the offset), ROW (null: deleted). Output: ROW_CHANGES."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._current = handle.getValueState("row", f"{ROW} STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        last = max(rows, key=lambda row: row[ORDER])
        stored = self._current.get()
        before, after = None if stored is None else stored[0], last[ROW]
        if before == after:
            return
        if after is None:
            self._current.clear()
        else:
            self._current.update((after,))
        for row, joins in ((before, False), (after, True)):
            if row is not None:
                yield Row(**{KEY: key[0], ROW: row, JOINS: joins})

    def close(self) -> None:
        pass


class GroupRows(StatefulProcessor):
    """By group: its current rows by key. Input: GROUP, GROUP_KEY and ROW_CHANGES. Output: GROUP_ROWS, all rows of the
    group; one row with null if the group has none any more."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._rows = handle.getMapState("rows", f"{KEY} STRING", f"{ROW} STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        changes = list(rows)
        group_key = changes[0][GROUP_KEY]
        joined = {change[KEY]: change[ROW] for change in changes if change[JOINS]}
        # The order of the two changes of one row is not kept on the way, so rows leave before others join.
        for change in changes:
            if not change[JOINS] and change[KEY] not in joined:
                self._rows.removeKey((change[KEY],))
        for name, row in joined.items():
            self._rows.updateValue((name,), (row,))
        empty = True
        for _, row in self._rows.iterator():
            empty = False
            yield Row(**{GROUP: key[0], GROUP_KEY: group_key, ROW: row[0]})
        if empty:
            yield Row(**{GROUP: key[0], GROUP_KEY: group_key, ROW: None})

    def close(self) -> None:
        pass
