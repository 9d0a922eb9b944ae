"""`moldau log ...`: look into partition files, ours or Apache Kafka's, and take Kafka's partitions in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Look into partition files, and take in partitions that Apache Kafka wrote.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def dump(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files of a partition directory: .log .index .timeindex .txnindex .snapshot, epochs; or the directory."
        ),
    ],
    records: Annotated[bool, typer.Option("--records", help="Show the records of each batch, too.")] = False,
    output: Annotated[str, typer.Option(help="text or json (one object a line).")] = "text",
) -> None:
    """Print what is in partition files, Moldau's or Kafka's. Exits with 1 where something is damaged.

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
    """Copy partitions that Apache Kafka wrote into a broker's data directory, topics and ids included.

    Example: moldau log adopt --data moldau-data /backup/kafka-logs/orders-0 /backup/kafka-logs/orders-1
    """
    from moldau.cli.adopt import adopt_partitions

    raise typer.Exit(adopt_partitions(data, sources))
