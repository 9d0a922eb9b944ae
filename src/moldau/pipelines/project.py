"""Pipeline projects: the file spark-pipeline.yml, the directories of a project, and mistakes in them.

The file is Spark's: name, storage, catalog, database, configuration, libraries. A relative `storage` is a directory of
the project, so that a project can be moved; `spark-pipelines run` needs an absolute URI there.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.pipelines.errors import PipelineError, SourceLine

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
DEMO_DATA: Final = "moldau.pipeline.demo.data"
"""The setting that names a program of the project that creates its source topics and fills them."""
STATE_DIRECTORY: Final = ".moldau"


@dataclass(frozen=True)
class PipelineProject:
    root: Path
    spec: Path
    name: str
    storage: str
    """An absolute URI."""
    includes: tuple[str, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)
    catalog: str | None = None
    database: str | None = None

    @property
    def state(self) -> Path:
        return self.root / STATE_DIRECTORY

    @property
    def demo_data(self) -> str | None:
        return self.configuration.get(DEMO_DATA)

    @property
    def local_storage(self) -> Path | None:
        """The directory of the storage, or None if it is not on this machine."""
        return Path(self.storage.removeprefix("file://")) if self.storage.startswith("file://") else None


def find_project(directory: Path) -> PipelineProject:
    """The project in this directory or above it."""
    start = directory.resolve()
    if not start.is_dir():
        raise PipelineError(f"no directory {directory}; create a project with moldau pipeline new NAME")
    for place in (start, *start.parents):
        found = [place / name for name in SPEC_NAMES if (place / name).is_file()]
        if found:
            return read_project(found[0])
    raise PipelineError(
        f"no {SPEC_NAMES[0]} in {start} or above it; create a project with moldau pipeline new NAME, or name its"
        " directory with --project"
    )


def read_project(spec: Path) -> PipelineProject:
    import yaml

    try:
        content = yaml.safe_load(spec.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = SourceLine(spec.name, *((mark.line + 1, mark.column + 1) if mark else (None, None)))
        raise PipelineError(f"not YAML: {error.problem or error.context}", where=where) from None
    except yaml.YAMLError as error:
        raise PipelineError(f"not YAML: {error}", where=SourceLine(spec.name)) from None
    return _SpecReader(spec, content).project()


class _SpecReader:
    """The checks of a specification; each mistake is an error with the line of the field."""

    def __init__(self, spec: Path, content: Any) -> None:
        self._spec = spec
        if not isinstance(content, dict):
            raise PipelineError("the file must have fields, such as name: shop", where=SourceLine(spec.name))
        self._content: dict[Any, Any] = content

    def project(self) -> PipelineProject:
        for name in self._content:
            if name not in FIELDS:
                near = difflib.get_close_matches(str(name), FIELDS, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; the fields are {', '.join(FIELDS)}"
                raise self._error(str(name), f"unknown field {name}{hint}")
        root = self._spec.parent.resolve()
        return PipelineProject(
            root=root,
            spec=self._spec,
            name=self._text("name"),
            storage=self._storage(root),
            includes=self._includes(),
            configuration=self._configuration(),
            catalog=self._content.get("catalog"),
            database=self._content.get("database", self._content.get("schema")),
        )

    def _error(self, name: str, message: str) -> PipelineError:
        lines = self._spec.read_text(encoding="utf-8").splitlines()
        line = next((number for number, text in enumerate(lines, 1) if text.lstrip("- ").startswith(name)), None)
        return PipelineError(message, where=SourceLine(self._spec.name, line))

    def _text(self, name: str) -> str:
        value = self._content.get(name)
        if not isinstance(value, str) or not value:
            missing = name not in self._content
            raise self._error(name, f"the field {name} is missing" if missing else f"the field {name} must be a text")
        return value

    def _storage(self, root: Path) -> str:
        given = self._text("storage")
        return given if "://" in given else f"file://{(root / given).resolve()}"

    def _configuration(self) -> dict[str, str]:
        given = self._content.get("configuration") or {}
        if not isinstance(given, dict):
            raise self._error(
                "configuration", "configuration must have settings, such as spark.sql.ansi.enabled: 'true'"
            )
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise self._error(str(name), f"the setting {name} must be a text: write it in quotes, '{value}'")
        return given

    def _includes(self) -> tuple[str, ...]:
        try:
            found = tuple(str(entry["glob"]["include"]) for entry in self._content.get("libraries") or ())
        except (TypeError, KeyError):
            raise self._error(
                "libraries", "an entry of libraries must be glob: {include: transformations/**}"
            ) from None
        if not found:
            raise self._error(
                "libraries", "libraries names no files; write for example glob: {include: transformations/**}"
            )
        return found
