"""Deleted topics: which requests get an unknown topic before it is created again."""

from __future__ import annotations

from typing import Any

from moldau.broker.requests.deleted_topics import MAX_NAMES, DeletedTopics
from moldau.cluster.image import ClusterImage


def image(*names: str) -> ClusterImage:
    topics: Any = dict.fromkeys(names)
    return ClusterImage("cluster", topics=topics)


def test_the_first_request_after_a_deletion_is_the_only_one() -> None:
    deleted = DeletedTopics()
    deleted.follow(image("a", "b"), image("b"))
    assert not deleted.first_asked("b")
    assert not deleted.first_asked("never there")
    assert deleted.first_asked("a")
    assert not deleted.first_asked("a")


def test_each_deletion_counts() -> None:
    deleted = DeletedTopics()
    for _ in range(2):
        deleted.follow(image(), image("a"))
        deleted.follow(image("a"), image())
        assert deleted.first_asked("a")


def test_the_oldest_names_are_forgotten_first() -> None:
    deleted = DeletedTopics()
    deleted.follow(image("old", "older"), image("old"))
    deleted.follow(image("old"), image())
    names = [str(number) for number in range(MAX_NAMES - 1)]
    deleted.follow(image(*names), image())
    assert not deleted.first_asked("older")
    assert deleted.first_asked("old")
    assert all(map(deleted.first_asked, names))
