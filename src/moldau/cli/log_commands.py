"""Command `moldau log ...`: shows partition files of Moldau or Apache Kafka, and imports Kafka's partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Show partition files, and import partitions that Apache Kafka wrote.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def dump(
    files: Annotated[
        list[Path],
        typer.Argument(
            help=(
                "Files of a partition directory (.log .index .timeindex .txnindex .snapshot, epochs), or the directory."
            )
        ),
    ],
    records: Annotated[bool, typer.Option("--records", help="Show the records of each batch as well.")] = False,
    output: Annotated[str, typer.Option(help="text, or json (one object per line).")] = "text",
) -> None:
    """Print the contents of partition files, written by Moldau or Kafka. Exit code 1 if a file is damaged.

    Example: moldau log dump --records moldau-data/orders-0/00000000000000000000.log
    """
    from moldau.cli.dump import dump_files
    from moldau.cli.serve import fail

    if output not in ("text", "json"):
        raise typer.Exit(fail(f"--output: {output!r} is neither text nor json"))
    raise typer.Exit(dump_files(files, records=records, as_json=output == "json"))


@app.command()
def adopt(
    sources: Annotated[
        list[Path], typer.Argument(help="Partition directories (TOPIC-PARTITION) that Apache Kafka wrote.")
    ],
    data: Annotated[Path, typer.Option("--data", help="The data directory of the broker, which must not be running.")],
) -> None:
    """Copy partitions that Apache Kafka wrote into a broker's data directory, with their topics and topic ids.

    Example: moldau log adopt --data moldau-data /backup/kafka-logs/orders-0 /backup/kafka-logs/orders-1
    """
    from moldau.cli.adopt import adopt_partitions

    raise typer.Exit(adopt_partitions(data, sources))
