"""Which replica a consumer should read from, given its rack (KIP-392). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.replication.leadership import Leadership


def nearest_replica(
    leadership: Leadership, leader_id: int, racks: Mapping[int, str | None], rack: str, offset: int
) -> int | None:
    """The in-sync replica in this rack that has most, if it can serve the offset; None where that is the leader.

    `racks` are those of the brokers that the consumer can reach. A leader in the rack is preferred: it has everything.
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
