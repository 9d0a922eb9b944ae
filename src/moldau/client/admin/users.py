"""User calls of the admin client: SCRAM credentials are described, added, replaced and deleted.

A password never leaves the client. The client salts it, and the broker stores keys that it derives from the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Fixed
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.errors import ArgumentError
from moldau.client.network import ANY_NODE
from moldau.security.credentials import MIN_SCRAM_ITERATIONS, ScramMechanism
from moldau.security.scram_keys import new_salt, salted_password
from moldau.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from moldau.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
    DescribeUserScramCredentialsResponse,
)

MECHANISMS = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
MECHANISMS_BY_CODE = {mechanism.code: mechanism for mechanism in ScramMechanism}
EXAMPLE = 'UserScramUpsertion("alice", password)'


@dataclass(frozen=True)
class UserScramUpsertion:
    """A new or another password of a user: `UserScramUpsertion("alice", password)`. It is not shown by `repr`."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = MIN_SCRAM_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)
    """None: a random one."""


@dataclass(frozen=True)
class UserScramDeletion:
    """The end of a user's password for one mechanism."""

    user: str
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512


UserScramAlteration = UserScramUpsertion | UserScramDeletion


def scram_mechanism(name: str, given: object) -> ScramMechanism:
    """A mechanism, or its name."""
    if isinstance(given, ScramMechanism):
        return given
    if given not in MECHANISMS:
        arguments.refuse(name, given, f"one of {', '.join(MECHANISMS)}")
    return MECHANISMS[str(given)]


def read_described(response: DescribeUserScramCredentialsResponse) -> Answers[str, dict[ScramMechanism, int]]:
    checked(response.error_code, "describing users", response.error_message)
    answers: Answers[str, dict[ScramMechanism, int]] = {}
    for result in response.results:
        error = judged(result.error_code, f"describing user '{result.user}'", result.error_message)
        answers[result.user] = error or {
            MECHANISMS_BY_CODE[info.mechanism]: info.iterations
            for info in result.credential_infos
            if info.mechanism in MECHANISMS_BY_CODE
        }
    return answers


def read_altered(response: AlterUserScramCredentialsResponse) -> Answers[str, None]:
    return {
        result.user: judged(result.error_code, f"altering user '{result.user}'", result.error_message)
        for result in response.results
    }


def _upsertion(one: UserScramUpsertion) -> AlterUserScramCredentialsRequestUpsertion:
    salt = new_salt() if one.salt is None else one.salt
    return AlterUserScramCredentialsRequestUpsertion(
        name=one.user,
        mechanism=one.mechanism.code,
        iterations=one.iterations,
        salt=salt,
        salted_password=salted_password(one.mechanism, one.password, salt, one.iterations),
    )


def _checked(name: str, given: UserScramAlteration) -> UserScramAlteration:
    if not isinstance(given, UserScramUpsertion | UserScramDeletion):
        arguments.refuse(name, given, f"a UserScramUpsertion or UserScramDeletion, such as {EXAMPLE}")
    arguments.text(f"user of {name}", given.user)
    scram_mechanism(f"mechanism of {name}", given.mechanism)
    if isinstance(given, UserScramUpsertion):
        password: object = given.password
        if not isinstance(password, str) or not password:
            # Without the value that was given: it may be a password of another type.
            raise ArgumentError(f"password of {name}: a str that is not empty is needed")
        arguments.number(f"iterations of {name}", given.iterations, 1, 2**31 - 1)
    return given


class UserCalls(Calls):
    """Admin calls about users."""

    async def describe_user_scram_credentials(
        self, users: str | Iterable[str] = (), *, timeout: float | None = None
    ) -> dict[str, dict[ScramMechanism, int]]:
        """Return the mechanisms of users and the iterations of each; of all users without an argument.

        Raises ResourceNotFound for a user without credentials.
        """
        named = list(dict.fromkeys(arguments.texts("users", users)))
        request = DescribeUserScramCredentialsRequest(
            users=[DescribeUserScramCredentialsRequestUser(name=name) for name in named] or None
        )
        answers = await self._once(
            ANY_NODE, request, read_described, deadline=self._deadline(timeout), what="describing users"
        )
        return settled(answers)

    async def alter_user_scram_credentials(
        self, alterations: UserScramAlteration | Iterable[UserScramAlteration], *, timeout: float | None = None
    ) -> None:
        """Add, replace and delete passwords. A call names each user once.

        Raises UnacceptableCredential for iterations outside of 4096 to 16384, and ResourceNotFound for a deletion of
        what does not exist.
        """
        deadline = self._deadline(timeout)
        some = [alterations] if isinstance(alterations, UserScramUpsertion | UserScramDeletion) else alterations
        checked_ones = arguments.several("alterations", some, _checked, f"alterations, such as {EXAMPLE}")
        by_user: dict[str, list[UserScramAlteration]] = {}
        for one in checked_ones:
            by_user.setdefault(one.user, []).append(one)
        upsertions = {
            one: await asyncio.to_thread(_upsertion, one)  # milliseconds of hashing
            for one in checked_ones
            if isinstance(one, UserScramUpsertion)
        }

        def make(users: Sequence[str]) -> AlterUserScramCredentialsRequest:
            wanted = [one for user in users for one in by_user[user]]
            return AlterUserScramCredentialsRequest(
                deletions=[
                    AlterUserScramCredentialsRequestDeletion(name=one.user, mechanism=one.mechanism.code)
                    for one in wanted
                    if isinstance(one, UserScramDeletion)
                ],
                upsertions=[upsertions[one] for one in wanted if isinstance(one, UserScramUpsertion)],
            )

        settled(
            await self._each(
                by_user,
                Fixed[str](ANY_NODE),
                make,
                lambda response, _users: read_altered(response),
                deadline=deadline,
                what="altering user",
            )
        )
