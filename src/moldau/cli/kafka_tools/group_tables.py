"""Tables of kafka-consumer-groups, exactly as Kafka's tool prints them, including trailing blanks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.cli.group_rows import OffsetRow
from moldau.client.admin import GroupDescription
from moldau.client.data_types import TopicPartition
from moldau.wire.topic_partition import by_topic

MISSING = "-"
LEAST = 15
LEAST_ASSIGNMENT = 20
LEAST_COORDINATOR = 25
LEAST_INSTANCE = len("GROUP-INSTANCE-ID")


def widest(texts: Iterable[str], least: int = LEAST) -> int:
    return max([least, *(len(text) for text in texts)])


def text_of(value: object) -> str:
    return MISSING if value is None else str(value)


def print_offsets(group: str, rows: Sequence[OffsetRow], verbose: bool) -> None:
    cells = [_offset_cells(group, row, verbose) for row in rows]
    epoch = ("LEADER-EPOCH",) if verbose else ()
    headers = (
        *("GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID"),
    )
    widths = [
        *(widest(row[0] for row in cells), widest(row[1] for row in cells), 10),
        *(LEAST for _ in range(3 + verbose)),
        *(widest(row[-3] for row in cells), widest(row[-2] for row in cells), 0),
    ]
    print()
    for line in [headers, *cells]:
        print(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def _offset_cells(group: str, row: OffsetRow, verbose: bool) -> tuple[str, ...]:
    member, committed = row.member, row.committed
    topic, partition = row.partition
    epoch = (text_of(committed.leader_epoch if committed else None),) if verbose else ()
    return (
        *(group, topic, str(partition), *epoch),
        *(text_of(committed.offset if committed else None), text_of(row.end), text_of(row.lag)),
        *(text_of(member and member.id), text_of(member and member.host), text_of(member and member.client_id)),
    )


def print_members(group: GroupDescription, verbose: bool) -> None:
    static = any(member.instance_id for member in group.members)
    lines: list[list[str]] = [["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]]
    more = [["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]]
    for member in group.members:
        lines.append(
            [group.id, member.id, member.instance_id or "", member.host, member.client_id, str(len(member.assignment))]
        )
        target = member.target_assignment
        more.append(
            [
                text_of(member.epoch),
                assignment_text(member.assignment),
                text_of(group.target_assignment_epoch),
                MISSING if target is None else assignment_text(target),
            ]
        )
    widths = [widest(line[column] for line in lines[1:]) for column in range(5)] + [LEAST]
    widths[2] = widest((line[2] for line in lines[1:]), LEAST_INSTANCE)
    more_widths = [LEAST, widest((line[1] for line in more[1:]), LEAST_ASSIGNMENT), LEAST]
    more_widths.append(widest((line[3] for line in more[1:]), LEAST_ASSIGNMENT))
    print()
    for line, rest in zip(lines, more, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        if not static:
            del cells[2]
        shown = " ".join(cells) + " "
        if verbose:
            shown += " ".join(cell.ljust(width) for cell, width in zip(rest, more_widths, strict=True))
        print(shown)


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """The text `m1:0,1;m2:0`."""
    topics = by_topic(partitions)
    return ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in topics.items()) or MISSING


def print_state(group: GroupDescription, coordinator: str, verbose: bool) -> None:
    lines = [
        [
            "GROUP",
            "COORDINATOR (ID)",
            "ASSIGNMENT-STRATEGY",
            "STATE",
            "GROUP-EPOCH",
            "TARGET-ASSIGNMENT-EPOCH",
            "#MEMBERS",
        ],
        [
            *(group.id, coordinator, group.assignor or MISSING, group.state),
            *(text_of(group.epoch), text_of(group.target_assignment_epoch), str(len(group.members))),
        ],
    ]
    widths = [widest([group.id]), widest([coordinator], LEAST_COORDINATOR), 20, 20, LEAST, 25, 0]
    print()
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        if not verbose:
            del cells[4:6]
        print(" ".join(cells))


def print_reset(planned: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    rows = [(group, one, offset) for group, plan in planned.items() for one, offset in plan.items()]
    group_width = widest(group for group, _, _ in rows)
    topic_width = widest(one.topic for _, one, _ in rows)
    print()
    print(f"{'GROUP':<{group_width}} {'TOPIC':<{topic_width}} {'PARTITION':<10} NEW-OFFSET")
    for group, one, offset in rows:
        print(f"{group:<{group_width}} {one.topic:<{topic_width}} {one.partition:<10} {offset}")


def print_export(planned: Mapping[str, Mapping[TopicPartition, int]], *, several: bool) -> None:
    """Print CSV for --from-file; with several groups, each line starts with the group."""
    for group, plan in planned.items():
        for one, offset in plan.items():
            print(f"{group + ',' if several else ''}{one.topic},{one.partition},{offset}")
    print()
