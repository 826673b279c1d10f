"""DescribeLogDirs says where logs are and how large; no partition is ever moving to another broker."""

import os
from pathlib import Path

from fencepost.controller.errors import ErrorCode
from fencepost.wire.k35_describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirs,
    DescribeLogDirsAnswer,
    LogSize,
)
from fencepost.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignments,
    NoReassignments,
)
from tests.broker.batches import TOPIC, batch, produce
from tests.broker.data_stage import ELSEWHERE, HERE, hosting, produced
from tests.broker.fake_controller import play


def test_the_logs_of_a_directory_are_described(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE, HERE) as on:
            assert await on.broker._data.topics.refresh()
            await produced(on, produce(batch(b"a")))
            size = (tmp_path / f"{TOPIC}-0" / f"{0:020d}.log").stat().st_size
            every: DescribeLogDirsAnswer = await on.call(DESCRIBE_LOG_DIRS, DescribeLogDirs())
            (directory,) = every.directories
            assert (directory.path, directory.error_code) == (str(tmp_path), ErrorCode.NONE)
            assert directory.logs == (LogSize(TOPIC, 0, size), LogSize(TOPIC, 2, 0))
            volume = os.statvfs(tmp_path)
            assert directory.total_bytes == volume.f_frsize * volume.f_blocks
            assert 0 <= directory.usable_bytes <= directory.total_bytes
            some = DescribeLogDirs(((TOPIC, (2, 2, 1, -1)), ("none", (0,)), ("", ())))
            (directory,) = (await on.call(DESCRIBE_LOG_DIRS, some)).directories
            assert directory.logs == (LogSize(TOPIC, 2, 0),)
            (directory,) = (await on.call(DESCRIBE_LOG_DIRS, DescribeLogDirs(()))).directories
            assert directory.logs == ()

    play(story)


def test_a_directory_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            directories = on.broker._data._partitions._directories
            (only,) = directories._all
            only.fault = "its disk is gone"
            (directory,) = (await on.call(DESCRIBE_LOG_DIRS, DescribeLogDirs())).directories
            assert (directory.error_code, directory.logs) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
            only.fault = ""

    play(story)


def test_no_partition_is_moving(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            for topics in (None, (), ((TOPIC, (0, 9)), ("none", (-1,)))):
                request = ListPartitionReassignments(topics)
                assert await on.call(LIST_PARTITION_REASSIGNMENTS, request) == NoReassignments()

    play(story)
