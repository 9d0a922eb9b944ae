"""Command `moldau demo`: a bank's transactions through a broker and a Spark pipeline that is killed midway.

`bank.py` generates the data, `pipeline.py` is the Spark job (a separate process), `run.py` runs the steps, `show.py`
displays the progress, `check.py` compares the results, and `quick.py` is the smaller demo without Spark.
"""

from __future__ import annotations

from importlib.util import find_spec
from shutil import which


def start(*, quick: bool, records: int, seed: int) -> int:
    """Run the demo that this machine supports, and return its exit code."""
    from rich.console import Console

    console = Console(highlight=False)
    missing = _missing()
    if not quick and missing:
        console.print(f"[yellow]{missing}: running the smaller demo instead.[/]")
    if quick or missing:
        from moldau.cli.demonstration.quick import run_quick_demo

        return run_quick_demo(console, records)
    from moldau.cli.demonstration.run import run_demo

    return run_demo(console, seed)


def _missing() -> str | None:
    """The missing requirement of the full demo, or None."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return "PySpark is not installed (pip install 'moldau[spark]')"
    if which("java") is None:
        return "Java is not installed (Spark needs version 17 or later)"
    return None
