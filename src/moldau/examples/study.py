"""Case studies by name: what a study has to contain, and where it is found.

A study is a package. Its name is that of a package in `moldau.examples`, or the path of a directory with a copy.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from moldau.client.admin import NewTopic
    from moldau.examples.place import Place

HERE: Final = Path(__file__).parent
NOT_COPIED: Final = shutil.ignore_patterns("__pycache__")

Content = dict[str, Any] | list[Any]
"""The content of a topic or of a store. A dict has the latest value per key: a table. A list has all values: each must
be there exactly once, in any order."""


class StudyError(Exception):
    """An error, as a message for the user."""


def require(module: str, extra: str) -> None:
    """For a study that needs more than the others: StudyError if a package is not installed."""
    if find_spec(module) is None:
        raise StudyError(f"{module} is not installed; pip install 'moldau[{extra}]'")


class StudyRecord(NamedTuple):
    """A record of a study. The value is written as JSON; None is a tombstone."""

    topic: str
    key: str
    value: dict[str, Any] | None
    at_ms: int
    """The record's timestamp. A generator's records are sent when this time has come."""


Decode = Callable[[str, bytes], Any]
"""`decode(topic, data)`: the value of a record."""


def json_value(topic: str, data: bytes) -> Any:
    return json.loads(data)


Read = Callable[[str], Iterable[StudyRecord]]
"""`read(topic)`: all records of a topic. The records of one key are in order."""


class Study:
    """A study and the functions of its modules. They are imported at their first use: Spark's only in its process."""

    def __init__(self, package: ModuleType, location: str) -> None:
        self._package = package
        self.location = location
        """The name or directory by which `find` finds it, also in another process."""
        self.name = package.__name__.rpartition(".")[2]
        self.title = title(package)

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"{self._package.__name__}.{name}")

    @property
    def input_topics(self) -> Sequence[NewTopic]:
        topics: Sequence[NewTopic] = self._module("generator").TOPICS
        return topics

    @property
    def result_topics(self) -> Sequence[NewTopic]:
        topics: Sequence[NewTopic] = self._module("pipeline").TOPICS
        return topics

    def records(self, seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
        """Records without an end, ordered by time, about `rate` per second. The same arguments give the same."""
        records: Iterator[StudyRecord] = self._module("generator").records(seed, begin_ms, rate)
        return records

    def sender(self, place: Place) -> AbstractContextManager[Callable[[StudyRecord], None]]:
        """The function that sends a record. A generator with a function `sender(place)` has its own."""
        from moldau.examples.place import topic_sender

        found: AbstractContextManager[Callable[[StudyRecord], None]]
        found = getattr(self._module("generator"), "sender", topic_sender)(place)
        return found

    def decode(self, topic: str, data: bytes) -> Any:
        """The value of a record: JSON, unless the generator's DESERIALIZERS have one for the topic."""
        deserializer = getattr(self._module("generator"), "DESERIALIZERS", {}).get(topic)
        return json_value(topic, data) if deserializer is None else deserializer.deserialize(topic, data)

    def queries(self, spark: Any, place: Place) -> list[Any]:
        """The queries as Spark's DataStreamWriters, in the order in which data flows through them."""
        queries: list[Any] = self._module("pipeline").queries(spark, place)
        return queries

    def stored(self, place: Place) -> Mapping[str, Content]:
        """The content of stores that are not topics. A pipeline that has any has a function `stored(place)`."""
        function = getattr(self._module("pipeline"), "stored", None)
        return {} if function is None else function(place)

    def expected(self, read: Read) -> Mapping[str, Content]:
        """The expected content of topics and stores, by name."""
        contents: Mapping[str, Content] = self._module("reference").expected(read)
        return contents

    def picture(self, results: Any) -> Any:
        """The live view of `results.Results`: anything that rich can print."""
        return self._module("view").picture(results)


def title(package: ModuleType) -> str:
    """The first line of the docstring."""
    return (package.__doc__ or "").partition("\n")[0].removesuffix(".")


def names() -> list[str]:
    """The names of all studies."""
    return [module.name for module in pkgutil.iter_modules([str(HERE)]) if module.ispkg]


def find(name: str) -> Study:
    """The study with this name; or the copy in this directory, if there is a slash in the name."""
    if "/" in name:
        directory = Path(name).absolute()
        return Study(_import_copy(directory), str(directory))
    if name not in names():
        raise StudyError(f"there is no example {name!r}; there are {', '.join(names())}. A copy: ./{name}")
    return Study(importlib.import_module(f"moldau.examples.{name}"), name)


def _import_copy(directory: Path) -> ModuleType:
    """Import a copy. Spark's Python processes find it by PYTHONPATH."""
    if not (directory / "pipeline.py").exists() or not directory.name.isidentifier():
        raise StudyError(f"{directory} is not a copy of an example; make one with moldau examples copy NAME DIR")
    parent = str(directory.parent)
    sys.path.insert(0, parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([parent, *filter(None, [os.environ.get("PYTHONPATH")])])
    return importlib.import_module(directory.name)


def copy(name: str, directory: Path) -> None:
    """Copy a study to a directory that does not exist yet. Its modules then import each other, not the originals."""
    if name not in names():
        raise StudyError(f"there is no example {name!r}; there are {', '.join(names())}")
    if not directory.name.isidentifier():
        raise StudyError(f"{directory.name!r} cannot be the name of a Python package; use letters, digits and _")
    if directory.exists():
        raise StudyError(f"{directory} exists; give a directory that does not exist yet")
    shutil.copytree(HERE / name, directory, ignore=NOT_COPIED)
    for file in directory.rglob("*.py"):
        file.write_text(file.read_text().replace(f"moldau.examples.{name}", directory.name))
