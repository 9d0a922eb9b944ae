"""Engine of a Connect process: one thread that decides, and threads in which connectors work.

The thread of `Engine` owns the state of all connectors. It begins their steps, each in a thread of its own, watches
their deadlines, and decides what follows a failure. Threads of connectors never change that state; they post what has
happened. A thread that hangs is abandoned: it is fenced by the broker as soon as the connector has begun again.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from moldau.connect.config_providers import config_providers
from moldau.connect.engine import ConnectorState, FailedPart, LoadConnector, Report, StatusReport
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.entry import FIRST_IDLE_S, LONGEST_IDLE_S, NEVER, ConnectorEntry, Successor
from moldau.connect.engine.job import DeadlineExceeded, JobRunner
from moldau.connect.engine.offset_changes import NewOffsets, change_offsets
from moldau.connect.engine.run_settings import client_configs
from moldau.connect.engine.runner import Guard, StepOutcome, kind_of
from moldau.connect.engine.runner_creation import Resolve, WorkerParts, connector_class, create_runner, resolved
from moldau.connect.engine.scrubbing import secret_values, trace_of
from moldau.connect.engine.session import SparkHolder
from moldau.connect.engine.sink_plan import SinkView
from moldau.connect.engine.sink_runner import SinkRunner
from moldau.connect.engine.source_offsets import DEFAULT_TOPIC, OffsetTable
from moldau.connect.engine.supervision import FailureKind, GiveUp
from moldau.connect.engine.topic_watch import TopicWatch, Wanted
from moldau.host.clock import Clock, Randomness, SystemClock, SystemRandomness
from moldau.host.event_log import event_logger

log = event_logger(__name__)

TICK_S: Final = 1.0
"""How often deadlines are looked at, if nothing else happens."""
GRID_S: Final = 0.05
"""Idle connectors are looked at in groups, so that fifty of them do not wake the process fifty times."""
REPORT_EVERY_S: Final = 1.0
STOP_GRACE_S: Final = 15.0
"""How long a stopped connector may take to end, before its thread is left alone."""
START_DEADLINE_S: Final = 120.0
"""The deadline before the settings of a connector are known."""
RUN_CHARACTERS: Final = 8


def _load_plugin(name: str) -> Any:
    from moldau.connect.built_in_plugins import CONNECTORS
    from moldau.connect.plugins import installed

    return installed().load(name, *CONNECTORS)


class Engine:
    """The connectors of this process. See `ConnectorEngine`: any thread may call it, and nothing waits."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        spark_settings: Mapping[str, Any] | None = None,
        report: Report | None = None,
        *,
        load: LoadConnector | None = None,
        resolve: Resolve | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._report = report
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        clients = client_configs(settings, {})
        table = OffsetTable(str(settings.get("offset.storage.topic") or DEFAULT_TOPIC), clients.consumer, clients.admin)
        if resolve is None:
            resolve = config_providers({name: str(value) for name, value in settings.items()}).resolve
        self._parts = WorkerParts(dict(settings), load or _load_plugin, resolve, table, self._clock, self._new_run)
        self.spark = SparkHolder(spark_settings or {})
        self._jobs = JobRunner(self.spark)
        self._watch = TopicWatch(clients.admin, self._clock)
        self._watching = False
        self._watch_due = 0.0
        self._watch_idle_s = FIRST_IDLE_S
        self._alone = threading.Lock()
        self._entries: dict[str, ConnectorEntry] = {}
        self._states: dict[str, StatusReport] = {}
        self._successors: dict[str, Successor] = {}
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closing: Future[None] | None = None
        self._thread = threading.Thread(target=self._serve, name="connect-engine", daemon=True)
        self._thread.start()

    def _new_run(self) -> str:
        return self._randomness.uuid().hex()[:RUN_CHARACTERS]

    # -- called by the herder -----------------------------------------------------------------------------------------

    def start(self, name: str, config: Mapping[str, Any], target: ConnectorState = ConnectorState.RUNNING) -> None:
        self._post(lambda: self._start(name, dict(config), target))

    def stop(self, name: str) -> Future[None]:
        done: Future[None] = Future()
        self._post(lambda: self._remove(name, done))
        return done

    def pause(self, name: str) -> None:
        self._post(lambda: self._aim(name, ConnectorState.PAUSED))

    def suspend(self, name: str) -> None:
        self._post(lambda: self._aim(name, ConnectorState.STOPPED))

    def resume(self, name: str) -> None:
        self._post(lambda: self._aim(name, ConnectorState.RUNNING))

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        self._post(lambda: self._restart(name, only_failed))

    def state(self, name: str) -> StatusReport | None:
        return self._states.get(name)

    def change_offsets(self, name: str, config: Mapping[str, Any], offsets: NewOffsets | None) -> Future[None]:
        done: Future[None] = Future()

        def work() -> None:
            try:
                change_offsets(self._parts, name, config, offsets)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the caller has to know
                done.set_exception(error)
            else:
                done.set_result(None)

        threading.Thread(target=work, name=f"offsets of {name}", daemon=True).start()
        return done

    def close(self) -> Future[None]:
        done: Future[None] = Future()
        self._post(lambda: self._close(done))
        return done

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _post(self, event: Callable[[], None]) -> None:
        self._events.put(event)

    def _serve(self) -> None:
        while self._closing is None or self._entries or self._successors:
            event = self._next_event()
            while event is not None:
                event()
                try:
                    event = self._events.get_nowait()
                except queue.Empty:
                    break
            self._tick(self._clock.monotonic())
        self._end_all()

    def _next_event(self) -> Callable[[], None] | None:
        now = self._clock.monotonic()
        dues = [entry.due for entry in self._entries.values() if entry.waits_for_its_time]
        if not self._watching and self._sinks():
            dues.append(self._watch_due)
        wait = min([TICK_S, *(due - now for due in dues)])
        try:
            return self._events.get(timeout=wait) if wait > 0 else self._events.get_nowait()
        except queue.Empty:
            return None

    def _tick(self, now: float) -> None:
        for entry in list(self._entries.values()):
            if entry.guard is not None:
                if now > entry.guard.deadline:
                    self._abandon(entry, now)
            elif entry.due <= now and entry.waits_for_its_time:
                self._begin(entry)
        if not self._watching and self._watch_due <= now and (wanted := self._sinks()):
            self._watching = True
            self._spawn("connect-watch", lambda: self._look(wanted, now))

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    # -- commands -----------------------------------------------------------------------------------------------------

    def _start(self, name: str, config: Mapping[str, Any], target: ConnectorState) -> None:
        entry = ConnectorEntry(name, config, target, due=self._clock.monotonic())
        waiting = self._successors.get(name)
        if waiting is not None:
            waiting.entry = entry  # a third configuration before the first one has ended: the second never runs
            return
        if name not in self._entries:
            self._entries[name] = entry
            self._aimed(entry)
            return
        # The new one begins when nothing of the old one runs: two of them would fence each other.
        self._successors[name] = Successor(entry)
        done: Future[None] = Future()
        done.add_done_callback(lambda _: self._post(lambda: self._succeed(name)))
        self._end(name, done)

    def _succeed(self, name: str) -> None:
        """Nothing of the old connector runs any more: begin with the one that waited for that, if it is wanted."""
        successor = self._successors.pop(name)
        for done in successor.ending:
            done.set_result(None)
        if successor.entry is not None:
            self._entries[name] = successor.entry
            successor.entry.due = self._clock.monotonic()
            self._aimed(successor.entry)

    def _remove(self, name: str, done: Future[None]) -> None:
        successor = self._successors.get(name)
        if successor is None:
            self._end(name, done)
            return
        self._states.pop(name, None)
        successor.entry = None
        successor.ending.append(done)

    def _end(self, name: str, done: Future[None]) -> None:
        entry = self._entries.get(name)
        self._states.pop(name, None)
        if entry is None:
            done.set_result(None)
            return
        entry.ending.append(done)
        if len(entry.ending) > 1:
            return
        if entry.guard is not None:
            self._end_attempt(entry)
        else:
            self._close_runner(entry)

    def _aim(self, name: str, target: ConnectorState) -> None:
        successor = self._successors.get(name)
        if successor is not None:
            if successor.entry is not None:
                successor.entry.target = target
            return
        entry = self._entries.get(name)
        if entry is None or entry.removed:
            return
        entry.target = target
        if target is ConnectorState.RUNNING and entry.state is not ConnectorState.FAILED:
            entry.due = self._clock.monotonic()
            self._watch_due = 0.0
            if entry.state in (ConnectorState.PAUSED, ConnectorState.STOPPED):
                self._tell(entry, ConnectorState.RUNNING)
        elif target is ConnectorState.STOPPED and entry.guard is not None:
            self._end_attempt(entry)
        else:
            self._aimed(entry)

    def _aimed(self, entry: ConnectorEntry) -> None:
        """Reach the target state of a connector that has no step running."""
        if entry.guard is not None or entry.target is ConnectorState.RUNNING or entry.removed:
            return
        if entry.state is ConnectorState.FAILED and entry.target is ConnectorState.PAUSED:
            return
        if entry.target is ConnectorState.STOPPED:
            self._close_runner(entry)
            entry.trace = entry.failed = None
        self._tell(entry, entry.target)

    def _restart(self, name: str, only_failed: bool) -> None:
        entry = self._entries.get(name)
        if entry is None or entry.removed or (only_failed and entry.state is not ConnectorState.FAILED):
            return
        entry.begin_again(self._clock.monotonic())
        if entry.guard is not None:
            self._end_attempt(entry)
        else:
            self._close_runner(entry)
            self._aimed(entry)  # a paused or stopped connector has no step after which it would be reported

    def _close(self, done: Future[None]) -> None:
        self._closing = done
        for name in [*self._entries, *(name for name in self._successors if name not in self._entries)]:
            self._remove(name, Future())

    def _end_all(self) -> None:
        assert self._closing is not None
        try:
            self.spark.close()
            self._watch.close()
            self._parts.table.close()
        finally:
            self._closing.set_result(None)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _begin(self, entry: ConnectorEntry) -> None:
        serial = entry.serial
        runner = entry.runner
        deadline_s = START_DEADLINE_S

        def run_alone(job: Callable[[], Any]) -> Any:
            if not entry.supervision.suspect:
                return job()
            with self._alone:
                return job()

        guard = Guard(self._clock, deadline_s, self._jobs, run_alone, lambda found: self._counted(entry, serial, found))
        guard.doing("start")
        entry.guard = guard
        if isinstance(runner, SinkRunner):
            runner.view = entry.view
        self._spawn(f"connect-{entry.name}", lambda: self._attempt(entry, serial, guard))

    def _attempt(self, entry: ConnectorEntry, serial: int, guard: Guard) -> None:
        """One step, in its own thread."""
        runner, started = entry.runner, entry.opened
        secrets = entry.secrets
        try:
            if runner is None:
                found = resolved(self._parts, entry.config)
                secrets = found.secrets
                cls = connector_class(self._parts, found.config)
                secrets |= secret_values(entry.config, found.config, getattr(cls, "config_def", None))
                runner = create_runner(self._parts, entry.name, cls, found.config)
            guard.deadline_s = runner.deadline_s
            if not started:
                runner.open(guard)
                started = True
                self._post(lambda: self._opened(entry, serial, runner, secrets))
            outcome = runner.step(guard)
        except BaseException as error:  # noqa: BLE001 - a connector may raise anything; its thread ends here
            if runner is not None:
                _close_quietly(runner)
            self._post(lambda error=error: self._failed(entry, serial, error, secrets, started))  # type: ignore[misc]
            return
        if guard.ended:
            _close_quietly(runner)
        self._post(lambda: self._done(entry, serial, outcome, runner, secrets))

    def _opened(self, entry: ConnectorEntry, serial: int, runner: Any, secrets: frozenset[str]) -> None:
        if serial != entry.serial or entry.removed:
            return
        entry.runner, entry.opened, entry.secrets = runner, True, secrets
        entry.opened_at, entry.view = self._clock.monotonic(), SinkView()
        self._watch_due = 0.0
        if entry.target is ConnectorState.RUNNING and entry.state is not ConnectorState.RESTARTING:
            self._tell(entry, ConnectorState.RUNNING)

    def _counted(self, entry: ConnectorEntry, serial: int, result: BatchResult) -> None:
        """Called in the thread of a step that has committed something and goes on."""
        self._post(lambda: self._succeeded(entry, serial, result))

    def _succeeded(self, entry: ConnectorEntry, serial: int, result: BatchResult) -> None:
        now = self._clock.monotonic()
        entry.meter.add(result, now)
        entry.tasks = max(entry.tasks, result.tasks)
        if serial != entry.serial or entry.removed:
            return
        entry.supervision.succeeded()
        entry.trace = entry.failed = None
        if entry.state is not ConnectorState.RUNNING or now - entry.last_report >= REPORT_EVERY_S:
            self._tell(entry, ConnectorState.RUNNING)
        else:
            self._states[entry.name] = entry.status(now)

    def _done(
        self, entry: ConnectorEntry, serial: int, outcome: StepOutcome, runner: Any, secrets: frozenset[str]
    ) -> None:
        if serial != entry.serial:
            return
        ended = entry.guard is not None and entry.guard.ended
        entry.guard = None
        if ended:
            entry.runner, entry.opened = None, False
        now = self._clock.monotonic()
        if outcome.result is not None:
            self._succeeded(entry, serial, outcome.result)
        elif not isinstance(entry.runner, SinkRunner):
            entry.supervision.rested()
            self._is_idle(entry)
        self._after_step(entry, outcome, now)
        self._ended(entry)

    def _is_idle(self, entry: ConnectorEntry) -> None:
        """A connector has nothing to do: it is well again, and its last progress is reported."""
        if entry.removed:
            return
        if entry.state is ConnectorState.RESTARTING:
            entry.trace = entry.failed = None
            self._tell(entry, ConnectorState.RUNNING)
        elif entry.state is ConnectorState.RUNNING and entry.meter.changed_since_told:
            self._tell(entry, ConnectorState.RUNNING)

    def _after_step(self, entry: ConnectorEntry, outcome: StepOutcome, now: float) -> None:
        sink = isinstance(entry.runner, SinkRunner)
        if outcome.result is not None:
            entry.idle_s = FIRST_IDLE_S
            entry.due = NEVER if sink else now
            if sink:
                self._watch_due, self._watch_idle_s = 0.0, FIRST_IDLE_S
        elif sink:
            entry.due = NEVER
        elif outcome.pause_s is not None:
            entry.due = now + outcome.pause_s
        else:
            entry.rested(now)
            entry.due = (entry.due // GRID_S + 1) * GRID_S

    def _ended(self, entry: ConnectorEntry) -> None:
        """The thread of a step has ended: do what waited for that."""
        if entry.removed:
            self._close_runner(entry)
        else:
            self._aimed(entry)

    # -- failures -----------------------------------------------------------------------------------------------------

    def _failed(
        self, entry: ConnectorEntry, serial: int, error: BaseException, secrets: frozenset[str], started: bool
    ) -> None:
        if serial != entry.serial:
            return
        ended = entry.guard is not None and entry.guard.ended
        entry.guard, entry.runner, entry.opened = None, None, False
        entry.secrets = secrets
        if ended:  # stopped or restarted: the error is how its thread found out
            entry.due = min(entry.due, self._clock.monotonic())
            self._ended(entry)
            return
        self._decide(entry, kind_of(error), trace_of(error, secrets), started)

    def _abandon(self, entry: ConnectorEntry, now: float) -> None:
        """A call of the connector exceeds its deadline: leave its thread alone."""
        guard = entry.guard
        assert guard is not None
        was_ended = guard.ended
        self._end_attempt(entry)
        entry.serial += 1
        entry.guard, entry.runner, entry.opened = None, None, False
        if was_ended:  # stopped or restarted: it is not a failure that its thread does not end
            log.warning("thread of a connector left alone", extra={"connector": entry.name, "phase": guard.phase})
            entry.due = min(entry.due, now)
            self._ended(entry)
            return
        error = DeadlineExceeded(
            f"connector {entry.name} did not return from {guard.phase} in {guard.deadline_s:.0f} s; check whether its "
            "target or source answers, or raise task.deadline.ms"
        )
        self._decide(entry, FailureKind.HUNG, str(error), started=True)

    def _decide(self, entry: ConnectorEntry, kind: FailureKind, trace: str, started: bool) -> None:
        now = self._clock.monotonic()
        entry.meter.failed()
        decision = entry.supervision.failed(kind, self._randomness.random())
        if kind is FailureKind.FENCED:
            trace = f"another worker has taken over this connector: {trace}"
        entry.trace = trace
        entry.failed = FailedPart.TASKS if started else FailedPart.CONNECTOR
        facts = {"connector": entry.name, "kind": kind.value, "reason": trace.splitlines()[-1] if trace else ""}
        if isinstance(decision, GiveUp):
            log.error("connector failed", extra={**facts, "why": decision.reason})
            entry.due = NEVER
            if kind is not FailureKind.PERMANENT:
                entry.trace = f"{trace}\n({decision.reason})"
            self._tell(entry, ConnectorState.FAILED)
        else:
            log.warning("connector is tried again", extra={**facts, "pause_s": round(decision.pause_s, 1)})
            entry.due = now + decision.pause_s
            self._tell(entry, ConnectorState.RESTARTING)
        self._ended(entry)

    def _end_attempt(self, entry: ConnectorEntry) -> None:
        """Let the thread of a step find out that it must end. Cancelling its job may take a while."""
        guard = entry.guard
        assert guard is not None
        guard.ended = True
        guard.deadline = min(guard.deadline, self._clock.monotonic() + STOP_GRACE_S)
        if guard.job_group is not None:
            self._spawn("connect-cancel", guard.end)

    def _close_runner(self, entry: ConnectorEntry) -> None:
        """Free what a connector holds, in a thread: that may take a while. Then tell those who wait."""
        runner, entry.runner, entry.opened = entry.runner, None, False
        removed = entry.removed

        def close() -> None:
            if runner is not None:
                _close_quietly(runner)
            if removed:
                self._post(lambda: self._gone(entry))

        if runner is None:
            close()
        else:
            self._spawn("connect-close", close)

    def _gone(self, entry: ConnectorEntry) -> None:
        """Nothing of a connector runs here any more: tell those who wait."""
        if self._entries.get(entry.name) is entry:
            del self._entries[entry.name]
        for done in entry.ending:
            done.set_result(None)

    # -- sinks --------------------------------------------------------------------------------------------------------

    def _sinks(self) -> dict[str, Wanted]:
        return {
            entry.name: entry.runner.wanted
            for entry in self._entries.values()
            if isinstance(entry.runner, SinkRunner)
            and entry.opened
            and entry.target is ConnectorState.RUNNING
            and not entry.removed
        }

    def _look(self, wanted: Mapping[str, Wanted], began: float) -> None:
        """Ask the brokers, in a thread of its own."""
        try:
            views = self._watch.look(wanted)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look is later
            log.warning("topics of sinks not read", extra={"reason": str(error)})
            views = {}
        self._post(lambda: self._looked(views, began))

    def _looked(self, views: Mapping[str, SinkView], began: float) -> None:
        now = self._clock.monotonic()
        self._watching = False
        busy = False
        for name, view in views.items():
            entry = self._entries.get(name)
            if entry is None or not isinstance(entry.runner, SinkRunner) or entry.removed or entry.opened_at > began:
                continue  # positions that were read later may be after these ends
            missed, entry.view = entry.view.missing, view
            if missed != view.missing:
                log.warning("topics of a sink", extra={"connector": name, "missing": ",".join(view.missing) or "none"})
                if entry.state is ConnectorState.RUNNING:
                    self._tell(entry, entry.state)
            if entry.guard is not None:
                busy = True
                continue
            entry.meter.lag(entry.runner.lag(view))
            entry.tasks = max(1, min(entry.runner.max_tasks, len(view.ends)))
            if entry.runner.has_work(view) and entry.due == NEVER and entry.state is not ConnectorState.FAILED:
                entry.due = now
                busy = True
            elif entry.due == NEVER:
                self._is_idle(entry)
        self._watch_idle_s = FIRST_IDLE_S if busy else min(2 * self._watch_idle_s, LONGEST_IDLE_S)
        self._watch_due = now + self._watch_idle_s

    # -- reports ------------------------------------------------------------------------------------------------------

    def _tell(self, entry: ConnectorEntry, state: ConnectorState) -> None:
        entry.state = state
        if entry.removed:
            return
        entry.last_report = now = self._clock.monotonic()
        entry.meter.changed_since_told = False
        status = entry.status(now)
        self._states[entry.name] = status
        report, loop = self._report, self._loop
        if report is None:
            return
        if loop is None:
            report(status)
            return
        try:
            loop.call_soon_threadsafe(report, status)
        except RuntimeError:
            pass  # the event loop is closed: nobody is left to tell


def _close_quietly(runner: Any) -> None:
    try:
        runner.close()
    except Exception as error:  # noqa: BLE001 - a connector may raise anything; it is closed as far as it can be
        log.warning("connector not closed", extra={"reason": f"{type(error).__name__}: {error}"})
