"""Files of a secured cluster, as `moldau security init` writes them: certificates, users, and settings.

    ca.pem, ca.key            the certificate authority; only new certificates need its key
    broker-N.pem              key and certificate of broker N
    broker-N.properties       settings of broker N: TLS, SCRAM, access control that denies by default
    users.properties          SCRAM keys of the first users, which the first broker stores when the cluster is new
    admin.properties          client settings of `admin`, who may do everything
    user.properties           client settings of `user`, who may do nothing until `moldau acls add` allows it
    delegation-token.key      the key from which the secrets of delegation tokens are derived
    zookeeper.digest          user and password as which the brokers of a cluster log in to ZooKeeper

The directory is for its owner only, and so is every file with a secret. It appears complete or not at all.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from moldau.security.certificates import Certificate, hosts_of, new_authority, new_certificate
from moldau.security.credentials import ScramMechanism
from moldau.security.initial_users import users_text
from moldau.security.scram_keys import new_credential

ADMIN: Final = "admin"
USER: Final = "user"
BROKER: Final = "broker"
"""The user as which brokers connect to each other."""

MECHANISM: Final = ScramMechanism.SCRAM_SHA_512
PASSWORD_BYTES: Final = 24

CA: Final = "ca.pem"
CA_KEY: Final = "ca.key"
USERS_FILE: Final = "users.properties"
TOKEN_KEY: Final = "delegation-token.key"
ZOOKEEPER_LOGIN: Final = "zookeeper.digest"
_SECRET_MODE: Final = 0o600
_PUBLIC_MODE: Final = 0o644


class SecurityFilesError(Exception):
    """The reason why the files were not written, as a message for the user."""


class NewFile(NamedTuple):
    """A file to write."""

    name: str
    text: str
    what: str
    secret: bool = True


def broker_settings(directory: Path, number: int) -> Path:
    return directory / f"broker-{number}.properties"


def client_settings(directory: Path, user: str) -> Path:
    return directory / f"{user}.properties"


def local_hosts() -> list[str]:
    """The names and addresses of this machine that clients on it use."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    return list(dict.fromkeys(names))


def create(directory: Path, brokers: Sequence[Sequence[str]], now: datetime) -> list[NewFile]:
    """Write all files into a new directory: one certificate per broker, for its hosts. Returns what was written."""
    directory = directory.absolute()
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise SecurityFilesError(f"{directory} exists already; remove it, or choose another directory")
    files = _files(directory, brokers, now)
    unfinished = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    for file in files:
        write_file(unfinished / file.name, file.text, secret=file.secret)
    unfinished.rename(directory)
    return files


def provide(directory: Path, brokers: Sequence[Sequence[str]], now: datetime) -> None:
    """Make the files if there are none, and certificates and settings for brokers that have been added since."""
    if not directory.exists():
        create(directory, brokers, now)
        return
    for number, hosts in enumerate(brokers):
        if not (directory / f"broker-{number}.pem").exists():
            renew(directory, number, hosts, now)
        settings = broker_settings(directory, number)
        if not settings.exists():
            first = broker_settings(directory, 0).read_text()
            text = first.replace("broker-0.pem", f"broker-{number}.pem").replace("broker 0:", f"broker {number}:")
            write_file(settings, text, secret=True)


def renew(directory: Path, number: int, hosts: Sequence[str], now: datetime) -> Path:
    """Write a new certificate for broker N, signed by the authority of the directory. The file is replaced as a whole:
    a running broker reads the old one or the new one."""
    path = directory / f"broker-{number}.pem"
    try:
        authority = Certificate((directory / CA).read_text(), (directory / CA_KEY).read_text())
    except FileNotFoundError as missing:
        raise SecurityFilesError(
            f"{missing.filename} is missing; copy it here for the moment, if you keep it elsewhere. For a new cluster, "
            "moldau security init makes it"
        ) from None
    certificate = new_certificate(authority, BROKER, now, hosts=hosts)
    write_file(path, certificate.pem + authority.certificate, secret=True)
    return path


def hosts_of_broker(directory: Path, number: int) -> list[str]:
    """The hosts of the certificate that broker N has; those of this machine if it has none, or a damaged one."""
    try:
        hosts = hosts_of((directory / f"broker-{number}.pem").read_text())
    except (FileNotFoundError, ValueError):
        hosts = []
    return hosts or local_hosts()


def write_file(path: Path, text: str, *, secret: bool) -> None:
    """Write or replace a file. Nobody else can read a secret at any moment."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    mode = _SECRET_MODE if secret else _PUBLIC_MODE
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    temporary.rename(path)


def _files(directory: Path, brokers: Sequence[Sequence[str]], now: datetime) -> list[NewFile]:
    passwords = {user: secrets.token_urlsafe(PASSWORD_BYTES) for user in (ADMIN, USER, BROKER)}
    credentials = {user: {MECHANISM: new_credential(MECHANISM, password)} for user, password in passwords.items()}
    authority = new_authority(f"Moldau {secrets.token_hex(4)}", now)
    files = [
        NewFile(CA, authority.certificate, "certificate of the authority, for clients and brokers", secret=False),
        NewFile(CA_KEY, authority.key, "key of the authority: keep it apart from the brokers"),
        NewFile(USERS_FILE, users_text(credentials), "the first users, without passwords"),
        NewFile(TOKEN_KEY, secrets.token_urlsafe(PASSWORD_BYTES), "key of delegation tokens, the same for all brokers"),
        NewFile(
            ZOOKEEPER_LOGIN,
            f"{BROKER}:{secrets.token_urlsafe(PASSWORD_BYTES)}",
            "login of the brokers to ZooKeeper, if they form a cluster",
        ),
        NewFile("admin.properties", _client(directory, ADMIN, passwords[ADMIN]), "client settings: may do everything"),
        NewFile("user.properties", _client(directory, USER, passwords[USER]), "client settings: may do nothing yet"),
    ]
    for number, hosts in enumerate(brokers):
        certificate = new_certificate(authority, BROKER, now, hosts=hosts)
        settings = _broker(directory, number, passwords[BROKER])
        files += [
            NewFile(f"broker-{number}.pem", certificate.pem + authority.certificate, f"for {', '.join(hosts)}"),
            NewFile(f"broker-{number}.properties", settings, f"settings: moldau broker --config broker-{number}…"),
        ]
    return files


def _client(directory: Path, user: str, password: str) -> str:
    return _properties(
        f"Client settings of the user {user}, for every Kafka client: this file has its password.",
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.jaas.config": _login(user, password),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / CA),
        },
    )


def _broker(directory: Path, number: int, password: str) -> str:
    scram = MECHANISM.sasl_name
    return _properties(
        f"Settings of broker {number}: TLS, SCRAM, and access control that denies what no rule allows.",
        {
            "security.inter.broker.protocol": "SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / f"broker-{number}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / CA),
            "sasl.enabled.mechanisms": ",".join(mechanism.sasl_name for mechanism in ScramMechanism),
            "sasl.mechanism.inter.broker.protocol": scram,
            f"listener.name.sasl_ssl.{scram.lower()}.sasl.jaas.config": _login(BROKER, password),
            "moldau.initial.users.file": str(directory / USERS_FILE),
            "delegation.token.secret.key": f"${{file:{directory / TOKEN_KEY}}}",
            "moldau.zookeeper.digest": f"${{file:{directory / ZOOKEEPER_LOGIN}}}",
            "zookeeper.set.acl": "true",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{BROKER}",
        },
    )


def _login(user: str, password: str) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{password}";'


def _properties(title: str, settings: Mapping[str, str]) -> str:
    lines = [f"# {title}", *(f"{name}={_escaped(value)}" for name, value in settings.items())]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
