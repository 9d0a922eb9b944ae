"""Records of a result: its columns as those of the target's declaration, then in the declaration's formats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moldau.sql.continuous.plans import DELETED, ContinuousPlan
from moldau.sql.continuous.spark_plans import quoted
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.tables.frames import encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Records:
    """Makes the columns of the sink from the rows of a result."""

    columns: tuple[tuple[str | None, ColumnDeclaration], ...]
    """The column of the result for each declared one; None if the result does not have it: it is null then."""
    target: Declaration

    def __call__(self, result: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        selected = [
            (f.lit(None) if name is None else f.col(quoted(name))).cast(column.type).alias(column.name)
            for name, column in self.columns
        ]
        if DELETED in result.columns:
            selected.append(f.col(DELETED))
        written = encoded(result.select(*selected), self.target)
        # A row of a table with no key at all cannot be written: its topic is compacted.
        return written.where("key IS NOT NULL") if self.target.kind is RelationKind.TABLE else written


def records_of(plan: ContinuousPlan, target: Declaration) -> Records:
    """Raises SqlError if the columns of the result do not fit the target's declaration."""
    if not target.columns:
        target = replace(target, columns=columns_of(plan))
    by_name = {column.name.lower(): column.name for column in plan.columns}
    declared = {column.name.lower() for column in target.columns}
    extra = [name for lower, name in by_name.items() if lower not in declared]
    if extra:
        raise SqlError(
            f"{target.name} has no column {extra[0]}",
            hint=f"its columns are {', '.join(column.name for column in target.columns)}: rename it with AS",
        )
    missing = [column.name for column in target.key_columns if column.name.lower() not in by_name]
    if missing:
        raise SqlError(
            f"the result has no column {missing[0]}, which is in the key of {target.name}",
            hint=f"add it to SELECT: … AS {missing[0]}",
        )
    return Records(tuple((by_name.get(column.name.lower()), column) for column in target.columns), target)


def columns_of(plan: ContinuousPlan) -> tuple[ColumnDeclaration, ...]:
    """The columns of a target that is declared by its query: CREATE … AS."""
    return tuple(ColumnDeclaration(one.name, one.type, one.name in plan.record_key) for one in plan.columns)
