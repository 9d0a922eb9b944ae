# The small classes of _accumulator.pyx, which includes them: what `send` returns, and what batches wait in.


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class RecordFuture:
    """See accumulator.RecordFuture. The collector does not look at it: applications keep millions of them."""

    cdef readonly Batch batch
    cdef readonly int32_t index
    cdef readonly int64_t timestamp

    def result(self, timeout=None):
        """Where the record is; waits for it, and raises what went wrong. TimedOut after `timeout` seconds."""
        cdef Batch batch = self.batch
        if not batch.done:
            _futures.wait(self, timeout)
        if batch.parts or batch.error is not None:
            return _futures.outcome(self)
        return _RecordMetadata(
            batch.queue.topic,
            batch.queue.index,
            -1 if batch.base_offset < 0 else batch.base_offset + self.index,
            self.timestamp if batch.log_append_time < 0 else batch.log_append_time,
        )

    def exception(self, timeout=None):
        """What went wrong, or None; waits like `result`."""
        return _futures.exception(self, timeout)

    def done(self):
        return _futures.is_done(self)

    def add_done_callback(self, callback):
        """Call it with this future once it is done: in the producer's loop, or at once if it is."""
        _futures.call_when_done(self, lambda: callback(self))

    def cancel(self):
        """A record that was accepted cannot be called back: always False."""
        return False

    def cancelled(self):
        return False

    def __await__(self):
        return _futures.awaiting(self)


@cython.final
cdef class PartitionQueue:
    """See accumulator.PartitionQueue."""

    cdef readonly str topic
    cdef readonly int32_t index
    cdef readonly object sealed
    cdef readonly Batch open_batch
    cdef readonly bint ready
    cdef public object sender_state
    cdef Py_ssize_t _usual_room  # what the last batch took, so that the next one need not grow

    def __cinit__(self, str topic, int32_t index):
        self.topic = topic
        self.index = index
        self.sealed = deque()
        self._usual_room = FIRST_ROOM


@cython.final
cdef class TopicQueues:
    """See accumulator.TopicQueues."""

    cdef readonly str name
    cdef readonly int32_t count
    cdef readonly list queues
    cdef readonly list available
    cdef readonly int32_t sticky
    cdef readonly int64_t sticky_bytes

    def __cinit__(self, str name):
        self.name = name
        self.queues = []
        self.available = []
        self.sticky = -1
