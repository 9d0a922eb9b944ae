"""The answer of a decision that says no."""

from __future__ import annotations

from typing import NamedTuple

from moldau.wire.errors import ErrorCode


class Refusal(NamedTuple):
    """Why a request was refused, in the form it travels to the client: Kafka's error code, and a sentence."""

    code: ErrorCode
    message: str
