# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Native record accumulator: the twin of accumulator.py, with the same names and results.

Read accumulator.py first; comments here describe only the differences. All of `send` runs in this module, without a
Python call for an ordinary record. Under the lock nothing is allocated that the garbage collector tracks. Otherwise a
collection could start there and run a finalizer that waits for the same lock. Batches are therefore created before the
lock is taken. Records are written directly into a `bytes` object that is not shared yet. It does not change any more
after it is handed out.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from moldau.client.producer._record cimport (
    Content, encode_headers, hold, length_of, monotonic, murmur2, now_ms, release, write_content
)
from moldau.records._batch_layout cimport HEADER_SIZE
from moldau.records._walk cimport write_varint

from collections import deque

from moldau.client.data_types import RecordMetadata as _RecordMetadata
from moldau.client.producer import futures as _futures
from moldau.client.producer.accumulator import AppendRefusal as _Refusal
from moldau.host.clock import SystemRandomness as _SystemRandomness

cdef enum:
    MOST_RECORD_OVERHEAD = 36
    FIRST_ROOM = 512

cdef double NEVER = float("inf")

cdef object UNKNOWN_TOPIC = _Refusal.UNKNOWN_TOPIC
cdef object UNKNOWN_PARTITION = _Refusal.UNKNOWN_PARTITION
cdef object BUFFER_FULL = _Refusal.BUFFER_FULL
cdef object TOO_LARGE = _Refusal.TOO_LARGE
cdef object CLOSED = _Refusal.CLOSED
cdef object NOT_BYTES = _Refusal.NOT_BYTES
cdef object BAD_TIMESTAMP = _Refusal.BAD_TIMESTAMP
cdef object WRONG_TYPE = _Refusal.WRONG_TYPE

cdef tuple NO_HEADERS = ()


include "_parts.pxi"  # RecordFuture, PartitionQueue, TopicQueues


@cython.final
cdef class Batch:
    """See accumulator.Batch."""

    cdef readonly Accumulator accumulator
    cdef readonly PartitionQueue queue
    cdef readonly double created_at
    cdef readonly int32_t count
    cdef readonly int64_t size, memory, base_timestamp, max_timestamp, base_offset, log_append_time
    cdef public bint open, due
    cdef readonly bint done
    cdef readonly object error
    cdef readonly list parts
    cdef list _waiters, _callbacks
    cdef bytes _buffer  # the encoded records; no other reference exists while the batch is filled
    cdef Py_ssize_t _room
    # State of the sender.
    cdef public int64_t producer_id, sequence
    cdef public int32_t producer_epoch, attempts
    cdef public bint in_doubt
    cdef public object body
    cdef public double written_at

    def __cinit__(self, Accumulator accumulator, PartitionQueue queue, double created_at, Py_ssize_t room=FIRST_ROOM):
        self.accumulator = accumulator
        self.queue = queue
        self.created_at = created_at
        self.size = HEADER_SIZE
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.open = True
        self.base_offset = -1
        self.log_append_time = -1
        self.parts = []
        self._waiters = []
        self._callbacks = []
        self._buffer = PyBytes_FromStringAndSize(NULL, room)
        self._room = room
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = -1

    def add(self, timestamp, key, value, headers=(), on_delivery=None):
        """Write one record into a batch that is not shared yet."""
        cdef Content key_content, value_content
        cdef bytes encoded = None
        cdef int32_t header_count = 0
        cdef RecordFuture future = RecordFuture.__new__(RecordFuture)
        if headers:
            encoded, header_count, _ = encode_headers(headers)
        hold(&key_content, key)
        try:
            hold(&value_content, value)
            try:
                self.write(future, timestamp, &key_content, &value_content, encoded, header_count)
            finally:
                release(&value_content)
        finally:
            release(&key_content)
        if on_delivery is not None:
            self._callbacks.append((future, on_delivery))
        return future

    cdef int write(
        self, RecordFuture future, int64_t timestamp, Content *key, Content *value, bytes headers, int32_t header_count
    ) except -1:
        """Write one record. The only Python object that this allocates is a larger `bytes` object."""
        cdef Py_ssize_t header_size = 0 if headers is None else PyBytes_GET_SIZE(headers)
        cdef int64_t delta = 0 if self.count == 0 else timestamp - self.base_timestamp
        cdef Py_ssize_t length = (
            1 + length_of(delta) + length_of(self.count)
            + length_of(key.size) + (key.size if key.size > 0 else 0)
            + length_of(value.size) + (value.size if value.size > 0 else 0)
            + length_of(header_count) + header_size
        )
        cdef Py_ssize_t used = self.size - HEADER_SIZE
        cdef Py_ssize_t grown = used + length_of(length) + length
        cdef uint8_t *p
        if grown > self._room:
            self.grow(used, grown)
        p = <uint8_t *>PyBytes_AS_STRING(self._buffer) + used
        p = write_varint(p, length)
        p[0] = 0
        p = write_varint(p + 1, delta)
        p = write_varint(p, self.count)
        p = write_content(p, key)
        p = write_content(p, value)
        p = write_varint(p, header_count)
        if header_size:
            memcpy(p, PyBytes_AS_STRING(headers), header_size)
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        future.batch = self
        future.index = self.count
        future.timestamp = timestamp
        self.memory += grown - used
        self.size = HEADER_SIZE + grown
        self.count += 1
        return 0

    cdef int grow(self, Py_ssize_t used, Py_ssize_t wanted) except -1:
        cdef Py_ssize_t room = max(wanted, min(2 * self._room, self.accumulator.batch_size))
        cdef bytes bigger = PyBytes_FromStringAndSize(NULL, room)
        memcpy(PyBytes_AS_STRING(bigger), PyBytes_AS_STRING(self._buffer), used)
        self._buffer = bigger
        self._room = room
        return 0

    def fill(self, bytes records not None, int32_t count, int64_t base_timestamp, int64_t max_timestamp):
        """See accumulator.Batch.fill."""
        self._buffer = records
        self._room = 0  # nothing may be written into it
        self.count = count
        self.memory = PyBytes_GET_SIZE(records)
        self.size = HEADER_SIZE + PyBytes_GET_SIZE(records)
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp

    def records(self):
        """The encoded records, uncompressed and without the batch header. Empty when the batch is done."""
        if self._buffer is None:
            return b""
        return memoryview(self._buffer)[: self.size - HEADER_SIZE]

    def callbacks(self):
        """The future and callback of each record that has a callback."""
        return self._callbacks

    def add_waiter(self, waiter):
        """Call `waiter` when the batch is done or split. Return False if it already is."""
        with self.accumulator.mutex:
            if self.done or self.parts:
                return False
            self._waiters.append(waiter)
            return True

    def complete(self, int64_t base_offset, int64_t log_append_time=-1):
        """The batch is delivered."""
        self.finish(base_offset, log_append_time, None)

    def fail(self, error):
        """The batch has failed and is not sent again."""
        self.finish(-1, -1, error)

    def split(self, parts):
        """Replace the batch by parts that have its records in the same order. Its waiters look for the parts."""
        cdef Batch part
        cdef list found = []
        cdef int64_t memory = 0
        cdef int32_t first = 0
        cdef list waiters
        for part in parts:
            found.append((first, part))
            first += part.count
            memory += part.memory
        left = self._buffer, self.body  # freed after the lock is released
        cdef list nobody = []
        with self.accumulator.mutex:
            self.parts = found
            waiters, self._waiters = self._waiters, nobody
            self.accumulator.memory_used += memory - self.memory
            self.memory = 0
            self._buffer = self.body = None
            self.accumulator.incomplete.pop(self, None)
            for part in parts:
                self.accumulator.incomplete[part] = None
        _futures.run_waiters(waiters)

    cdef int finish(self, int64_t base_offset, int64_t log_append_time, error) except -1:
        cdef list waiters, callbacks
        cdef list no_waiters = [], no_callbacks = []
        left = self._buffer, self.body  # freed after the lock is released
        with self.accumulator.mutex:
            if self.done:
                return 0
            self.base_offset = base_offset
            self.log_append_time = log_append_time
            self.error = error
            self.done = True
            self.accumulator.memory_used -= self.memory
            self._buffer = self.body = None
            waiters, self._waiters = self._waiters, no_waiters
            callbacks, self._callbacks = self._callbacks, no_callbacks
            self.accumulator.incomplete.pop(self, None)
        if waiters:
            _futures.run_waiters(waiters)
        if callbacks:
            _futures.run_callbacks(self, callbacks)
        return 0


cdef struct Record:
    # The arguments of `append`, ready to be written under the lock.
    int64_t timestamp
    Content key
    Content value
    int32_t header_count
    Py_ssize_t most


@cython.final
cdef class Accumulator:
    """See accumulator.Accumulator."""

    cdef cython.pymutex mutex
    cdef readonly int64_t batch_size, memory_limit, max_request_size, memory_used
    cdef readonly double linger_s
    cdef readonly bint ignore_keys
    cdef public bint memory_wanted, closed
    cdef readonly dict incomplete, topics
    cdef public object wake
    cdef object _slow_path, _clock, _lingering
    cdef dict _idle
    cdef list _ready
    cdef bint _woken, _timer_set
    cdef uint64_t _chance

    def __cinit__(
        self, int64_t batch_size, double linger_s, int64_t memory_limit, int64_t max_request_size, wake, slow_path,
        bint ignore_keys=False, clock=None,
    ):
        self.batch_size = max(batch_size, 1)
        self.linger_s = linger_s
        self.memory_limit = memory_limit
        self.max_request_size = max_request_size
        self.ignore_keys = ignore_keys
        self.incomplete = {}
        self.topics = {}
        self.wake = wake
        self._slow_path = slow_path
        self._clock = clock
        self._idle = {}
        self._ready = []
        self._lingering = deque()
        self._chance = int(_SystemRandomness().random() * (1 << 62)) | 1

    # -- called by any thread

    def send(
        self, topic, value=None, key=None, *, partition=None, timestamp=None, headers=NO_HEADERS,
        on_delivery=None,
    ):
        """See accumulator.Accumulator.send."""
        taken = self.take_in(topic, value, key, partition, timestamp, headers, on_delivery, False)
        if type(taken) is RecordFuture:
            return taken
        return self._slow_path(taken, topic, value, key, partition, timestamp, headers, on_delivery)

    def append(self, topic, value, key, partition, timestamp, headers, on_delivery, bint has_waited=False):
        """See accumulator.Accumulator.append."""
        return self.take_in(topic, value, key, partition, timestamp, headers, on_delivery, has_waited)

    cdef object take_in(self, topic, value, key, partition, timestamp, headers, on_delivery, bint has_waited):
        cdef Record record
        cdef bytes encoded = None
        cdef int64_t chosen = -1
        cdef int overflow = 0
        record.header_count = 0
        record.most = MOST_RECORD_OVERHEAD
        if not isinstance(topic, str) or not (on_delivery is None or callable(on_delivery)):
            return WRONG_TYPE
        try:
            if headers is not NO_HEADERS:
                encoded, record.header_count, most = encode_headers(headers)
                record.most += most
            hold(&record.key, key)
            try:
                hold(&record.value, value)
            except BaseException:
                release(&record.key)
                raise
        except (TypeError, ValueError, AttributeError, BufferError):
            return NOT_BYTES
        try:
            try:
                if timestamp is not None:
                    record.timestamp = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
                    if overflow:
                        record.timestamp = -1
                if partition is not None:
                    chosen = PyLong_AsLongLongAndOverflow(partition, &overflow)
                    if overflow or chosen < 0:
                        chosen = INT64_MAX  # a partition that no topic has
            except TypeError:
                return WRONG_TYPE
            if timestamp is None:
                record.timestamp = now_ms() if self._clock is None else self._clock.now_ms()
            elif record.timestamp < 0:
                return BAD_TIMESTAMP
            record.most += max(record.key.size, 0) + max(record.value.size, 0)
            if HEADER_SIZE + record.most > self.max_request_size or record.most > self.memory_limit:
                return TOO_LARGE
            return self.place(<str>topic, &record, encoded, chosen, on_delivery, has_waited)
        finally:
            release(&record.value)
            release(&record.key)

    cdef object place(self, str topic, Record *record, bytes headers, int64_t chosen, on_delivery, bint has_waited):
        cdef RecordFuture future = RecordFuture.__new__(RecordFuture)
        cdef Batch fresh = None
        cdef Batch batch
        cdef TopicQueues queues
        cdef PartitionQueue queue
        cdef PyObject *found
        cdef int64_t before
        cdef bint news, wake
        cdef Py_ssize_t usual_room
        callback = None if on_delivery is None else (future, on_delivery)
        while True:
            with self.mutex:
                if self.closed:
                    return CLOSED
                found = PyDict_GetItem(self.topics, topic)
                if found == NULL:
                    return UNKNOWN_TOPIC
                queues = <TopicQueues>found
                if self.memory_used + record.most > self.memory_limit or (self.memory_wanted and not has_waited):
                    return BUFFER_FULL
                if chosen < 0:
                    chosen = self.choose(queues, record)
                if not 0 <= chosen < queues.count:
                    return UNKNOWN_PARTITION
                queue = <PartitionQueue>queues.queues[chosen]
                batch = queue.open_batch
                news = False
                if batch is not None and batch.size + record.most > self.batch_size:
                    self.seal_open(queue)
                    batch = None
                    news = True
                if batch is None and fresh is not None:
                    batch = fresh
                    fresh = None
                    self.open_with(queue, batch)
                    news = news or not self._timer_set
                if batch is not None:
                    before = batch.memory
                    batch.write(future, record.timestamp, &record.key, &record.value, headers, record.header_count)
                    self.memory_used += batch.memory - before
                    if chosen == queues.sticky:
                        queues.sticky_bytes += batch.memory - before
                    if callback is not None:
                        batch._callbacks.append(callback)
                    if batch.size >= self.batch_size:
                        self.seal_open(queue)
                        news = True
                usual_room = queue._usual_room
                wake = news and not self._woken
                if wake:
                    self._woken = True
            if wake:
                self.wake()
            if batch is not None:
                return future
            # The partition needs a new batch. It is created without the lock. Then all conditions are checked again,
            # because another thread may have changed them.
            fresh = Batch(self, None, monotonic() if self._clock is None else self._clock.monotonic(), usual_room)

    cdef int64_t choose(self, TopicQueues queues, Record *record) except -2:
        if record.key.size >= 0 and not self.ignore_keys:
            if queues.count == 0:
                return INT64_MAX
            return (murmur2(record.key.data, record.key.size) & 0x7FFFFFFF) % queues.count
        if queues.sticky < 0 or self.has_had_its_batch(queues, record.most):
            if not queues.available:
                return INT64_MAX
            # xorshift: random enough for the choice of a partition
            self._chance ^= self._chance << 13
            self._chance ^= self._chance >> 7
            self._chance ^= self._chance << 17
            queues.sticky = queues.available[(self._chance >> 11) % <uint64_t>len(queues.available)]
            queues.sticky_bytes = 0
        return queues.sticky

    cdef bint has_had_its_batch(self, TopicQueues queues, Py_ssize_t size):
        cdef Batch batch = (<PartitionQueue>queues.queues[queues.sticky]).open_batch
        cdef int64_t filled = queues.sticky_bytes + HEADER_SIZE
        if batch is not None and batch.size > filled:
            filled = batch.size
        return filled + size > self.batch_size

    cdef int open_with(self, PartitionQueue queue, Batch batch) except -1:
        batch.queue = queue
        queue.open_batch = batch
        self.incomplete[batch] = None
        self._lingering.append(batch)
        return 0

    cdef int seal_open(self, PartitionQueue queue) except -1:
        cdef Batch batch = queue.open_batch
        batch.open = False
        queue._usual_room = max(batch.size - HEADER_SIZE, FIRST_ROOM)
        queue.sealed.append(batch)
        queue.open_batch = None
        self.make_ready(queue)
        return 0

    cdef int make_ready(self, PartitionQueue queue) except -1:
        if not queue.ready:
            queue.ready = True
            self._ready.append(queue)
        return 0

    # -- called by the loop

    def know_topic(self, str name not None, int32_t count, available):
        """See accumulator.Accumulator.know_topic."""
        cdef TopicQueues queues = self.topics.get(name) or self._idle.pop(name, None)
        cdef list listed = list(available) or list(range(count))
        cdef list left
        if queues is None:
            queues = TopicQueues(name)
        cdef list more = [PartitionQueue(name, index) for index in range(len(queues.queues), count)]
        with self.mutex:
            queues.queues.extend(more)
            queues.count = count
            left, queues.available = queues.available, listed
            if queues.sticky not in listed:
                queues.sticky = -1
            self.topics[name] = queues

    def forget_topic(self, str name not None):
        """See accumulator.Accumulator.forget_topic."""
        cdef PartitionQueue queue
        cdef TopicQueues queues = self.topics.get(name)
        if queues is None:
            return True
        with self.mutex:
            for queue in queues.queues:
                if queue.open_batch is not None or queue.sealed:
                    return False
            self._idle[name] = self.topics.pop(name)
        return True

    def unfinished(self):
        """All batches that are neither delivered nor failed, in the order of their creation."""
        return list(self.incomplete)

    def renew_lock(self):
        """Do nothing: no thread releases the GIL while it holds this mutex, so no fork can happen meanwhile."""

    def oldest(self, PartitionQueue queue not None):
        """The creation time of the partition's first batch."""
        with self.mutex:
            if queue.sealed:
                return (<Batch>queue.sealed[0]).created_at
            return NEVER if queue.open_batch is None else queue.open_batch.created_at

    def collect(self, double now):
        """See accumulator.Accumulator.collect."""
        cdef list ready
        cdef list none_ready = []
        cdef list passed = []  # freed after the lock is released
        cdef Batch first
        cdef double next_due = NEVER
        with self.mutex:
            self._woken = False
            while self._lingering:
                first = <Batch>self._lingering[0]
                if first.open:
                    if first.created_at + self.linger_s > now and not self.memory_wanted:
                        next_due = first.created_at + self.linger_s
                        break
                    first.due = True
                    self.make_ready(first.queue)
                passed.append(self._lingering.popleft())
            self._timer_set = next_due != NEVER
            ready, self._ready = self._ready, none_ready
        return ready, next_due

    def hurry(self):
        """See accumulator.Accumulator.hurry."""
        cdef Batch batch
        lingering = deque()
        with self.mutex:
            lingering, self._lingering = self._lingering, lingering
            while lingering:
                batch = <Batch>lingering.popleft()
                if batch.open:
                    batch.due = True
                    self.make_ready(batch.queue)

    def take(self, PartitionQueue queue not None, bint even_if_not_due=False):
        """See accumulator.Accumulator.take."""
        cdef Batch batch
        with self.mutex:
            if queue.sealed:
                batch = <Batch>queue.sealed.popleft()
            else:
                batch = queue.open_batch
                if batch is not None and (batch.due or even_if_not_due):
                    batch.open = False
                    queue._usual_room = max(batch.size - HEADER_SIZE, FIRST_ROOM)
                    queue.open_batch = None
                else:
                    batch = None
            queue.ready = bool(queue.sealed) or (queue.open_batch is not None and queue.open_batch.due)
            return batch

    def new_batch(self, PartitionQueue queue not None, double created_at):
        """See accumulator.Accumulator.new_batch."""
        cdef Batch batch = Batch(self, queue, created_at)
        batch.open = False
        return batch

    def put(self, Batch batch not None):
        """See accumulator.Accumulator.put."""
        cdef PartitionQueue queue = batch.queue
        cdef bint wake
        with self.mutex:
            if self.memory_used and self.memory_used + batch.memory > self.memory_limit:
                return False
            self.memory_used += batch.memory
            self.incomplete[batch] = None
            if queue.open_batch is not None:
                self.seal_open(queue)
            queue.sealed.append(batch)
            self.make_ready(queue)
            wake = not self._woken
            self._woken = True
        if wake:
            self.wake()
        return True
