"""Refusal: a negative decision with an error code and a message."""

from __future__ import annotations

from typing import NamedTuple

from moldau.wire.errors import ErrorCode


class Refusal(NamedTuple):
    """Why a request was refused, as the client sees it: Kafka's error code and a message."""

    code: ErrorCode
    message: str
