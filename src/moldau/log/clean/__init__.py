"""Log compaction: keeps the last record of each key.

The steps of a cleaning, from the decision to the disk:

    `decide`        which log, and the offset range: plain functions over sizes, times and offsets
    `job`           the cleaning of one log as a value: sent to the worker process, results come back
    `work`          two passes: record the last offset of every key (`OffsetMap`), then write what is kept (`filter`)
    `worker`        the process that does the work, so that it never holds the broker's interpreter lock
    `swap`          on the broker's event loop: the new files replace the old ones atomically

`reference` has the two inner loops in readable Python, `_native` the same in Cython; `engine` picks one. The rules for
keeping and removing records are Kafka's; see `transactions` and `filter`.

Retention of whole segments is not here but in `retention`, also for topics with both policies.
"""
