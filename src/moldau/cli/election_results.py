"""Election results per partition, shared by `moldau cluster elect` and kafka-leader-election.

Nothing here prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.client.admin import ElectionType, SomeFailed
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerError, MoldauError

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

Elected = tuple[dict[TopicPartition, bool], dict[TopicPartition, MoldauError]]
"""For each partition, whether it has a new leader (False if it needed none), and the errors of the other partitions."""


def elected(admin: Admin, kind: ElectionType, wanted: list[TopicPartition] | None) -> Elected:
    """Elect leaders, for all partitions if `wanted` is None. Raises errors that are not about a single partition."""
    try:
        return admin.elect_leaders(kind, wanted), {}
    except SomeFailed as some:
        return dict(some.results), dict(some.errors)
    except BrokerError as error:
        if wanted is None or len(wanted) != 1:
            raise
        return {}, {wanted[0]: error}
