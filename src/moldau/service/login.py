"""Login of HTTP requests: HTTP Basic against a file of hashed passwords.

A line of the file is `NAME:scrypt$N$R$P$SALT$HASH`, salt and hash in base64. Empty lines and lines that begin with `#`
are ignored. A changed file has an effect at the next request; a file that cannot be read lets nobody in.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections import OrderedDict
from typing import Final

from moldau.host.event_log import event_logger
from moldau.host.file_stamps import FileStamps, file_stamps
from moldau.host.reference_files import read_reference_file
from moldau.settings.setting import SettingError

log = event_logger(__name__)

N, R, P = 1 << 14, 8, 1
MAX_N: Final = 1 << 17
MAX_MEMORY: Final = 256 * 1024 * 1024
KEY_BYTES: Final = 32
SALT_BYTES: Final = 16
MAX_PASSWORD_BYTES: Final = 1024
MAX_AT_ONCE: Final = 2
"""Passwords that are hashed at the same time. Others wait: a flood of wrong passwords must not take all cores."""
MAX_REMEMBERED: Final = 256
"""Accepted logins that are not hashed again, until the file changes."""


def new_secret(size: int = KEY_BYTES) -> bytes:
    """Random bytes that nobody can guess."""
    return os.urandom(size)


def hashed(password: str) -> str:
    """The text that stands for a password in the file."""
    salt = os.urandom(SALT_BYTES)
    key = hashlib.scrypt(password.encode(), salt=salt, n=N, r=R, p=P, maxmem=MAX_MEMORY, dklen=KEY_BYTES)
    return f"scrypt${N}${R}${P}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def matches(password: str, text: str) -> bool:
    """Whether this is the password of that text. ValueError if the text is not one of `hashed`."""
    kind, n, r, p, salt, key = text.split("$")
    if kind != "scrypt" or not 2 <= int(n) <= MAX_N:
        raise ValueError("not a scrypt hash within the limits")
    wanted = base64.b64decode(key, validate=True)
    found = hashlib.scrypt(
        password.encode(),
        salt=base64.b64decode(salt, validate=True),
        n=int(n),
        r=int(r),
        p=int(p),
        maxmem=MAX_MEMORY,
        dklen=len(wanted),
    )
    return hmac.compare_digest(found, wanted)


def read_users(text: str, path: str) -> dict[str, str]:
    """The hashes of a file by user. SettingError names the first line that is wrong."""
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, text_of_hash = line.strip().partition(":")
        if not (name and colon) or text_of_hash.count("$") != 5 or not text_of_hash.startswith("scrypt$"):
            raise SettingError(path, f"line {number} is not NAME:scrypt$…; write it with moldau security http-user")
        users[name] = text_of_hash
    return users


def credentials(header: str | None) -> tuple[str, str] | None:
    """User and password of an Authorization header; None if it has none of HTTP Basic."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if colon else None


class PasswordFile:
    """The users of a service. `user` answers whose request it is."""

    def __init__(self, path: str) -> None:
        """Read the file. Raises SettingError if it cannot be read, or has no user."""
        self._path = path
        self._stamps: FileStamps = ()
        self._users: dict[str, str] = {}
        self._nobody = hashed(os.urandom(KEY_BYTES).hex())
        """Compared with for users that do not exist, so that the time of the answer does not tell them apart."""
        self._accepted: OrderedDict[bytes, None] = OrderedDict()
        self._key = os.urandom(KEY_BYTES)
        self._hashing = asyncio.Semaphore(MAX_AT_ONCE)
        self._read()
        if not self._users:
            raise SettingError(path, "has no user; add one with moldau security http-user")

    async def user(self, authorization: str | None) -> str | None:
        """The user who sent this Authorization header; None if the login failed, or there was none."""
        given = credentials(authorization)
        if given is None:
            return None
        self._refresh()
        name, password = given
        if len(password.encode()) > MAX_PASSWORD_BYTES:
            return None
        text = self._users.get(name)
        # The hash of the file is part of what is remembered: a changed password is compared again.
        seen = hmac.digest(self._key, "\0".join((name, text or "", password)).encode(), "sha256")
        if text is not None and seen in self._accepted:
            return name
        async with self._hashing:
            accepted = await asyncio.to_thread(self._compare, password, text or self._nobody)
        if text is None or not accepted:
            return None
        self._accepted[seen] = None
        if len(self._accepted) > MAX_REMEMBERED:
            self._accepted.popitem(last=False)
        return name

    def _compare(self, password: str, text: str) -> bool:
        try:
            return matches(password, text)
        except ValueError as error:
            log.warning("a line of the password file is wrong", extra={"file": self._path, "reason": str(error)})
            return False

    def _refresh(self) -> None:
        if file_stamps([self._path]) == self._stamps:
            return
        try:
            self._read()
        except SettingError as error:
            self._users = {}
            log.error("nobody can log in", extra={"reason": str(error)})

    def _read(self) -> None:
        self._stamps = file_stamps([self._path])
        try:
            text = read_reference_file(self._path)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SettingError(self._path, f"the password file cannot be read: {reason}") from None
        self._users = read_users(text, self._path)
