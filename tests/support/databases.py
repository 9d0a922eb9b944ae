"""Database servers of the tests: PostgreSQL and MariaDB as own processes on 127.0.0.1, in a temporary directory.

Both are set up for speed (no fsync) and for change capture (logical decoding, row-based binary log). A server keeps its
port and its data over `stop`, `kill` and `start`. It ends with the test process, even if that is killed.
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from tests.support.waiting import NotYet, wait_until

USER = "moldau"
PASSWORD = "vltava 'river'"
"""With characters that a careless connection string would break at."""

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30

# Both servers refuse to run as root. The signal at the parent's death is set after the change of the user, which would
# reset it.
_LAUNCH = """\
import ctypes, os, signal, sys
parent, uid, gid = map(int, sys.argv[1:4])
if uid:
    os.setgroups([]); os.setgid(gid); os.setuid(uid)
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == parent:
    os.execv(sys.argv[4], sys.argv[4:])
"""

_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="database-starter")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_program(name: str, *folders: str) -> str | None:
    """The path of a program, also in folders that Debian does not put on the PATH."""
    found = shutil.which(name)
    if found:
        return found
    candidates = [path for folder in folders for path in sorted(glob.glob(f"{folder}/{name}"), reverse=True)]
    return candidates[0] if candidates else None


def _unprivileged(*names: str) -> tuple[int, int]:
    """The user and group for a server; zeros: those of this process."""
    if os.getuid() != 0:
        return 0, 0
    for name in (*names, "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise RuntimeError("no unprivileged user to run a database server as")


class DatabaseServer(ABC):
    """One server process, its directory and its port."""

    users: tuple[str, ...] = ()
    stop_signal = signal.SIGTERM
    remove_signal = signal.SIGKILL

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="moldau-database-"))
        self.uid, self.gid = _unprivileged(*self.users)
        if self.uid:
            os.chown(self.directory, self.uid, self.gid)
        self.data = self.directory / "data"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """The reason to skip tests where the server is not installed."""

    @abstractmethod
    def create(self) -> None:
        """Fill the data directory."""

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def look(self) -> None:
        """Raise NotYet until the server accepts logins."""

    def run_as_server(self, command: Sequence[str]) -> None:
        done = subprocess.run(
            self._launched(command), capture_output=True, text=True, cwd=self.directory, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"

    def _launched(self, command: Sequence[str]) -> list[str]:
        return [sys.executable, "-ISc", _LAUNCH, str(os.getpid()), str(self.uid), str(self.gid), *command]

    def start(self) -> Self:
        """Start the server and wait until it accepts logins."""
        with open(self.directory / "server.log", "ab") as log:
            started = _STARTER.submit(
                subprocess.Popen,
                self._launched(self.command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )
            self.process = started.result()
        wait_until(self._ready, f"{type(self).__name__} accepts logins", START_TIMEOUT_S)
        return self

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "server.log").read_text(errors="replace")[-4000:]
        self.look()
        return True

    def stop(self) -> None:
        """Stop the server in its usual way. Its clients lose their connections."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Stop the server without a farewell."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def remove(self) -> None:
        """End the server and delete its data, which nobody needs to be written before."""
        self._end(self.remove_signal)
        shutil.rmtree(self.directory, ignore_errors=True)


class PostgreSQLServer(DatabaseServer):
    """A PostgreSQL server; the superuser of its database `postgres` is USER with PASSWORD."""

    users = ("postgres",)
    stop_signal = signal.SIGINT
    """Fast shutdown: open connections are ended."""
    remove_signal = signal.SIGQUIT

    _FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")

    @classmethod
    def missing(cls) -> str | None:
        found = find_program("initdb", *cls._FOLDERS) and find_program("postgres", *cls._FOLDERS)
        return None if found else "PostgreSQL is not installed (apt-get install postgresql)"

    def create(self) -> None:
        password_file = self.directory / "password"
        password_file.write_text(PASSWORD)
        password_file.chmod(0o644)
        initdb = find_program("initdb", *self._FOLDERS)
        assert initdb is not None
        # fmt: off
        self.run_as_server([
            os.path.realpath(initdb), "-D", str(self.data), "-U", USER, "--auth=scram-sha-256",
            f"--pwfile={password_file}", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8",
        ])
        # fmt: on

    def command(self) -> Sequence[str]:
        postgres = find_program("postgres", *self._FOLDERS)
        assert postgres is not None
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "64MB",
            "wal_level": "logical",
            "max_wal_senders": 10,
            "max_replication_slots": 20,
            "wal_sender_timeout": "10s",
            "timezone": "UTC",
        }
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        return [os.path.realpath(postgres), "-D", str(self.data), *options]

    def connect(self, database: str = "postgres", *, autocommit: bool = True) -> Any:
        import adbc_driver_postgresql.dbapi

        return adbc_driver_postgresql.dbapi.connect(self.uri(database), autocommit=autocommit)

    def uri(self, database: str = "postgres") -> str:
        password = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
        return f"host=127.0.0.1 port={self.port} dbname={database} user={USER} password='{password}'"

    def look(self) -> None:
        try:
            self.connect().close()
        except Exception as error:  # noqa: BLE001 - a server that starts refuses in many ways
            raise NotYet(str(error)) from None

    def execute(self, database: str, *statements: str) -> None:
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]


class MariaDBServer(DatabaseServer):
    """A MariaDB server; USER with PASSWORD has all rights."""

    users = ("mysql",)
    _FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/mysql/bin")

    @classmethod
    def missing(cls) -> str | None:
        found = find_program("mariadbd", *cls._FOLDERS) and find_program("mariadb-install-db", *cls._FOLDERS)
        return None if found else "MariaDB is not installed (apt-get install mariadb-server)"

    def create(self) -> None:
        install = find_program("mariadb-install-db", *self._FOLDERS)
        assert install is not None
        # fmt: off
        self.run_as_server([
            install, "--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal",
            "--skip-test-db", "--skip-name-resolve",
        ])
        # fmt: on
        quoted = PASSWORD.replace("'", "''")
        self.init_file = self.directory / "init.sql"
        self.init_file.write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{quoted}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        )
        self.init_file.chmod(0o644)

    def command(self) -> Sequence[str]:
        server = find_program("mariadbd", *self._FOLDERS)
        assert server is not None
        # fmt: off
        return [
            os.path.realpath(server), "--no-defaults", f"--datadir={self.data}", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--socket={self.directory}/socket", f"--pid-file={self.directory}/pid",
            f"--init-file={self.init_file}", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2",
            "--innodb-buffer-pool-size=64M", "--innodb-doublewrite=OFF", "--sync-binlog=0", "--log-bin=binlog",
            "--server-id=1", "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL",
            "--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci", "--default-time-zone=+00:00",
            "--lower-case-table-names=0",
        ]
        # fmt: on

    def connect(self, database: str | None = None, *, autocommit: bool = True) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, database=database, autocommit=autocommit
        )

    def look(self) -> None:
        try:
            self.connect().close()
        except Exception as error:  # noqa: BLE001 - a server that starts refuses in many ways
            raise NotYet(str(error)) from None

    def execute(self, database: str | None, *statements: str) -> None:
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())
