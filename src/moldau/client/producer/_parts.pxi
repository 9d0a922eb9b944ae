# Small classes of _accumulator.pyx, which includes this file: futures and queues.


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class RecordFuture:
    """See accumulator.RecordFuture. The garbage collector does not track it: applications keep millions of them."""

    cdef readonly Batch batch
    cdef readonly int32_t index
    cdef readonly int64_t timestamp

    def result(self, timeout=None):
        """Wait for the record's result and return its partition, offset and timestamp.

        Raises the error if the record was not delivered, and TimedOut after `timeout` seconds without a result.
        """
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
        """Wait like `result` and return the error of the record, or None if it was delivered."""
        return _futures.exception(self, timeout)

    def done(self):
        """Whether the record is delivered or has failed."""
        return _futures.is_done(self)

    def add_done_callback(self, callback):
        """Call `callback(future)` in the producer's loop when the future is done, or at once if it is done already."""
        _futures.call_back(self, callback)

    def cancel(self):
        """Return False: a record that `send` has accepted cannot be cancelled."""
        return False

    def cancelled(self):
        """Return False: a record that `send` has accepted cannot be cancelled."""
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
    cdef Py_ssize_t _usual_room  # the size of the last batch: the next one gets a buffer that need not grow

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
