"""Sequence of the demo: broker, data, pipeline, kill, restart and comparison."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from moldau.cli.demonstration.bank import WINDOW_MS, Alert, Bank, parse_alert
from moldau.cli.demonstration.check import AlertComparison, compare
from moldau.cli.demonstration.pipeline import ALERTS, LIMITS, TRANSACTIONS
from moldau.cli.demonstration.processes import DemoError, Pipeline, broker
from moldau.cli.demonstration.show import Show

PARTITIONS: Final = 4
SECONDS: Final = 40
A_SECOND: Final = 1_500
PATIENCE_S: Final = 150.0
"""The longest time that the demo waits for progress of the pipeline."""
KILL_AFTER: Final = 0.35
"""The share of the alerts that must have arrived before the pipeline is killed."""


def run_demo(console: Console, seed: int) -> int:
    """Run the demo. Return exit code 0 if every alert arrived exactly once."""
    with tempfile.TemporaryDirectory(prefix="moldau-demo-") as name:
        directory = Path(name)
        try:
            with broker(directory / "data") as bootstrap:
                return Demo(console, bootstrap, directory, seed).run()
        except DemoError as error:
            console.print(f"[red]the demo failed:[/] {error}")
            return 1


class Demo:
    def __init__(self, console: Console, bootstrap: str, directory: Path, seed: int) -> None:
        self._console = console
        self._bootstrap = bootstrap
        self._directory = directory
        self._bank = Bank(seed, int(time.time() * 1000), SECONDS, A_SECOND)
        self._expected = self._bank.alerts()
        self._show = Show(console, self._bank.count + PARTITIONS, len(self._expected))
        self._found: list[Alert] = []
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._batches = 0

    def run(self) -> int:
        console = self._console
        console.print(
            f"[bold]Moldau demo.[/] A bank writes {self._bank.count:,} transactions and its customers' limits to "
            f"topics. A Spark pipeline sums them up in windows of {WINDOW_MS // 1000} s, joins the sums with the "
            "limits and writes alerts, exactly once, to a topic and a Parquet table. In the middle the demo kills "
            f"the pipeline and starts it again. The broker: {self._bootstrap}"
        )
        self._create_topics()
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._write, self._read)]
        for thread in threads:
            thread.start()
        try:
            with self._show.running():
                self._run_pipeline()
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        return self._report()

    def _create_topics(self) -> None:
        from moldau import Admin
        from moldau.client.admin import NewTopic

        with Admin(bootstrap_servers=self._bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(TRANSACTIONS, PARTITIONS),
                    NewTopic(LIMITS, 1),
                    NewTopic(ALERTS, 2),
                ]
            )

    # -- pipeline ---------------------------------------------------------------------------------------------------

    def _run_pipeline(self) -> None:
        self._show.state("starting the pipeline (Spark takes a few seconds)")
        pipeline = Pipeline(self._bootstrap, self._directory, self._heard)
        try:
            self._await(pipeline, lambda: len(self._found) >= KILL_AFTER * len(self._expected))
            pipeline.kill()
            self._show.state(
                f"killed the pipeline with kill -9 after {len(self._found)} alerts, in the middle of its work; "
                "starting it again"
            )
            pipeline = Pipeline(self._bootstrap, self._directory, self._heard)
            self._await(pipeline, lambda: len(self._found) >= len(self._expected))
            # Wait for one more batch: a duplicate alert would arrive in it.
            last = self._batches
            self._await(pipeline, lambda: self._batches > last and self._table_is_full())
            self._show.state("all alerts have arrived; stopping the pipeline")
            pipeline.stop()
        finally:
            pipeline.kill()

    def _await(self, pipeline: Pipeline, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not condition():
                if self._failure is not None:
                    raise DemoError(f"{type(self._failure).__name__}: {self._failure}") from self._failure
                if pipeline.ended:
                    raise DemoError(f"the pipeline ended:\n{pipeline.log_tail()}")
                if time.monotonic() > deadline:
                    raise DemoError(
                        f"not done after {PATIENCE_S:.0f} s: {len(self._found)} of {len(self._expected)} alerts\n"
                        f"{pipeline.log_tail()}"
                    )
                self._changed.wait(0.5)

    def _heard(self, said: dict[str, Any]) -> None:
        with self._changed:
            if "error" in said:
                self._failure = DemoError(f"the pipeline failed: {said['error']}")
            else:
                self._batches += 1
            self._changed.notify_all()

    # -- producer and consumer --------------------------------------------------------------------------------------

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as failure:  # noqa: BLE001 - said in the main thread
            with self._changed:
                self._failure = failure
                self._changed.notify_all()

    def _write(self) -> None:
        """Write transactions in real time, and limits before the transactions that they apply to."""
        from moldau import Producer

        limits = self._bank.limits()
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            began = time.monotonic()
            for sent, one in enumerate(self._bank.transactions()):
                if limits and limits[0].from_ms <= one.at_ms:
                    while limits and limits[0].from_ms <= one.at_ms:
                        limit = limits.pop(0)
                        producer.send(LIMITS, limit.to_json(), key=limit.account.encode())
                    producer.flush()
                producer.send(TRANSACTIONS, one.to_json(), key=one.account.encode())
                if sent % 100 == 0:
                    self._show.sent(sent)
                    due = began + (one.at_ms - self._bank.begin_ms) / 1000
                    if self._stop.wait(max(0.0, due - time.monotonic())):
                        return
            for partition, one in enumerate(self._bank.closing(PARTITIONS)):
                producer.send(TRANSACTIONS, one.to_json(), partition=partition).result()
            self._show.sent(self._bank.count + PARTITIONS)

    def _read(self) -> None:
        """Read the committed alerts, like any other client."""
        from moldau import Consumer

        with Consumer(
            ALERTS,
            bootstrap_servers=self._bootstrap,
            group_id="demo-reader",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            while not self._stop.is_set():
                for record in consumer.poll(timeout=0.5):
                    alert = parse_alert(record.value)
                    with self._changed:
                        self._found.append(alert)
                        self._changed.notify_all()
                    self._show.alerts(len(self._found), alert)

    # -- results ----------------------------------------------------------------------------------------------------

    def _table(self) -> list[Alert]:
        """The alerts in the table, from the files that Spark's log lists as committed."""
        import pyarrow.parquet as pq

        log = self._directory / "alerts.parquet" / "_spark_metadata"
        entries = [path for path in log.glob("[0-9]*") if path.suffix in ("", ".compact")] if log.exists() else []
        entries.sort(key=lambda path: int(path.stem))
        compacted = [place for place, path in enumerate(entries) if path.suffix]
        files = [
            file for path in entries[compacted[-1] if compacted else 0 :] for file in _added_files(path.read_text())
        ]
        tables = [pq.read_table(file).to_pylist() for file in files]
        return [Alert(row["account"], row["window_ms"], row["cents"]) for rows in tables for row in rows]

    def _table_is_full(self) -> bool:
        return len(self._table()) >= len(self._expected)

    def _report(self) -> int:
        in_topic = compare(self._expected, self._found)
        in_table = compare(self._expected, self._table())
        self._say("the alerts topic, read with read_committed", in_topic)
        self._say("the Parquet table", in_table)
        if not (in_topic.right and in_table.right):
            return 1
        self._console.print(
            "Next: [bold]moldau up[/] starts a broker that you can keep. See docs/spark.md for the source, "
            "docs/spark-sink.md for the sink, and docs/exactly-once.md for how this works. The pipeline is "
            "src/moldau/cli/demonstration/pipeline.py."
        )
        return 0

    def _say(self, where: str, verdict: AlertComparison) -> None:
        colour = "green" if verdict.right else "red"
        self._console.print(f"[{colour}]{where}: {verdict}[/]")


def _added_files(log_entry: str) -> list[str]:
    """The files that an entry of a file sink's log adds. An entry is a version, followed by one line of JSON per
    file."""
    import json
    from urllib.parse import unquote, urlparse

    lines = [json.loads(line) for line in log_entry.splitlines()[1:]]
    return [unquote(urlparse(line["path"]).path) for line in lines if line.get("action", "add") == "add"]
