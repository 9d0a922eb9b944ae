"""SCRAM credentials: which alterations are accepted, and the changes that follow. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.cluster.changes import UserCredentialsChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage
from moldau.cluster.image_publisher import MetadataDecision, Step
from moldau.cluster.security_image import UserCredentials
from moldau.security.credentials import MAX_SCRAM_ITERATIONS, MIN_SCRAM_ITERATIONS, ScramMechanism
from moldau.security.scram_keys import credential_from_salted
from moldau.wire.errors import ErrorCode

MECHANISMS: Final = {mechanism.code: mechanism for mechanism in ScramMechanism}


class CredentialDeletion(NamedTuple):
    """Remove the credential of a mechanism."""

    mechanism: int


class CredentialUpsertion(NamedTuple):
    """Add or replace the credential of a mechanism. A client salts the password, so that it never leaves the client."""

    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"CredentialUpsertion(mechanism={self.mechanism}, iterations={self.iterations}, secrets not shown)"


class UserAlteration(NamedTuple):
    """All that a request wants for one user. More than one alteration is refused, as in Kafka."""

    user: str
    alterations: tuple[CredentialDeletion | CredentialUpsertion, ...]


def alter_credentials(image: ClusterImage, wanted: Sequence[UserAlteration]) -> MetadataDecision[None]:
    """Decide an AlterUserScramCredentials request, which names each user once."""
    answers: list[Refusal | None] = []
    steps: list[Step] = []
    for place, (user, alterations) in enumerate(wanted):
        change = _altered(image, user, alterations)
        if isinstance(change, Refusal):
            answers.append(change)
        else:
            answers.append(None)
            steps.append(Step(change, (place,)))
    return MetadataDecision(answers, steps)


def _altered(
    image: ClusterImage, user: str, alterations: Sequence[CredentialDeletion | CredentialUpsertion]
) -> UserCredentialsChanged | Refusal:
    alteration = alterations[0]
    current = image.security.scram_credentials.get(user, {})
    mechanism = MECHANISMS.get(alteration.mechanism)
    if not user:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The user name must not be empty.")
    if mechanism is None:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism.")
    if isinstance(alteration, CredentialDeletion):
        refusal = _deletion_error(mechanism, current)
    else:
        refusal = _upsertion_error(alteration)
    if refusal is None and len(alterations) > 1:
        refusal = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user cannot be altered twice in the same request.")
    if refusal is not None:
        return refusal
    after = dict(current)
    if isinstance(alteration, CredentialDeletion):
        del after[mechanism]
    else:
        _, iterations, salt, salted = alteration
        after[mechanism] = credential_from_salted(mechanism, salted, salt, iterations)
    return UserCredentialsChanged(user, after)


def _deletion_error(mechanism: ScramMechanism, current: UserCredentials) -> Refusal | None:
    if mechanism in current:
        return None
    return Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"The user has no credential for {mechanism.sasl_name}.")


def _upsertion_error(upsertion: CredentialUpsertion) -> Refusal | None:
    error = None
    if upsertion.iterations < MIN_SCRAM_ITERATIONS:
        error = f"Too few iterations: {upsertion.iterations}, at least {MIN_SCRAM_ITERATIONS} are needed."
    elif upsertion.iterations > MAX_SCRAM_ITERATIONS:
        error = f"Too many iterations: {upsertion.iterations}, at most {MAX_SCRAM_ITERATIONS} are allowed."
    elif not upsertion.salt or not upsertion.salted_password:
        error = "A credential needs a salt and a salted password."
    return None if error is None else Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, error)
