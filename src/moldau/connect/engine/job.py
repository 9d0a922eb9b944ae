"""Spark job of one batch: tasks with a deadline, in the job group and pool of their connector.

Tasks run as `mapPartitions` over an RDD of numbers. Measured here with 8 small tasks, it takes a fifth of the time of
`mapInArrow` over `spark.range`, which plans a query and sends an Arrow stream in both directions. Either way, nothing
of a batch but a small message passes through the JVM.

Jobs run in a bounded number of threads. PySpark has one thread of the JVM for each thread that calls it, so these
threads are kept and used again.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.connect.engine.session import SparkHolder

MAX_JOBS: Final = 64
"""The number of batches that may run at the same time, each in a thread of its own."""
SHOWN_LINES: Final = 3
SHOWN_CHARACTERS: Final = 1_000
"""How much of the message of an error of the JVM is shown."""
CANCEL_GRACE_S: Final = 20.0
"""How long a cancelled job may take to end. After it, its thread is abandoned."""

Task = Callable[[int, int], Any]
"""A task: called in a Spark task with its index and the number of its attempt; returns a picklable message."""


class DeadlineExceeded(MoldauError):
    """A task or a call of a connector that took too long."""


class SessionDied(MoldauError):
    """The JVM of the Spark session ended while the job was running."""


class JobFailed(MoldauError):
    """A job that Spark itself could not finish: a Python process crashed, or an executor was lost."""

    retriable = True


class JobCancelled(MoldauError):
    """A job that was cancelled because its connector is stopped."""


@dataclass(frozen=True)
class JobSpec:
    """One Spark job."""

    connector: str
    task: Task
    count: int
    """The number of tasks."""
    deadline_s: float


@dataclass(frozen=True)
class TaskError:
    """The error of a task, as its message: so the driver gets the error itself, and no text with Java's frames."""

    error: bytes
    """The pickled error."""
    trace: str
    kind: str


class JobRunner:
    """Runs jobs for the threads of the connectors."""

    def __init__(self, holder: SparkHolder) -> None:
        self.holder = holder
        self._threads = _JobThreads()
        self._lock = threading.Lock()
        self._tasks = 0

    def task_limit(self, wanted: int) -> int:
        """The number of tasks that a job may have now: at most half of the free slots.

        So connectors whose tasks hang leave room for others, whatever their tasks.max is.
        """
        with self._lock:
            return max(1, min(wanted, (self.holder.slots - self._tasks) // 2))

    def run(self, spec: JobSpec, *, on_start: Callable[[str], None] | None = None) -> list[Any]:
        """Run the tasks and return their messages in order. Raises the error of the first task that failed."""
        session, generation = self.holder.session()
        group = f"connect-{spec.connector}-{threading.get_ident()}"
        if on_start is not None:
            on_start(group)
        with self._lock:
            self._tasks += spec.count
        try:
            return self._run(session, generation, spec, group)
        finally:
            with self._lock:
                self._tasks -= spec.count

    def _run(self, session: Any, generation: int, spec: JobSpec, group: str) -> list[Any]:
        done = self._threads.submit(lambda: _collect(session, spec, group))
        try:
            messages = done.result(spec.deadline_s)
        except TimeoutError:
            if done.done():
                raise
            self.holder.cancel(group)
            self._await_end(done)
            raise DeadlineExceeded(
                f"a batch of connector {spec.connector} did not end in {spec.deadline_s:.0f} s and was cancelled; "
                "check whether its target or source answers, or raise task.deadline.ms"
            ) from None
        except MoldauError:
            raise
        except Exception as error:
            if self.holder.is_dead(generation):
                raise SessionDied(
                    f"Spark's JVM ended while a batch of connector {spec.connector} was running"
                ) from error
            if "cancelled" in str(error) and group in str(error):
                raise JobCancelled(f"the batch of connector {spec.connector} was cancelled") from None
            if type(error).__name__ == "Py4JJavaError":
                raise JobFailed(
                    f"Spark could not finish a batch of connector {spec.connector}: {_reason(error)}"
                ) from None
            raise
        return [_message(data) for data in messages]

    def _await_end(self, done: Future[list[Any]]) -> None:
        try:
            done.exception(CANCEL_GRACE_S)
        except TimeoutError:
            self._threads.abandoned()


def _reason(error: Exception) -> str:
    """The message of an error of the JVM, without Java's frames."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("at ", "...", "An error occurred while calling"))]
    return " ".join(told[:SHOWN_LINES])[:SHOWN_CHARACTERS] or type(error).__name__


def _message(data: bytes) -> Any:
    message = pickle.loads(data)
    if isinstance(message, TaskError):
        raise _error_of(message)
    return message


def _error_of(failed: TaskError) -> Exception:
    """The task's own error if it can be copied, with its trace; else one with the same text."""
    try:
        copied = pickle.loads(failed.error)
    except Exception:  # noqa: BLE001 - errors of other libraries may refuse to be unpickled in any way
        copied = None
    if not isinstance(copied, Exception):
        return TaskFailed(failed.trace)
    if not isinstance(copied, MoldauError):
        copied.add_note(failed.trace)
    return copied


class TaskFailed(MoldauError):
    """An error of a task whose class cannot be copied to the driver: its text is the trace."""


def _collect(session: Any, spec: JobSpec, group: str) -> list[bytes]:
    context = session.sparkContext
    context.setJobGroup(group, f"connector {spec.connector}", True)
    context.setLocalProperty("spark.scheduler.pool", f"connector-{spec.connector}")
    indexes = context.parallelize(range(spec.count), spec.count)
    messages: list[bytes] = indexes.mapPartitions(_task_function(spec.task)).collect()
    return messages


def _task_function(task: Task) -> Callable[[Iterator[int]], Iterator[bytes]]:
    def run(indexes: Iterator[int]) -> Iterator[bytes]:
        return (task_message(task, index) for index in indexes)

    return run


def task_message(task: Task, index: int) -> bytes:
    """The whole Spark task: its message or its error, pickled."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a task runs with a task context"
    try:
        return pickle.dumps(task(index, context.attemptNumber()))
    except Exception as error:  # noqa: BLE001 - any error of a connector becomes the message of its task
        return pickle.dumps(_as_task_error(error))


def _as_task_error(error: Exception) -> TaskError:
    import traceback

    trace = "".join(traceback.format_exception(error)).rstrip()
    try:
        pickled = pickle.dumps(error)
    except Exception:  # noqa: BLE001 - an error with a connection in it cannot be pickled
        pickled = b""
    return TaskError(pickled, trace, type(error).__name__)


class _JobThreads:
    """Daemon threads that run one job after another. A thread that is stuck is left alone and replaced."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._started = 0
        self._waiting = 0

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._waiting += 1
            if self._waiting > self._idle and self._started < MAX_JOBS:
                self._started += 1
                self._idle += 1
                threading.Thread(target=self._serve, name="connect-job", daemon=True).start()
        self._work.put((future, work))
        return future

    def abandoned(self) -> None:
        """A thread is stuck: another one may be started for it."""
        with self._lock:
            self._started -= 1

    def _serve(self) -> None:
        while True:
            future, work = self._work.get()
            with self._lock:
                self._waiting -= 1
                self._idle -= 1
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - the thread that waits gets it
                    future.set_exception(error)
            with self._lock:
                self._idle += 1


def balanced(pieces: Sequence[Sequence[Any]], sizes: Sequence[int], at_most: int) -> list[list[Any]]:
    """Lists of pieces for at most so many tasks, about even in size. A piece is never divided.

    Large pieces are placed first, each in the task with the least so far.
    """
    count = max(1, min(at_most, len(pieces)))
    tasks: list[list[Any]] = [[] for _ in range(count)]
    held = [0] * count
    for index in sorted(range(len(pieces)), key=lambda one: (-sizes[one], one)):
        least = held.index(min(held))
        tasks[least].extend(pieces[index])
        held[least] += max(sizes[index], 1)
    return [task for task in tasks if task]
