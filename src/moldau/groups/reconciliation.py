"""Reconciliation: the steps of one member from its current assignment to its target.

A member first gives up the partitions that are not in its target. Then it gets those of its target that no other member
owns.

    STABLE ──new target──▶ UNREVOKED_PARTITIONS ──the member has given up──▶ UNRELEASED_PARTITIONS or STABLE
       └──────nothing to give up──────────────────────────────────────────▶ (waits for others, or has all)

A member that has to give up partitions keeps its epoch until it has done so. Then it moves to the target's epoch.
"""

from __future__ import annotations

from moldau.groups.consumer_group import Assignment, ConsumerGroup, Current, MemberState, assignment_of, partitions_of


def reconcile(group: ConsumerGroup, member_id: str, owned: Assignment | None) -> Current:
    """The next assignment of the member. `owned` are the partitions that it reports; None if it reports none."""
    current = group.current(member_id)
    if current.state is MemberState.STABLE and current.epoch == group.target_epoch:
        return current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _still_reads(current.revoking, owned):
        return current
    return _next(group, member_id, current, owned)


def _still_reads(revoking: Assignment, owned: Assignment | None) -> bool:
    return owned is None or any(partitions & owned.get(topic, frozenset()) for topic, partitions in revoking.items())


def _next(group: ConsumerGroup, member_id: str, current: Current, owned: Assignment | None) -> Current:
    target = set(partitions_of(group.target(member_id)))
    has = set(partitions_of(current.assigned))
    revoking = assignment_of(has - target)
    if revoking and _still_reads(revoking, owned):
        return Current(
            current.epoch,
            current.previous_epoch,
            MemberState.UNREVOKED_PARTITIONS,
            assignment_of(has & target),
            revoking,
        )
    wanted = target - has
    free = {one for one in wanted if group.owners.get(one, member_id) == member_id}
    epoch = group.target_epoch
    return Current(
        epoch,
        current.epoch if current.epoch != epoch else current.previous_epoch,
        MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS,
        assignment_of((has & target) | free),
    )


def waits_for_others(group: ConsumerGroup, member_id: str) -> bool:
    """Whether another member still owns a partition of this member's target."""
    has = set(partitions_of(group.current(member_id).assigned))
    return any(
        group.owners.get(one, member_id) != member_id
        for one in partitions_of(group.target(member_id))
        if one not in has
    )
