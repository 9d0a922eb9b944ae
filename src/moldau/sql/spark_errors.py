"""Errors of Spark in SQL's terms: what is wrong, and where in the user's text. Never a Java trace, never a plan.

Spark's errors have a condition (`UNRESOLVED_COLUMN.WITH_SUGGESTION`), parameters, and a context with the place in the
text. Conditions that users meet often get words of our own; of the others the first sentences of Spark's message stay.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from moldau.client.errors import MoldauError
from moldau.sql import ksql_differences
from moldau.sql.errors import SqlError
from moldau.sql.relation_names import PLAIN_NAME, did_you_mean, nearest
from moldau.sql.statements import QueryText

if TYPE_CHECKING:
    from py4j.protocol import Py4JError
    from pyspark.errors.exceptions.base import PySparkException
    from pyspark.sql import SparkSession

_PARSE_PLACE: Final = re.compile(r"\(line (\d+), pos (\d+)\)")
_SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w+.*\Z", re.DOTALL)
_CONDITION: Final = re.compile(r"\A\[[A-Z0-9_.]+\]\s*")
_OWN_ERROR: Final = re.compile(
    r"^(?:pyspark\.errors\.exceptions\.base\.\w+|moldau\.[\w.]+\.(\w+)): (.*)$", re.MULTILINE
)
_CONFIG_ADVICE: Final = re.compile(r"\s*If necessary set \"?spark\.sql\.ansi\.enabled\"?.*?error\.", re.DOTALL)
MAX_MESSAGE: Final = 600
"""The longest message that is passed on."""
MAX_CAUSES: Final = 10
"""How deep errors of Java nest in each other."""


def quiet_spark_logging() -> None:
    """Stop PySpark from logging every SQL error with its Java trace: the error is raised as well."""
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger("DataFrameQueryContextLogger").disabled = True


@contextmanager
def in_sql_terms(text: QueryText | None = None, spark: SparkSession | None = None) -> Iterator[None]:
    """Raise SqlError for whatever Spark, py4j or a client of ours raises inside."""
    from py4j.protocol import Py4JError
    from pyspark.errors.exceptions.base import PySparkException

    try:
        yield
    except SqlError:
        raise
    except PySparkException as error:
        raise sql_error(error, text, spark) from None
    except Py4JError as error:
        raise _from_java(error, text, spark) from None
    except MoldauError as error:
        raise client_error(error) from None


def _from_java(error: Py4JError, text: QueryText | None, spark: SparkSession | None) -> SqlError:
    """Errors that PySpark does not convert, such as those of `toLocalIterator`: the cause with a condition, if any."""
    from pyspark.errors.exceptions.captured import convert_exception

    cause = getattr(error, "java_exception", None)
    last: PySparkException | None = None
    for _ in range(MAX_CAUSES):
        if cause is None:
            break
        last = convert_exception(cause)
        if last.getCondition() or _own_error(last) is not None:
            break
        cause = cause.getCause()
    if last is not None:
        return sql_error(last, text, spark)
    return SqlError(f"Spark failed: {_first_line(str(error))}")


def client_error(error: MoldauError) -> SqlError:
    """An error of a client: a broker that cannot be reached, a missing right."""
    return SqlError(str(error))


def sql_error(error: PySparkException, text: QueryText | None = None, spark: SparkSession | None = None) -> SqlError:
    """The error in SQL's terms. `text` is the query that Spark was given."""
    condition = error.getCondition() or ""
    parameters = _parameters(error)
    own = _own_error(error)
    if own is not None:
        return SqlError(own)
    line, column = _place(error, text)
    message, hint = _words(condition, parameters, error, spark)
    return SqlError(message, line=line, column=column, hint=hint)


def _parameters(error: PySparkException) -> Mapping[str, str]:
    found = error.getMessageParameters()
    return {} if found is None else {name: str(value) for name, value in dict(found).items()}


def _own_error(error: PySparkException) -> str | None:
    """The message of an error that our own source or sink has raised in a process of Spark."""
    found = [match for match in _OWN_ERROR.finditer(str(error)) if match.group(1)]
    return found[-1].group(2).strip() if found else None


def _place(error: PySparkException, text: QueryText | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    for context in _contexts(error):
        start = int(context.startIndex())
        if start >= 0 and str(context.objectType()) == "":
            place = text.locate(start)
            return place.line, place.column
    found = _PARSE_PLACE.search(str(error))
    if found is None:
        return text.position.line, text.position.column
    place = text.locate_line(int(found.group(1)), int(found.group(2)))
    return place.line, place.column


def _contexts(error: PySparkException) -> Sequence[Any]:
    contexts = error.getQueryContext() or []
    return [one for one in contexts if hasattr(one, "startIndex") and "DataFrame" not in str(one.contextType())]


def _words(
    condition: str, parameters: Mapping[str, str], error: PySparkException, spark: SparkSession | None
) -> tuple[str, str | None]:
    translate = _TRANSLATIONS.get(condition) or _TRANSLATIONS.get(condition.partition(".")[0])
    if translate is not None:
        return translate(parameters, spark)
    return _plain_message(error), None


def _plain_message(error: PySparkException) -> str:
    """Spark's message without its condition, SQLSTATE, plans, and lines of traces."""
    text = _CONDITION.sub("", error.getMessage() or str(error))
    text = _SQLSTATE.sub("", text)
    text = _CONFIG_ADVICE.sub("", text)
    lines = []
    for line in text.splitlines():
        if re.match(r"\s*(at [\w.$]+\(|Caused by:|JVM stacktrace|== SQL|'?\+-|:-|Traceback )", line):
            break
        lines.append(line.strip())
    plain = " ".join(line for line in lines if line).rstrip(". ")
    plain = plain[:MAX_MESSAGE] or "Spark cannot run this query"
    return plain[0].lower() + plain[1:] if plain[:2].istitle() else plain


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:MAX_MESSAGE] if text.strip() else "no message"


# Words for conditions -------------------------------------------------------------------------------------------------


def _bare(name: str) -> str:
    return name.replace("`.`", ".").strip("`\"'")


def _unknown_column(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    name = _bare(parameters.get("objectName", ""))
    proposals = [_bare(one) for one in parameters.get("proposal", "").split(", ") if one]
    last = name.rpartition(".")[2]
    instead = ksql_differences.COLUMNS.get(last.upper())
    if instead is not None:
        return f"there is no column {name!r}", f"write {instead}"
    near = nearest(last, [one.rpartition(".")[2] for one in proposals])
    hint = f"did you mean {near}?" if near else f"there are for example {', '.join(proposals)}" if proposals else None
    return f"there is no column {name!r}", hint


def _unknown_field(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    name = _bare(parameters.get("fieldName", ""))
    fields = [_bare(one) for one in parameters.get("fields", "").split(", ") if one]
    return f"there is no field {name!r}", did_you_mean(name, fields) or f"the fields are {', '.join(fields)}"


def _unknown_relation(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    return f"there is no stream, table or topic {_bare(parameters.get('relationName', ''))!r}", None


def _unknown_function(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    name = _bare(parameters.get("routineName", parameters.get("functionName", "")))
    known = [] if spark is None else function_names(spark)
    return f"there is no function {name!r}", did_you_mean(name, known) or "SHOW FUNCTIONS lists them"


def function_names(spark: SparkSession) -> list[str]:
    """The functions of Spark SQL, without operators. `catalog.listFunctions` has descriptions too, and is slow."""
    names = [str(row[0]) for row in spark.sql("SHOW FUNCTIONS").collect()]
    return sorted(name for name in names if PLAIN_NAME.match(name))


def _syntax(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    found = parameters.get("error", "").strip("'") or "'"
    if found == "end of input":
        return "the statement is not complete", None
    extra = parameters.get("hint", "").removeprefix(":").strip()
    return f"syntax error at {found!r}" + (f": {extra}" if extra else ""), None


def _identifier(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    name = parameters.get("ident", "")
    return f"the name {name} needs backticks", f"write `{name}`"


def _division(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    return "division by zero", "try_divide(a, b) gives NULL instead"


def _cast(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    value, kind = parameters.get("expression", ""), _bare(parameters.get("targetType", ""))
    return f"{value} is not a value of type {kind}", f"try_cast(… AS {kind}) gives NULL instead"


def _overflow(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    value, kind = parameters.get("value", "the result"), _bare(parameters.get("targetType", "its type"))
    return f"{value} is too large for {kind}", None


def _ambiguous(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    found = list(dict.fromkeys(parameters.get("referenceNames", "").strip("[]").replace("`", "").split(", ")))
    hint = f"write one of {', '.join(found)}" if len(found) > 1 else "give the columns different names with AS"
    return f"column {_bare(parameters.get('name', ''))!r} is ambiguous", hint


def _no_grouping(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    return "columns beside an aggregate need a GROUP BY", "add GROUP BY with these columns"


def _not_grouped(parameters: Mapping[str, str], spark: SparkSession | None) -> tuple[str, str | None]:
    name = _bare(parameters.get("expression", parameters.get("expressionAnyValue", "")))
    return (
        f"column {name!r} is neither in GROUP BY nor in an aggregate",
        f"add it to GROUP BY, or write any_value({name})",
    )


_Words = Callable[[Mapping[str, str], "SparkSession | None"], tuple[str, "str | None"]]
_TRANSLATIONS: Final[Mapping[str, _Words]] = {
    "UNRESOLVED_COLUMN": _unknown_column,
    "FIELD_NOT_FOUND": _unknown_field,
    "TABLE_OR_VIEW_NOT_FOUND": _unknown_relation,
    "UNRESOLVED_ROUTINE": _unknown_function,
    "PARSE_SYNTAX_ERROR": _syntax,
    "INVALID_IDENTIFIER": _identifier,
    "DIVIDE_BY_ZERO": _division,
    "CAST_INVALID_INPUT": _cast,
    "CAST_OVERFLOW": _overflow,
    "AMBIGUOUS_REFERENCE": _ambiguous,
    "MISSING_GROUP_BY": _no_grouping,
    "MISSING_AGGREGATION": _not_grouped,
}
