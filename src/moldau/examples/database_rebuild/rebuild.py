"""Command that rebuilds the shop's database from its log, as of a time or an offset.

python -m moldau.examples.database_rebuild.rebuild localhost:9092 then.sqlite --seconds-ago 60
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from moldau.examples.database_rebuild.pipeline import rebuild
from moldau.examples.database_rebuild.shop_database import rows_of
from moldau.examples.pipeline_process import start_spark
from moldau.examples.place import Place


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Rebuild the shop's database as it was.")
    parser.add_argument("bootstrap_servers", help="addresses of the brokers, for example localhost:9092")
    parser.add_argument("file", type=Path, help="the SQLite file to write; it must not exist")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--seconds-ago", type=float, help="as it was then (default: now)")
    when.add_argument("--at-ms", type=int, help="as it was at this time, in milliseconds since 1970")
    when.add_argument("--offset", type=int, help="after the changes before this offset")
    given = parser.parse_args(arguments)
    if given.file.exists():
        parser.error(f"{given.file} exists; give the name of a new file")
    at_ms = given.at_ms if given.seconds_ago is None else int((time.time() - given.seconds_ago) * 1000)
    place = Place({"bootstrap.servers": given.bootstrap_servers}, given.file.absolute().parent)
    spark = start_spark()
    rebuild(spark, place, given.file, at_ms=at_ms, offset=given.offset)
    spark.stop()
    sys.stdout.write(f"{given.file} has {len(rows_of(given.file))} rows\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
