"""Where logs are: DescribeLogDirs of this broker, and ListPartitionReassignments of the cluster.

A partition has one replica, which never moves, so no reassignment is ever under way.
Source   Kafka ReplicaManager.describeLogDirs; KafkaApis.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final

from fencepost.broker.log_directories import LogDirectories
from fencepost.broker.off_loop import off_loop
from fencepost.broker.partitions import Partitions
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.errors import CoordinatorLoadInProgress, ErrorCode
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k35_describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    UNKNOWN_BYTES,
    DescribeLogDirs,
    DescribeLogDirsAnswer,
    LogDirDescribed,
    LogSize,
)
from fencepost.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignments,
    NoReassignments,
)

UNDER_WAY_MAX: Final = 100
"""Requests that wait for the file system; one more is refused with 14, which is retriable."""
LOGS_AT_ONCE_MAX: Final = 1_000  # looked at in one step of the loop: some 3 us each


class PlacementRequests:
    """API keys 35 and 46."""

    def __init__(self, partitions: Partitions, directories: LogDirectories, acls: Acls) -> None:
        self._partitions = partitions
        self._directories = directories
        self._acls = acls
        self._under_way: set[asyncio.Task[None]] = set()

    def service(self) -> Service:
        """The endpoints, by API key."""
        return dict(
            (
                served(DESCRIBE_LOG_DIRS, self._describe_log_dirs),
                served(LIST_PARTITION_REASSIGNMENTS, self._list_reassignments),
            )
        )

    async def stop(self) -> None:
        """Give up what is under way."""
        for task in tuple(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _list_reassignments(
        self, request: ListPartitionReassignments, context: Context, reply: Reply[NoReassignments]
    ) -> None:
        self._acls.require(context.principal, Operation.DESCRIBE)
        reply(NoReassignments())

    def _describe_log_dirs(
        self, request: DescribeLogDirs, context: Context, reply: Reply[DescribeLogDirsAnswer]
    ) -> None:
        self._acls.require(context.principal, Operation.DESCRIBE)
        if len(self._under_way) >= UNDER_WAY_MAX:
            raise CoordinatorLoadInProgress(f"{UNDER_WAY_MAX} requests about log directories are under way")
        task = asyncio.get_running_loop().create_task(self._describe(request, reply))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _describe(self, request: DescribeLogDirs, reply: Reply[DescribeLogDirsAnswer]) -> None:
        wanted = (
            None if request.topics is None else {(topic, i) for topic, some in request.topics for i in some}
        )
        sizes = await self._sizes(wanted)
        rows = []
        for path, is_usable in self._directories.states():
            if is_usable:
                total, usable = await off_loop(partial(_volume, path))
                rows.append(LogDirDescribed(str(path), tuple(sizes[path]), ErrorCode.NONE, total, usable))
            else:
                rows.append(LogDirDescribed(str(path), (), ErrorCode.KAFKA_STORAGE_ERROR))
        reply(DescribeLogDirsAnswer(tuple(rows)))

    async def _sizes(self, wanted: Collection[tuple[str, int]] | None) -> dict[Path, list[LogSize]]:
        """The logs of each directory, by topic and index."""
        found: dict[Path, list[LogSize]] = defaultdict(list)
        for count, each in enumerate(self._partitions, 1):
            if count % LOGS_AT_ONCE_MAX == 0:
                await asyncio.sleep(0)
            if each.is_open and (wanted is None or (each.topic, each.index) in wanted):
                row = LogSize(each.topic, each.index, each.log.size)
                found[each.log.directory.parent].append(row)
        for rows in found.values():
            rows.sort(key=lambda row: (row.topic, row.index))
        return found


def _volume(path: Path) -> tuple[int, int]:
    """Bytes of the volume that a directory is on, and those of it that can still be used."""
    try:
        volume = os.statvfs(path)
    except OSError:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
    return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail
