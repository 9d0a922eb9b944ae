"""Nearest replica for a consumer, by rack (KIP-392). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.replication.leadership import Leadership


def nearest_replica(
    leadership: Leadership, leader_id: int, racks: Mapping[int, str | None], rack: str, offset: int
) -> int | None:
    """The in-sync replica in this rack with the largest end offset, if it can serve the offset; None to use the leader.

    `racks` has the racks of the brokers that the consumer can reach. A leader in the rack is preferred, because it has
    all records.
    """
    if racks.get(leader_id) == rack:
        return None
    nearest: int | None = None
    most = offset - 1
    for replica, follower in leadership.followers.items():
        if (
            replica in leadership.isr
            and racks.get(replica) == rack
            and follower.end_offset > most
            and follower.start_offset <= offset
        ):
            nearest, most = replica, follower.end_offset
    return nearest
