"""Any sequence of metadata requests and restarts, compared with a dict."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from moldau.cluster.configs import Alteration, ConfigOperation, ConfigResourceType
from moldau.cluster.errors import Refusal
from moldau.cluster.image import TopicImage
from moldau.cluster.metadata import Metadata
from moldau.cluster.topics import MorePartitions, TopicCreation, TopicRef
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.support import ENGINES, broker, examples, new_metadata, run

NAMES = st.sampled_from(["a", "b", "c.d", "c_d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(-1, 3)),
        st.tuples(st.just("delete"), NAMES, st.booleans()),
        st.tuples(st.just("grow"), NAMES, st.integers(0, 5)),
        st.tuples(st.just("alter"), NAMES, st.integers(0, 2)),
        st.tuples(st.just("restart"), NAMES, st.none()),
    ),
    max_size=25,
)
DEFAULT_PARTITIONS = 3


class Model:
    """The expected state: partitions and retention by name."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[int, str | None]] = {}

    def expected(self, kind: str, name: str, argument: object) -> ErrorCode:
        """Apply the step to the model, and return the expected answer."""
        there = self.topics.get(name)
        if kind == "create":
            assert isinstance(argument, int)
            if there:
                return ErrorCode.TOPIC_ALREADY_EXISTS
            if {"c.d", "c_d"} >= {name} and any(other in self.topics for other in ("c.d", "c_d")):
                return ErrorCode.INVALID_TOPIC_EXCEPTION
            if argument == 0:
                return ErrorCode.INVALID_PARTITIONS
            self.topics[name] = (DEFAULT_PARTITIONS if argument == -1 else argument, None)
            return ErrorCode.NONE
        if not there:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if kind == "delete":
            del self.topics[name]
        elif kind == "grow":
            assert isinstance(argument, int)
            if argument <= there[0]:
                return ErrorCode.INVALID_PARTITIONS
            self.topics[name] = (argument, there[1])
        else:
            self.topics[name] = (there[0], None if argument == 0 else str(argument))
        return ErrorCode.NONE


async def done(metadata: Metadata, kind: str, name: str, argument: object) -> ErrorCode:
    answer: TopicImage | Refusal | None
    if kind == "create":
        assert isinstance(argument, int)
        (answer,) = await metadata.create_topics([TopicCreation(name, argument)])
    elif kind == "delete":
        topic = metadata.image.topics.get(name)
        ref = TopicRef(topic_id=topic.id) if argument and topic else TopicRef(name)
        (answer,) = await metadata.delete_topics([ref])
    elif kind == "grow":
        assert isinstance(argument, int)
        (answer,) = await metadata.create_partitions([MorePartitions(name, argument)])
    else:
        operation = ("retention.ms", ConfigOperation.SET, str(argument))
        if argument == 0:
            operation = ("retention.ms", ConfigOperation.DELETE, "ignored")
        (answer,) = await metadata.alter_configs([Alteration(ConfigResourceType.TOPIC, name, (operation,))])
    return answer.code if isinstance(answer, Refusal) else ErrorCode.NONE


async def follow(directory: str, steps: list[tuple[str, str, object]], engine_name: str) -> None:
    engine = ENGINES[engine_name](Path(directory))
    store = await engine.open()
    metadata = new_metadata(store, partitions=DEFAULT_PARTITIONS)
    await metadata.open()
    await metadata.register(broker(0))
    model = Model()
    ids_seen: dict[bytes, str] = {}
    for number, (kind, name, argument) in enumerate(steps):
        if kind == "restart":
            await metadata.stop()
            await store.close()
            store = await engine.open()
            metadata = new_metadata(store, partitions=DEFAULT_PARTITIONS, seed=number + 2)
            await metadata.open()
            await metadata.register(broker(0))
        else:
            assert await done(metadata, kind, name, argument) == model.expected(kind, name, argument)
        image = metadata.image
        found = {name: (len(t.partitions), t.configs.get("retention.ms")) for name, t in image.topics.items()}
        assert found == model.topics
        assert {image.topics[name].id: name for name in image.topics} == image.topic_names_by_id
        for identity, owner in image.topic_names_by_id.items():
            assert ids_seen.setdefault(identity, owner) == owner, "an id was used for two topics"
    await store.close()
    await engine.dispose()


@examples(percent=60)
@given(STEPS)
def test_the_controller_equals_a_dict_with_a_store_in_memory(steps: list[tuple[str, str, object]]) -> None:
    run(follow("unused", steps, "memory"))


@examples(percent=15)
@given(STEPS)
def test_the_controller_equals_a_dict_with_a_store_on_disk(steps: list[tuple[str, str, object]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run(follow(directory, steps, "sqlite"))
