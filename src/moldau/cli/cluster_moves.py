"""Command `moldau cluster drain|elect|reassign`: moves replicas and leaders between brokers."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from moldau.cli.completion import topic_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
)
from moldau.cli.output import EXIT_ERROR, EXIT_INTERRUPTED, Output, fail, print_json, show, usage_error

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from moldau.cli.broker_drain import DrainProgress
    from moldau.cli.reassignment_plans import Plan
    from moldau.client.blocking.admin import Admin
    from moldau.client.data_types import TopicPartition

EXIT_UNDER_WAY = 3
"""The exit code for "no error, but not done yet"."""

LINE_EVERY_S = 10.0
"""The interval between two progress lines of a drain that does not run in a terminal."""

AT_ONCE = 10
MAX_AT_ONCE = 1_000

ThrottleOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="BYTES", help=("Limit the copying to and from each broker to this many bytes per second.")
    ),
]


# Elections ------------------------------------------------------------------------------------------------------------


def elect(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC", help="All partitions of this topic. Can be repeated.", autocompletion=topic_names
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="N", help="With one --topic: only these partitions of it.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All partitions of all topics.")] = False,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Elect any live replica if no in-sync replica is alive. MAY LOSE RECORDS."),
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Elect the preferred leader of partitions, or, with --unclean, any live replica.

    Brokers elect preferred leaders themselves after a while (auto.leader.rebalance.enable). Exit code: 0, or 1 if a
    partition could not get a leader.

    Example: moldau cluster elect --all; or: moldau cluster elect --unclean --topic orders --partition 3
    """
    if bool(topic) == all_:
        usage_error("give partitions with --topic, or use --all")
    if partition and len(topic or ()) != 1:
        usage_error("--partition needs exactly one --topic")
    with connected(bootstrap, command_config, wait=wait) as admin:
        wanted = None if all_ else _partitions(admin, topic or [], partition)
        shown, failed = _elected(admin, wanted, unclean)
    if shown or output is Output.JSON:
        show(shown, ("topic", "partition", "elected", "error"), output)
    already = sum(not one["elected"] and one["error"] is None for one in shown)
    if output is Output.TEXT and (already or not shown):
        led = "with a leader" if unclean else "led by their preferred replica"
        print(f"no election needed: {_count(already, 'partition') if shown else 'all partitions'} {led}")
    if failed:
        raise typer.Exit(EXIT_ERROR)


def _partitions(admin: Admin, topics: list[str], only: list[int] | None) -> list[TopicPartition]:
    from moldau.client.data_types import TopicPartition

    if only:
        return [TopicPartition(topics[0], index) for index in only]
    return [
        TopicPartition(one.name, index)
        for one in admin.describe_topics(topics).values()
        for index in range(len(one.partitions))
    ]


def _elected(admin: Admin, wanted: list[TopicPartition] | None, unclean: bool) -> tuple[list[dict[str, Any]], bool]:
    from moldau.cli.election_results import elected
    from moldau.client.admin import ElectionType

    results, errors = elected(admin, ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED, wanted)
    shown = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "elected": results.get(one, False),
            "error": str(errors[one]) if one in errors else None,
        }
        for one in sorted({*results, *errors})
    ]
    return shown, bool(errors)


# Plans ----------------------------------------------------------------------------------------------------------------


def reassign(
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="PLAN", help=("The plan, in the JSON format of kafka-reassign-partitions.")),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Start the plan.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Show the progress of the plan; removes throttles when it is done.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help=("Cancel the reassignments of the plan that are in progress."))
    ] = False,
    generate: Annotated[bool, typer.Option("--generate", help="Print a plan for --topic and --brokers.")] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="With --generate: the topic. Can be repeated.", autocompletion=topic_names),
    ] = None,
    brokers: Annotated[
        str | None, typer.Option(metavar="1,2,3", help="With --generate: the brokers to use (default: all).")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help=("With --generate: only change the number of replicas per partition to N.")
        ),
    ] = None,
    throttle: ThrottleOption = None,
    save_current: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=("With --execute: write a plan that restores the current replicas to this file.")
        ),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Move partitions to other brokers according to a plan. Without --execute, only show what would move.

    Exit code of --verify: 0 when the whole plan is done, 3 while partitions are still moving, 1 otherwise.

    Example: moldau cluster reassign --generate --topic orders --brokers 1,2,3 > plan.json; then moldau cluster reassign
    --file plan.json --execute --throttle 50000000; and until that is done moldau cluster reassign --file plan.json
    --verify
    """
    from moldau.cli.reassignment_plans import BadPlanError, parse_plan
    from moldau.cluster.relocation import NoRoomError

    if sum((execute, verify, cancel, generate)) > 1:
        usage_error("choose one of --execute, --verify, --cancel and --generate")
    if generate == (file is not None):
        usage_error("give a plan with --file, or create one with --generate")
    if generate and not topic:
        usage_error("--generate needs a --topic")
    if not generate and (topic or brokers is not None or replication_factor is not None):
        usage_error("--topic, --brokers and --replication-factor need --generate")
    if not execute and (throttle is not None or save_current is not None):
        usage_error("--throttle and --save-current need --execute")
    with connected(bootstrap, command_config, wait=wait) as admin:
        try:
            if generate:
                _generate(admin, topic or [], brokers, replication_factor)
                return
            assert file is not None
            plan = parse_plan(file.read_text())
        except BadPlanError as error:
            fail(f"{file}: {error}")
        except NoRoomError as error:
            fail(str(error))
        if execute:
            _execute(admin, plan, throttle, save_current)
        elif cancel:
            _cancel(admin, plan)
        else:
            code = _verify(admin, plan, output, finish=verify)
            if verify and code:
                raise typer.Exit(code)
            if not verify:
                _require_brokers(admin, plan)


def _generate(admin: Admin, topics: list[str], brokers: str | None, factor: int | None) -> None:
    from moldau.cli.reassignment_plans import as_brokers, generated, plan_json

    nodes = as_brokers(admin.describe_cluster().brokers)
    if brokers is not None:
        try:
            ids = list(dict.fromkeys(int(node) for node in brokers.split(",")))
        except ValueError:
            usage_error(f"--brokers needs ids separated by commas, not {brokers!r}")
        missing = set(ids) - {node.id for node in nodes}
        if missing:
            fail(f"there is no broker {', '.join(map(str, sorted(missing)))} in the cluster")
        nodes = [node for node in nodes if node.id in ids]
    print(plan_json(generated(admin.describe_topics(topics).values(), nodes, factor)))


def _execute(admin: Admin, plan: Plan, throttle: int | None, save_current: Path | None) -> None:
    from moldau.cli.reassignment_plans import current, plan_json, progress_of, set_throttle
    from moldau.client.errors import MoldauError

    topics = admin.describe_topics(sorted({one.topic for one in plan}))
    before = {one: replicas for one, replicas in current(topics.values()).items() if one in plan}
    progress = progress_of(plan, topics, admin.list_partition_reassignments(list(plan)))
    there = sum(one.done for one in progress.values())
    if save_current is not None:
        save_current.write_text(plan_json(before) + "\n")
    if throttle is not None:
        set_throttle(admin, throttle, [node.id for node in admin.describe_cluster().brokers], before, plan)
    try:
        admin.alter_partition_reassignments(plan)
    except MoldauError:
        if throttle is not None:
            _end_throttle(admin, plan)
        raise
    more = "; use `--verify` to see the progress" if there < len(plan) else ""
    print(f"{len(plan) - there} started, {there} already in place{more}")
    if throttle is not None:
        print(f"limited to {throttle} bytes per second, until `--verify` finds that all are done")


def _cancel(admin: Admin, plan: Plan) -> None:
    moving = admin.list_partition_reassignments(list(plan))
    if moving:
        admin.alter_partition_reassignments(dict.fromkeys(moving))
    _end_throttle(admin, plan)
    print(f"cancelled: {_count(len(moving), 'partition')}")


def _end_throttle(admin: Admin, plan: Plan) -> None:
    """Remove the throttle, unless partitions of the plan are still moving."""
    from moldau.cli.reassignment_plans import clear_throttle, still_there

    if not admin.list_partition_reassignments(list(plan)):
        topics = still_there(admin, sorted({one.topic for one in plan}))
        clear_throttle(admin, [node.id for node in admin.describe_cluster().brokers], topics)


def _require_brokers(admin: Admin, plan: Plan) -> None:
    there = [node.id for node in admin.describe_cluster().brokers]
    missing = {node for replicas in plan.values() for node in replicas} - {*there}
    if missing:
        fail(
            f"the plan cannot be executed: there is no broker {', '.join(map(str, sorted(missing)))} in the cluster, "
            f"only {', '.join(map(str, there))}"
        )


def _verify(admin: Admin, plan: Plan, output: Output, *, finish: bool) -> int:
    """Show the progress of a plan, and return the exit code."""
    from moldau.cli.reassignment_plans import commas, progress_of, still_there

    topics = still_there(admin, sorted({one.topic for one in plan}))
    found = progress_of(plan, topics, admin.list_partition_reassignments(list(plan)))
    shown = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "replicas": None if far.replicas is None else commas(far.replicas),
            "wanted": commas(far.wanted),
            "state": "done" if far.done else "moving" if far.moving else "no such partition" if far.replicas is None
            else "elsewhere",
        }
        for one, far in sorted(found.items())
    ]  # fmt: skip
    show(shown, ("topic", "partition", "replicas", "wanted", "state"), output)
    states = {one["state"] for one in shown}
    if finish:
        _end_throttle(admin, plan)
    if states <= {"done"}:
        return 0
    return EXIT_UNDER_WAY if states <= {"done", "moving"} else EXIT_ERROR


# Draining -------------------------------------------------------------------------------------------------------------


def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The id of the broker. It need not be running.")],
    batch: Annotated[
        int, typer.Option(min=1, max=MAX_AT_ONCE, help=("The number of partitions that move at the same time."))
    ] = AT_ONCE,
    throttle: ThrottleOption = None,
    timeout: Annotated[
        float | None, typer.Option(min=1, metavar="SECONDS", help="Give up after this time without progress.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Move all replicas of a broker to other brokers, so that it can be removed.

    The other brokers share the replicas, balanced across racks. After Ctrl-C, moves in progress continue; run the
    command again to finish. New topics may still be placed on the broker: stop it, or drain it again. Exit code: 0 when
    the broker has no replica left, 130 after Ctrl-C, 1 otherwise, also if there is no such broker.

    Example: moldau cluster drain 3 --throttle 50000000
    """
    from moldau.cli.broker_drain import Drain
    from moldau.cli.interrupt import CtrlC
    from moldau.cluster.relocation import NoRoomError

    woken = threading.Event()
    with connected(bootstrap, command_config, wait=wait) as admin, CtrlC(woken.set) as keyboard, _Shown(broker) as bars:
        run = Drain(admin, broker, at_once=batch, throttle=throttle, timeout_s=timeout, wait=woken.wait, tell=bars.tell)
        try:
            done = run.run()
        except NoRoomError as error:
            fail(
                f"{error}; add a broker, or reduce the number of replicas (moldau cluster reassign --generate "
                "--replication-factor)"
            )
        bars.stop()
        tally = run.tally
        if not tally.partitions and broker not in run.registered:
            there = ", ".join(map(str, run.registered))
            fail(f"there is no broker {broker} in the cluster, only {there}, and no partition has a replica there")
        if output is Output.JSON:
            print_json(
                {
                    "broker": broker,
                    "drained": done,
                    "partitions": tally.partitions,
                    "partitions_done": tally.partitions_done,
                    "bytes": tally.bytes,
                    "under_way": [str(one) for one in tally.moving],
                }
            )
        else:
            print(_summary(broker, done, tally, throttled=throttle is not None))
            if done and broker in run.registered:
                print("New topics may still be placed on it until it is stopped.")
        assert done or keyboard.pressed
        if not done:
            raise typer.Exit(EXIT_INTERRUPTED)


def _summary(broker: int, done: bool, tally: DrainProgress, *, throttled: bool) -> str:
    moved = f"{tally.partitions_done} of {_count(tally.partitions, 'partition')} moved"
    if done:
        return (
            f"broker {broker} has no replicas any more: {moved}"
            if tally.partitions
            else (f"broker {broker} has no replicas")
        )
    slow = "; the throttle stays until then" if throttled else ""
    under_way = f"{len(tally.moving)} more are in progress and continue"
    return f"stopped: {moved}, {under_way}. Run the command again to finish{slow}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


class _Shown:
    """The progress of a drain on standard error: two progress bars in a terminal, otherwise a line from time to
    time."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._bars: RichProgress | None = None
        self._tasks: list[Any] = []
        self._next_line_at = 0.0
        self._complained = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        bars, self._bars = self._bars, None
        if bars is not None:
            bars.stop()

    def tell(self, tally: DrainProgress) -> None:
        from moldau.cli.broker_drain import STUCK_S, waiting_for

        if sys.stderr.isatty():
            self._draw(tally)
        elif time.monotonic() >= self._next_line_at:
            self._next_line_at = time.monotonic() + LINE_EVERY_S
            self._say(f"{tally.partitions_done}/{tally.partitions} partitions, {tally.bytes_done}/{tally.bytes} bytes")
        if tally.still_for_s < STUCK_S:
            self._complained = False
        elif not self._complained:
            self._complained = True
            self._say(f"nothing has moved for {tally.still_for_s:.0f} s; waiting for {waiting_for(tally)}")

    def _say(self, line: str) -> None:
        text = f"draining broker {self._broker}: {line}"
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr)

    def _draw(self, tally: DrainProgress) -> None:
        from rich.console import Console
        from rich.filesize import decimal
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        if self._bars is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[far]}"),
                TimeRemainingColumn(),
            )
            self._bars = Progress(*columns, console=Console(stderr=True))
            self._bars.start()
            self._tasks = [self._bars.add_task(name, total=None, far="") for name in ("partitions", "bytes")]
        amounts: Iterable[tuple[int, int, str]] = (
            (tally.partitions_done, tally.partitions, f"{tally.partitions_done}/{tally.partitions}"),
            (tally.bytes_done, tally.bytes, f"{decimal(tally.bytes_done)}/{decimal(tally.bytes)}"),
        )
        for task, (done, total, far) in zip(self._tasks, amounts, strict=True):
            self._bars.update(task, completed=done, total=total or None, far=far)
