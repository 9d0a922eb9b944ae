"""`moldau demo`: a bank's transactions through a broker and a Spark pipeline that is killed in the middle.

`bank.py` is the bank, `pipeline.py` the Spark job (a process of its own), `run.py` what happens in which order,
`show.py` what is seen meanwhile, `check.py` the comparison at the end, `quick.py` the smaller demo without Spark.
"""

from __future__ import annotations

from importlib.util import find_spec
from shutil import which


def start(*, quick: bool, records: int, seed: int) -> int:
    """The demo that this machine can show; its exit code."""
    from rich.console import Console

    console = Console(highlight=False)
    missing = _missing()
    if not quick and missing:
        console.print(f"[yellow]{missing}: this is the smaller demo.[/]")
    if quick or missing:
        from moldau.cli.demonstration.quick import run_quick_demo

        return run_quick_demo(console, records)
    from moldau.cli.demonstration.run import run_demo

    return run_demo(console, seed)


def _missing() -> str | None:
    """What the whole demo needs and is not here."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return "PySpark is not installed (pip install 'moldau[spark]')"
    if which("java") is None:
        return "Java is not installed (Spark needs version 17 or later)"
    return None
