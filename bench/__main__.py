"""Command line of the benchmarks: runs them, prints the table and stores it in docs/benchmarks.md.

Usage: `python -m bench [--only NAME ...] [--quick]`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from bench import (
    access_control,
    avro_arrow,
    big_partition,
    cleaner,
    client_arrow,
    client_consume,
    client_latency,
    client_produce,
    commits,
    connect_databases,
    connect_files,
    connect_idle,
    failover,
    fetch,
    heartbeats,
    idempotent_produce,
    idle_connections,
    logins,
    long_polls,
    many_partitions,
    many_replicas,
    offsets_replay,
    produce,
    quotas,
    registry,
    replication_cost,
    report,
    rest_proxy,
    simulation,
    small_batches,
    spark_sink,
    spark_source,
    sql_beside_kafka_streams,
    sql_pull,
    sql_queries,
    startup,
    tls,
)
from bench.harness import Context, Row, raise_file_limit
from bench.kcat import KcatMissingError

BENCHMARKS: dict[str, Callable[[Context], Iterator[Row]]] = {
    "startup": startup.run,
    "produce": produce.run,
    "small_batches": small_batches.run,
    "fetch": fetch.run,
    "many_partitions": many_partitions.run,
    "idle_connections": idle_connections.run,
    "quotas": quotas.run,
    "long_polls": long_polls.run,
    "big_partition": big_partition.run,
    "cleaner": cleaner.run,
    "idempotent_produce": idempotent_produce.run,
    "commits": commits.run,
    "simulation": simulation.run,
    "heartbeats": heartbeats.run,
    "offsets_replay": offsets_replay.run,
    "spark_source": spark_source.run,
    "connect_files": connect_files.run,
    "connect_idle": connect_idle.run,
    "connect_databases": connect_databases.run,
    "spark_sink": spark_sink.run,
    "sql_queries": sql_queries.run,
    "sql_beside_kafka_streams": sql_beside_kafka_streams.run,
    "sql_pull": sql_pull.run,
    "rest_proxy": rest_proxy.run,
    "client_consume": client_consume.run,
    "client_produce": client_produce.run,
    "client_latency": client_latency.run,
    "client_arrow": client_arrow.run,
    "avro_arrow": avro_arrow.run,
    "registry": registry.run,
    "failover": failover.run,
    "replication_cost": replication_cost.run,
    "many_replicas": many_replicas.run,
    "tls": tls.run,
    "logins": logins.run,
    "access_control": access_control.run,
}


def main() -> int:
    arguments = _parse()
    console = Console(width=None if sys.stdout.isatty() else 220)
    raise_file_limit()
    rows: list[Row] = []
    failed = []
    with tempfile.TemporaryDirectory(prefix="moldau-bench-", dir=arguments.directory) as directory:
        context = Context(Path(directory), arguments.quick, lambda text: console.print(f"  {text}", style="dim"))
        for name in arguments.only or BENCHMARKS:
            began = time.perf_counter()
            try:
                rows.extend(BENCHMARKS[name](context))
            except (KcatMissingError, AssertionError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                # A failed benchmark must not stop the others; the exit code reports it.
                failed.append(name)
                console.print(f"[bold red]{name} failed:[/] {type(error).__name__}: {error}")
            console.print(f"{name}: {time.perf_counter() - began:.0f} s")
    report.print_table(console, rows)
    if not (arguments.quick or arguments.only or failed):
        report.write_document(rows)
        console.print(f"written to docs/{report.DOCUMENT.name}")
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the broker, print a table of ratios.")
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="smaller and fewer runs: under two minutes, rough results")
    parser.add_argument(
        "--directory", type=Path, help="directory for about 15 GB of data (default: the temporary directory)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
