"""Distributed workers: requests, states in the topics, leaders, owners, takeover and fencing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.connect.engine import ConnectorState, FailedPart
from moldau.connect.herder import (
    AlreadyExistsError,
    BadConfigError,
    BadRequestError,
    ConnectorOffset,
    ConnectorType,
    Health,
    Herder,
    HerderError,
    NotAssignedError,
    NotFoundError,
    NotLeaderError,
    RebalancingError,
    State,
    TargetState,
    TaskId,
)
from moldau.connect.herder.distributed_herder import DistributedHerder
from moldau.connect.stores import config_store, status_store
from moldau.connect.stores.status_store import Status
from moldau.service.group_member import GroupMember
from moldau.service.state_topic import StateTopicError
from tests.connect.herder.workers import Cluster
from tests.service.members import Journal
from tests.support.waiting import wait_until_async

SOURCE = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "t", "tasks.max": "2"}


def config(name: str, **more: str) -> dict[str, str]:
    return {**SOURCE, "name": name, **more}


async def state_of(worker: Herder, name: str) -> tuple[State, list[State]] | None:
    try:
        info = await worker.status(name)
    except NotFoundError:
        return None
    return info.connector.state, [one.state for one in info.tasks]


async def until_state(worker: DistributedHerder, name: str, state: State, *tasks: State) -> None:
    def reached() -> bool:
        stored = worker.statuses.connectors.get(name)
        found = [one.state for one in worker.statuses.tasks(name).values()]
        return stored is not None and stored.state is state and found == list(tasks)

    await wait_until_async(reached, f"{name} is {state}, {tasks}", 15.0)


def run(scenario: Callable[[], Awaitable[None]], cluster: Cluster) -> None:
    async def whole() -> None:
        try:
            async with asyncio.timeout(40):
                await scenario()
        finally:
            await cluster.close()

    asyncio.run(whole())


def test_a_connector_that_is_created_runs_and_its_tasks_are_known(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        created = await worker.create("a", config("a"))
        assert created.tasks == []
        assert created.type is ConnectorType.SOURCE
        await until_state(worker, "a", State.RUNNING, State.RUNNING, State.RUNNING)
        await wait_until_async(lambda: len(worker.configs.task_configs("a")) == 2, "the tasks are in the config topic")
        assert (await worker.connector_info("a")).tasks == [TaskId("a", 0), TaskId("a", 1)]
        [first, _] = await worker.tasks("a")
        assert first.config["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
        info = await worker.status("a")
        assert info.connector.worker_id == "w1:8083"
        assert info.connector.version is not None
        assert await worker.connectors() == ["a"]
        assert (await worker.cluster_info()).kafka_cluster_id

    run(scenario, cluster)


def test_pause_resume_stop_and_delete_reach_the_engine_and_the_states(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"), TargetState.PAUSED)
        await until_state(worker, "a", State.PAUSED, State.PAUSED, State.PAUSED)
        await worker.resume("a")
        await until_state(worker, "a", State.RUNNING, State.RUNNING, State.RUNNING)
        await worker.stop("a")
        assert await worker.tasks("a") == []
        await until_state(worker, "a", State.STOPPED)
        await worker.pause("a")
        await until_state(worker, "a", State.PAUSED, State.PAUSED, State.PAUSED)
        cluster.engines["w1"].worked("a", 1, "t")
        await wait_until_async(lambda: worker.statuses.topics("a"), "the topic is known")
        await worker.delete("a")
        await wait_until_async(lambda: not worker.statuses.names(), "nothing is left of the connector")
        assert cluster.engines["w1"].calls == [
            "start a PAUSED",
            "resume a",
            "suspend a",
            "pause a",
            "stop a",
        ]

    run(scenario, cluster)


def test_another_configuration_starts_the_connector_again(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        assert (await worker.put_config("a", config("a"))).created
        await until_state(worker, "a", State.RUNNING, State.RUNNING, State.RUNNING)
        assert not (await worker.put_config("a", config("a", file="/else"))).created
        await wait_until_async(lambda: cluster.engines["w1"].running["a"]["file"] == "/else", "the new one runs")
        patched = await worker.patch_config("a", {"tasks.max": "1", "file": None})
        assert patched.info.config == {
            key: one for key, one in config("a", **{"tasks.max": "1"}).items() if key != "file"
        }
        await until_state(worker, "a", State.RUNNING, State.RUNNING)

    run(scenario, cluster)


def test_mistakes_are_refused_with_kafka_connects_errors(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"))
        with pytest.raises(AlreadyExistsError, match="Connector a already exists"):
            await worker.create("a", config("a"))
        with pytest.raises(BadConfigError, match=r"contains the following 1 error\(s\):\nInvalid value"):
            await worker.put_config("b", config("b", bad="x"))
        with pytest.raises(BadConfigError):
            await worker.patch_config("a", {"bad": "x"})
        assert await worker.connectors() == ["a"]
        assert "bad" not in await worker.connector_config("a")
        with pytest.raises(BadRequestError, match="must be in the STOPPED state"):
            await worker.reset_offsets("a")
        with pytest.raises(NotFoundError, match="Unknown task: a-7"):
            await worker.restart_task(TaskId("a", 7))

    run(scenario, cluster)


UNKNOWN: dict[str, Callable[[Herder], Awaitable[Any]]] = {
    "Connector x not found": lambda one: one.connector_info("x"),
    "Connector x not found ": lambda one: one.connector_config("x"),
    "Connector x not found  ": lambda one: one.delete("x"),
    "Connector x not found   ": lambda one: one.tasks("x"),
    "Connector x not found    ": lambda one: one.offsets("x"),
    "Connector x not found     ": lambda one: one.patch_config("x", {"a": "b"}),
    "Connector x not found      ": lambda one: one.alter_offsets("x", [ConnectorOffset({}, {})]),
    "Unknown connector x": lambda one: one.pause("x"),
    "Unknown connector x ": lambda one: one.stop("x"),
    "Unknown connector: x": lambda one: one.restart("x"),
    "Unknown connector: x ": lambda one: one.restart_task(TaskId("x", 0)),
    "No status found for connector x": lambda one: one.status("x"),
    "No status found for task x-0": lambda one: one.task_status(TaskId("x", 0)),
}


def test_a_connector_that_does_not_exist_is_not_found(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        for message, request in UNKNOWN.items():
            with pytest.raises(NotFoundError) as caught:
                await request(worker)
            assert str(caught.value) == message.rstrip()

    run(scenario, cluster)


def test_workers_share_the_connectors_and_send_requests_to_the_right_one(cluster: Cluster) -> None:
    async def scenario() -> None:
        await cluster.start("w1", "w2")
        names = ["a", "b", "c", "d"]
        for name in names:
            await (await cluster.leader()).create(name, config(name))
        await wait_until_async(lambda: cluster.shared("w1", "w2") == names, "all run")
        await wait_until_async(lambda: len(cluster.runs("w1")) == len(cluster.runs("w2")) == 2, "each has two")
        leader = await cluster.leader()
        [follower] = [one for one in cluster.workers.values() if one is not leader]
        url = leader._settings.url
        for request in (
            follower.put_config("e", config("e")),
            follower.delete("a"),
            follower.pause("a"),
            follower.stop("a"),
            follower.restart("a", include_tasks=True),
            follower.reset_offsets("a"),
            follower.set_cluster_logger("x", "INFO"),
        ):
            with pytest.raises(NotLeaderError) as refused:
                await request
            assert refused.value.url == url
        mine = next(iter(follower._runner.running))
        with pytest.raises(NotAssignedError) as elsewhere:
            await leader.restart(mine)
        assert elsewhere.value.url == follower._settings.url
        assert await follower.restart(mine) is None
        assert await follower.connectors() == names

    run(scenario, cluster)


def test_the_connectors_of_a_killed_worker_are_taken_over_within_the_session_time_out(cluster: Cluster) -> None:
    async def scenario() -> None:
        await cluster.start("w1", "w2")
        for name in "abcd":
            await (await cluster.leader()).create(name, config(name))
        await wait_until_async(lambda: len(cluster.runs("w1")) == len(cluster.runs("w2")) == 2, "each has two")
        dead = await cluster.leader()
        [survivor] = [name for name, one in cluster.workers.items() if one is not dead]
        kept = cluster.runs(survivor)
        began = asyncio.get_running_loop().time()
        await dead._member.abandon()
        await wait_until_async(lambda: cluster.runs(survivor) == set("abcd"), "all was taken over", 10.0)
        assert asyncio.get_running_loop().time() - began < 1.5 + 2.0
        assert not any(call.startswith("stop") for call in cluster.engines[survivor].calls)
        assert kept < cluster.runs(survivor)
        worker = cluster.workers[survivor]
        for name in "abcd":
            await wait_until_async(
                lambda name=name: worker.statuses.connectors[name].worker_id == worker.worker_id, "the state is its own"
            )
        await worker.create("e", config("e"))  # the new leader may write

    run(scenario, cluster)


def test_a_worker_that_loses_its_membership_stops_everything_and_writes_nothing(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"))
        await until_state(worker, "a", State.RUNNING, State.RUNNING, State.RUNNING)
        held = worker._member.assignment
        assert held is not None
        await worker.lost(held)
        assert cluster.runs("w1") == set()
        cluster.engines["w1"].running["a"] = SOURCE
        cluster.engines["w1"].tell("a", ConnectorState.FAILED, trace="late", failed=FailedPart.TASKS)
        assert not worker.leads
        with pytest.raises(NotLeaderError):
            worker._require_leader("no")
        await worker._status_topic.read_to_end()
        assert await state_of(worker, "a") == (State.RUNNING, [State.RUNNING, State.RUNNING])

    run(scenario, cluster)


def test_what_a_fenced_leader_writes_is_not_stored(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"))
        # Another process claims the topic, as the next leader does while this one is stopped.
        other = cluster.worker("w2")
        await other._config_topic.start()
        await other._config_topic.claim()
        with pytest.raises(RebalancingError):
            await worker._write_configs(config_store.connector_entries("b", config("b")))
        await other._config_topic.read_to_end()
        assert sorted(other.configs.connectors) == ["a"]
        # The group still lets it lead, so its next request claims the topic again.
        await worker.put_config("c", config("c"))
        await other._config_topic.read_to_end()
        assert sorted(other.configs.connectors) == ["a", "c"]

    run(scenario, cluster)


def test_of_two_requests_that_create_the_same_connector_one_is_refused(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        requests = [worker.create("a", config("a", file=f"/{n}")) for n in range(2)]
        done = await asyncio.gather(*requests, return_exceptions=True)
        assert sum(isinstance(one, AlreadyExistsError) for one in done) == 1
        assert (await worker.connector_config("a"))["file"] == "/0"

    run(scenario, cluster)


def test_a_state_of_an_earlier_generation_never_replaces_that_of_the_next_owner(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"))
        await until_state(worker, "a", State.RUNNING, State.RUNNING, State.RUNNING)
        later = Status(State.RUNNING, "w9:8083", worker._runner.generation + 5)
        await worker._status_topic.write_all([status_store.connector_entry("a", later)])
        cluster.engines["w1"].tell("a", ConnectorState.FAILED, trace="late", failed=FailedPart.CONNECTOR)
        await worker._writer.flush(5.0)
        assert worker.statuses.connectors["a"] == later

    run(scenario, cluster)


def test_a_worker_that_starts_again_finds_everything_in_the_topics(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"), TargetState.STOPPED)
        await worker.create("b", config("b"))
        await until_state(worker, "b", State.RUNNING, State.RUNNING, State.RUNNING)
        await worker.close()
        assert cluster.engines["w1"].calls[-1] == "close"
        assert worker.statuses.connectors["b"].state is State.UNASSIGNED
        [again] = await cluster.start("w2")
        assert await again.connectors() == ["a", "b"]
        await until_state(again, "b", State.RUNNING, State.RUNNING, State.RUNNING)
        await until_state(again, "a", State.STOPPED)
        assert cluster.engines["w2"].calls == ["start a STOPPED", "start b RUNNING"]

    run(scenario, cluster)


def test_failures_are_states_with_their_trace_and_restart_ends_them(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"))
        await until_state(worker, "a", State.RUNNING, State.RUNNING, State.RUNNING)
        cluster.engines["w1"].tell("a", ConnectorState.FAILED, trace="no such file", failed=FailedPart.TASKS)
        await until_state(worker, "a", State.RUNNING, State.FAILED, State.FAILED)
        assert (await worker.task_status(TaskId("a", 1))).trace == "no such file"
        planned = await worker.restart("a", include_tasks=True, only_failed=True)
        assert planned is not None
        assert planned.connector.state is State.RUNNING
        assert [one.state for one in planned.tasks] == [State.RESTARTING, State.RESTARTING]
        await until_state(worker, "a", State.RUNNING, State.RUNNING, State.RUNNING)
        await worker.restart_task(TaskId("a", 0))
        assert cluster.engines["w1"].calls[1:] == ["restart a True", "restart a False"]

    run(scenario, cluster)


def test_a_connector_that_cannot_be_started_does_not_disturb_the_others(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a", **{"fails.to.start": "yes"}))
        await worker.create("b", config("b"))
        await until_state(worker, "b", State.RUNNING, State.RUNNING, State.RUNNING)
        await until_state(worker, "a", State.FAILED)
        assert "cannot start" in ((await worker.status("a")).connector.trace or "")

    run(scenario, cluster)


def test_topics_that_were_reset_come_back_when_they_are_used_again(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"))
        engine = cluster.engines["w1"]
        await wait_until_async(lambda: "a" in engine.running, "it runs")
        engine.worked("a", 1, "t1", "t2")
        await wait_until_async(lambda: len(worker.statuses.topics("a")) == 2, "both are known")
        assert (await worker.active_topics("a")).topics == ["t1", "t2"]
        await worker.reset_active_topics("a")
        engine.worked("a", 1, "t1", "t2")
        await worker._writer.flush(5.0)
        assert (await worker.active_topics("a")).topics == []
        engine.worked("a", 2, "t1")
        await wait_until_async(lambda: list(worker.statuses.topics("a")) == ["t1"], "it is used again")

    run(scenario, cluster)


def test_offsets_of_a_stopped_source_can_be_changed_and_reset(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        await worker.create("a", config("a"))
        await worker.stop("a")
        one = ConnectorOffset({"filename": "/nowhere"}, {"position": 7})
        assert await worker.alter_offsets("a", [one]) == "The offsets for this connector have been altered successfully"
        assert (await worker.offsets("a")).offsets == [one]
        with pytest.raises(BadRequestError, match="may not be null or empty"):
            await worker.alter_offsets("a", [])
        await worker.reset_offsets("a")
        assert (await worker.offsets("a")).offsets == []

    run(scenario, cluster)


def test_a_log_level_for_all_workers_reaches_all_workers(cluster: Cluster) -> None:
    async def scenario() -> None:
        await cluster.start("w1", "w2")
        await (await cluster.leader()).set_cluster_logger(f"tests.{cluster.name}", "debug")
        for worker in cluster.workers.values():
            await wait_until_async(
                lambda worker=worker: f"tests.{cluster.name}" in worker._loggers.levels(), "it is set"
            )
            assert (await worker.logger(f"tests.{cluster.name}")).level == "DEBUG"

    run(scenario, cluster)


def test_a_new_worker_gets_its_share_only_after_the_other_has_stopped_it(cluster: Cluster) -> None:
    async def scenario() -> None:
        [first] = await cluster.start("w1")
        for name in "ab":
            await first.create(name, config(name))
        await wait_until_async(lambda: cluster.runs("w1") == {"a", "b"}, "both run")
        cluster.engines["w1"].hold_stops = True
        await cluster.start("w2")
        await wait_until_async(lambda: cluster.engines["w1"].held, "the first one stops a connector", 10.0)
        assert cluster.runs("w2") == set()
        cluster.engines["w1"].held[0].set_result(None)
        await wait_until_async(lambda: len(cluster.runs("w2")) == 1, "the second one has it", 10.0)
        assert cluster.shared("w1", "w2") == ["a", "b"]
        cluster.engines["w1"].hold_stops = False

    run(scenario, cluster)


def test_a_worker_whose_process_was_stopped_stops_its_connectors_even_while_another_one_hangs(cluster: Cluster) -> None:
    async def scenario() -> None:
        [worker] = await cluster.start("w1")
        for name in "ab":
            await worker.create(name, config(name))
        await wait_until_async(lambda: cluster.runs("w1") == {"a", "b"}, "both run")
        # The stop of one connector hangs in a rebalance. Then the coordinator is not heard of for too long.
        cluster.engines["w1"].hold_stops = True
        await cluster.start("w2")
        await wait_until_async(lambda: cluster.engines["w1"].held, "a connector stops", 10.0)
        assert len(cluster.runs("w1")) == 1
        worker._member._machine._confirmed_at -= 60.0
        await wait_until_async(lambda: cluster.runs("w1") == set(), "everything stops", 3.0)
        assert not worker.leads
        cluster.engines["w1"].hold_stops = False
        for stopping in cluster.engines["w1"].held:
            stopping.set_result(None)

    run(scenario, cluster)


def test_a_worker_that_cannot_follow_a_topic_stops_everything_and_another_one_gets_it(cluster: Cluster) -> None:
    async def scenario() -> None:
        worker, _ = await cluster.start("w1", "w2", session_timeout_ms=30_000)
        for name in "ab":
            await (await cluster.leader()).create(name, config(name))
        await wait_until_async(lambda: len(cluster.runs("w1")) == len(cluster.runs("w2")) == 1, "each has one")
        worker._store_failed(StateTopicError("topic 'x' was deleted"))
        assert cluster.runs("w1") == set()
        await wait_until_async(lambda: cluster.runs("w2") == {"a", "b"}, "the other one has everything", 10.0)
        assert await worker.health() == Health("unhealthy", "topic 'x' was deleted")
        with pytest.raises(HerderError, match="has stopped its connectors: topic 'x' was deleted"):
            await worker.pause("a")

    run(scenario, cluster)


def test_many_connectors_are_created_without_waiting_for_a_rebalance_each(cluster: Cluster) -> None:
    async def scenario() -> None:
        # The other worker learns of a rebalance with its next heartbeat, after two seconds.
        await cluster.start("w1", "w2", heartbeat_interval_ms=2_000, session_timeout_ms=10_000)
        leader = await cluster.leader()
        began = asyncio.get_running_loop().time()
        names = [f"c{n:02}" for n in range(20)]
        for name in names:
            await leader.create(name, config(name))
        assert asyncio.get_running_loop().time() - began < 5.0
        await wait_until_async(lambda: cluster.shared("w1", "w2") == names, "all run", 15.0)
        await wait_until_async(lambda: len(cluster.runs("w1")) == len(cluster.runs("w2")) == 10, "each has ten", 15.0)

    run(scenario, cluster)


def test_a_group_with_workers_of_kafka_connect_is_refused_with_what_to_do(cluster: Cluster) -> None:
    async def scenario() -> None:
        other = GroupMember(
            cluster.client,
            group_id=cluster.name,
            protocol_type="connect",
            protocols={"sessioned": bytes},  # the name of Kafka Connect's protocol
            assign=lambda view: dict.fromkeys(view.members, b""),
            listener=Journal(),
        )
        await other.start()
        await wait_until_async(lambda: other.assignment is not None, "the other is a member")
        [worker] = await cluster.start("w1")
        await wait_until_async(lambda: worker._failure is not None, "it is refused")
        found = await worker.health()
        assert found.status == "unhealthy"
        assert "workers of Apache Kafka Connect; stop them" in found.message
        await other.stop()

    run(scenario, cluster)


def test_with_a_delay_a_worker_that_comes_back_gets_its_connectors_and_nothing_else_moves(cluster: Cluster) -> None:
    async def scenario() -> None:
        first, _ = await cluster.start("w1", "w2", rebalance_delay_ms=60_000)
        for name in "abcd":
            await (await cluster.leader()).create(name, config(name))
        await wait_until_async(lambda: len(cluster.runs("w1")) == len(cluster.runs("w2")) == 2, "each has two")
        leader = await cluster.leader()
        stays, goes = ("w1", "w2") if leader is first else ("w2", "w1")
        before = {name: cluster.runs(name) for name in (stays, goes)}
        await cluster.workers[goes].close()
        await wait_until_async(lambda: set(leader._held) == before[goes], "they wait for their worker", 10.0)
        assert cluster.runs(stays) == before[stays]
        await cluster.start(goes, rebalance_delay_ms=60_000)
        await wait_until_async(lambda: cluster.runs(goes) == before[goes], "it has them again", 10.0)
        assert cluster.runs(stays) == before[stays]
        assert not any(call.startswith("stop") for call in cluster.engines[stays].calls)

    run(scenario, cluster)


def test_with_a_delay_the_connectors_of_a_lost_worker_are_taken_over_after_it(cluster: Cluster) -> None:
    async def scenario() -> None:
        await cluster.start("w1", "w2", rebalance_delay_ms=1_500)
        for name in "ab":
            await (await cluster.leader()).create(name, config(name))
        await wait_until_async(lambda: len(cluster.runs("w1")) == len(cluster.runs("w2")) == 1, "each has one")
        leader = await cluster.leader()
        [goes] = [name for name, one in cluster.workers.items() if one is not leader]
        [stays] = set(cluster.workers) - {goes}
        began = asyncio.get_running_loop().time()
        await cluster.workers[goes].close()
        await wait_until_async(lambda: cluster.runs(stays) == {"a", "b"}, "all was taken over", 15.0)
        assert asyncio.get_running_loop().time() - began > 1.4

    run(scenario, cluster)
