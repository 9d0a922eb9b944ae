"""Elections as commands see them: what became of each partition, also where only one was asked for.

What our own command and the tool of Kafka's name share. Nothing here prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.client.admin import ElectionType, SomeFailed
from moldau.client.errors import BrokerError, MoldauError
from moldau.client.model import TopicPartition

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

Elected = tuple[dict[TopicPartition, bool], dict[TopicPartition, MoldauError]]
"""Whether each has a new leader, False where it needed none; and why others have none."""


def elected(admin: Admin, kind: ElectionType, wanted: list[TopicPartition] | None) -> Elected:
    """Has leaders elected, everywhere where `wanted` is None. Raises what is no answer about a single partition."""
    try:
        return admin.elect_leaders(kind, wanted), {}
    except SomeFailed as some:
        return dict(some.results), dict(some.errors)
    except BrokerError as error:
        if wanted is None or len(wanted) != 1:
            raise
        return {}, {wanted[0]: error}
