"""Security of a cluster of processes: TLS and SCRAM on every connection, and access control that denies by default.

The files are those that `moldau security init` writes. Tests ask the brokers as `admin`. The clients under test are
`user`, who may do what rules allow.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from moldau.cli.security_files import ADMIN, CA, MECHANISM, USER, broker_settings, client_settings, create
from moldau.security.jaas import parse_login_module
from moldau.settings.sources import read_properties
from tests.support.raw import RawConnection

LISTENER = "SASL_SSL"


class ClusterSecurity:
    """The security files of the brokers with these hosts, by number."""

    def __init__(self, directory: Path, hosts: Sequence[str]) -> None:
        self.directory = directory
        create(directory, [[host] for host in hosts], datetime.now(UTC))
        self._tls = ssl.create_default_context(cafile=str(directory / CA))

    def broker_config(self, number: int) -> Path:
        return broker_settings(self.directory, number)

    def client(self, user: str = USER) -> Mapping[str, str]:
        """Client settings in librdkafka's names, which Moldau's clients know, too."""
        name, password = self._login(user)
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.username": name,
            "sasl.password": password,
            "ssl.ca.location": str(self.directory / CA),
        }

    def client_file(self) -> Path:
        """The same settings for `user` as a file, for other processes: no password is in their arguments."""
        path = self.directory / "member.properties"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text("".join(f"{name}={value}\n" for name, value in self.client().items()))
        return path

    def connect(self, address: str, timeout_s: float, user: str = ADMIN) -> RawConnection:
        """Connect and log in."""
        connection = RawConnection(address, timeout_s=timeout_s, tls=self._tls)
        try:
            return connection.log_in(*self._login(user), MECHANISM.sasl_name)
        except BaseException:
            connection.close()
            raise

    def _login(self, user: str) -> tuple[str, str]:
        written = read_properties(client_settings(self.directory, user).read_text())
        module = parse_login_module(written["sasl.jaas.config"])
        return module.options["username"], module.options["password"]
