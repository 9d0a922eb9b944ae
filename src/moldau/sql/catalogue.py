"""Catalogue of declarations, continuous queries and their statuses, in two compacted topics of the cluster.

    catalogue = Catalogue({"bootstrap.servers": brokers})
    catalogue.open()
    catalogue.declare(declaration)
    catalogue.declarations["orders"]

`_moldau_sql` has the declarations (`declaration-NAME`) and queries (`query-NAME`) as JSON. It is the only truth: every
shell and server reads and writes it, whether a server runs or not. A change is a compare-and-set: the writer claims the
topic's transactional id, which fences every other writer, reads to the end, checks, and writes in one transaction. A
writer that is fenced meanwhile has written nothing; it reads what the other one wrote, and checks again.

`_moldau_sql_status` has what servers report of the queries that they run (`status-NAME`), as plain writes.

Names are case-insensitive and stored as written. The calls may be made by any thread; they block.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.client.loop_thread import LoopThread
from moldau.host.clock import SystemClock, SystemRandomness
from moldau.host.event_log import event_logger
from moldau.service.state_topic import Fenced, StateTopic
from moldau.sql.catalogue_names import NameMap, nearest_name
from moldau.sql.catalogue_records import DECLARATION, QUERY, STATUS, CatalogueRecords, record_key
from moldau.sql.declarations import Declaration
from moldau.sql.errors import SqlError
from moldau.sql.queries import QueryDefinition, QueryStatus, WantedState

log = event_logger(__name__)

CATALOGUE_TOPIC: Final = "_moldau_sql"
STATUS_TOPIC: Final = "_moldau_sql_status"
TRANSACTIONAL_ID: Final = "_moldau_sql"
REPLICAS: Final = 3
"""A smaller cluster gets one replica per broker."""
TIMEOUT_S: Final = 30.0
"""The time for one call, with all its attempts."""
CLAIM_AGAIN_S: Final = 0.05
"""The longest pause of a writer that another one has fenced; the true pause is random, so that one of them wins."""

Write = tuple[bytes, bytes | None]
Decide = Callable[[], Sequence[Write]]
"""What to write, decided from the state of the topic's end. Raises SqlError if the change is not possible."""

CLOCK: Final = SystemClock()
RANDOMNESS: Final = SystemRandomness()


class Catalogue:
    """The declarations and queries of a cluster. See the module."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        *,
        on_change: Callable[[], None] = lambda: None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`on_change` is called after each record that was read, in a thread of the catalogue; it must not block."""
        self._settings = dict(client_settings)
        self._on_change = on_change
        self._timeout_s = timeout_s
        self._loop: LoopThread | None = None
        self._records = CatalogueRecords()
        self._catalogue: StateTopic | None = None
        self._status: StateTopic | None = None
        self._changing: asyncio.Lock | None = None

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Create the topics if they do not exist, and read both to their ends. SqlError says why that fails."""
        if self._loop is not None:
            return
        loop = LoopThread.acquire()
        self._records = CatalogueRecords()
        try:
            loop.run(self._open(self._records))
        except BaseException as error:
            loop.release()
            raise _told(error, "opened") from error
        self._loop = loop

    async def _open(self, records: CatalogueRecords) -> None:
        self._changing = asyncio.Lock()
        common: dict[str, Any] = {
            "on_record": lambda record: self._apply(records, record.key, record.value),
            "on_failure": lambda error: self._on_change(),
            "replication_factor": REPLICAS,
            "fewer_replicas": True,
        }
        self._catalogue = StateTopic(CATALOGUE_TOPIC, self._settings, transactional_id=TRANSACTIONAL_ID, **common)
        self._status = StateTopic(STATUS_TOPIC, self._settings, **common)
        starts = (self._catalogue.start(self._timeout_s), self._status.start(self._timeout_s))
        outcomes = await asyncio.gather(*starts, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                await self._close_topics()
                raise outcome

    def _apply(self, records: CatalogueRecords, key: bytes | None, value: bytes | None) -> None:
        records.apply(key, value)
        self._on_change()

    def close(self) -> None:
        """Close the clients. A closed catalogue can be opened again."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.run(self._close_topics())
            finally:
                loop.release()

    async def _close_topics(self) -> None:
        topics, self._catalogue, self._status = (self._catalogue, self._status), None, None
        await asyncio.gather(*(topic.close() for topic in topics if topic is not None))

    def __enter__(self) -> Catalogue:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def declarations(self) -> Mapping[str, Declaration]:
        """The declared relations by name, in any case, as far as this process has read. `refresh` reads to the end."""
        return self._records.declarations

    @property
    def queries(self) -> Mapping[str, QueryDefinition]:
        """The continuous queries by name, in any case."""
        return self._records.queries

    @property
    def statuses(self) -> Mapping[str, QueryStatus]:
        """The last reports on these queries. A report on an earlier query of the same name is not among them."""
        queries = self._records.queries
        return NameMap(
            {
                name: status
                for name, status in self._records.statuses.items()
                if (query := queries.get(name)) is not None and query.id == status.id
            }
        )

    @property
    def stale_statuses(self) -> list[str]:
        """The names of queries that do not exist any more, but have a report."""
        queries = self._records.queries
        return [name for name in self._records.statuses if name not in queries]

    @property
    def damaged(self) -> frozenset[str]:
        """The keys of records that cannot be read; the newest readable value of such a key still counts."""
        return self._records.damaged

    @property
    def failure(self) -> MoldauError | None:
        """Why the topics can no longer be followed, for example because one was deleted. None: all is well."""
        topics = (self._catalogue, self._status)
        return next((topic.failure for topic in topics if topic is not None and topic.failure is not None), None)

    def refresh(self) -> None:
        """Return when everything that was committed before this call has been read. SqlError: it cannot be."""

        async def read() -> None:
            topics = self._topics()
            await asyncio.gather(*(topic.read_to_end(self._timeout_s) for topic in topics))

        self._run(read, "read")

    # -- declarations ------------------------------------------------------------------------------------------------

    def declare(self, declaration: Declaration, *, replace: bool = False, if_not_exists: bool = False) -> bool:
        """Write a declaration. Returns False if it exists and `if_not_exists` is given; SqlError if it exists else."""
        written = False

        def decide() -> Sequence[Write]:
            nonlocal written
            written = False
            found = self.declarations.get(declaration.name)
            if found is not None and if_not_exists:
                return ()
            if found is not None and not replace:
                raise _exists(found)
            if found is not None and found.query != declaration.query:
                self._check_unwritten(found)
            written = True
            return (_declaration(declaration),)

        self._change(decide)
        return written

    def drop(self, name: str) -> None:
        """Remove a declaration. SqlError if there is none, or if a query still writes it."""

        def decide() -> Sequence[Write]:
            found = self.declarations.get(name)
            if found is None:
                raise _unknown("stream or table", name, self.declarations)
            self._check_unwritten(found)
            return ((record_key(DECLARATION, name), None),)

        self._change(decide)

    def _check_unwritten(self, declaration: Declaration) -> None:
        if declaration.query is not None and declaration.query in self.queries:
            raise SqlError(
                f"{declaration.kind} {declaration.name} is written by query {declaration.query}",
                hint=f"first: TERMINATE {declaration.query};",
            )

    # -- queries -----------------------------------------------------------------------------------------------------

    def put_query(self, definition: QueryDefinition, *, replace: bool = False) -> None:
        """Write a query. If its target names it as its query, the target's declaration is written with it.

        SqlError if a query of this name exists, or the declaration of such a target, unless `replace` is given.
        """

        def decide() -> Sequence[Write]:
            found = self.queries.get(definition.name)
            if found is not None and not replace:
                raise SqlError(
                    f"query {found.name} exists", hint=f"TERMINATE {found.name}; or name the query otherwise"
                )
            writes: list[Write] = [(record_key(QUERY, definition.name), _json(definition.to_json()))]
            target = definition.target
            if target.query is not None and target.query.lower() == definition.name.lower():
                declared = self.declarations.get(target.name)
                if declared is not None and not replace and declared != target:
                    raise _exists(declared)
                if declared is not None and (declared.query or "").lower() != definition.name.lower():
                    self._check_unwritten(declared)
                writes.append(_declaration(target))
            return writes

        self._change(decide)

    def remove_query(self, name: str) -> None:
        """Remove a query: servers stop it and remove its state. The declaration of its target stays."""

        def decide() -> Sequence[Write]:
            found = self._query(name)
            writes: list[Write] = [(record_key(QUERY, name), None)]
            declared = self.declarations.get(found.target.name)
            if declared is not None and (declared.query or "").lower() == name.lower():
                writes.append(_declaration(changed(declared, query=None)))
            return writes

        self._change(decide)

    def want(self, name: str, wanted: WantedState) -> None:
        """Write what the user wants of a query. RUNNING for a query that has failed: servers try it again."""

        def decide() -> Sequence[Write]:
            found = self._query(name)
            resumes = found.resumes + (wanted is WantedState.RUNNING)
            wished = changed(found, wanted=wanted, resumes=resumes)
            return () if wished == found else ((record_key(QUERY, name), _json(wished.to_json())),)

        self._change(decide)

    def _query(self, name: str) -> QueryDefinition:
        found = self.queries.get(name)
        if found is None:
            raise _unknown("query", name, self.queries)
        return found

    def report(self, statuses: Sequence[QueryStatus], gone: Sequence[str] = ()) -> None:
        """Write statuses of queries, and remove those of the names in `gone`. For the server that runs the queries."""
        writes: list[tuple[bytes | None, bytes | None]] = [
            (record_key(STATUS, status.name), _json(status.to_json())) for status in statuses
        ]
        writes += [(record_key(STATUS, name), None) for name in gone]

        async def write() -> None:
            _, topic = self._topics()
            await topic.write_all(writes, timeout_s=self._timeout_s)

        self._run(write, "written")

    # -- changes -----------------------------------------------------------------------------------------------------

    def _change(self, decide: Decide) -> None:
        self._run(lambda: self._compare_and_set(decide), "written")

    async def _compare_and_set(self, decide: Decide) -> None:
        topic, _ = self._topics()
        deadline = CLOCK.monotonic() + self._timeout_s
        tried: Sequence[Write] = ()
        assert self._changing is not None
        async with self._changing:
            while True:
                left_s = max(deadline - CLOCK.monotonic(), 0.001)
                try:
                    await topic.claim(left_s)
                    if tried and all(_is_written(topic, *write) for write in tried):
                        return  # an attempt whose outcome was not known had succeeded
                    tried = decide()
                    if tried:
                        await topic.write_all(tried, timeout_s=left_s)
                except MoldauError as error:
                    may_retry = isinstance(error, Fenced) or error.retriable
                    if isinstance(error, SqlError) or not may_retry or CLOCK.monotonic() >= deadline:
                        raise
                    log.info("the catalogue is written again", extra={"reason": str(error)})
                else:
                    return
                await asyncio.sleep(RANDOMNESS.random() * CLAIM_AGAIN_S)

    def _topics(self) -> tuple[StateTopic, StateTopic]:
        if self._catalogue is None or self._status is None:
            raise SqlError("the catalogue is closed")
        return self._catalogue, self._status

    def _run(self, work: Callable[[], Any], verb: str) -> None:
        if self._loop is None:
            raise SqlError("the catalogue is closed")
        try:
            self._loop.run(work())
        except MoldauError as error:
            raise _told(error, verb) from error


def _is_written(topic: StateTopic, key: bytes, value: bytes | None) -> bool:
    found = topic.table.get(key)
    return (None if found is None else found.value) == value


def _declaration(declaration: Declaration) -> Write:
    return record_key(DECLARATION, declaration.name), _json(declaration.to_json())


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _exists(found: Declaration) -> SqlError:
    kind = found.kind
    return SqlError(
        f"{kind} {found.name} exists",
        hint=f"CREATE OR REPLACE {kind}, CREATE {kind} IF NOT EXISTS, or first: DROP {kind} {found.name};",
    )


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> SqlError:
    nearest = nearest_name(name, known)
    return SqlError(f"there is no {what} {name}", hint=None if nearest is None else f"did you mean {nearest}?")


def _told(error: BaseException, verb: str) -> BaseException:
    """The error in the words of the catalogue. What is no error of the client stays as it is."""
    if isinstance(error, SqlError) or not isinstance(error, MoldauError):
        return error
    if isinstance(error, Fenced):
        return SqlError(
            "the catalogue could not be written: other writers were faster each time", hint="run the statement again"
        )
    return SqlError(f"the catalogue (topics {CATALOGUE_TOPIC}, {STATUS_TOPIC}) cannot be {verb}: {error}")
