"""Commit log of a sink, stored in its target: which files are published, and up to which offsets.

A commit is one small file `_moldau/CONNECTOR/commits/N.json` in the target directory, created only if it is absent. It
holds the offsets that are reached with it, and the staged files that it publishes under their final names.

- The file decides. A process that finds commit N taken has been replaced and publishes nothing.
- A process begins with a commit of its own that publishes nothing: from then on every older process finds its next
  number taken.
- Only the last commit can be unfinished, because a process finishes one before it writes the next, and finishes that
  of its predecessor before its own first one. Publishing can be repeated, by several processes at once.
- Old commits are removed, the last `KEPT` are not. A process that slept so long that its next number is free again
  finds greater numbers after it has written its own; it publishes nothing, and the others ignore the commit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.connect.connector import TakenOverError
from moldau.connect.connectors.file_store import FileStore
from moldau.host.event_log import event_logger

log = event_logger(__name__)

FORMAT: Final = 1
KEPT: Final = 8
MAX_CLAIMS: Final = 20
"""How often a starting process tries to write its first commit while others write theirs."""
HIDDEN_DIRECTORY: Final = "_moldau"
"""Spark, Hive and Arrow skip names that begin with an underscore."""


class BadCommitError(MoldauError):
    """A commit file that this version cannot read. The sink never guesses its meaning."""


class StagedFile(NamedTuple):
    """A file that a task wrote, and its final name. `position`: for appending to a file, where its bytes begin."""

    staged: str
    final: str
    position: int | None = None
    size: int = 0


@dataclass(frozen=True)
class TargetCommit:
    """One commit."""

    number: int
    owner: str
    log: str = ""
    """Identity of the log: the numbers of a log that was removed and began again must not be taken for the old ones."""
    batch: int = -1
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    files: tuple[StagedFile, ...] = ()

    def encoded(self) -> bytes:
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        fields = {
            "format": FORMAT,
            "commit": self.number,
            "owner": self.owner,
            "log": self.log,
            "batch": self.batch,
            "offsets": topics,
            "files": [list(one) for one in self.files],
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes, path: str) -> TargetCommit:
        try:
            fields: dict[str, Any] = json.loads(data)
            if fields["format"] != FORMAT:
                raise ValueError(f"format {fields['format']}")
            offsets = {
                TopicPartition(topic, int(partition)): int(offset)
                for topic, partitions in fields["offsets"].items()
                for partition, offset in partitions.items()
            }
            files = tuple(StagedFile(*one) for one in fields["files"])
            number, batch = int(fields["commit"]), int(fields["batch"])
            return cls(number, str(fields["owner"]), str(fields["log"]), batch, offsets, files)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadCommitError(f"cannot read commit {path}: {error!r}; this version reads format {FORMAT}") from error


Publish = Callable[[FileStore, StagedFile], None]
Finish = Callable[[TargetCommit], None]
"""Publishes all files of a commit at once, such as into a table. It must change nothing if it was done before."""


def move_into_place(store: FileStore, one: StagedFile) -> None:
    if not store.publish(one.staged, one.final) and not store.exists(one.final):
        log.info("published file is gone", extra={"file": one.final})


class CommitLog:
    """The log of one connector in one target, as one process writes it."""

    def __init__(
        self, store: FileStore, connector: str, publish: Publish = move_into_place, finish: Finish | None = None
    ) -> None:
        self.store = store
        self.home = f"{HIDDEN_DIRECTORY}/{connector}"
        self.owner = uuid.uuid4().hex
        self._publish = publish
        self._finish_all = finish
        self._last: TargetCommit | None = None
        self._unfinished = False
        self._stored: list[int] = []

    @property
    def staged_directory(self) -> str:
        return f"{self.home}/staged"

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        return self._last.offsets if self._last is not None else {}

    def start(self) -> None:
        """Finish the commit of the predecessor, then take over from it, then remove what dead attempts have left."""
        for _ in range(MAX_CLAIMS):
            last = self._latest()
            if last is not None:
                self._finish(last)
            if last is None:
                claim = TargetCommit(0, self.owner, uuid.uuid4().hex)
            else:
                claim = TargetCommit(last.number + 1, self.owner, last.log, last.batch, last.offsets)
            if self._append(claim):
                self._last, self._unfinished = claim, False
                self._remove_old_commits()
                self.store.delete_tree(self.staged_directory)
                return
        raise TakenOverError(f"other processes write commits of {self.home} all the time: two connectors of one name?")

    def commit(self, batch: int, offsets: Mapping[TopicPartition, int], files: Sequence[StagedFile]) -> None:
        """Publish files, and store the offsets that are reached with them. Raises TakenOverError."""
        last = self.finished()
        merged = {**last.offsets, **offsets}
        commit = TargetCommit(last.number + 1, self.owner, last.log, batch, merged, tuple(files))
        if not self._append(commit):
            raise TakenOverError(
                f"commit {commit.number} of {self.home} was written by another process: this one has been replaced, "
                "and has published nothing of its last batch"
            )
        self._last, self._unfinished = commit, True
        self._finish(commit)
        self._unfinished = False
        self._remove_old_commits()

    def change_offsets(self, changed: Mapping[TopicPartition, int | None] | None) -> None:
        """Take over, and replace offsets: None removes one, or all."""
        self.start()
        last = self.finished()
        merged: dict[TopicPartition, int | None] = {} if changed is None else {**last.offsets, **changed}
        kept = {partition: offset for partition, offset in merged.items() if offset is not None}
        commit = TargetCommit(last.number + 1, self.owner, last.log, last.batch, kept)
        if not self._append(commit):
            raise TakenOverError(f"another process has begun to write {self.home} while its offsets were changed")
        self._last = commit

    def finished(self) -> TargetCommit:
        """The last commit, with all its files published: an attempt to do so may have failed before."""
        if self._last is None:
            raise RuntimeError("the commit log was not started")
        if self._unfinished:
            self._finish(self._last)
            self._unfinished = False
        return self._last

    def sweep(self, up_to_batch: int) -> None:
        """Remove staged files of task attempts that belong to no commit. Their directories begin with the batch."""
        for name in self.store.names(self.staged_directory):
            number = name.partition("-")[0]
            if number.isdecimal() and int(number) <= up_to_batch:
                self.store.delete_tree(f"{self.staged_directory}/{name}")

    def _finish(self, commit: TargetCommit) -> None:
        if self._finish_all is not None:
            self._finish_all(commit)
            return
        for one in commit.files:
            self._publish(self.store, one)

    def _append(self, commit: TargetCommit) -> bool:
        """Write a commit. False: its number, or a greater one, belongs to another process."""
        if not self.store.create(self._path(commit.number), commit.encoded()):
            return False
        # Commits that are old enough are removed, and this process may have slept: then its number was free again.
        self._stored = self._numbers()
        if self._stored[-1] > commit.number:
            self.store.delete(self._path(commit.number))
            return False
        return True

    def _latest(self) -> TargetCommit | None:
        for _ in range(MAX_CLAIMS):
            numbers = self._numbers()
            if not numbers:
                return None
            path = self._path(numbers[-1])
            try:
                return TargetCommit.decoded(self.store.read(path), path)
            except FileNotFoundError:
                continue  # A process that was replaced has removed it; there is a greater one.
        raise TakenOverError(f"other processes write commits of {self.home} all the time: two connectors of one name?")

    def _numbers(self) -> list[int]:
        names = (name.removesuffix(".json") for name in self.store.names(f"{self.home}/commits"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _remove_old_commits(self) -> None:
        for number in self._stored:
            if number <= self._stored[-1] - KEPT:
                self.store.delete(self._path(number))

    def _path(self, number: int) -> str:
        return f"{self.home}/commits/{number:020d}.json"
