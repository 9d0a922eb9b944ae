"""A partition moves to another data directory while clients write and read it."""

from __future__ import annotations

import threading
from pathlib import Path

from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestLogDir,
    AlterReplicaLogDirsRequestTopic,
    AlterReplicaLogDirsResponse,
)
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.cleaning.compacted_topic import WatchedBroker

TOPIC = "moving"
MOVED = "partition moved"


def move(connection: RawConnection, path: Path, topic: str = TOPIC, partition: int = 0) -> ErrorCode:
    wanted = AlterReplicaLogDirsRequestLogDir(
        path=str(path), topics=[AlterReplicaLogDirsRequestTopic(name=topic, partitions=[partition])]
    )
    request = AlterReplicaLogDirsRequest(dirs=[wanted])
    answer = connection.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request, AlterReplicaLogDirsResponse)
    return ErrorCode(answer.results[0].partitions[0].error_code)


def where(connection: RawConnection) -> list[str]:
    return [
        path
        for path, directory in calls.log_dirs(connection).items()
        for topic in directory.topics
        if topic.name == TOPIC
    ]


class BrokerWithTwoDirs(WatchedBroker):
    def __init__(self, one: Path, two: Path) -> None:
        super().__init__(one, {"log.dirs": f"{one},{two}"})

    def command(self) -> list[str]:
        """The command without `--data`, which would override the setting."""
        command = super().command()
        at = command.index("--data")
        return command[:at] + command[at + 2 :]


class Writer(threading.Thread):
    """Writes numbered records, one batch after another, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._enough = threading.Event()
        self.begun = threading.Event()
        self.written = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with RawConnection(self._address) as connection:
                while not self._enough.is_set():
                    values = [b"%d" % number for number in range(self.written, self.written + 50)]
                    assert calls.produce(connection, TOPIC, 0, values) == self.written
                    self.written += 50
                    if self.written >= 5_000:
                        self.begun.set()
        except BaseException as failure:  # noqa: BLE001 - shown in the test's thread
            self.failure = failure
            self.begun.set()

    def stop(self) -> None:
        self._enough.set()
        self.join(30)
        if self.failure is not None:
            raise self.failure


def test_a_partition_moves_back_and_forth_while_it_is_written(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with BrokerWithTwoDirs(one, two) as broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC, 1, {"flush.messages": "100", "file.delete.delay.ms": "0"})
        writer = Writer(broker.bootstrap)
        writer.start()
        writer.begun.wait(30)
        for _ in range(3):
            (here,) = where(connection)
            target = two if here == str(one) else one
            since = len(broker.lines)
            assert move(connection, target) == ErrorCode.NONE
            broker.wait_for(MOVED, since=since)
            assert where(connection) == [str(target)]
        writer.stop()
        expected = [b"%d" % number for number in range(writer.written)]
        assert [record.value for record in calls.read_all(connection, TOPIC, 0)] == expected
    with BrokerWithTwoDirs(one, two) as broker, RawConnection(broker.bootstrap) as connection:
        assert [record.value for record in calls.read_all(connection, TOPIC, 0)] == expected
    assert "Traceback" not in broker.log


def test_impossible_moves_are_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with BrokerWithTwoDirs(one, two) as broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)
        assert move(connection, tmp_path / "three") == ErrorCode.LOG_DIR_NOT_FOUND
        assert move(connection, two, partition=1) == ErrorCode.REPLICA_NOT_AVAILABLE
        assert move(connection, two, topic="nowhere") == ErrorCode.REPLICA_NOT_AVAILABLE
        (here,) = where(connection)
        assert move(connection, Path(here)) == ErrorCode.NONE
        assert where(connection) == [here]
