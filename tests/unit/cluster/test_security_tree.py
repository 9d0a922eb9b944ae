"""Security in the metadata tree: stored by every engine, seen by every broker, imported into a cluster."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.cluster.changes import (
    AclsChanged,
    ClientQuotasChanged,
    DelegationTokenChanged,
    SecurityChange,
    UserCredentialsChanged,
)
from moldau.cluster.image import ClusterImage
from moldau.cluster.image_publisher import MetadataDecision, Step
from moldau.cluster.memory_store import MemoryTree
from moldau.cluster.metadata import Metadata
from moldau.cluster.nodes import FOLDERS
from moldau.cluster.security_image import NO_SECURITY, SecurityImage
from moldau.cluster.security_nodes import AclNode
from moldau.cluster.security_requests import MAX_CHANGES
from moldau.cluster.store import MAX_TOGETHER, Create, Delete, Set
from moldau.cluster.tree import Tree
from moldau.cluster.tree_import import import_tree
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.credentials import DelegationToken, ScramCredential, ScramMechanism
from moldau.security.quota_entities import DEFAULT, QuotaEntity
from moldau.security.resources import Operation, Principal, ResourceType
from moldau.wire.errors import ErrorCode
from tests.support.waiting import wait_until_async
from tests.unit.cluster.support import ENGINES, Engine, ZookeeperEngine, code_of, interposed, run, started

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)
READ = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = AclEntry("User:bob", "10.0.0.0/8", Operation.WRITE, Permission.DENY)
CREDENTIALS = {ScramMechanism.SCRAM_SHA_512: ScramCredential(4096, b"salt", b"stored", b"server")}
ALICE = Principal("User", "alice")
TOKEN = DelegationToken("AbC", ALICE, ALICE, (Principal("User", "bob"),), 1, 2, 3)
ENTITY = QuotaEntity(user="alice", client_id=DEFAULT)
EVERYTHING: Sequence[SecurityChange] = (
    AclsChanged(ORDERS, (READ, WRITE)),
    UserCredentialsChanged("alice@example.org", CREDENTIALS),
    DelegationTokenChanged("AbC", TOKEN),
    ClientQuotasChanged(ENTITY, {"producer_byte_rate": 1024.5}),
)
NOTHING: Sequence[SecurityChange] = (
    AclsChanged(ORDERS, ()),
    UserCredentialsChanged("alice@example.org", {}),
    DelegationTokenChanged("AbC", None),
    ClientQuotasChanged(ENTITY, {}),
)
IMAGE = SecurityImage(
    {ORDERS: (READ, WRITE)},
    {"alice@example.org": CREDENTIALS},
    {"AbC": TOKEN},
    {ENTITY: {"producer_byte_rate": 1024.5}},
)


async def change(metadata: Metadata, changes: Sequence[SecurityChange]) -> list[object]:
    def decide(_image: ClusterImage, wanted: Sequence[SecurityChange]) -> MetadataDecision[None]:
        return MetadataDecision([None] * len(wanted), [Step(one, (at,)) for at, one in enumerate(wanted)])

    answers: list[object] = list(await metadata._answers(changes, decide))
    return answers


@pytest.mark.parametrize("kind", [*sorted(ENGINES), "zookeeper"])
def test_security_is_there_again_after_a_restart(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    engine: Engine
    if kind == "zookeeper":
        engine = ZookeeperEngine(request.getfixturevalue("zookeeper").connect)
    else:
        engine = ENGINES[kind](tmp_path)

    async def scenario() -> None:
        store = await engine.open()
        first = await started(store)
        assert first.image.security == NO_SECURITY
        assert await change(first, EVERYTHING) == [None] * 4
        assert first.image.security == IMAGE
        await first.stop()
        await store.close()

        store = await engine.open()
        second = await started(store)
        assert second.image.security == IMAGE
        assert await change(second, [AclsChanged(ORDERS, (READ,))]) == [None]
        assert second.image.security.acls == {ORDERS: (READ,)}
        assert second.image.security.client_quotas == IMAGE.client_quotas
        assert await change(second, NOTHING) == [None] * 4
        assert second.image.security == NO_SECURITY
        for folder in FOLDERS:
            if folder.startswith("/security/"):
                assert await store.children(folder) == []
        await store.close()
        await engine.dispose()

    run(scenario())


def test_a_change_by_any_broker_is_in_all_images() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        brokers = [await started(tree.session(), number) for number in (1, 2)]
        await change(brokers[0], EVERYTHING)
        await wait_until_async(lambda: brokers[1].image.security == IMAGE)
        await change(brokers[1], [ClientQuotasChanged(ENTITY, {"request_percentage": 50.0})])
        await wait_until_async(
            lambda: brokers[0].image.security.client_quotas == {ENTITY: {"request_percentage": 50.0}}
        )
        await change(brokers[1], NOTHING)
        await wait_until_async(lambda: brokers[0].image.security == NO_SECURITY)

    run(scenario())


def test_a_part_that_has_not_changed_stays_the_same_object() -> None:
    """Listeners compare identities, to rebuild only what changed."""

    async def scenario() -> None:
        tree = MemoryTree()
        brokers = [await started(tree.session(), number) for number in (1, 2)]
        await change(brokers[0], EVERYTHING)
        await wait_until_async(lambda: brokers[1].image.security == IMAGE)
        before = [one.image.security for one in brokers]
        await change(brokers[0], [ClientQuotasChanged(ENTITY, {"request_percentage": 50.0})])
        await wait_until_async(lambda: brokers[1].image.security != IMAGE)
        for one, old in zip(brokers, before, strict=True):
            new = one.image.security
            assert new.acls is old.acls
            assert new.scram_credentials is old.scram_credentials
            assert new.delegation_tokens is old.delegation_tokens
            assert new.client_quotas is not old.client_quotas

    run(scenario())


def test_two_brokers_that_change_the_same_node_do_not_lose_a_change() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        other = await started(tree.session(), 1)
        one = await started(session, 2)

        def add_read(image: ClusterImage, wanted: Sequence[None]) -> MetadataDecision[None]:
            entries = (*image.security.acls.get(ORDERS, ()), READ)
            return MetadataDecision([None], [Step(AclsChanged(ORDERS, entries), (0,))])

        raced: list[bool] = []

        def race(operations: object) -> None:
            if not raced:
                raced.append(True)
                tree.commit(tree.session(), [Create(AclNode.path(ORDERS), AclNode.encode((WRITE,)))])

        session.before_commit = race  # type: ignore[method-assign]
        assert await one._answers([None], add_read) == [None]
        assert one.image.security.acls == {ORDERS: (WRITE, READ)}
        await wait_until_async(lambda: other.image.security.acls == {ORDERS: (WRITE, READ)})

    run(scenario())


def test_a_name_that_is_too_long_for_the_store_is_refused() -> None:
    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        (answer,) = await change(metadata, [UserCredentialsChanged("é" * 500, CREDENTIALS)])
        assert code_of(answer) == ErrorCode.POLICY_VIOLATION
        assert metadata.image.security == NO_SECURITY

    run(scenario())


def test_a_damaged_node_keeps_its_old_content_in_use(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        metadata = await started(tree.session())
        await change(metadata, EVERYTHING)
        intruder = tree.session()
        with caplog.at_level(logging.ERROR):
            await intruder.commit([Set("/security/users/alice%40example%2Eorg", b"{}")])
            await intruder.commit([Create("/security/acls/planet:literal:earth", b"{}")])
            await intruder.commit([Delete("/security/tokens/AbC")])
            await wait_until_async(lambda: not metadata.image.security.delegation_tokens)
        assert metadata.image.security.scram_credentials == IMAGE.scram_credentials
        assert metadata.image.security.acls == IMAGE.acls
        reasons = [record.__dict__["reason"] for record in caplog.records]
        assert any("/security/users/alice%40example%2Eorg cannot be understood" in reason for reason in reasons)
        assert any("/security/acls/planet:literal:earth" in reason for reason in reasons)

    run(scenario())


def test_a_data_directory_of_an_earlier_release_gets_the_folders() -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        await store.ensure([folder for folder in FOLDERS if not folder.startswith("/security")])
        metadata = await started(store)
        assert await change(metadata, EVERYTHING) == [None] * 4

    run(scenario())


def test_an_import_into_a_cluster_carries_the_security() -> None:
    async def scenario() -> None:
        source, target = MemoryTree(), MemoryTree()
        metadata = await started(source.session())
        await change(metadata, EVERYTHING)
        await metadata.close()
        await import_tree(source.session(), target.session())
        assert (await Tree(target.session()).load()).security == IMAGE

    run(scenario())


def test_a_deletion_in_several_commits_is_complete_also_after_a_conflict() -> None:
    """The first commit of a filter's rules is stored, the second one meets a conflict: the filter is decided again."""

    async def scenario() -> None:
        tree, session = interposed()
        metadata = await started(session, 1)
        patterns = [ResourcePattern(ResourceType.TOPIC, f"t{number}") for number in range(MAX_TOGETHER + 50)]
        await change(metadata, [AclsChanged(pattern, (READ,)) for pattern in patterns])
        commits: list[int] = []

        def race(operations: Sequence[object]) -> None:
            commits.append(len(operations))
            if len(commits) == 2:
                tree.commit(tree.session(), [Set(AclNode.path(patterns[-1]), AclNode.encode((READ, WRITE)))])

        session.before_commit = race  # type: ignore[method-assign]
        (answer,) = await metadata.security.delete_acls([AclFilter()])
        assert metadata.image.security.acls == {}
        assert AclRule(patterns[-1], WRITE) in answer
        assert commits == [MAX_TOGETHER, 50, 50]

    run(scenario())


def test_the_number_of_changes_in_a_request_is_bounded() -> None:
    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        rules = [AclRule(ORDERS, READ._replace(principal=f"User:{number}")) for number in range(MAX_CHANGES + 1)]
        answers = await metadata.security.create_acls(rules)
        assert {code_of(answer) for answer in answers} == {ErrorCode.POLICY_VIOLATION}
        assert metadata.image.security == NO_SECURITY
        assert await metadata.security.create_acls(rules[1:]) == [None] * MAX_CHANGES

    run(scenario())
