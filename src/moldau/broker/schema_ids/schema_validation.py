"""Schema validation of Produce requests: finds unknown schema ids, asks the registry, refuses records.

A broker has one `SchemaValidation` as soon as it hosts a topic that asks for it; before that, requests pay nothing. Ids
that are cached cost no wait. For others the request waits, as for a transaction: later requests of the connection wait
behind it, because their records belong after these.

* A record whose id is malformed, or not registered under its subject, is refused with INVALID_RECORD. The response
  names the record. Nothing of its batch is written.
* If the registry does not answer, the error is REQUEST_TIMED_OUT, which producers retry.
* The data itself is not checked against the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.schema_ids.batch_schema_ids import BatchSchemaIds, batch_schema_ids
from moldau.broker.schema_ids.registered_schemas import RegisteredSchemas, SchemaQuestion, SubjectRule
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.log.batch_validation import MAX_RECORD_ERRORS
from moldau.log.config import LogConfig
from moldau.log.errors import LogError, RejectedBatch
from moldau.records import BatchError, walk
from moldau.schemas.errors import RegistryError
from moldau.security import Operation, ResourceType
from moldau.settings import BrokerSettings, SettingError
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.connection.session import Request
    from moldau.wire.tuned.produce import ProduceCall

log = event_logger(__name__)

MAX_QUESTIONS_PER_REQUEST: Final = 100
"""Unknown schema ids that one request may ask for. Batches with more get REQUEST_TIMED_OUT: the retry asks for more."""

Place = tuple[int, int]
"""The places of a topic and of its partition in a request."""
Refusals = Mapping[Place, LogError]
Answers = Mapping[SchemaQuestion, str | RegistryError | None]


class CheckedPart(NamedTuple):
    """The keys or values of one batch, with what the topic asks of them."""

    place: Place
    where: str
    rule: SubjectRule
    found: BatchSchemaIds


class SchemaCheck:
    """The check of one request: its questions, and after their answers the batches that are refused."""

    def __init__(self, parts: list[CheckedPart], schemas: RegisteredSchemas | None) -> None:
        self._parts = parts
        self._schemas = schemas
        self._answers: dict[SchemaQuestion, str | RegistryError | None] = {}
        self._questions: list[SchemaQuestion] = []
        if schemas is not None:
            self._questions = self._sort(schemas)

    @property
    def settled(self) -> bool:
        return not self._questions

    async def settle(self) -> None:
        """Ask the registry what is not known."""
        assert self._schemas is not None
        questions, self._questions = self._questions, []
        self._answers.update(await self._schemas.ask(questions[:MAX_QUESTIONS_PER_REQUEST]))
        for question in questions[MAX_QUESTIONS_PER_REQUEST:]:
            self._answers[question] = RegistryError(
                f"a request may ask for {MAX_QUESTIONS_PER_REQUEST} unknown schema ids at a time"
            )

    def refusals(self) -> dict[Place, LogError]:
        """The batches that must not be written, by place."""
        found: dict[Place, LogError] = {}
        for part in self._parts:
            error = no_registry(part.where) if self._schemas is None else refusal(part, self._answers)
            if error is not None and not isinstance(found.get(part.place), RejectedBatch):
                found[part.place] = error
        return found

    def _sort(self, schemas: RegisteredSchemas) -> list[SchemaQuestion]:
        """The questions that no cache answers."""
        unknown: dict[SchemaQuestion, None] = {}
        for part in self._parts:
            for schema_id in part.found.records:
                question = SchemaQuestion(part.rule, schema_id)
                if schemas.is_known(question):
                    self._answers[question] = None
                elif (reason := schemas.why_missing(question)) is not None:
                    self._answers[question] = reason
                else:
                    unknown[question] = None
        return list(unknown)


def refusal(part: CheckedPart, answers: Answers) -> LogError | None:
    """Why a batch must not be written, or None. What is certainly wrong counts more than what could not be asked."""
    wrong = list(part.found.malformed)
    unanswered: RegistryError | None = None
    for schema_id, indexes in part.found.records.items():
        answer = answers[SchemaQuestion(part.rule, schema_id)]
        if isinstance(answer, RegistryError):
            unanswered = answer
        elif answer is not None:
            wrong += [(index, answer) for index in indexes]
    if wrong:
        wrong.sort()
        kind = "keys" if part.rule.is_key else "values"
        return RejectedBatch(
            ErrorCode.INVALID_RECORD,
            f"{len(wrong)} {kind} for {part.where} failed schema validation: {wrong[0][1]}",
            [(index, f"record {index}: {reason}") for index, reason in wrong[:MAX_RECORD_ERRORS]],
        )
    if unanswered is not None:
        return LogError(
            ErrorCode.REQUEST_TIMED_OUT, f"schemas of records for {part.where} were not validated: {unanswered}"
        )
    return None


def no_registry(where: str) -> LogError:
    return LogError(
        ErrorCode.INVALID_CONFIG,
        f"{where} asks for schema validation, and this broker has no confluent.schema.registry.url",
    )


def subject_rules(topic: str, config: LogConfig) -> Iterator[SubjectRule]:
    """What a topic asks of keys and values."""
    if config.key_subjects is not None:
        yield SubjectRule(topic, True, config.key_subjects)
    if config.value_subjects is not None:
        yield SubjectRule(topic, False, config.value_subjects)


class SchemaValidation:
    """Validates the Produce requests of one broker. Without `schemas`, topics that ask for it refuse all records."""

    def __init__(self, schemas: RegisteredSchemas | None) -> None:
        self._schemas = schemas
        if schemas is None:
            log.warning("topics ask for schema validation, but there is no confluent.schema.registry.url")

    def begin(self, request: Request, call: ProduceCall) -> SchemaCheck | None:
        """Begin the check of a request. None if none of its topics asks for one."""
        parts = list(_parts(request, call))
        return SchemaCheck(parts, self._schemas) if parts else None


def _parts(request: Request, call: ProduceCall) -> Iterator[CheckedPart]:
    """The batches to check. Others are refused, or not checked, when they are appended."""
    for topic_place, (topic, partitions) in enumerate(call.topics):
        for place, (index, records) in enumerate(partitions):
            partition = request.broker.replicas.find(topic, index)
            if partition is None or records is None or not partition.log.config.validates_schemas:
                continue
            if partition.leader_error():
                continue
            name = partition.topic
            if not request.authorized(Operation.WRITE, ResourceType.TOPIC, name, audited=False):
                break  # the registry is not asked for a client that may not write here
            try:
                columns = walk(records, 0)
            except BatchError:
                continue
            for rule in subject_rules(name, partition.log.config):
                found = batch_schema_ids(columns, is_key=rule.is_key)
                yield CheckedPart((topic_place, place), f"{name}-{index}", rule, found)


def registered_schemas(
    settings: BrokerSettings, threads: Threads, now: Callable[[], float]
) -> RegisteredSchemas | None:
    """The registry of `confluent.schema.registry.url`, or None. SettingError if a setting of it is wrong."""
    urls: tuple[str, ...] = settings["confluent.schema.registry.url"]
    if not urls:
        return None
    from moldau.schemas.registry_client import RegistryClient

    try:
        client = RegistryClient(_client_settings(settings))
    except SettingError as error:
        raise SettingError("confluent.schema.registry.url", f"the registry cannot be asked: {error}") from None
    return RegisteredSchemas(
        client,
        threads,
        now,
        size=settings["confluent.max.cache.size"],
        missing_s=settings["confluent.missing.id.cache.ttl.sec"],
    )


def _client_settings(settings: BrokerSettings) -> dict[str, object]:
    timeout_ms: int = settings["moldau.schema.registry.timeout.ms"]
    retry_ms: int = settings["confluent.retries.wait.ms"]
    found: dict[str, object] = {
        "url": settings["confluent.schema.registry.url"],
        "max.retries": settings["confluent.max.retries"],
        "retries.wait.ms": retry_ms,
        "retries.max.wait.ms": retry_ms,
        "http.connect.timeout.ms": timeout_ms,
        "http.read.timeout.ms": timeout_ms,
    }
    if login := settings["confluent.basic.auth.user.info"]:
        found |= {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": login}
    optional = {
        "bearer.auth.token": settings["confluent.bearer.auth.token"],
        "ssl.truststore.location": settings["confluent.ssl.truststore.location"],
        "ssl.truststore.password": settings["confluent.ssl.truststore.password"],
    }
    return found | {name: value for name, value in optional.items() if value}
