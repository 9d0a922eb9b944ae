"""Compaction: of all records with a key, the last one stays.

The way of a cleaning, from decision to disk:

    `decide`        which log, from which offset to which: plain functions over sizes, times and offsets
    `job`           one log's cleaning as a value; it goes to the worker process and its results come back
    `work`          the two passes: note the last offset of every key (`OffsetMap`), then write what stays (`filter`)
    `worker`        the process that does this, so that it never takes the broker's interpreter lock
    `swap`          on the broker's loop: the new files take the place of the old ones, whole or not at all

`reference` has the two inner loops in readable Python, `_native` the same in Cython; `engine` picks one. What is kept
and what goes follows Kafka, whose rules `transactions` and `filter` spell out.

It is not retention: whole segments that are too old are `retention`'s, also for topics with both policies.
"""
