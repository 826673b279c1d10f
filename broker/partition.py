"""A partition that is hosted here, and who waits for it."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.records.types import Term


class Waits(Protocol):
    """A request that waits for a partition to move."""

    def partition_moved(self) -> None:
        """More can be read, or the partition is gone."""


class OfflineLog(NamedTuple):
    """A log that cannot be used, and of which topic it is; None: not even that is known."""

    reason: str
    topic_id: uuid.UUID | None
    generation: int
    path: Path | None = None  # None: the log is lost
    placed_id: uuid.UUID | None = None  # of which topic the cluster takes it to be


class Partition:
    """One partition that is hosted here. Its log is used only while ``is_open``."""

    __slots__ = (
        "_flush_ended", "_moved", "cleaning", "flushing", "index", "is_configured", "is_open", "leader_epoch",
        "log", "topic", "topic_id", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: uuid.UUID,
        log: PartitionLog,
        moved: "Callable[[Partition], None]",
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = Term(0)
        self.is_open = True
        self.is_configured = False  # by its topic's settings: until then nothing is taken or deleted
        self.flushing = False
        self.cleaning = False  # a thread reads its full segments, and none of them is removed meanwhile
        self.waiting: set[Waits] = set()
        self._moved = moved
        self._flush_ended: asyncio.Event | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def wake(self) -> None:
        """Tell those who wait that they may read more, or nothing any more; soon, all at once."""
        if self.waiting:
            self._moved(self)

    def flush_ended(self) -> None:
        """A thread is out of the log: a flush's, or the cleaner's."""
        if self._flush_ended is not None:
            self._flush_ended.set()

    async def unused(self) -> None:
        """Waits until no thread is in the log. Only once the partition is closed."""
        while self.flushing or self.cleaning:
            self._flush_ended = asyncio.Event()
            await self._flush_ended.wait()
