"""Memory disk: a disk in memory that can lose power.

It implements the system calls (`host.calls.SystemCalls`) below the real file code. Every file has two contents: what a
process sees, and what has been on disk since the last fsync. The same holds for the names in every directory.
`lose_power` turns the difference into what a real power loss may leave: any part of the unsynced bytes, with pages of
zeros or garbage, and files whose creation or removal was lost. All of it follows from a seed.

Renames of directories are simplified: all entries below move at once, durably or not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from posixpath import dirname
from random import Random

from moldau.host.syscalls import Buffer

PAGE = 4096
DEFAULT_CAPACITY = 1 << 40


class Inode:
    """The two contents of a file."""

    __slots__ = ("data", "locked", "lost", "synced", "touched")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = bytearray()
        self.touched = 0
        """Position of the first byte that was changed since the last sync."""
        self.lost = False
        """An fsync failed: the dirty pages were dropped, and no later fsync writes them."""
        self.locked: int | None = None

    def sync(self) -> None:
        if not self.lost:
            self.synced[self.touched :] = self.data[self.touched :]
            self.touched = len(self.data)

    def after_power_loss(self, random: Random) -> None:
        """Replace the content by what might be found: everything before `touched`, then any part of the rest."""
        new, old = self.data, bytes(self.synced)
        if new == old:
            self._settle(old)
            return
        keep = min(self.touched, len(new), len(old))
        size = random.choice([keep, len(old), len(new), random.randint(keep, max(len(new), len(old)))])
        found = bytearray(old[:keep])
        torn = random.random() < 0.5
        while len(found) < size:
            at = len(found)
            end = min(size, (at // PAGE + 1) * PAGE)
            page = bytes(new[at:end])
            if torn and random.random() < 0.3:
                page = random.choice([b"", random.randbytes(end - at), old[at:end]])
            found += page.ljust(end - at, b"\0")[: end - at]
        self._settle(bytes(found))

    def _settle(self, content: bytes) -> None:
        self.data = bytearray(content)
        self.synced = bytearray(content)
        self.touched = len(content)
        self.lost = False
        self.locked = None


Entry = Inode | None  # None is a directory


class MemoryDisk:
    """System calls on memory. Thread-safe only as far as the interpreter makes operations atomic."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        """Maximum total size of all files in bytes; writing more fails with ENOSPC."""
        self.now = 1_000_000_000.0
        self._seen: dict[str, Entry] = {"/": None}
        self._inside: dict[str, dict[str, None]] = {}
        """The visible paths in each directory."""
        self._safe: dict[str, Entry] = {"/": None}
        self._pending: list[tuple[str, dict[str, Entry | str]]] = []
        self._open: dict[int, Inode | str] = {}
        self._next_fd = 1000

    # -- power loss and damage -------------------------------------------------------------------------------------

    def lose_power(self, seed: int) -> None:
        """Replace everything that was not synced by a random part of it. Open descriptors are closed."""
        random = Random(seed)
        self._open.clear()
        self._apply_some_names(random)
        found = {path: entry for path, entry in self._safe.items() if self._reachable(path)}
        self._safe = found
        self._seen, self._inside = {"/": None}, {}
        for path, entry in found.items():
            self._see(path, entry)
        done: set[int] = set()
        for path in sorted(self._seen):
            inode = self._seen[path]
            if inode is not None and id(inode) not in done:
                done.add(id(inode))
                inode.after_power_loss(random)

    def kill_process(self) -> None:
        """Simulate a killed process: contents stay, descriptors and locks are released."""
        self._open.clear()
        for inode in self._seen.values():
            if inode is not None:
                inode.locked = None

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Change bytes on disk and in the cache, also of open files, as a failing disk does."""
        inode = self._inode(path)
        inode.data[position : position + len(data)] = data
        inode.touched = min(inode.touched, position)
        inode.sync()

    def _apply_some_names(self, random: Random) -> None:
        """Apply a prefix of the unsynced name changes: of all together, or of each directory separately."""
        if random.random() < 0.5:
            arrived = self._pending[: random.randint(0, len(self._pending))]
        else:
            arrived = []
            for directory in sorted({directory for directory, _ in self._pending}):
                mine = [change for change in self._pending if change[0] == directory]
                arrived += mine[: random.randint(0, len(mine))]
        for _, change in arrived:
            self._arrive(change)
        self._pending = []

    def _arrive(self, change: dict[str, Entry | str]) -> None:
        for path, entry in change.items():
            if isinstance(entry, str):
                self._safe.pop(path, None)
            else:
                self._safe[path] = entry

    def _reachable(self, path: str) -> bool:
        while path != "/":
            if path not in self._safe:
                return False
            path = dirname(path)
        return True

    # -- names -----------------------------------------------------------------------------------------------------

    def _change(self, changes: dict[str, Entry | str]) -> None:
        """Add names (value: an entry) or remove them (value: any string). Visible at once, durable when the directory
        is synced."""
        for path, entry in changes.items():
            if not isinstance(entry, str):
                self._see(path, entry)
            elif path in self._seen:
                del self._seen[path]
                del self._inside[dirname(path)][path]
        self._pending.append((dirname(next(iter(changes))), changes))

    def _see(self, path: str, entry: Entry) -> None:
        self._seen[path] = entry
        if path != "/":
            self._inside.setdefault(dirname(path), {})[path] = None

    def _inode(self, path: str) -> Inode:
        entry = self._entry(path)
        if entry is None:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return entry

    def _entry(self, path: str) -> Entry:
        if path not in self._seen:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._seen[path]

    def _require_directory(self, path: str) -> None:
        if self._entry(path) is not None:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)

    def _children(self, path: str) -> list[str]:
        return list(self._inside.get(path, ()))

    def scan(self, path: str) -> list[tuple[str, bool]]:
        self._require_directory(path)
        return [(other[len(path.rstrip("/")) + 1 :], self._seen[other] is None) for other in self._children(path)]

    def is_directory(self, path: str) -> bool:
        return path in self._seen and self._seen[path] is None

    def mkdir(self, path: str) -> None:
        if path in self._seen:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._require_directory(dirname(path))
        self._change({path: None})

    def rmdir(self, path: str) -> None:
        self._require_directory(path)
        if self._children(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self._change({path: "gone"})

    def rename(self, old: str, new: str) -> None:
        entry = self._entry(old)
        self._require_directory(dirname(new))
        changes: dict[str, Entry | str] = {old: "gone", new: entry}
        if entry is None:
            for path in [path for path in self._seen if path.startswith(old + "/")]:
                changes[path] = "gone"
                changes[new + path[len(old) :]] = self._seen[path]
        self._change(changes)

    def remove(self, path: str) -> None:
        self._inode(path)
        self._change({path: "gone"})

    # -- files -----------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        handle: Inode | str
        if flags & os.O_DIRECTORY:
            self._require_directory(path)
            handle = path
        else:
            if flags & os.O_CREAT and path not in self._seen:
                self._require_directory(dirname(path))
                self._change({path: Inode()})
            elif flags & os.O_CREAT and flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, "File exists", path)
            handle = self._inode(path)
            if flags & os.O_TRUNC:
                self._cut(handle, 0)
        self._next_fd += 1
        self._open[self._next_fd] = handle
        return self._next_fd

    def _file(self, fd: int) -> Inode:
        handle = self._open.get(fd)
        if not isinstance(handle, Inode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        return handle

    def close(self, fd: int) -> None:
        handle = self._open.pop(fd, None)
        if isinstance(handle, Inode) and handle.locked == fd:
            handle.locked = None

    def try_lock(self, fd: int) -> None:
        inode = self._file(fd)
        if inode.locked is not None:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable")
        inode.locked = fd

    def size_of(self, fd: int) -> int:
        return len(self._file(fd).data)

    def stat_size(self, path: str) -> int:
        entry = self._entry(path)
        return 0 if entry is None else len(entry.data)

    def stat_time(self, path: str) -> float:
        self._entry(path)
        return self.now

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        inode = self._file(fd)
        data = b"".join(bytes(buffer) for buffer in buffers)
        grows = max(0, position + len(data) - len(inode.data))
        # Counting the used bytes of all files is slow, so only disks with a limit do it.
        room = grows if self.capacity == DEFAULT_CAPACITY else self.capacity - self._used()
        if grows > room:
            data = data[: len(data) - (grows - room)]
            if not data:
                raise OSError(errno.ENOSPC, "No space left on device")
        if position > len(inode.data):
            inode.data += bytes(position - len(inode.data))
        inode.data[position : position + len(data)] = data
        inode.touched = min(inode.touched, position)
        return len(data)

    def preadv(self, fd: int, buffers: Sequence[bytearray | memoryview], position: int, flags: int = 0) -> int:
        inode = self._file(fd)
        total = 0
        for buffer in buffers:
            part = inode.data[position + total : position + total + len(buffer)]
            memoryview(buffer)[: len(part)] = part
            total += len(part)
        return total

    def fdatasync(self, fd: int) -> None:
        self._file(fd).sync()

    def fsync(self, fd: int) -> None:
        handle = self._open.get(fd)
        if isinstance(handle, str):
            for directory, change in self._pending:
                if directory == handle:
                    self._arrive(change)
            self._pending = [one for one in self._pending if one[0] != handle]
        else:
            self._file(fd).sync()

    def syncfs(self, fd: int) -> None:
        if fd not in self._open:
            raise OSError(errno.EBADF, "Bad file descriptor")
        for inode in self._seen.values():
            if inode is not None:
                inode.sync()
        for _, change in self._pending:
            self._arrive(change)
        self._pending = []

    def ftruncate(self, fd: int, size: int) -> None:
        self._cut(self._file(fd), size)

    def _cut(self, inode: Inode, size: int) -> None:
        if size > len(inode.data):
            inode.data += bytes(size - len(inode.data))
        del inode.data[size:]
        inode.touched = min(inode.touched, size)

    def space(self, path: str) -> tuple[int, int]:
        self._entry(path)
        return self.capacity, self.capacity - self._used()

    def _used(self) -> int:
        return sum(len(inode.data) for inode in self._seen.values() if inode is not None)

    def forget_dirty(self, fd: int) -> None:
        """Drop dirty pages as a failed fsync does."""
        self._file(fd).lost = True
