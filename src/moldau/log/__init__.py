"""One partition on disk, in Kafka's format: segments with sparse indexes, producer state, leader epochs, recovery.

The ladder, from the ground up: `index` and `segment` (one file and the way into it), `log` (one partition),
`loader` (what a crash left), `dirs` (all partitions of a broker). A Log is changed by the loop that owns it only;
threads run the reads and flushes that it hands out.
"""
