"""Errors of pipelines: the dataset or file, the place in it, and the reason in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.client.errors import MoldauError


@dataclass(frozen=True)
class SourceLine:
    """A place in a file of the project; the path is relative to the project. Line and column count from 1."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class PipelineError(MoldauError):
    """A pipeline that cannot run. `dataset` is the table, view or sink that failed, if it is one."""

    def __init__(self, reason: str, *, dataset: str | None = None, where: SourceLine | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.dataset = dataset
        self.where = where

    def __str__(self) -> str:
        place = "" if self.where is None else f"{self.where}: "
        dataset = "" if self.dataset is None else f"{self.dataset} failed: "
        return f"{place}{dataset}{self.reason}"
