"""Memory limits for unsent responses: which requests wait, which resume, and that all memory is released."""

from __future__ import annotations

from moldau.broker.connection.reply_memory import PER_CONNECTION_BYTES, ReplyMemory, UnsentReplies

LIMIT = 1000


class Fetch:
    """A request that needs `size` bytes for its response, and notes when it was resumed."""

    def __init__(self, unsent: UnsentReplies, size: int, done: list[int]) -> None:
        self.unsent = unsent
        self.size = size
        self.done = done

    def resume(self) -> None:
        if not self.unsent.has_room(first=False):
            self.unsent.wait(self)
            return
        self.unsent.add(self.size)
        self.done.append(self.size)


def test_a_connection_at_its_own_limit_waits_and_others_do_not() -> None:
    memory = ReplyMemory(10 * PER_CONNECTION_BYTES)
    slow, other = UnsentReplies(memory), UnsentReplies(memory)
    slow.add(PER_CONNECTION_BYTES)
    assert not slow.has_room(first=False)
    assert other.has_room(first=False)


def test_at_the_limit_of_all_connections_one_without_unsent_responses_does_not_wait() -> None:
    memory = ReplyMemory(LIMIT)
    slow, other = UnsentReplies(memory), UnsentReplies(memory)
    slow.add(LIMIT)
    assert memory.is_full
    assert other.has_room(first=False)
    other.add(1)
    assert not other.has_room(first=False)


def test_the_first_request_does_not_wait_unless_the_transport_is_full() -> None:
    """Complete responses of later requests are sent after its own: waiting for them would be a deadlock."""
    unsent = UnsentReplies(ReplyMemory(LIMIT))
    unsent.add(5 * LIMIT)
    assert unsent.has_room(first=True)
    unsent.stuck(LIMIT)
    assert not unsent.has_room(first=True)
    unsent.stuck(0)
    assert unsent.has_room(first=True)


def test_requests_resume_in_order_while_there_is_room() -> None:
    unsent = UnsentReplies(ReplyMemory(LIMIT))
    done: list[int] = []
    unsent.add(LIMIT)
    for size in (600, 500, 400):
        Fetch(unsent, size, done).resume()
    assert (done, unsent.has_waiting) == ([], True)
    unsent.add(-LIMIT)
    unsent.wake()
    assert (done, unsent.in_use) == ([600, 500], 1100)
    unsent.add(-600)
    unsent.wake()
    assert (done, unsent.has_waiting) == ([600, 500, 400], False)


def test_a_closed_connection_releases_its_memory_and_resumes_no_request() -> None:
    memory = ReplyMemory(LIMIT)
    unsent = UnsentReplies(memory)
    done: list[int] = []
    unsent.add(LIMIT)
    unsent.stuck(LIMIT)
    Fetch(unsent, 1, done).resume()
    unsent.close()
    assert memory.in_use == 0
    unsent.add(-LIMIT)  # a disk read that ends later
    unsent.wake()
    assert (memory.in_use, done) == (0, [])
