"""Assignors: every partition has one reader, loads are even, owned partitions are kept, and the bytes are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    MemberSubscription,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    assignors_of,
    protocol_of,
)
from moldau.client.consumer.assignors.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.client.consumer.assignors.sticky import decode_memory, encode_memory
from moldau.client.consumer.membership.group_leader import assign_all, subscriptions_of
from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError, IllegalStateError
from moldau.wire.errors import WireError
from moldau.wire.messages.join_group import JoinGroupResponseMember

ALL = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)

names = st.sampled_from(["a", "b", "c", "d"])
topics = st.dictionaries(names, st.integers(1, 9), max_size=4)
members = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(6)]),
    st.lists(names, max_size=4, unique=True).map(lambda some: MemberSubscription(tuple(some))),
    min_size=1,
    max_size=6,
)


def of(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def everything(partitions: Mapping[str, int], who: Mapping[str, MemberSubscription]) -> list[TopicPartition]:
    read = {topic for one in who.values() for topic in one.topics}
    return sorted(
        TopicPartition(topic, index) for topic, count in partitions.items() if topic in read for index in range(count)
    )


@pytest.mark.parametrize("kind", ALL)
@given(partitions=topics, who=members)
def test_every_partition_has_one_reader_that_subscribes_to_it(
    kind: type[Assignor], partitions: dict[str, int], who: dict[str, MemberSubscription]
) -> None:
    given_ = kind().assign(partitions, who)
    assert sorted(one for some in given_.values() for one in some) == everything(partitions, who)
    assert all(one.topic in who[member].topics for member, some in given_.items() for one in some)


@pytest.mark.parametrize("kind", [RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor])
@given(partitions=topics, count=st.integers(1, 7))
def test_if_all_read_the_same_topics_loads_differ_by_one_at_most(
    kind: type[Assignor], partitions: dict[str, int], count: int
) -> None:
    who = {f"m{number}": MemberSubscription(tuple(sorted(partitions))) for number in range(count)}
    loads = [len(some) for some in kind().assign(partitions, who).values()]
    assert max(loads) - min(loads) <= 1


def test_range_gives_neighbours_and_equal_partitions_of_two_topics_to_the_same_member() -> None:
    who = {name: MemberSubscription(("a", "b")) for name in ("x", "y")}
    given_ = RangeAssignor().assign({"a": 3, "b": 3}, who)
    assert given_ == {"x": of("a", 0, 1) + of("b", 0, 1), "y": of("a", 2) + of("b", 2)}


def test_round_robin_assigns_partitions_in_turn() -> None:
    who = {name: MemberSubscription(("a", "b")) for name in ("x", "y")}
    given_ = RoundRobinAssignor().assign({"a": 3, "b": 3}, who)
    assert given_ == {"x": of("a", 0, 2) + of("b", 1), "y": of("a", 1) + of("b", 0, 2)}


@pytest.mark.parametrize("kind", ALL)
def test_a_static_member_that_returns_with_another_member_id_moves_no_partition(kind: type[Assignor]) -> None:
    def assigned(ids: tuple[str, str]) -> list[list[TopicPartition]]:
        who = {
            member: MemberSubscription(("a",), instance_id=instance)
            for member, instance in zip(ids, ("one", "two"), strict=True)
        }
        given_ = kind().assign({"a": 4}, who)
        return [given_[member] for member in ids]

    assert assigned(("p", "q")) == assigned(("z", "q"))


# -- sticky ------------------------------------------------------------------------------------------------------------


@st.composite
def sticky_groups(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, MemberSubscription]]:
    """Members with earlier assignments: some partitions do not exist any more, some are claimed by two members."""
    partitions = draw(topics)
    pool = [TopicPartition(topic, index) for topic in "abcd" for index in range(9)]
    who = {}
    for member, subscription in draw(members).items():
        owned = draw(st.lists(st.sampled_from(pool), unique=True, max_size=8))
        generation = draw(st.integers(-1, 3))
        who[member] = subscription._replace(owned=tuple(sorted(owned)), generation=generation)
    return partitions, who


@given(sticky_groups())
def test_cooperative_assigns_no_partition_that_another_member_still_owns(
    group: tuple[dict[str, int], dict[str, MemberSubscription]],
) -> None:
    partitions, who = group
    given_ = CooperativeStickyAssignor().assign(partitions, who)
    for member, some in given_.items():
        for other, subscription in who.items():
            assert other == member or not set(some) & set(subscription.owned)


@given(sticky_groups())
def test_cooperative_ends_with_every_partition_assigned(
    group: tuple[dict[str, int], dict[str, MemberSubscription]],
) -> None:
    partitions, who = group
    for generation in range(4, 8):
        given_ = CooperativeStickyAssignor().assign(partitions, who)
        before = who
        who = {member: one._replace(owned=tuple(given_[member]), generation=generation) for member, one in who.items()}
        if all(set(before[member].owned) == set(one.owned) for member, one in who.items()):
            break
    assert sorted(one for some in given_.values() for one in some) == everything(partitions, who)
    assert CooperativeStickyAssignor().assign(partitions, who) == given_


def test_a_new_member_gets_only_its_share_and_the_others_keep_the_rest() -> None:
    who = {
        "x": MemberSubscription(("a",), tuple(of("a", 0, 1, 2)), 1),
        "y": MemberSubscription(("a",), tuple(of("a", 3, 4, 5)), 1),
        "z": MemberSubscription(("a",)),
    }
    for kind in (StickyAssignor, CooperativeStickyAssignor):
        given_ = kind().assign({"a": 6}, who)
        assert given_["x"] == of("a", 0, 1)
        assert given_["y"] == of("a", 3, 4)
    assert StickyAssignor().assign({"a": 6}, who)["z"] == of("a", 2, 5)
    assert CooperativeStickyAssignor().assign({"a": 6}, who)["z"] == []


def test_of_two_owners_of_a_partition_the_later_generation_wins() -> None:
    who = {
        "x": MemberSubscription(("a",), user_data=encode_memory(of("a", 0, 1), 3)),
        "y": MemberSubscription(("a",), user_data=encode_memory(of("a", 1, 2), 4)),
    }
    assert StickyAssignor().assign({"a": 4}, who) == {"x": of("a", 0, 3), "y": of("a", 1, 2)}


def test_an_eager_sticky_member_sends_its_previous_partitions() -> None:
    assignor = StickyAssignor()
    assert assignor.user_data(("a",)) is None
    assignor.on_assignment(of("a", 1, 2), 7)
    data = assignor.user_data(("a",))
    assert data == bytes.fromhex("00000001 0001 61 00000002 00000001 00000002 00000007")
    assert decode_memory(data) == (7, of("a", 1, 2))


def test_a_cooperative_member_sends_its_generation_in_the_user_data_too() -> None:
    assignor = CooperativeStickyAssignor()
    assignor.on_assignment((), 9)
    assert assignor.user_data(()) == bytes.fromhex("00000009")


@given(st.binary(max_size=60))
def test_invalid_user_data_is_ignored(data: bytes) -> None:
    generation, partitions = decode_memory(data)
    assert isinstance(generation, int) and all(isinstance(one, TopicPartition) for one in partitions)


def test_user_data_of_older_clients_has_no_generation() -> None:
    assert decode_memory(encode_memory(of("a", 5), 7)[:-4]) == (-1, of("a", 5))


@pytest.mark.parametrize("count", [300])
def test_members_with_different_topics_are_balanced_in_bounded_time(count: int) -> None:
    partitions = {f"t{number}": 10 for number in range(count // 10)}
    who = {
        f"m{number}": MemberSubscription(tuple(f"t{topic}" for topic in range(number % 3, count // 10)))
        for number in range(30)
    }
    loads = [len(some) for some in StickyAssignor().assign(partitions, who).values()]
    assert sum(loads) == count and max(loads) - min(loads) <= 1


# -- encoding ----------------------------------------------------------------------------------------------------------


@given(sticky_groups())
def test_encoded_subscriptions_and_assignments_are_decoded_unchanged(
    group: tuple[dict[str, int], dict[str, MemberSubscription]],
) -> None:
    for one in group[1].values():
        said = one._replace(topics=tuple(sorted(one.topics)), user_data=b"x", rack="r")
        assert decode_subscription(encode_subscription(said)) == said
        assert decode_assignment(encode_assignment(one.owned)) == list(one.owned)


def test_older_subscriptions_are_decoded() -> None:
    assert decode_subscription(bytes.fromhex("0000 00000001 0001 61 ffffffff")) == MemberSubscription(("a",))
    owned = bytes.fromhex("0001 00000001 0001 61 ffffffff 00000001 0001 61 00000001 00000003")
    assert decode_subscription(owned) == MemberSubscription(("a",), tuple(of("a", 3)))


def test_a_member_that_is_missing_in_an_assignment_has_no_partitions() -> None:
    assert decode_assignment(b"") == ()


@given(st.binary(max_size=40))
def test_undecodable_bytes_raise_one_kind_of_error(data: bytes) -> None:
    try:
        decode_subscription(data)
    except WireError:
        assert subscriptions_of([JoinGroupResponseMember(member_id="m", metadata=data)])["m"].topics == ()


# -- choosing ----------------------------------------------------------------------------------------------------------


class Greedy(Assignor):
    """An assignor that gives all partitions to one member."""

    name = "greedy"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        return {max(members): everything(partitions, members)}


def test_assignors_are_given_by_kafkas_names_or_as_objects() -> None:
    chosen = assignors_of(["range", "org.apache.kafka.clients.consumer.StickyAssignor", Greedy, RoundRobinAssignor()])
    assert [one.name for one in chosen] == ["range", "sticky", "greedy", "roundrobin"]
    assert [one.name for one in assignors_of("range, cooperative-sticky")] == ["range", "cooperative-sticky"]


@pytest.mark.parametrize("wrong", ["ranje", 7, [], ["range", "range"], [int]])
def test_an_invalid_assignor_is_reported(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match=r"partition\.assignment\.strategy"):
        assignors_of(wrong)


def test_members_cooperate_only_if_all_their_assignors_do() -> None:
    assert protocol_of(assignors_of("cooperative-sticky")) is RebalanceProtocol.COOPERATIVE
    assert protocol_of(assignors_of("range,cooperative-sticky")) is RebalanceProtocol.EAGER


def joined(**who: MemberSubscription) -> list[JoinGroupResponseMember]:
    return [JoinGroupResponseMember(member_id=member, metadata=encode_subscription(one)) for member, one in who.items()]


def test_a_custom_assignor_need_not_know_that_partitions_are_still_owned() -> None:
    who = joined(x=MemberSubscription(("a",), tuple(of("a", 0)), 1), y=MemberSubscription(("a",)))
    given_ = assign_all(Greedy(), {"a": 2}, who, cooperative=True)
    assert {member: list(decode_assignment(data)) for member, data in given_.items()} == {"x": [], "y": of("a", 1)}


class Wrong(Assignor):
    """Assignors with one mistake each."""

    name = "wrong"

    def __init__(self, given_: dict[str, list[TopicPartition]] | None) -> None:
        self.given = given_

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        if self.given is None:
            raise ZeroDivisionError("oh")
        return self.given


@pytest.mark.parametrize(
    ("assigned", "complaint"),
    [
        (None, "failed with ZeroDivisionError"),
        ({"x": of("a", 0), "y": of("a", 0)}, "both to 'x' and to 'y'"),
        ({"z": of("a", 0)}, "not a member"),
    ],
)
def test_a_mistake_of_an_assignor_is_reported(assigned: dict[str, list[TopicPartition]] | None, complaint: str) -> None:
    who = joined(x=MemberSubscription(("a",)), y=MemberSubscription(("a",)))
    with pytest.raises(IllegalStateError, match=complaint):
        assign_all(Wrong(assigned), {"a": 1}, who, cooperative=False)
