"""Checkers: each one is a function of a history and finds one kind of anomaly.

They follow the Jepsen project's work on Kafka-like systems. Acknowledged records exist once and in order. A record that
was read does not change or disappear. A read_committed consumer never gets an uncommitted record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from moldau.security.acls import AclRule, Permission
from moldau.security.resources import Operation, ResourceType
from moldau.testing.simulation.history import Attempt, History, OffsetCommit, Place, Replica, TransactionOutcome

RULES_LAG_S = 6.0
"""The time after a commit in which every broker that serves must have the rules: a session, within which a broker that
gets no news from the store stops leading, and two seconds for slow links and loops."""


class Anomaly(NamedTuple):
    """An event that must not happen, and when it was noticed."""

    kind: str
    what: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.kind}: {self.what} (at {self.at_s:.3f} s)"


Checker = Callable[[History], Iterator[Anomaly]]


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def acknowledged_record_lost(history: History) -> Iterator[Anomaly]:
    """A durable acknowledgement promises that the record stays at its offset."""
    for ack in history.acked:
        if not history.sent[ack.value].durable or ack.place not in history.final:
            continue
        found = history.final[ack.place].get(ack.offset)
        if found != ack.value:
            there = f"{found!r} is there" if found is not None else "nothing is there"
            yield Anomaly(
                "acknowledged record lost",
                f"{ack.value!r} was acknowledged at {_name(ack.place)} offset {ack.offset}; {there}",
                ack.at_s,
            )


def offset_with_two_values(history: History) -> Iterator[Anomaly]:
    """All consumers read the same record at an offset, at any time."""
    first: dict[tuple[Place, int], tuple[str, str]] = {}
    for seen in history.seen:
        known = first.setdefault((seen.place, seen.offset), (seen.value, seen.reader))
        if known[0] != seen.value:
            yield Anomaly(
                "offset with two values",
                f"{_name(seen.place)} offset {seen.offset}: {known[0]!r} for {known[1]}, {seen.value!r} for "
                f"{seen.reader}",
                seen.at_s,
            )
    for place, records in history.final.items():
        for offset, value in records.items():
            known = first.get((place, offset), (value, ""))
            if known[0] != value:
                yield Anomaly(
                    "offset with two values",
                    f"{_name(place)} offset {offset}: {known[0]!r} for {known[1]}, {value!r} at the end",
                    history.now_s(),
                )
    for seen in history.seen:
        if seen.place in history.final and seen.offset not in history.final[seen.place]:
            yield Anomaly(
                "offset with two values",
                f"{_name(seen.place)} offset {seen.offset}: {seen.value!r} for {seen.reader}, nothing at the end",
                seen.at_s,
            )


def duplicate_under_idempotence(history: History) -> Iterator[Anomaly]:
    """An idempotent producer's record is in the log only once, however often it was sent."""
    for place, records in history.final.items():
        at: dict[str, int] = {}
        for offset, value in records.items():
            if value in at and history.sent[value].idempotent:
                yield Anomaly(
                    "duplicate under idempotence",
                    f"{value!r} is in {_name(place)} at offsets {at[value]} and {offset}",
                    history.sent[value].at_s,
                )
            at[value] = offset


def reordering_within_a_partition(history: History) -> Iterator[Anomaly]:
    """An idempotent producer's records are in the order in which they were sent."""
    for place, records in history.final.items():
        last: dict[str, tuple[int, int]] = {}
        for offset, value in sorted(records.items()):
            sent = history.sent.get(value)
            if sent is None or not sent.idempotent:
                continue
            number, where = last.get(sent.producer, (-1, -1))
            if sent.number < number:
                yield Anomaly(
                    "reordering within a partition",
                    f"{_name(place)}: number {sent.number} of {sent.producer} at offset {offset} comes after its "
                    f"number {number} at {where}",
                    sent.at_s,
                )
            last[sent.producer] = (sent.number, offset)


def record_from_nowhere(history: History) -> Iterator[Anomaly]:
    """No consumer gets a record that was not sent."""
    for seen in history.seen:
        sent = history.sent.get(seen.value)
        if sent is None or sent.place != seen.place:
            yield Anomaly(
                "record from nowhere",
                f"{seen.reader} was given {seen.value!r} at {_name(seen.place)} offset {seen.offset}",
                seen.at_s,
            )


def uncommitted_read(history: History) -> Iterator[Anomaly]:
    """A read_committed consumer never gets a record of a transaction that was aborted, or whose commit has not
    begun."""
    committing: dict[str, float] = {}
    aborted: dict[str, float] = {}
    for step in history.ended:
        if step.outcome is TransactionOutcome.COMMITTING:
            committing.setdefault(step.transaction, step.at_s)
        elif step.outcome is TransactionOutcome.ABORTED:
            aborted.setdefault(step.transaction, step.at_s)
    for seen in history.seen:
        sent = history.sent.get(seen.value)
        if not seen.committed_only or sent is None or sent.transaction is None:
            continue
        name = sent.transaction
        if name in aborted or committing.get(name, float("inf")) > seen.at_s:
            kind = "aborted read" if name in aborted else "uncommitted read"
            yield Anomaly(
                kind,
                f"{seen.reader} was given {seen.value!r} of transaction {name} at {_name(seen.place)} "
                f"offset {seen.offset}",
                seen.at_s,
            )


def transaction_torn(history: History) -> Iterator[Anomaly]:
    """All records of a committed transaction are visible. If the outcome is unknown, all or none of them are."""
    if not history.final_committed:
        return
    visible = {value for records in history.final_committed.values() for value in records.values()}
    acked = {ack.value for ack in history.acked}
    values: dict[str, list[str]] = defaultdict(list)
    for sent in history.sent.values():
        if sent.transaction is not None and sent.place in history.final_committed and sent.value in acked:
            values[sent.transaction].append(sent.value)
    outcomes = history.outcomes()
    for transaction, written in values.items():
        there = [value for value in written if value in visible]
        missing = len(written) - len(there)
        if missing and (there or outcomes.get(transaction) is TransactionOutcome.COMMITTED):
            ended = next(step.at_s for step in reversed(history.ended) if step.transaction == transaction)
            yield Anomaly(
                "transaction torn",
                f"{missing} of {len(written)} records of {transaction} ({outcomes[transaction].value}) are missing",
                ended,
            )


def committed_offset_going_back(history: History) -> Iterator[Anomaly]:
    """After a commit was acknowledged, a group never gets an older committed offset.

    A commit whose result is unknown may still be in flight, and may take effect after a later commit. The protocol
    cannot prevent that, so the offset of such a commit is accepted.
    """
    commits: dict[tuple[str, Place], list[OffsetCommit]] = defaultdict(list)
    for commit in history.offset_commits:
        commits[commit.group, commit.place].append(commit)
    for seen in history.offsets_seen:
        known = commits[seen.group, seen.place]
        newest = max((one.offset for one in known if one.at_s is not None and one.at_s <= seen.began_s), default=None)
        straying = {one.offset for one in known if one.at_s is None and one.began_s <= seen.at_s}
        if newest is None or seen.offset in straying:
            continue
        if seen.offset is None or seen.offset < newest:
            yield Anomaly(
                "committed offset going back",
                f"group {seen.group}, {_name(seen.place)}: {newest} was committed, but {seen.offset} was returned",
                seen.at_s,
            )


def group_skipped_records(history: History) -> Iterator[Anomaly]:
    """Every record below a group's committed offset was delivered to a member."""
    committed: dict[tuple[str, Place], int] = {}
    for commit in history.offset_commits:
        if commit.at_s is not None:
            key = (commit.group, commit.place)
            committed[key] = max(committed.get(key, 0), commit.offset)
    for (group, place), offset in committed.items():
        given = history.group_read.get((group, place), {})
        skipped = [there for there in history.final.get(place, {}) if there < offset and there not in given]
        if skipped:
            yield Anomaly(
                "group skipped records",
                f"group {group} committed {offset} of {_name(place)} and was never given offsets {skipped[:5]}",
                history.now_s(),
            )


def copied_not_exactly_once(history: History) -> Iterator[Anomaly]:
    """All records below the offset that was committed with the copies are copied once and in order, and no others."""
    for place, copies in history.copies.items():
        source = history.final_committed.get(place, {})
        wanted = [value for offset, value in sorted(source.items()) if offset < history.copied_to.get(place, 0)]
        if copies != wanted:
            at = next((i for i, (one, other) in enumerate(zip(copies, wanted, strict=False)) if one != other), None)
            first = "" if at is None else f"; the first difference: {copies[at]!r} where {wanted[at]!r} should be"
            yield Anomaly(
                "copied not exactly once",
                f"{len(copies)} copies of the {len(wanted)} records of {_name(place)} that were committed{first}",
                history.now_s(),
            )


def two_leaders_in_one_epoch(history: History) -> Iterator[Anomaly]:
    """An epoch has one leader, and that leader is one incarnation of one broker."""
    leaders: dict[tuple[Place, bytes, int], str] = {}
    for led in history.led:
        known = leaders.setdefault((led.place, led.topic_id, led.epoch), led.who)
        if known != led.who:
            yield Anomaly(
                "two leaders in one epoch",
                f"{_name(led.place)} epoch {led.epoch}: {known} and {led.who}",
                led.at_s,
            )


def replicas_that_differ(history: History) -> Iterator[Anomaly]:
    """Below the high watermark all replicas hold the same bytes."""
    by_place: dict[Place, list[Replica]] = defaultdict(list)
    for replica in history.replicas:
        by_place[replica.place].append(replica)
    for place, replicas in by_place.items():
        for other in replicas[1:]:
            difference = _first_difference(replicas[0], other)
            if difference is not None:
                yield Anomaly(
                    "replicas that differ",
                    f"{_name(place)} on brokers {replicas[0].broker} and {other.broker}: {difference}",
                    history.now_s(),
                )


def _first_difference(one: Replica, other: Replica) -> str | None:
    """The first difference in the common range of offsets. One replica may have deleted more of its beginning."""
    start = max(one.log_start, other.log_start)
    end = min(one.high_watermark, other.high_watermark)
    ours = [batch for batch in one.batches if start <= batch[0] < end]
    theirs = [batch for batch in other.batches if start <= batch[0] < end]
    for mine, its in zip(ours, theirs, strict=False):
        if mine != its:
            return f"offsets {mine[0]} to {mine[1]} ({mine[2]}) here, {its[0]} to {its[1]} ({its[2]}) there"
    if len(ours) != len(theirs):
        return f"{len(ours)} batches here, {len(theirs)} there, below offset {end}"
    return None


def _allows(rules: frozenset[AclRule], attempt: Attempt) -> bool:
    """Whether the rules allow it: decided here once more, to compare the brokers with."""
    permissions = [
        rule.entry.permission
        for rule in rules
        if rule.pattern.resource_type == ResourceType.TOPIC
        and rule.pattern.covers(attempt.topic)
        and rule.entry.principal == f"User:{attempt.user}"
        and rule.entry.operation in (attempt.operation, Operation.ALL)
    ]
    return Permission.ALLOW in permissions and Permission.DENY not in permissions


def _decisions(history: History, attempt: Attempt) -> set[bool]:
    """All decisions that the rules of the store gave from the attempt to its end, and in the time before it in which a
    broker may still have older rules."""
    since_s = attempt.began_s - RULES_LAG_S
    rules = history.rules
    ends = [*(later.at_s for later in rules[1:]), float("inf")]
    return {
        _allows(stored.rules, attempt)
        for stored, end_s in zip(rules, ends, strict=True)
        if stored.at_s <= attempt.at_s and end_s >= since_s
    }


def operation_without_the_right(history: History) -> Iterator[Anomaly]:
    """An operation does not succeed for a user who has not, or no longer, the right to it."""
    for attempt in history.attempts:
        if attempt.done and True not in _decisions(history, attempt):
            yield Anomaly(
                "operation without the right",
                f"{attempt.user} did {attempt.operation.name} on {attempt.topic}, begun at {attempt.began_s:.3f} s; "
                f"no rule has allowed it for {RULES_LAG_S:g} s",
                attempt.at_s,
            )


def right_denied(history: History) -> Iterator[Anomaly]:
    """A user with a right is not denied the operation, and every user can log in."""
    for attempt in history.attempts:
        if not attempt.done and False not in _decisions(history, attempt):
            yield Anomaly(
                "right denied",
                f"{attempt.user} was denied {attempt.operation.name} on {attempt.topic}, begun at "
                f"{attempt.began_s:.3f} s; the rules have allowed it for {RULES_LAG_S:g} s",
                attempt.at_s,
            )
    for denial in history.denials:
        yield Anomaly("right denied", f"{denial.client}, user {denial.user}: {denial.what}", denial.at_s)


def acknowledged_rule_not_stored(history: History) -> Iterator[Anomaly]:
    """When the addition or removal of a rule is acknowledged, the store has made it. Another request may have reversed
    it since."""
    for change in history.rule_changes:
        before = [stored for stored in history.rules if stored.at_s <= change.began_s][-1:]
        during = [stored for stored in history.rules if change.began_s < stored.at_s <= change.at_s]
        if all((change.rule in stored.rules) != change.added for stored in before + during):
            verb = "added" if change.added else "removed"
            yield Anomaly("acknowledged rule not stored", f"{verb}: {change.rule}", change.at_s)


CHECKERS: tuple[Checker, ...] = (
    acknowledged_record_lost,
    offset_with_two_values,
    duplicate_under_idempotence,
    reordering_within_a_partition,
    record_from_nowhere,
    uncommitted_read,
    transaction_torn,
    committed_offset_going_back,
    group_skipped_records,
    copied_not_exactly_once,
    two_leaders_in_one_epoch,
    replicas_that_differ,
    operation_without_the_right,
    right_denied,
    acknowledged_rule_not_stored,
)


def judge(history: History) -> list[Anomaly]:
    """All anomalies, the earliest first."""
    found = [anomaly for checker in CHECKERS for anomaly in checker(history)]
    return sorted(found, key=lambda anomaly: anomaly.at_s)
