"""Heartbeat answers for errors of the coordinator runtime."""

from __future__ import annotations

import pytest

from moldau.broker.handlers.heartbeat import answer_of_runtime
from moldau.wire.errors import ErrorCode


def test_a_heartbeat_succeeds_while_the_group_is_loaded() -> None:
    assert answer_of_runtime(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).error_code == ErrorCode.NONE


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_other_errors_are_told(code: ErrorCode) -> None:
    assert answer_of_runtime(code).error_code == code
