"""View of the metadata: the current image, and the path from a decision to a stored and published change.

A decision is a pure function of the image. Its changes are committed with the versions at which the image was read, and
published after they are stored: listeners get `(old image, new image)` on the loop, before the request is answered. If
the store has changed in the meantime (`Conflict`), the decision is made again with the new image. Decisions and rereads
run one at a time, so an image and its versions always change together.

Watches report what other brokers commit, as paths; only these paths are read again. Sessions may be replaced
(`attach`); listeners and image stay.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

from moldau.cluster.changes import Change, applied
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage
from moldau.cluster.store import Check, Conflict, Event, Operation, Store, StoreError, in_commits
from moldau.cluster.tree import FencedController, TooLarge, Tree
from moldau.host.clock import Randomness
from moldau.host.event_log import event_logger
from moldau.host.tasks import outcome
from moldau.wire.errors import ErrorCode

log = event_logger(__name__)

MAX_ATTEMPTS: Final = 10
PATIENT_ATTEMPTS: Final = 2
"""After this many retries a decision waits before the next one, because several brokers change the same topic."""
MAX_CONFLICT_WAIT_S: Final = 0.1
REREAD_RETRY_S: Final = 0.5

Listener = Callable[[ClusterImage, ClusterImage], None]
R = TypeVar("R")
A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")


class TooBusy(StoreError):
    """Other brokers kept changing the same nodes: nothing was changed, try again later."""


class Step(NamedTuple):
    """A change to commit, the indexes of the requests that it answers, and the checks of its commit."""

    change: Change
    places: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()


class MetadataDecision(NamedTuple, Generic[A]):
    """The answer to each request, valid once its steps are stored. Refusals are valid at once."""

    answers: Sequence[A | Refusal]
    steps: Sequence[Step]


Decide = Callable[[ClusterImage, Sequence[R]], MetadataDecision[A]]


class ImagePublisher:
    """The current image, and the only way to change the metadata."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._image = ClusterImage("")
        self._tree: Tree | None = None
        # After a failed commit it is unknown whether it happened: the next decision reads everything first.
        self._stale = False
        self._dirty: dict[str, None] = {}
        self._following: asyncio.Task[None] | None = None
        self._listeners: list[Listener] = []
        self._turn = asyncio.Lock()
        self._under_way: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    @property
    def image(self) -> ClusterImage:
        """The current image of the cluster."""
        return self._image

    @property
    def tree(self) -> Tree:
        """The tree of the current session."""
        assert self._tree is not None
        return self._tree

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(old, new)` for each new image, in the order of registration. Returns a function that removes
        it.

        A listener must not raise; if it does, the others are still called, and the error is logged.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, image: ClusterImage) -> None:
        """Replace the image and notify listeners. Call it only inside `exclusively`."""
        if image == self._image:
            return  # keep the object that listeners know, so identity comparisons work
        old, self._image = self._image, image
        for listener in list(self._listeners):
            try:
                listener(old, image)
            except Exception:
                # A bug in the listener. The image is stored, so the other listeners must get it, and the request must
                # be answered.
                log.exception("a listener failed on a new cluster image")

    async def attach(self, tree: Tree) -> None:
        """Use the tree of a new session from now on. Nothing is published before the first `reload`."""

        async def swap() -> None:
            self._tree = tree
            self._stale = True
            self._dirty.clear()
            if self._following is not None:
                self._following.cancel()  # it may wait for an answer in the former session
                self._following = None
            if tree.store.shared:
                # Watch before reading: nodes that change during the read are read again.
                tree.store.watch("/", lambda event: self._changed(tree.store, event))

        await self.exclusively(swap)

    async def reload(self) -> None:
        """Read everything again and publish it if it differs."""
        await self.exclusively(self._reload)

    async def drain(self) -> None:
        """Wait until all work in progress is finished."""
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    async def close(self) -> None:
        """Cancel all work in progress and stop following changes. The owner of the session closes it."""
        self._closed = True
        tasks = [*self._under_way, *([self._following] if self._following is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def exclusively(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the work exclusively, to its end.

        The caller may be cancelled (its connection closed) between commit and publication. Without the shield the store
        would then have a topic that no image shows.
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

    # -- following the commits of other brokers --------------------------------------------------------------------

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
                    log.warning("metadata could not be read again, will try again", extra={"reason": str(error)})
                    await asyncio.sleep(REREAD_RETRY_S)
        finally:
            if self._following is asyncio.current_task():
                self._following = None

    async def _reread(self, more: Sequence[str] = ()) -> None:
        """Bring the image up to date with all changed paths, and with `more`."""
        if self._stale:
            return await self._reload()
        paths = dict.fromkeys([*self._dirty, *more])
        self._dirty.clear()
        try:
            image = await self.tree.reread(self._image, paths)
        except BaseException:
            self._stale = True  # the tree may have remembered versions that the image does not have
            raise
        self.publish(image)
        return None

    async def _reload(self) -> None:
        self._stale = True
        self._dirty.clear()
        image = await self.tree.load()
        self._stale = False
        self.publish(image)

    # -- deciding and committing -----------------------------------------------------------------------------------

    async def decide(
        self,
        requests: Sequence[R],
        decide: Decide[R, A],
        answers: dict[int, A | Refusal],
        *,
        validate_only: bool = False,
        as_controller: bool = False,
        current: bool = False,
    ) -> None:
        """Answer each request, by its index. Refusals are final; requests that met a conflict are decided again.

        `current`: the image has everything that was committed before this call. Otherwise a request that needs no
        commit may be answered by an image that lags behind.

        If it raises StoreError, requests without an answer may or may not have been carried out; after `TooBusy` and
        `FencedController` they have not.
        """
        await self.exclusively(self._decide, requests, decide, answers, validate_only, as_controller, current)

    async def _decide(
        self,
        requests: Sequence[R],
        decide: Decide[R, A],
        answers: dict[int, A | Refusal],
        validate_only: bool,
        as_controller: bool,
        current: bool,
    ) -> None:
        if current and self.tree.store.shared:
            await self.tree.store.sync()  # the events of earlier commits arrive before this returns
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
        self, verdict: MetadataDecision[A], places: Sequence[int], answers: dict[int, A | Refusal]
    ) -> list[tuple[Step, list[Operation]]]:
        """The operations of each step. Also stores the answers of requests that need no step."""
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
        verdict: MetadataDecision[A],
        places: Sequence[int],
        prepared: Sequence[tuple[Step, list[Operation]]],
        answers: dict[int, A | Refusal],
        as_controller: bool,
    ) -> bool:
        """Store and publish, one group at a time, and answer the requests whose steps are all stored. False: there was
        a conflict, decide again."""
        left = Counter(at for step, _ in prepared for at in step.places)
        for group in in_commits(prepared, itemgetter(1)):
            operations = [operation for _, operations in group for operation in operations]
            self._stale = True
            try:
                await self.tree.commit(operations, as_controller=as_controller)
            except FencedController:
                self._stale = False  # nothing happened
                raise
            except Conflict as conflict:
                log.info("metadata store changed meanwhile, deciding again", extra={"reason": str(conflict)})
                self._stale = False
                await self.read_again([operation.path for operation in operations])
                return False
            self._stale = False
            left.subtract(at for step, _ in group for at in step.places)
            done = [at for step, _ in group for at in step.places if not left[at]]
            answers.update({places[at]: verdict.answers[at] for at in done})
            self.publish(applied(self._image, [step.change for step, _ in group]))
        return True

    async def read_again(self, paths: Sequence[str]) -> None:
        """Read these paths after a conflict. `sync` comes first, because a read alone may not show the other commit
        yet. Call it only inside `exclusively`."""
        if not self.tree.store.shared:
            self._stale = True
            return
        await self.tree.store.sync()
        await self._reread(paths)
