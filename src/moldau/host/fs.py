"""File system access: the only module that reads and writes the disk.

A `File` opens its descriptor on first use and may lose it again: open descriptors are in a pool of bounded size, which
closes the least recently used ones. A descriptor in use, on the event loop or in a thread, is pinned and never closed,
so that its number can never refer to another file in the middle of an operation.

Guarantees after failures:
- `append` writes all or nothing: after an error the file is truncated to its known size before the error is raised. If
  even that fails, the file is `torn` and accepts no further append.
- A failed `sync` is never retried: the kernel may have dropped the dirty pages, and a second fsync would succeed
  although the data is lost.

Every call except `read_cached` may block. Errors are OSError; the caller decides which of them are fatal.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from posixpath import dirname, join

from moldau.host.memory import fresh_buffer
from moldau.host.syscalls import Buffer, LinuxCalls, SystemCalls, files_allowed, process_id

MAX_BUFFERS_PER_WRITE = 512
"""Below the kernel's IOV_MAX of 1024."""

_OPEN_FLAGS = os.O_RDWR | os.O_CLOEXEC
_MODE = 0o644
_NOWAIT = os.RWF_NOWAIT
_NOWAIT_REFUSED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class TornFile(OSError):
    """A failed append could not be truncated: bytes after the known size are on disk."""


class SyncFailed(OSError):
    """An earlier fsync of this file failed, so it is unknown which bytes are on disk."""


class FileChanged(OSError):
    """The file does not have the expected size: another program wrote to it or truncated it."""


class AlreadyLocked(OSError):
    """Another process holds the lock."""

    def __init__(self, path: str, pid: int | None) -> None:
        owner = f"process {pid}" if pid is not None else "another process"
        super().__init__(errno.EWOULDBLOCK, f"locked by {owner}", path)
        self.pid = pid


class DescriptorPool:
    """At most `limit` open descriptors; the least recently used are closed first, pinned ones never.

    If all are pinned, the limit is exceeded. Pins last for one call each, by a bounded number of threads, so the
    excess is bounded too.
    """

    __slots__ = ("_calls", "_lock", "_open", "limit")

    def __init__(self, limit: int, calls: SystemCalls) -> None:
        self.limit = limit
        self._calls = calls
        self._lock = threading.Lock()
        self._open: OrderedDict[File, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def pin(self, file: File) -> int:
        """The file's descriptor, opened if needed; it stays open until `unpin`."""
        with self._lock:
            file.pins += 1
            if file.fd >= 0:
                self._open.move_to_end(file)
                return file.fd
        # Open it outside the lock: a slow disk must not block the files on other disks.
        try:
            fd = self._open_despite_rename(file)
        except OSError:
            self.unpin(file)
            raise
        return self._adopt(file, fd)

    def _open_despite_rename(self, file: File) -> int:
        """Open the file under its path, even while its owner renames it.

        A reading thread may find the file at its new path, or still at the former one, or, after that attempt, at the
        new one. When no rename is running, both paths are the same.
        """
        for path in (file.path, file.former_path):
            try:
                return self._open_descriptor(path)
            except FileNotFoundError:
                pass
        return self._open_descriptor(file.path)

    def _open_descriptor(self, path: str) -> int:
        """Open a file; if the process has no descriptor left because sockets took them, close idle files first."""
        try:
            return self._calls.open(path, _OPEN_FLAGS)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        given_back: list[int] = []
        with self._lock:
            self._collect_victims(given_back, len(self._open) // 2)
        for fd in given_back:
            self._calls.close(fd)
        return self._calls.open(path, _OPEN_FLAGS)

    def _adopt(self, file: File, fd: int) -> int:
        found = self._calls.size_of(fd)
        too_many: list[int] = []
        with self._lock:
            # While `file.fd` is unset and this thread holds a pin, no append can run, so `found` and `size` must match.
            changed = file.fd < 0 and found != file.size and not file.torn
            if file.fd >= 0:
                too_many.append(fd)  # another thread has opened it meanwhile
            elif changed:
                too_many.append(fd)
                file.pins -= 1
            else:
                file.fd = fd
                self._open[file] = None
                self._collect_victims(too_many, self.limit)
            fd = file.fd
        for victim in too_many:
            self._calls.close(victim)
        if changed:
            raise FileChanged(errno.EIO, f"has {found} bytes instead of {file.size}", file.path)
        return fd

    def unpin(self, file: File) -> None:
        with self._lock:
            file.pins -= 1
            if file.pins or not file.closing or file.fd < 0:
                return
            fd = self._forget(file)
        self._calls.close(fd)

    def close(self, file: File) -> None:
        """Close the descriptor, now or with the last unpin. The file may be used (and opened) again."""
        with self._lock:
            if file.fd < 0:
                return
            if file.pins:
                file.closing = True
                return
            fd = self._forget(file)
        self._calls.close(fd)

    def _forget(self, file: File) -> int:
        fd, file.fd, file.closing = file.fd, -1, False
        del self._open[file]
        return fd

    def _collect_victims(self, victims: list[int], limit: int) -> None:
        """Remove the least recently used files beyond `limit` from the pool, and collect their descriptors."""
        excess = len(self._open) - limit
        if excess <= 0:
            return
        idle: list[File] = []
        for file in self._open:
            if not file.pins:
                idle.append(file)
                if len(idle) == excess:
                    break
        victims.extend(self._forget(file) for file in idle)


class File:
    """One file that is appended to, read at positions, synced and truncated. Use `FileSystem.open` or `.create`.

    `size` is the number of valid bytes that this process knows; it is maintained here, not read from the disk. One
    owner appends, truncates and renames; threads may read and sync at the same time.
    """

    __slots__ = (
        "_calls",
        "_nowait",
        "_pool",
        "_sync_error",
        "closing",
        "fd",
        "former_path",
        "path",
        "pins",
        "size",
        "torn",
    )

    def __init__(self, path: str, size: int, pool: DescriptorPool, calls: SystemCalls) -> None:
        self.path = self.former_path = path
        self.size = size
        self.torn = False
        self.fd = -1  # these three belong to the pool
        self.pins = 0
        self.closing = False
        self._pool = pool
        self._calls = calls
        self._nowait = True
        self._sync_error: OSError | None = None

    def __repr__(self) -> str:
        return f"File({self.path!r}, size={self.size})"

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all of the buffers at the end, or none of them."""
        total = 0
        for buffer in buffers:
            total += len(buffer)
        if self.torn:
            raise TornFile(errno.EIO, "an earlier append could not be undone", self.path)
        pool = self._pool
        fd = pool.pin(self)
        try:
            if len(buffers) > MAX_BUFFERS_PER_WRITE or self._calls.pwritev(fd, buffers, self.size) != total:
                self._append_slowly(fd, buffers)
            self.size += total
        except OSError:
            self._undo_append(fd)
            raise
        finally:
            pool.unpin(self)

    def _append_slowly(self, fd: int, buffers: Sequence[Buffer]) -> None:
        """Write buffer by buffer, if the kernel did not take all at once; a full disk fails here."""
        position = self.size
        for buffer in buffers:
            rest = memoryview(buffer)
            while rest:
                written = self._calls.pwritev(fd, [rest], position)
                if written == 0:
                    raise OSError(errno.EIO, "the disk accepted no bytes", self.path)
                position += written
                rest = rest[written:]

    def _undo_append(self, fd: int) -> None:
        try:
            self._calls.ftruncate(fd, self.size)
        except OSError as error:
            self.torn = True
            raise TornFile(error.errno, f"a failed append could not be undone: {error.strerror}", self.path) from error

    def read(self, position: int, length: int) -> bytearray:
        """Up to `length` bytes; fewer only at the end of the file."""
        data = fresh_buffer(max(0, min(length, self.size - position)))
        if not data:
            return data
        fd = self._pool.pin(self)
        try:
            got = self._calls.preadv(fd, [data], position)
            while 0 < got < len(data):
                more = self._calls.preadv(fd, [memoryview(data)[got:]], position + got)
                if more == 0:
                    break
                got += more
        finally:
            self._pool.unpin(self)
        if got < len(data):
            del data[got:]
        return data

    def read_cached(self, position: int, length: int) -> bytearray | None:
        """Like `read` if the page cache has all of it; None if the disk would have to be read.

        File systems without this information (some network and overlay ones) are read normally.
        """
        if not self._nowait:
            return self.read(position, length)
        data = fresh_buffer(max(0, min(length, self.size - position)))
        if not data:
            return data
        fd = self._pool.pin(self)
        try:
            got = self._calls.preadv(fd, [data], position, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOWAIT_REFUSED:
                raise
            self._nowait = False
            return self.read(position, length)
        finally:
            self._pool.unpin(self)
        return data if got == len(data) else None

    def sync(self) -> None:
        """Make everything durable that was appended before the call."""
        if self._sync_error is not None:
            raise SyncFailed(errno.EIO, f"an earlier fsync failed: {self._sync_error}", self.path)
        fd = self._pool.pin(self)
        try:
            self._calls.fdatasync(fd)
        except OSError as error:
            self._sync_error = error
            raise
        finally:
            self._pool.unpin(self)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, which must not exceed its size."""
        if size > self.size:
            raise ValueError(f"cannot truncate {self.path} of {self.size} bytes to {size}")
        fd = self._pool.pin(self)
        try:
            self._calls.ftruncate(fd, size)
        finally:
            self._pool.unpin(self)
        self.size = size

    def rename(self, path: str) -> None:
        """Rename the file. An open descriptor stays valid, and a thread that is about to open one finds the file."""
        former = self.former_path = self.path
        self.path = path
        try:
            self._calls.rename(former, path)
        except OSError:
            self.path = former
            raise
        finally:
            self.former_path = self.path  # another file may get the old name

    def remove(self) -> None:
        """Delete the file. A thread that is reading it holds a pin and can finish."""
        self.close()
        self._calls.remove(self.path)

    def close(self) -> None:
        """Return the descriptor to the pool."""
        if self.fd >= 0:
            self._pool.close(self)


class DirectoryLock:
    """Held from `FileSystem.lock` until `release`, or until the process ends."""

    __slots__ = ("_calls", "_fd")

    def __init__(self, fd: int, calls: SystemCalls) -> None:
        self._fd = fd
        self._calls = calls

    def release(self) -> None:
        if self._fd >= 0:
            self._calls.close(self._fd)
            self._fd = -1


class FileSystem:
    """Directories and files on top of system calls, with one pool of descriptors."""

    def __init__(self, calls: SystemCalls, max_open_files: int) -> None:
        self._calls = calls
        self._temporary_names = count()
        self.pool = DescriptorPool(max_open_files, calls)

    def open(self, path: str, size: int | None = None) -> File:
        """An existing file. With `size` given, the disk is not accessed now; the size is checked on first use."""
        return File(path, self._calls.stat_size(path) if size is None else size, self.pool, self._calls)

    def create(self, path: str) -> File:
        """A new, empty file; an error if it exists."""
        self._calls.close(self._calls.open(path, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, _MODE))
        return File(path, 0, self.pool, self._calls)

    def exists(self, path: str) -> bool:
        try:
            self._calls.stat_size(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_directory(self, path: str) -> bool:
        return bool(self._calls.is_directory(path))

    def size(self, path: str) -> int:
        return self._calls.stat_size(path)

    def modified_ms(self, path: str) -> int:
        """The modification time in milliseconds since 1970."""
        return int(self._calls.stat_time(path) * 1000)

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(name for name, _ in self._calls.scan(path))

    def directories(self, path: str) -> list[str]:
        """The names of the directories in a directory, sorted."""
        return sorted(name for name, is_directory in self._calls.scan(path) if is_directory)

    def mkdir(self, path: str, *, sync: bool = False) -> None:
        """Create the directory and its missing parents, with `sync` durably; not an error if it exists."""
        if self._calls.is_directory(path):
            return
        parent = dirname(path)
        if parent and parent != path:
            self.mkdir(parent, sync=sync)
        try:
            self._calls.mkdir(path)
        except FileExistsError:
            if not self._calls.is_directory(path):
                raise
        if sync:
            self.sync_dir(parent or ".")

    def rename(self, old: str, new: str) -> None:
        self._calls.rename(old, new)

    def remove(self, path: str, *, missing_ok: bool = False) -> None:
        try:
            self._calls.remove(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_tree(self, path: str) -> None:
        """Delete a directory and everything in it; not an error if it does not exist."""
        try:
            entries = self._calls.scan(path)
        except FileNotFoundError:
            return
        for name, is_directory in entries:
            if is_directory:
                self.remove_tree(join(path, name))
            else:
                self.remove(join(path, name), missing_ok=True)
        self._calls.rmdir(path)

    def sync_dir(self, path: str) -> None:
        """Make the names in the directory durable: files created, renamed or deleted before the call."""
        fd = self._calls.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._calls.fsync(fd)
        finally:
            self._calls.close(fd)

    def sync_volume(self, path: str) -> None:
        """Sync the whole volume that holds this directory: for many files at once."""
        fd = self._calls.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._calls.syncfs(fd)
        finally:
            self._calls.close(fd)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace the whole file atomically; with `sync` durably.

        Without `sync` a power loss may leave the old content, the new content, or none: only for files that can be
        checked and rebuilt.
        """
        self._calls.rename(self._write_temporary(path, data, sync=sync), path)
        if sync:
            self.sync_dir(dirname(path) or ".")

    def write_all(self, files: Mapping[str, bytes], *, sync: bool = True) -> None:
        """Replace several files of one directory, in this order. Cheaper than one call for each."""
        written = {path: self._write_temporary(path, data, sync=sync) for path, data in files.items()}
        for path, temporary in written.items():
            self._calls.rename(temporary, path)
        if files and sync:
            self.sync_dir(dirname(next(iter(files))) or ".")

    def _write_temporary(self, path: str, data: bytes, *, sync: bool) -> str:
        """Write to a unique temporary name, so that two threads that write the same file do not mix their data."""
        temporary = f"{path}.{next(self._temporary_names)}.tmp"
        fd = self._calls.open(temporary, _OPEN_FLAGS | os.O_CREAT | os.O_TRUNC, _MODE)
        try:
            position = 0
            while position < len(data):
                written = self._calls.pwritev(fd, [memoryview(data)[position:]], position)
                if written == 0:
                    raise OSError(errno.EIO, "the disk accepted no bytes", temporary)
                position += written
            if sync:
                self._calls.fdatasync(fd)
        except OSError:
            self.remove(temporary, missing_ok=True)
            raise
        finally:
            self._calls.close(fd)
        return temporary

    def read_bytes(self, path: str) -> bytes:
        """The content of a whole (small) file."""
        fd = self._calls.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = bytearray(self._calls.size_of(fd))
            got = 0
            while got < len(data):
                more = self._calls.preadv(fd, [memoryview(data)[got:]], got)
                if more == 0:
                    break
                got += more
        finally:
            self._calls.close(fd)
        return bytes(memoryview(data)[:got])

    def free_bytes(self, path: str) -> int:
        """The free bytes of the volume that holds `path`."""
        return self._calls.space(path)[1]

    def total_bytes(self, path: str) -> int:
        """The total bytes of the volume that holds `path`."""
        return self._calls.space(path)[0]

    def lock(self, path: str) -> DirectoryLock:
        """Take the lock file for this process; AlreadyLocked with the process id of the holder if it is taken."""
        fd = self._calls.open(path, _OPEN_FLAGS | os.O_CREAT, _MODE)
        try:
            self._calls.try_lock(fd)
            self._calls.ftruncate(fd, 0)
            self._calls.pwritev(fd, [b"%d\n" % process_id()], 0)
        except BlockingIOError:
            self._calls.close(fd)
            raise AlreadyLocked(path, _read_pid(self.read_bytes(path))) from None
        except OSError:
            self._calls.close(fd)
            raise
        return DirectoryLock(fd, self._calls)


def _read_pid(text: bytes) -> int | None:
    digits = text.strip()
    return int(digits) if digits.isdigit() and len(digits) < 12 else None


class LocalFileSystem(FileSystem):
    """The files of this machine. `max_open_files` defaults to a share of RLIMIT_NOFILE, raised to its hard limit."""

    def __init__(self, max_open_files: int | None = None) -> None:
        super().__init__(LinuxCalls(), files_allowed() if max_open_files is None else max_open_files)
