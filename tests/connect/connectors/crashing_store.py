"""A store that stops the process, as a crash does, before or after its n-th operation that changes something."""

from __future__ import annotations

from typing import IO, Any

from moldau.connect.connectors.file_store import FileStore


class Crash(BaseException):
    """The process is gone: no handler of ordinary errors may see it."""


class CrashingStore:
    def __init__(self, store: FileStore, operation: int, *, after: bool) -> None:
        self._store = store
        self._left = operation
        self._after = after
        self.crashed = False

    def _do(self, name: str, *arguments: Any) -> Any:
        if self.crashed:
            raise Crash(name)
        self._left -= 1
        if self._left < 0 and not self._after:
            self.crashed = True
            raise Crash(name)
        result = getattr(self._store, name)(*arguments)
        if self._left < 0:
            self.crashed = True
            if name == "open_output":
                result.close()
            raise Crash(name)
        return result

    def open_output(self, path: str) -> IO[bytes]:
        file: IO[bytes] = self._do("open_output", path)
        return file

    def create(self, path: str, data: bytes) -> bool:
        return bool(self._do("create", path, data))

    def publish(self, staged: str, final: str) -> bool:
        return bool(self._do("publish", staged, final))

    def delete(self, path: str) -> None:
        self._do("delete", path)

    def delete_tree(self, directory: str) -> None:
        self._do("delete_tree", directory)

    def read(self, path: str) -> bytes:
        return self._store.read(path)

    def names(self, directory: str) -> list[str]:
        return self._store.names(directory)

    def exists(self, path: str) -> bool:
        return self._store.exists(path)

    def size(self, path: str) -> int:
        return self._store.size(path)

    def open_input(self, path: str) -> IO[bytes]:
        return self._store.open_input(path)

    def uri(self, path: str) -> str:
        return self._store.uri(path)
