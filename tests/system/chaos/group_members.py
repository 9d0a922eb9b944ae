"""Members of one group: processes that start and stop, and the records that they report as processed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.system.chaos import member
from tests.system.chaos.member import Options

PROGRAM = Path(member.__file__)
START_TIMEOUT_S = 20
END_TIMEOUT_S = 20


class Processed:
    """The numbers that were processed, by partition. Reader threads add to it; the test waits on it."""

    def __init__(self, partitions: int) -> None:
        self.numbers: list[set[int]] = [set() for _ in range(partitions)]
        self.highest = [-1] * partitions
        self.changed = threading.Condition()

    def add(self, partition: int, first: int, last: int) -> None:
        with self.changed:
            self.numbers[partition].update(range(first, last + 1))
            self.highest[partition] = max(self.highest[partition], last)
            self.changed.notify_all()

    def missing(self, written: list[int]) -> dict[int, list[int]]:
        """The first numbers that no member has processed, by partition."""
        found = {}
        for partition, count in enumerate(written):
            if len(self.numbers[partition]) < count:
                found[partition] = [one for one in range(count) if one not in self.numbers[partition]][:10]
        return found

    def behind(self, written: list[int]) -> list[int]:
        """The partitions in which no member has reached these numbers."""
        return [partition for partition, count in enumerate(written) if self.highest[partition] < count - 1]

    def total(self) -> int:
        return sum(map(len, self.numbers))

    def wait_for(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        with self.changed:
            return self.changed.wait_for(reached, timeout_s)


class Member:
    """One consumer process."""

    def __init__(self, options: Options, processed: Processed) -> None:
        self.name = options.name
        self.options = options
        self.story: list[str] = []
        """The lines that the process printed, except for those on processed records."""
        self.complaints: list[str] = []
        """The log lines of its client."""
        self.owned: set[int] = set()
        """The partitions that the process believes it owns."""
        self.rebalances = 0
        self.failure: str | None = None
        self._processed = processed
        self._next: dict[int, int] = {}
        """For each partition read since its assignment: the number that must come next."""
        self._ready = threading.Event()
        command = [sys.executable, str(PROGRAM), json.dumps(asdict(options))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()

    def wait_ready(self) -> None:
        assert self._ready.wait(START_TIMEOUT_S), f"{self.name} did not start: {self.complaints}"
        assert self._process.poll() is None, f"{self.name} ended: {self.complaints}"

    def alive(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._wait()

    def leave(self) -> None:
        """End it by SIGTERM, so that it leaves the group."""
        self._process.terminate()
        code = self._wait()
        assert code == 0, f"{self.name} ended with {code}: {self.complaints[-20:]}"
        assert self.story[-1:] == ["closed"], self.story[-5:]

    def _wait(self) -> int:
        try:
            code = self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(f"{self.name} did not end: {self.story[-10:]}, {self.complaints[-10:]}") from None
        self._reader.join(END_TIMEOUT_S)
        self._errors.join(END_TIMEOUT_S)
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # a member that was killed in the middle of a line has not reported it
                    self._heard(line.split())
        self._ready.set()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self.complaints.extend(lines)

    def _heard(self, words: list[str]) -> None:
        what = words[0]
        if what == "got":
            partition, first, last = map(int, words[1:])
            expected = self._next.get(partition, first)
            if first != expected and self.failure is None:
                self.failure = f"{self.name} got {first} of partition {partition} where {expected} had to follow"
            self._next[partition] = last + 1
            self._processed.add(partition, first, last)
            return
        self.story.append(" ".join(words))
        if what in ("assigned", "revoked"):
            self.rebalances += 1
            partitions = set(map(int, words[1:]))
            self.owned = self.owned | partitions if what == "assigned" else self.owned - partitions
            for partition in partitions:
                self._next.pop(partition, None)
        elif what == "ready":
            self._ready.set()


class GroupMembers:
    """All members that were started in this test. Leaving the context ends those that still run."""

    def __init__(self, processed: Processed) -> None:
        self.processed = processed
        self.running: dict[str, Member] = {}
        """The running members, by name."""
        self.ended: list[Member] = []

    def start(self, options: Options) -> Member:
        found = self.running[options.name] = Member(options, self.processed)
        return found

    def remove(self, name: str) -> Member:
        found = self.running.pop(name)
        self.ended.append(found)
        return found

    def check(self) -> None:
        """Fail if a member skipped a record or ended without being asked to."""
        for one in [*self.running.values(), *self.ended]:
            assert one.failure is None, one.failure
        for one in self.running.values():
            assert one.alive(), f"{one.name} ended by itself: {one.complaints[-20:]}"

    def story(self) -> str:
        return "\n".join(
            f"{one.name}: {one.story} {one.complaints[-3:]}" for one in [*self.ended, *self.running.values()]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.running.values():
            one.kill()
        if error is not None:
            print(self.story())
