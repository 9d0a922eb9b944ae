"""New projects: the files of the template, with the name of the project in them."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from moldau.pipelines.errors import PipelineError

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,60}")
PLACEHOLDER: Final = "{{name}}"
SUFFIX: Final = ".template"
"""Of Python files of the template, which are not modules of this package."""
IGNORED: Final = "storage/\n.moldau/\n__pycache__/\n"


def create_project(parent: Path, name: str) -> Path:
    """Write a project into the directory `name`, which must not exist or be empty. Return the directory."""
    if not NAME.fullmatch(name):
        raise PipelineError(f"{name!r} cannot be the name of a pipeline: use small letters, digits, - and _")
    directory = parent / name
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise PipelineError(f"{directory} already exists; choose another name or remove it")
    directory.mkdir(parents=True, exist_ok=True)
    _copy(files("moldau.pipelines") / "template", directory, name)
    (directory / ".gitignore").write_text(IGNORED)
    return directory


def _copy(source: Traversable, target: Path, name: str) -> None:
    target.mkdir(exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _copy(entry, target / entry.name, name)
        else:
            text = entry.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
            (target / entry.name.removesuffix(SUFFIX)).write_text(text, encoding="utf-8")
