"""Registered schemas, as the broker knows them: a cache of answers, and the questions to the registry.

A schema id that the registry has under a subject keeps its meaning, so it is cached without a time limit. One that the
registry does not have is refused for `confluent.missing.id.cache.ttl.sec` without another question. The questions
block, so threads ask them. The same question is asked once at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from moldau.broker.schema_ids.batch_schema_ids import SchemaId
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads, ThreadsBusy, ThreadsClosed
from moldau.schemas.errors import RegistryError, SchemaError
from moldau.schemas.parsed_schema import ParsedSchema
from moldau.schemas.schema import SchemaType
from moldau.schemas.serializers.subject_names import subject_name_strategy

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from moldau.schemas.registry_client import RegistryClient

log = event_logger(__name__)

T = TypeVar("T")

MAX_QUESTIONS: Final = 1_000
"""Questions that wait for the registry at a time. Further ones are not asked: their producers retry."""
LANE: Final = "schema registry"
DEFAULT_CONTEXT: Final = "."
NOT_FOUND: Final = 404


class SubjectRule(NamedTuple):
    """What a topic asks of its keys or values."""

    topic: str
    is_key: bool
    strategy: str


class SchemaQuestion(NamedTuple):
    """Does the registry have this schema under the subject of this rule?"""

    rule: SubjectRule
    schema_id: SchemaId


class RegisteredSchemas:
    """Answers of the registry. All methods are called on the event loop."""

    def __init__(
        self, client: RegistryClient, threads: Threads, now: Callable[[], float], *, size: int, missing_s: float
    ) -> None:
        self._client = client
        self._threads = threads
        self._now = now
        self._size = size
        self._missing_s = missing_s
        # Two caches: records with invented ids must not displace what is known.
        self._known: OrderedDict[SchemaQuestion, None] = OrderedDict()
        self._missing: OrderedDict[SchemaQuestion, tuple[float, str]] = OrderedDict()
        self._asked: dict[SchemaQuestion, asyncio.Task[str | None]] = {}

    def is_known(self, question: SchemaQuestion) -> bool:
        if question not in self._known:
            return False
        self._known.move_to_end(question)
        return True

    def why_missing(self, question: SchemaQuestion) -> str | None:
        """Why records with this schema are refused, if that is known."""
        found = self._missing.get(question)
        if found is None:
            return None
        expires, reason = found
        if self._now() < expires:
            return reason
        del self._missing[question]
        return None

    async def ask(self, questions: Iterable[SchemaQuestion]) -> dict[SchemaQuestion, str | RegistryError | None]:
        """Ask the registry. By question: None if it has the schema, the reason if not, the error if it did not say."""
        tasks = {question: self._task(question) for question in questions}
        answers: dict[SchemaQuestion, str | RegistryError | None] = {}
        for question, task in tasks.items():
            if task is None:
                answers[question] = RegistryError(f"{MAX_QUESTIONS} other questions wait for the schema registry")
                continue
            try:
                # The question goes on if this connection closes: others may wait for the same answer.
                answers[question] = await asyncio.shield(task)
            except RegistryError as error:
                answers[question] = error
        return answers

    async def close(self) -> None:
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._client.close()

    def _task(self, question: SchemaQuestion) -> asyncio.Task[str | None] | None:
        task = self._asked.get(question)
        if task is None and len(self._asked) < MAX_QUESTIONS:
            task = asyncio.get_running_loop().create_task(self._answer(question))
            self._asked[question] = task
            task.add_done_callback(lambda done: self._finished(question, done))
        return task

    def _finished(self, question: SchemaQuestion, task: asyncio.Task[str | None]) -> None:
        del self._asked[question]
        if not task.cancelled() and (error := task.exception()) is not None:
            # Logged here, once per question: many requests may wait for it.
            log.warning("the schema registry did not answer", extra={"id": question.schema_id, "reason": str(error)})

    async def _answer(self, question: SchemaQuestion) -> str | None:
        try:
            reason = await self._threads.run(LANE, missing_reason, self._client, question)
        except (ThreadsBusy, ThreadsClosed, ImportError) as error:  # ImportError: the package of a type of schemas
            raise RegistryError(f"the schema registry cannot be asked: {error}") from None
        if reason is None:
            _keep(self._known, question, None, self._size)
        elif self._missing_s > 0:
            _keep(self._missing, question, (self._now() + self._missing_s, reason), self._size)
        return reason


def _keep(cache: OrderedDict[SchemaQuestion, T], key: SchemaQuestion, value: T, size: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > size:
        cache.popitem(last=False)


# Questions, in a thread -----------------------------------------------------------------------------------------------


def missing_reason(client: RegistryClient, question: SchemaQuestion) -> str | None:
    """Why the registry does not have the schema under the subject; None if it does. RegistryError: it did not say."""
    schema_id, rule = question.schema_id, question.rule
    unknown = f"the schema registry has no schema with id {schema_id}"
    try:
        number = schema_id if isinstance(schema_id, int) else _id_of_guid(client, schema_id)
        if number is None:
            return unknown
        subjects = set(client.subjects_of_id(number))
        wanted = _subjects(client, rule, number)
    except RegistryError as error:
        if error.status != NOT_FOUND:
            raise
        return unknown
    except SchemaError as error:
        return f"the schema with id {schema_id} gives no subject: {error}"
    if subjects & wanted:
        return None
    names = ", ".join(f"'{name}'" for name in sorted(wanted)) or "the record's subject"
    return f"the schema with id {schema_id} is not registered under {names}"


def _id_of_guid(client: RegistryClient, guid: str) -> int | None:
    return next((number for context, number in client.ids_of_guid(guid) if context == DEFAULT_CONTEXT), None)


def _subjects(client: RegistryClient, rule: SubjectRule, schema_id: int) -> set[str]:
    """The subjects under which the schema may be: one, or one for each record that it describes."""
    subject = subject_name_strategy(rule.strategy)
    if rule.strategy == "topic":
        return {subject(rule.topic, rule.is_key, None)}
    parsed = client.parsed(client.get_schema(schema_id))
    return {subject(rule.topic, rule.is_key, name) for name in record_names(parsed)}


def record_names(parsed: ParsedSchema) -> set[str]:
    """The names of the records that a schema describes."""
    match parsed.type:
        case SchemaType.AVRO:
            from moldau.schemas.avro.avro_schema import AvroSchema
            from moldau.schemas.avro.types import NamedType, UnionType

            assert isinstance(parsed, AvroSchema)
            branches = parsed.root.branches if isinstance(parsed.root, UnionType) else (parsed.root,)
            return {branch.name.full if isinstance(branch, NamedType) else branch.kind for branch in branches}
        case SchemaType.JSON:
            from moldau.schemas.json_schema.json_schema import JsonSchema

            assert isinstance(parsed, JsonSchema)
            return set() if parsed.name is None else {parsed.name}
        case SchemaType.PROTOBUF:
            from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema

            assert isinstance(parsed, ProtobufSchema)
            waiting: list[Descriptor] = list(parsed.file_descriptor.message_types_by_name.values())
            names: set[str] = set()
            while waiting:
                message = waiting.pop()
                names.add(message.full_name)
                waiting += message.nested_types
            return names
