"""Checkers of the simulation: each finds its kind of error, and nothing in a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.security.acls import AclEntry, AclRule, Permission, ResourcePattern
from moldau.security.resources import Operation, ResourceType
from moldau.testing.simulation.checkers import CHECKERS, judge
from moldau.testing.simulation.history import (
    Acked,
    Attempt,
    Denial,
    History,
    Led,
    OffsetCommit,
    OffsetSeen,
    Place,
    Replica,
    RuleChange,
    Seen,
    Sent,
    StoredRules,
    TransactionOutcome,
    TransactionStep,
)

PLACE: Place = ("t", 0)


def good() -> History:
    """Two plain records, a committed and an aborted transaction, and a group that has read and committed everything."""
    history = History(lambda: 100.0)
    for number, value in enumerate(["a", "b"]):
        history.sent[value] = Sent(value, "w", number, PLACE, 1.0 + number)
        history.acked.append(Acked(value, PLACE, number, 2.0 + number))
    for number, (value, name) in enumerate([("c", "tx1"), ("d", "tx1"), ("e", "tx2")]):
        history.sent[value] = Sent(value, "x", number, PLACE, 4.0, transaction=name)
        history.acked.append(Acked(value, PLACE, 2 + number, 5.0))
    history.ended += [
        TransactionStep("tx1", TransactionOutcome.OPEN, 4.0),
        TransactionStep("tx1", TransactionOutcome.COMMITTING, 6.0),
        TransactionStep("tx1", TransactionOutcome.COMMITTED, 7.0),
        TransactionStep("tx2", TransactionOutcome.OPEN, 4.0),
        TransactionStep("tx2", TransactionOutcome.ABORTED, 6.0),
    ]
    history.final = {PLACE: dict(enumerate(["a", "b", "c", "d", "e"]))}
    history.final_committed = {PLACE: dict(enumerate(["a", "b", "c", "d"]))}
    history.seen += [Seen("r", PLACE, offset, value, 8.0) for offset, value in history.final[PLACE].items()]
    history.seen += [Seen("rc", PLACE, offset, value, 8.0, True) for offset, value in enumerate(["a", "b", "c", "d"])]
    history.group_read["g", PLACE] = dict.fromkeys(range(5))
    history.offset_commits.append(OffsetCommit("g", PLACE, 5, 8.0, 9.0))
    history.offsets_seen.append(OffsetSeen("g", PLACE, 5, 10.0, 10.1))
    history.copies[PLACE] = ["a", "b", "c"]
    history.copied_to[PLACE] = 3
    history.led += [Led(PLACE, 0, "broker-1.1", 0.0), Led(PLACE, 1, "broker-2.1", 3.0)]
    history.replicas += [replica(1), replica(2)]
    use_rights(history)
    return history


def guest(permission: Permission = Permission.ALLOW, name: str = "t") -> AclRule:
    return AclRule(ResourcePattern(ResourceType.TOPIC, name), AclEntry("User:guest", "*", Operation.WRITE, permission))


def tried(began_s: float, done: bool, user: str = "guest", operation: Operation = Operation.WRITE) -> Attempt:
    return Attempt(user, operation, "t", began_s, began_s + 0.1, done)


def use_rights(history: History) -> None:
    """The guest has a right from 20 s to 50 s, and from 80 s; from 70 s to 90 s it is denied."""
    history.rules += [
        StoredRules(0.0, frozenset()),
        StoredRules(20.0, frozenset({guest()})),
        StoredRules(50.0, frozenset({guest(name="other")})),
        StoredRules(70.0, frozenset({guest(Permission.DENY)})),
        StoredRules(80.0, frozenset({guest(Permission.DENY), guest(name="*")})),
        StoredRules(90.0, frozenset({guest(name="*")})),
    ]
    history.rule_changes += [RuleChange(guest(), True, 19.0, 21.0), RuleChange(guest(), False, 49.0, 51.0)]
    history.attempts += [tried(at_s, False) for at_s in (10.0, 60.0, 78.0, 88.0)]
    history.attempts += [tried(at_s, True) for at_s in (30.0, 48.0, 98.0)]
    # Some brokers do not have the new rules yet.
    history.attempts += [tried(at_s, done) for at_s in (19.99, 22.0, 52.0, 91.0) for done in (False, True)]
    history.attempts += [tried(at_s, False, "stranger") for at_s in (30.0, 98.0)]
    history.attempts += [tried(30.0, False, operation=Operation.READ)]


def replica(broker: int, digest: str = "same", high_watermark: int = 5) -> Replica:
    return Replica(PLACE, broker, 0, high_watermark, ((0, 1, "x"), (2, 4, digest)))


def lost(history: History) -> None:
    del history.final[PLACE][1]
    history.seen.clear()


def two_values(history: History) -> None:
    history.seen.append(Seen("other", PLACE, 0, "b", 9.0))


def seen_and_gone(history: History) -> None:
    history.sent["f"] = Sent("f", "w1", 0, PLACE, 1.0)
    history.seen.append(Seen("other", PLACE, 5, "f", 9.0))


def duplicate(history: History) -> None:
    history.final[PLACE][5] = "a"


def reordered(history: History) -> None:
    history.sent["b"] = history.sent["b"]._replace(number=-5)


def from_nowhere(history: History) -> None:
    history.seen.append(Seen("r", PLACE, 9, "ghost", 9.0))
    history.final[PLACE][9] = "ghost"


def aborted_read(history: History) -> None:
    history.seen.append(Seen("rc", PLACE, 4, "e", 9.0, True))


def uncommitted_read(history: History) -> None:
    history.seen.append(Seen("rc", PLACE, 2, "c", 5.5, True))


def torn(history: History) -> None:
    del history.final_committed[PLACE][3]


def torn_in_doubt(history: History) -> None:
    history.ended.remove(TransactionStep("tx1", TransactionOutcome.COMMITTED, 7.0))
    del history.final_committed[PLACE][3]


def offset_back(history: History) -> None:
    history.offsets_seen.append(OffsetSeen("g", PLACE, 3, 20.0, 20.1))


def offset_forgotten(history: History) -> None:
    history.offsets_seen.append(OffsetSeen("g", PLACE, None, 20.0, 20.1))


def skipped(history: History) -> None:
    del history.group_read["g", PLACE][2]


def copied_twice(history: History) -> None:
    history.copies[PLACE].append("c")


def copied_too_far(history: History) -> None:
    history.copied_to[PLACE] = 2


def two_leaders(history: History) -> None:
    history.led.append(Led(PLACE, 1, "broker-2.2", 30.0))


def different(history: History) -> None:
    history.replicas.append(replica(3, "other"))


def shorter(history: History) -> None:
    history.replicas.append(Replica(PLACE, 3, 0, 5, ((0, 1, "x"),)))


def done_before_the_right(history: History) -> None:
    history.attempts.append(tried(10.0, True))


def done_after_the_right(history: History) -> None:
    history.attempts.append(tried(60.0, True))


def done_with_another_right(history: History) -> None:
    history.attempts.append(tried(30.0, True, operation=Operation.READ))


def done_in_spite_of_deny(history: History) -> None:
    history.attempts.append(tried(88.0, True))


def done_by_a_stranger(history: History) -> None:
    history.attempts.append(tried(30.0, True, "stranger"))


def denied_with_the_right(history: History) -> None:
    history.attempts.append(tried(30.0, False))


def worker_denied(history: History) -> None:
    history.denials.append(Denial("client-w1", "worker", "TopicAuthorizationFailed", 30.0))


def rule_not_stored(history: History) -> None:
    history.rule_changes.append(RuleChange(guest(), True, 60.0, 61.0))


def rule_not_removed(history: History) -> None:
    history.rule_changes.append(RuleChange(guest(), False, 30.0, 31.0))


BAD: list[tuple[Callable[[History], None], str]] = [
    (lost, "acknowledged record lost"),
    (two_values, "offset with two values"),
    (seen_and_gone, "offset with two values"),
    (duplicate, "duplicate under idempotence"),
    (reordered, "reordering within a partition"),
    (from_nowhere, "record from nowhere"),
    (aborted_read, "aborted read"),
    (uncommitted_read, "uncommitted read"),
    (torn, "transaction torn"),
    (torn_in_doubt, "transaction torn"),
    (offset_back, "committed offset going back"),
    (offset_forgotten, "committed offset going back"),
    (skipped, "group skipped records"),
    (copied_twice, "copied not exactly once"),
    (copied_too_far, "copied not exactly once"),
    (two_leaders, "two leaders in one epoch"),
    (different, "replicas that differ"),
    (shorter, "replicas that differ"),
    (done_before_the_right, "operation without the right"),
    (done_after_the_right, "operation without the right"),
    (done_with_another_right, "operation without the right"),
    (done_in_spite_of_deny, "operation without the right"),
    (done_by_a_stranger, "operation without the right"),
    (denied_with_the_right, "right denied"),
    (worker_denied, "right denied"),
    (rule_not_stored, "acknowledged rule not stored"),
    (rule_not_removed, "acknowledged rule not stored"),
]


def test_a_correct_history_has_no_anomaly() -> None:
    assert judge(good()) == []


@pytest.mark.parametrize(("spoil", "kind"), BAD, ids=lambda one: one.__name__ if callable(one) else "")
def test_every_bad_history_is_found(spoil: Callable[[History], None], kind: str) -> None:
    history = good()
    spoil(history)
    assert kind in {anomaly.kind for anomaly in judge(history)}


def test_every_checker_has_a_bad_history() -> None:
    caught = set()
    for spoil, _ in BAD:
        history = good()
        spoil(history)
        caught |= {checker.__name__ for checker in CHECKERS if list(checker(history))}
    assert caught == {checker.__name__ for checker in CHECKERS}


def test_records_acknowledged_by_the_leader_alone_may_be_lost() -> None:
    history = good()
    history.sent["b"] = history.sent["b"]._replace(durable=False, idempotent=False)
    lost(history)
    assert judge(history) == []


def test_a_commit_in_doubt_may_arrive_late_and_win() -> None:
    history = good()
    history.offset_commits.append(OffsetCommit("g", PLACE, 3, 7.0, None))
    offset_back(history)
    assert judge(history) == []


def test_a_rule_that_another_request_has_reversed_was_stored() -> None:
    history = good()
    history.rule_changes.append(RuleChange(guest(), True, 49.0, 51.0))
    assert judge(history) == []


def test_replicas_may_differ_above_the_high_watermark_and_in_deleted_records() -> None:
    history = good()
    history.replicas.append(replica(3, "other", high_watermark=2))
    history.replicas.append(Replica(PLACE, 4, 2, 5, ((2, 4, "same"),)))
    assert judge(history) == []
