"""Partition logs on disk in Kafka's format: segments, sparse indexes, producer state, leader epochs, recovery.

The layers, from the bottom up: `index` and `segment` (one file and its indexes), `log` (one partition), `loader`
(opening a log, also after a crash), `dirs` (all partitions of a broker). Only the event loop that owns a Log changes
it; threads run the reads and flush jobs that it hands out.
"""
