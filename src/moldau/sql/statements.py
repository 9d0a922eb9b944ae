"""Statements of streaming SQL, as data. `parser.py` makes them; `SqlSession` runs them.

The text of a query (`QueryText.text`) is Spark SQL: the parser has replaced our own clauses by blanks, or by Spark's
words for them. `QueryText.locate` turns an offset that Spark reports into the place in the user's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from moldau.sql.declarations import ColumnDeclaration, RelationKind
from moldau.sql.text_positions import SourceText, TextEdit, TextPiece, TextPosition

START: Final = TextPosition()

EVENT_TIME: Final = "__event_time__"
"""Stands for the column of the event time in the text of a query with ksqlDB's WINDOW clause: the parser does not know
the relation. `QueryText.with_event_time` puts the column in."""


@dataclass(frozen=True)
class ReadBound:
    """The start or the end of what is read of one relation: `FROM orders AT TIMESTAMP '…'`, `AT OFFSET 12`.

    Exactly one of the two is given. An offset counts for every partition unless `partition` names one.
    """

    offset: int | None = None
    timestamp: str | None = None
    partition: int | None = None


@dataclass(frozen=True)
class QueryText:
    """A SELECT (with WITH, UNION, …) in Spark's SQL."""

    text: str
    continuous: bool = False
    """`EMIT CHANGES`: for ever, else as of now."""
    limit: int | None = None
    """The LIMIT of a continuous query, which Spark does not allow: the query ends after so many rows."""
    as_of: Mapping[str, ReadBound] = field(default_factory=dict)
    """Time travel: the relation, by its name in lower case, is read up to here. In a continuous query: from here."""
    within: str | None = None
    """`JOIN … WITHIN 10 MINUTES`: the interval, for joins of two streams."""
    grace: str | None = None
    """`GRACE PERIOD 1 MINUTE`: how late a record may be; becomes the watermark."""
    window: str | None = None
    """ksqlDB's `WINDOW TUMBLING (SIZE 1 MINUTE)`, kept for messages: `text` already has Spark's `window(…)`, over
    EVENT_TIME."""
    position: TextPosition = START
    pieces: tuple[TextPiece, ...] = field(default=(), compare=False, repr=False)
    """Which part of `text` stands for which part of the user's text. Empty: it is the same from `position` on."""

    @property
    def source(self) -> SourceText:
        return SourceText(self.text, self.pieces or (TextPiece(0, self.position),))

    def locate(self, offset: int) -> TextPosition:
        """The place in the user's text of the character at this offset of `text`."""
        return self.source.position(offset)

    def locate_line(self, line: int, column: int) -> TextPosition:
        """The same for a line of `text`, from 1, and a column, from 0, as in Spark's errors."""
        lines = self.text.split("\n")[: line - 1]
        return self.locate(sum(len(one) + 1 for one in lines) + column)

    def with_event_time(self, column: str) -> QueryText:
        """The query with the column of the event time, as Spark SQL writes it, in place of EVENT_TIME."""
        return self.edited([TextEdit(at, at + len(EVENT_TIME), column) for at in _places(self.text, EVENT_TIME)])

    def edited(self, edits: Sequence[TextEdit]) -> QueryText:
        """The query with changes of its text; `locate` still finds the user's places."""
        source = self.source.edited(edits)
        return replace(self, text=source.text, pieces=source.pieces)


def _places(text: str, wanted: str) -> list[int]:
    found = []
    at = text.find(wanted)
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + len(wanted))
    return found


@dataclass(frozen=True)
class Statement:
    """Any statement. `text` is what the user wrote, without the semicolon."""

    text: str
    position: TextPosition


@dataclass(frozen=True)
class SelectStatement(Statement):
    query: QueryText


@dataclass(frozen=True)
class CreateDeclaredStatement(Statement):
    """`CREATE STREAM|TABLE name (columns) WITH (topic=…, …)`."""

    name: str
    kind: RelationKind
    columns: tuple[ColumnDeclaration, ...]
    settings: Mapping[str, str]
    """The WITH clause: names in lower case, values as text."""
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateAsStatement(Statement):
    """`CREATE STREAM|TABLE name WITH (…) AS SELECT …`: a continuous query that writes a topic of its own."""

    name: str
    kind: RelationKind
    settings: Mapping[str, str]
    query: QueryText
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class InsertSelectStatement(Statement):
    """`INSERT INTO name SELECT …`: a continuous query that writes an existing topic. WITH (query_id=…) names it."""

    target: str
    settings: Mapping[str, str]
    query: QueryText


@dataclass(frozen=True)
class InsertValuesStatement(Statement):
    """`INSERT INTO name (columns) VALUES (…), (…)`. `rows` is the text after VALUES, which Spark evaluates."""

    target: str
    columns: tuple[str, ...]
    rows: str


class Shown(StrEnum):
    """What SHOW lists."""

    TOPICS = "TOPICS"
    STREAMS = "STREAMS"
    TABLES = "TABLES"
    QUERIES = "QUERIES"
    FUNCTIONS = "FUNCTIONS"
    SETTINGS = "SETTINGS"
    VARIABLES = "VARIABLES"
    """Of DEFINE; the shell lists them."""


@dataclass(frozen=True)
class ShowStatement(Statement):
    what: Shown


@dataclass(frozen=True)
class DescribeStatement(Statement):
    name: str
    extended: bool = False


@dataclass(frozen=True)
class PrintStatement(Statement):
    """`PRINT topic [FROM BEGINNING] [LIMIT n]`: records as they are. Without LIMIT until the user ends it."""

    topic: str
    from_beginning: bool = False
    limit: int | None = None


@dataclass(frozen=True)
class ExplainStatement(Statement):
    """Of a query, or of a running query by its name."""

    query: QueryText | None = None
    name: str | None = None


class QueryAction(StrEnum):
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    TERMINATE = "TERMINATE"


@dataclass(frozen=True)
class ChangeQueryStatement(Statement):
    """`PAUSE|RESUME|TERMINATE name|ALL`."""

    action: QueryAction
    name: str | None
    """None for ALL."""


@dataclass(frozen=True)
class DropStatement(Statement):
    """`DROP STREAM|TABLE [IF EXISTS] name [DELETE TOPIC]`. A query that writes it must be terminated first."""

    kind: RelationKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True)
class SetStatement(Statement):
    """`SET name = value`: a setting of this session; `UNSET name` has the value None."""

    name: str
    value: str | None


@dataclass(frozen=True)
class DefineStatement(Statement):
    """`DEFINE name = 'value'`: `${name}` stands for the value from here on; `UNDEFINE name` has the value None.

    The parser puts the values in. A session has nothing to do.
    """

    name: str
    value: str | None


@dataclass(frozen=True)
class RunScriptStatement(Statement):
    """`RUN SCRIPT 'file'`: the shell runs the statements of the file."""

    path: str
