"""A process that writes numbers with a file sink until it is killed: `python -m … DIRECTORY FORMAT END`."""

from __future__ import annotations

import sys

from moldau.client.data_types import TopicPartition
from moldau.connect.connector import SinkSlice
from moldau.connect.connectors.file_sink import FileSink
from tests.connect.connectors.support import Writer, created

PARTITIONS = (TopicPartition("a", 0), TopicPartition("a", 1))
STEP = 7


def main(directory: str, form: str, end: int) -> None:
    sink = created(FileSink, path=directory, format=form, flush_size=3, rotate_schedule_interval_ms=0)
    driver = Writer(sink, dict.fromkeys(PARTITIONS, end))
    driver.batch = 1000 * sum(sink.written_offsets().values())
    print("started", flush=True)
    while pending := driver.pending():
        parts = [SinkSlice(one.partition, one.start, min(one.end, one.start + STEP)) for one in pending]
        sink.commit(driver.written(parts))
        print(parts[0].end, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
