"""Keyed state with timers: a class of yours gets the rows, the state and the timers of each key.

    class Silence(KeyedProcessor):
        def on_rows(self, key, rows, state):
            for timer in state.timers():
                state.cancel_timer(timer)
            last = max(row.timestamp for row in rows)
            state.set(last=last)
            state.set_timer(last + timedelta(minutes=5))
            return []

        def on_timer(self, key, at, state):
            yield {"sensor": key, "silent_since": state.get().last}

    silent = keyed_state(readings, Silence(), key="sensor", state="last TIMESTAMP",
                         schema="sensor STRING, silent_since TIMESTAMP", timers="event")

It is Spark's `transformWithState`. State and timers are part of the query's checkpoint: after a kill they are as they
were when the last batch was complete, and with the exactly-once sink each row of the result is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from moldau.client.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TIME_MODES: Final = {"processing": "ProcessingTime", "event": "EventTime", "none": "None"}
STATE: Final = "state"

Rows = Iterable[Mapping[str, Any] | Row | tuple[Any, ...]]
"""Rows of a result: mappings by column, Spark's rows, or tuples in the order of the schema."""


class KeyState:
    """State and timers of the key that is being processed. Valid during one call of a processor.

    Times are datetimes with a time zone (UTC), which can be compared with those in the rows.
    """

    def __init__(self, value: Any, columns: list[str], handle: StatefulProcessorHandle, now_ms: int) -> None:
        self._value = value
        self._row = Row(*columns)
        self._columns = columns
        self._handle = handle
        self._now_ms = now_ms

    def get(self) -> Row | None:
        """The state, with a field for each of its columns; None if the key has none yet."""
        found = self._value.get()
        return None if found is None else self._row(*map(_with_zone, found))

    def set(self, **fields: Any) -> None:
        """Change these columns of the state. Columns that were never set are None."""
        unknown = fields.keys() - set(self._columns)
        if unknown:
            raise ConfigurationError(
                f"the state has no {', '.join(sorted(unknown))}; it has {', '.join(self._columns)}"
            )
        found = self._value.get()
        known = dict(zip(self._columns, found or [None] * len(self._columns), strict=True))
        known.update(fields)
        self._value.update(tuple(known[column] for column in self._columns))

    def clear(self) -> None:
        """Forget the state of this key. Its timers stay."""
        self._value.clear()

    @property
    def now(self) -> datetime:
        """The time of this batch: the clock's, or the watermark with event timers."""
        return _from_ms(self._now_ms)

    def set_timer(self, at: datetime) -> None:
        """Call `on_timer` for this key when that time has passed: in a later batch, even if it has no rows."""
        self._handle.registerTimer(_to_ms(at))

    def cancel_timer(self, at: datetime) -> None:
        self._handle.deleteTimer(_to_ms(at))

    def timers(self) -> list[datetime]:
        """The timers of this key that have not fired."""
        return [_from_ms(found) for found in self._handle.listTimers()]


class KeyedProcessor(ABC):
    """Your code. Spark makes copies of the object on its executors: attributes are constants, not state."""

    @abstractmethod
    def on_rows(self, key: Any, rows: Iterator[Row], state: KeyState) -> Rows:
        """The rows of one key in a batch, in no particular order. Returns, or yields, rows of the result.

        `key` is the value of the key column, or a tuple of several.
        """

    def on_timer(self, key: Any, at: datetime, state: KeyState) -> Rows:
        """A timer of the key, which was set for `at`, has expired."""
        return ()


def keyed_state(
    frame: DataFrame,
    processor: KeyedProcessor,
    *,
    key: str | Iterable[str],
    state: str,
    schema: str,
    timers: str = "processing",
    output_mode: str = "append",
) -> DataFrame:
    """Return the rows that `processor` makes of the rows and timers of each key.

    `state` is the DDL of the state of a key, `schema` that of the rows. `timers` is "processing" (the clock), "event"
    (the watermark: the frame needs `withWatermark`) or "none".

    The session is set to Spark's RocksDB state store, which keyed state needs.
    """
    if timers not in TIME_MODES:
        raise ConfigurationError(f"timers={timers!r} is not known; write {', '.join(TIME_MODES)}")
    if find_spec("google.protobuf") is None:
        raise ImportError("keyed state needs protobuf: pip install 'moldau[sql]'", name="google.protobuf")
    frame.sparkSession.conf.set(PROVIDER, ROCKSDB)
    keys = [key] if isinstance(key, str) else list(key)
    bridge = StateBridge(processor, state, _columns(state), _columns(schema))
    grouped: Any = frame.groupBy(*keys)
    mode, times = output_mode.capitalize(), TIME_MODES[timers]
    return grouped.transformWithState(bridge, outputStructType=schema, outputMode=mode, timeMode=times)  # type: ignore[no-any-return]


def _columns(ddl: str) -> list[str]:
    from pyspark.sql.types import StructType

    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    return list(parsed.names)


class StateBridge(StatefulProcessor):
    """The calls of Spark, in the Python processes of its executors."""

    def __init__(self, processor: KeyedProcessor, state: str, state_columns: list[str], columns: list[str]) -> None:
        self._processor = processor
        self._state = state
        self._state_columns = state_columns
        self._columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._value = handle.getValueState(STATE, self._state)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        state = self._key_state(timerValues)
        yield from self._rows(self._processor.on_rows(_key(key), rows, state))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        at = _from_ms(expiredTimerInfo.getExpiryTimeInMs())
        yield from self._rows(self._processor.on_timer(_key(key), at, self._key_state(timerValues)))

    def close(self) -> None:
        pass

    def _key_state(self, times: TimerValues) -> KeyState:
        watermark_ms, clock_ms = times.getCurrentWatermarkInMs(), times.getCurrentProcessingTimeInMs()
        return KeyState(self._value, self._state_columns, self._handle, watermark_ms if clock_ms < 0 else clock_ms)

    def _rows(self, rows: Rows) -> Iterator[Row]:
        for row in rows:
            if isinstance(row, Mapping):
                yield Row(**{column: row.get(column) for column in self._columns})
            elif isinstance(row, Row) and hasattr(row, "__fields__"):
                yield Row(**{column: row[column] for column in self._columns})
            else:
                yield Row(**dict(zip(self._columns, row, strict=True)))


def _key(key: Any) -> Any:
    return key[0] if isinstance(key, tuple) and len(key) == 1 else key


def _with_zone(value: Any) -> Any:
    """Spark returns times of the state without a zone, in that of the process, and times of rows with one."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _to_ms(at: datetime) -> int:
    return int(at.timestamp() * 1_000)


def _from_ms(ms: int) -> datetime:
    return datetime.fromtimestamp(max(ms, 0) / 1_000, UTC)
