"""This broker's view of the metadata: the image, kept current by watches, and the way from a decision to a new image.

A decision is a pure function of the image. What it decides is committed with the versions that the image was read at,
and published when it is stored: listeners get `(old image, new image)` on the loop, before whoever asked is answered.
One that found the store changed meanwhile (`Conflict`) is made again over what is there now. Decisions and rereading
take turns, so an image and the versions that go with it change together.

What others commit comes as events of paths; only what is at these paths is read again. Sessions come and go
(`attach`); listeners and image stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

from moldau.cluster.changes import Change, applied
from moldau.cluster.image import ClusterImage
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import Check, Conflict, Event, Operation, Store, StoreError, in_commits
from moldau.cluster.tree import NotController, TooLarge, Tree
from moldau.host.clock import Randomness
from moldau.host.tasks import outcome
from moldau.wire.errors import ErrorCode

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 10
PATIENT_ATTEMPTS: Final = 2
"""From the next one on a decision waits before it is made again: several brokers change the same topic."""
MAX_CONFLICT_WAIT_S: Final = 0.1
REREAD_RETRY_S: Final = 0.5

Listener = Callable[[ClusterImage, ClusterImage], None]
R = TypeVar("R")
A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")


class TooBusy(StoreError):
    """Others changed the same things again and again: nothing was done, try later."""


class Step(NamedTuple):
    """A change to commit, the requests that it carries out (by their place), and what must hold beside it."""

    change: Change
    places: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()


class Verdict(NamedTuple, Generic[A]):
    """What each request is answered, once the steps that carry it out are stored. Refusals hold at once."""

    answers: Sequence[A | Refusal]
    steps: Sequence[Step]


Decide = Callable[[ClusterImage, Sequence[R]], Verdict[A]]


class View:
    """An image that is current, and the only way to change what it shows."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._image = ClusterImage("")
        self._tree: Tree | None = None
        # After a failed commit nobody knows whether it happened: the next decision reads first.
        self._stale = False
        self._dirty: dict[str, None] = {}
        self._following: asyncio.Task[None] | None = None
        self._listeners: list[Listener] = []
        self._turn = asyncio.Lock()
        self._under_way: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._image

    @property
    def tree(self) -> Tree:
        """Of the current session."""
        assert self._tree is not None
        return self._tree

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Has `listener(old, new)` called for each new image, in the order of joining; returns the end of it.

        A listener must not raise; if it does, the others are still called, and the fault is logged.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, image: ClusterImage) -> None:
        """Only for who has its turn (`exclusively`)."""
        if image == self._image:
            return  # the one that listeners know stays
        old, self._image = self._image, image
        for listener in list(self._listeners):
            try:
                listener(old, image)
            except Exception:
                # A bug of ours. The image is stored: the other listeners must hear of it, and whoever asked, too.
                log.exception("a listener failed on a new cluster image")

    async def attach(self, tree: Tree) -> None:
        """A new session, whose tree is read from now on. Nothing is published before the first `reload`."""

        async def swap() -> None:
            self._tree = tree
            self._stale = True
            self._dirty.clear()
            if self._following is not None:
                self._following.cancel()  # it may be waiting for the former session to answer again
                self._following = None
            if tree.store.shared:
                # Watched before it is read: what changes while it is being read is read again.
                tree.store.watch("/", lambda event: self._changed(tree.store, event))

        await self.exclusively(swap)

    async def reload(self) -> None:
        """Reads everything again and publishes it if it differs."""
        await self.exclusively(self._reload)

    async def drain(self) -> None:
        """Lets what is under way finish."""
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    async def close(self) -> None:
        """Breaks off what is under way, and follows no more. The session is its owner's to close."""
        self._closed = True
        tasks = [*self._under_way, *([self._following] if self._following is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def exclusively(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the work when its turn comes, to its end.

        The caller may be cancelled (its connection closed) between commit and publication; without the shield the
        store would have a topic that no image shows.
        """
        if self._closed:
            raise StoreError("the metadata is closed")

        async def run() -> T:
            async with self._turn:
                return await work(*args, **kwargs)

        task = asyncio.ensure_future(run())
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        return await outcome(task)

    # -- following what others commit ------------------------------------------------------------------------------

    def _changed(self, store: Store, event: Event) -> None:
        if self._closed or self._tree is None or store is not self._tree.store:
            return
        self._dirty[event.path] = None
        if self._following is None:
            self._following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        try:
            while self._dirty and not self._closed:
                try:
                    await self.exclusively(self._reread)
                except StoreError as error:
                    log.warning("the metadata could not be read again, trying once more: %s", error)
                    await asyncio.sleep(REREAD_RETRY_S)
        finally:
            if self._following is asyncio.current_task():
                self._following = None

    async def _reread(self, more: Sequence[str] = ()) -> None:
        """Brings the image up to date with whatever changed."""
        if self._stale:
            return await self._reload()
        paths = dict.fromkeys([*self._dirty, *more])
        self._dirty.clear()
        try:
            image = await self.tree.reread(self._image, paths)
        except BaseException:
            self._stale = True  # some of it may have been read, and is known to the tree but not to the image
            raise
        self.publish(image)
        return None

    async def _reload(self) -> None:
        self._stale = True
        self._dirty.clear()
        image = await self.tree.load()
        self._stale = False
        self.publish(image)

    # -- from decision to image ------------------------------------------------------------------------------------

    async def decide(
        self,
        requests: Sequence[R],
        decide: Decide[R, A],
        answers: dict[int, A | Refusal],
        *,
        validate_only: bool = False,
        as_controller: bool = False,
    ) -> None:
        """Answers each request, by its place. Refusals are final; what met a conflict is decided again.

        Where it raises StoreError, those without an answer may or may not have been carried out; after `TooBusy` and
        `NotController` they have not.
        """
        await self.exclusively(self._decide, requests, decide, answers, validate_only, as_controller)

    async def _decide(
        self,
        requests: Sequence[R],
        decide: Decide[R, A],
        answers: dict[int, A | Refusal],
        validate_only: bool,
        as_controller: bool,
    ) -> None:
        for attempt in range(MAX_ATTEMPTS):
            if attempt > PATIENT_ATTEMPTS:
                await asyncio.sleep(self._randomness.random() * MAX_CONFLICT_WAIT_S)
            if self._stale or self._dirty:
                await self._reread()
            places = [place for place in range(len(requests)) if place not in answers]
            verdict = decide(self._image, [requests[place] for place in places])
            prepared = self._prepare(verdict, places, answers)
            if validate_only:
                answers.update({place: verdict.answers[at] for at, place in enumerate(places) if place not in answers})
                return
            if await self._commit(verdict, places, prepared, answers, as_controller):
                return
        raise TooBusy("the metadata store changes too fast; try again")

    def _prepare(
        self, verdict: Verdict[A], places: Sequence[int], answers: dict[int, A | Refusal]
    ) -> list[tuple[Step, list[Operation]]]:
        """The operations of each step, and the answers to requests that need none."""
        pending = {at for step in verdict.steps for at in step.places}
        answers.update(
            {
                places[at]: answer
                for at, answer in enumerate(verdict.answers)
                if isinstance(answer, Refusal) or at not in pending
            }
        )
        prepared: list[tuple[Step, list[Operation]]] = []
        for step in verdict.steps:
            try:
                prepared.append((step, [*step.checks, *self.tree.operations(step.change)]))
            except TooLarge as error:
                refusal = Refusal(ErrorCode.POLICY_VIOLATION, f"The change is too large: {error}.")
                answers.update({places[at]: refusal for at in step.places})
        return prepared

    async def _commit(
        self,
        verdict: Verdict[A],
        places: Sequence[int],
        prepared: Sequence[tuple[Step, list[Operation]]],
        answers: dict[int, A | Refusal],
        as_controller: bool,
    ) -> bool:
        """Stores and publishes, a group at a time, and answers those that were. False: a conflict, decide again."""
        for group in in_commits(prepared, itemgetter(1)):
            operations = [operation for _, operations in group for operation in operations]
            self._stale = True
            try:
                await self.tree.commit(operations, as_controller=as_controller)
            except NotController:
                self._stale = False  # nothing happened
                raise
            except Conflict as conflict:
                log.info("the metadata store changed meanwhile, deciding again: %s", conflict)
                self._stale = False
                await self.read_again([operation.path for operation in operations])
                return False
            self._stale = False
            answers.update({places[at]: verdict.answers[at] for step, _ in group for at in step.places})
            self.publish(applied(self._image, [step.change for step, _ in group]))
        return True

    async def read_again(self, paths: Sequence[str]) -> None:
        """For who has its turn, after a conflict: what another one did is there, though a read alone may not show it
        yet."""
        if not self.tree.store.shared:
            self._stale = True
            return
        await self.tree.store.sync()
        await self._reread(paths)
